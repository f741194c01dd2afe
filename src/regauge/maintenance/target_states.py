"""Targets by commit: their identity in the working files, in a commit and on the base."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, cast

from regauge.errors import GitError, InvalidFileError, UsageError
from regauge.gate import BaseCommit, find_base, target_of_base
from regauge.project import RecordedTarget
from regauge.prompts import Repository
from regauge.runner import declared_evals
from regauge.targets import CommitFiles, WorkingFiles, load_target, settings_of_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.project import Project
    from regauge.prompts import Commit
    from regauge.targets import Files, Target


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target in a commit, or in the working files.

    Attributes:
        place: The commit as the user named it; empty for the working files.
    """

    place: str
    target: Target
    files: Files

    def paths(self) -> list[str]:
        """The files that its identity depends on, prompts and outputs among them."""
        target = self.target
        paths = [*(target.settings.files or ()), *digests_in(target, "files")]
        paths += [prompt.path.relative_to(target.root).as_posix() for prompt in target.prompts]
        if isinstance(target.settings, RecordedTarget):
            paths.append(f"fixtures/{target.settings.path}")
        return paths

    def texts(self) -> dict[str, bytes]:
        """The content of these files."""
        files = self.files.read(dict.fromkeys(self.paths()))
        return {path: data for path, data in files.items() if data is not None}


def find_target(name: str, project: Project) -> TargetHistory | None:
    """The target of a name: its table, an eval that tests it, or a callable; else None."""
    evals: dict[str, list[str]] = {}
    for path in sorted((project.root / "evals").rglob("*.py")):
        for eval_ in declared_evals(path.read_bytes()):
            if eval_.target and eval_.texts:
                evals.setdefault(eval_.target, []).append(eval_.texts[0])
    tested = sorted({target for target, names in evals.items() if name in names})
    if name in project.settings.targets or name in evals:
        tested = [name]
    match tested:
        case []:
            return None
        case [target]:
            return TargetHistory(project, target, evals=tuple(evals.get(target, ())))
        case _:
            message = f"evals named {name!r} test several targets: {', '.join(tested)}"
            raise UsageError(message, fix="name one of them")


class TargetHistory:
    """The states of one target, without importing or calling it.

    Args:
        project: The project.
        name: The name of its table; or the callable.
        evals: The evals that test it.
    """

    def __init__(self, project: Project, name: str, *, evals: tuple[str, ...]) -> None:
        self.project = project
        self.name, self._settings = settings_of_target(name, project.settings)
        self.evals = evals

    @cached_property
    def current(self) -> TargetState:
        """Its state in the working files."""
        root = self.project.root
        files = WorkingFiles(root)
        target = load_target(self.name, self._settings, root=root, files=files, missing_ok=True)
        return TargetState("", target, files)

    def state_at(self, ref: str) -> TargetState:
        """Its state in a commit.

        Raises:
            GitError: There is no such commit.
            UsageError: It has no such target.
        """
        repository = Repository.open(self.project.root)
        state = self._in_commit(repository, repository.commit(ref), ref)
        if state is None:
            fix = f"regauge log {quote(self.name)} lists the commits that have it"
            raise UsageError(f"{ref} has no target {self.name!r}", fix=fix)
        return state

    def _in_commit(self, repository: Repository, commit: str, place: str) -> TargetState | None:
        base_commit = BaseCommit(
            project=self.project, repository=repository, ref=place, commit=commit, tip=commit
        )
        target = target_of_base(self.current.target, base_commit)
        if target is None:
            return None
        files = CommitFiles(repository=repository, commit=commit, prefix=base_commit.prefix)
        return TargetState(place, target, files)

    def base(self) -> TargetState | None:
        """Its state on the base of the gate; None without one."""
        try:
            repository = Repository.open(self.project.root)
            ref = self.project.settings.gate.ref
            ref = ref if ref in repository.names() else repository.namesake(ref)
            base_commit = find_base(self.project, ref)
            return self._in_commit(base_commit.repository, base_commit.commit, ref)
        except (GitError, InvalidFileError):
            return None

    def states(self) -> Iterator[tuple[Commit, TargetState]]:
        """Its states, newest first, each with the first commit of an unbroken series."""
        repository = Repository.open(self.project.root)
        project = self.project
        paths = [project.pyproject, *(project.root / path for path in self.current.paths())]
        last: tuple[Commit, TargetState] | None = None
        for commit in repository.history_of([repository.inside(path) for path in paths]):
            try:
                state = self._in_commit(repository, commit.hash, commit.hash[:9])
            except InvalidFileError:
                continue  # an unreadable file has no identity
            if last is not None and (state is None or state.target.digest != last[1].target.digest):
                yield last
            if state is None:
                return
            last = commit, state
        if last is not None:
            yield last

    def digest(self, state: TargetState) -> str:
        """The digest of a state in runs and baselines."""
        return state.target.describe_subject(self.name, path=self.project.pyproject).digest


def digests_in(target: Target, key: str) -> Mapping[str, str | None]:
    """The digests of an identity by name, such as those of `files`."""
    return cast("Mapping[str, str | None]", target.identity.get(key, {}))


def find_changed(old: Target, new: Target) -> list[str]:
    """Settings, prompts and files that differ between two states."""
    settings = dict.fromkeys([*old.identity, *new.identity])
    rows = [
        key
        for key in settings
        if key not in {"files", "prompts"} and old.identity.get(key) != new.identity.get(key)
    ]
    for key, prefix in (("prompts", "prompt "), ("files", "")):
        before, after = digests_in(old, key), digests_in(new, key)
        names = sorted({*before, *after})
        rows += [f"{prefix}{name}" for name in names if before.get(name) != after.get(name)]
    if old.outputs and new.outputs and old.outputs.digest != new.outputs.digest:
        rows.append("outputs")
    return rows


def diff_states(old: TargetState, new: TargetState) -> Iterator[str]:
    """Unified diffs of the settings, then of each file."""

    def settings(state: TargetState) -> bytes:
        identity = state.target.identity
        settings_identity = {
            key: identity[key] for key in identity if key not in {"files", "prompts"}
        }
        return json.dumps(settings_identity, indent=2, ensure_ascii=False).encode()

    name = f"tool.regauge.targets.{old.target.name}"
    before, after = {name: settings(old), **old.texts()}, {name: settings(new), **new.texts()}
    for path in dict.fromkeys([*before, *after]):
        texts = before.get(path, b""), after.get(path, b"")
        labels = [f"{path}@{state.place}" if state.place else path for state in (old, new)]
        if texts[0] == texts[1]:
            continue
        try:
            a, b = (text.decode().splitlines() for text in texts)
        except UnicodeDecodeError:
            yield f"binary files {labels[0]} and {labels[1]} differ"
            continue
        yield from unified_diff(a, b, labels[0], labels[1], lineterm="")
