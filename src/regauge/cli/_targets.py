"""Targets in `regauge show`, `log` and `diff`: identity and pass rates, now and in commits."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from itertools import islice, zip_longest
from shlex import quote
from typing import TYPE_CHECKING, cast

import click

from regauge.cli._terminal import echo, echo_diff, echo_json
from regauge.errors import GitError, InvalidFileError, RegaugeError, UsageError
from regauge.gate import BaseCommit, find_base, target_of_base
from regauge.model_id import is_simulated
from regauge.project import RecordedTarget
from regauge.prompts import Repository
from regauge.runner import declared_evals
from regauge.targets import CommitFiles, WorkingFiles, load_target, settings_of_target
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.history import TrendLine, TrendPoint
    from regauge.project import Project
    from regauge.prompts import Commit
    from regauge.targets import Files, Target

_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


def sparkline(rates: Sequence[float | None]) -> str:
    """Rates from 0 to 1 as blocks; a dot for None.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    top = len(_BLOCKS) - 1
    return "".join("·" if rate is None else _BLOCKS[round(rate * top + 0.001)] for rate in rates)


def interval_bar(point: TrendPoint) -> str:
    """A bar from 0 to 100 % with the rate and its interval."""
    last = _BAR_WIDTH - 1
    cells = [" "] * _BAR_WIDTH
    low, high = round(point.interval.low * last), round(point.interval.high * last)
    if point.suite.rate is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[round(point.suite.rate * last)] = "●"
    return f"│{''.join(cells)}│"


def measured_lines(project: Project, names: Iterable[str]) -> list[TrendLine]:
    """Trend lines of evals from the run history; empty if it cannot be read."""
    from regauge.history import History, trend_lines

    try:
        history = History.open(project, os.environ)
        return [line for name in names for line in trend_lines(history.suites(name))]
    except RegaugeError as error:
        click.echo(printable(f"{error}\nso there are no pass rates here"), err=True)
        return []


def rate_text(point: TrendPoint) -> str:
    """A pass rate with counts."""
    if point.suite.rate is None:
        return "unmeasured"
    return f"{100 * point.suite.rate:.1f} % ({point.suite.passed}/{point.suite.measured})"


def point_document(point: TrendPoint) -> Mapping[str, object]:
    """A point of a trend as JSON."""
    suite = point.suite
    return {
        "version": suite.version,
        "digest": suite.prompt_digest,
        "run": suite.run,
        "started_at": suite.started_at,
        "commit": suite.commit,
        "dirty": suite.dirty,
        "runs": point.runs,
        "cases": suite.cases,
        "measured": suite.measured,
        "passed": suite.passed,
        "trials": suite.trials,
        "pass_rate": suite.rate,
        "low": point.interval.low if suite.measured else None,
        "high": point.interval.high if suite.measured else None,
        "cost_per_completion_usd": suite.cost_per_completion_usd,
        "latency_p50_s": suite.latency_p50_s,
        "changed": list(point.changed),
    }


def line_document(line: TrendLine) -> Mapping[str, object]:
    """A trend line as JSON."""
    return {
        "dataset": line.dataset,
        "eval": line.eval,
        "model": line.model,
        "simulated": is_simulated(line.model),
        "runs": line.runs,
        "points": [point_document(point) for point in line.points],
    }


__all__ = ["TargetCommands", "find_target"]


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
        paths = [*(target.settings.files or ()), *_digests(target, "files")]
        paths += [prompt.path.relative_to(target.root).as_posix() for prompt in target.prompts]
        if isinstance(target.settings, RecordedTarget):
            paths.append(f"fixtures/{target.settings.path}")
        return paths

    def texts(self) -> dict[str, bytes]:
        """The content of these files."""
        files = self.files.read(dict.fromkeys(self.paths()))
        return {path: data for path, data in files.items() if data is not None}


def find_target(name: str, project: Project) -> TargetCommands | None:
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
            return TargetCommands(project, target, evals=tuple(evals.get(target, ())))
        case _:
            message = f"evals named {name!r} test several targets: {', '.join(tested)}"
            raise UsageError(message, fix="name one of them")


class TargetCommands:
    """The commands `show`, `log` and `diff` of one target, without importing or calling it.

    Args:
        project: The project.
        name: The name of its table; or the callable.
        evals: The evals that test it.
    """

    def __init__(self, project: Project, name: str, *, evals: tuple[str, ...]) -> None:
        self._project = project
        self._name, self._settings = settings_of_target(name, project.settings)
        self.evals = evals

    def show(self, ref: str, *, as_json: bool) -> None:
        """Show its identity in a commit, or in the working files."""
        state = self._state_at(ref) if ref else self._current
        target = state.target
        base = None if ref else self._base()
        changed = None if base is None else _find_changed(base.target, target)
        if as_json:
            document: dict[str, JSON] = {
                "name": self._name,
                "kind": target.settings.kind,
                "commit": ref or None,
                "version": target.version or None,
                "evals": list(self.evals),
                "identity": target.identity,
                "digest": self._digest(state),
                "base": base.place if base is not None else None,
                "changed_since_base": changed,
            }
            echo_json(document)
            return
        place = f" at {ref}" if ref else ""
        echo(f"{self._name} {target.version or '(no version)'}{place}", bold=True)
        rows = [
            (key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for key, value in target.identity.items()
            if key not in {"version", "files", "prompts"}
        ]
        prompts = (
            f"{prompt.name} {prompt.version or prompt.digest[:12]}" for prompt in target.prompts
        )
        rows += [
            ("evals", ", ".join(self.evals)),
            ("prompts", ", ".join(prompts)),
            ("digest", self._digest(state)),
        ]
        if base is not None:
            rows.append((f"since {base.place}", ", ".join(changed or ()) or "unchanged"))
        width = max(len(label) for label, text in rows if text)
        for label, text in rows:
            if text:
                echo(f"  {label:<{width}}  {text}")
        digests = _digests(target, "files")
        if digests:
            echo("files", bold=True)
        for path, digest in digests.items():
            echo(f"  {str(digest or '(missing)')[:12]}  {path}")

    def log(self, limit: int, *, as_json: bool) -> None:
        """List the states of its identity with pass rates, newest first.

        Args:
            limit: The most states.
            as_json: Whether to print JSON.
        """
        states = [*islice(self._states(), limit + 1)]
        older = [state.target for _, state in states[1:]]
        rows = [
            (commit, state, _find_changed(before, state.target) if before is not None else [])
            for (commit, state), before in zip_longest(states, older)
        ][:limit]
        current = self._current.target
        uncommitted = _find_changed(states[0][1].target, current) if states else []
        points = self._points()
        if as_json:
            state_rows: list[dict[str, object]] = [
                {
                    "version": state.target.version or None,
                    "date": commit.date[:10],
                    "commit": commit.hash,
                    "digest": self._digest(state),
                    "changed": changed,
                    "measured": [
                        {"eval": point.suite.prompt, **point_document(point)}
                        for point in self._points_of(state, points)
                    ],
                }
                for commit, state, changed in rows
            ]
            document = {"name": self._name, "uncommitted": uncommitted, "states": state_rows}
            echo_json(document)
            return
        for commit, state, changed in rows:
            line = (
                f"{state.target.version or '-':<12}{commit.date[:10]:<12}"
                f"{self._digest(state)[:12]:<14}{commit.hash[:9]:<11}"
            )
            if points:
                several = len(self.evals) > 1
                rates = (
                    f"{point.suite.prompt if several else ''} {rate_text(point)}".strip()
                    for point in self._points_of(state, points)
                )
                line += f"{', '.join(rates) or '-':<20}"
            echo(f"{line}{', '.join(changed) or commit.subject}".rstrip())
        if not states:
            echo(f"{self._name} is in no commit yet")
        elif uncommitted:
            echo(f"not committed: {', '.join(uncommitted)}", style="yellow")

    def diff(self, a: str | None, b: str | None, *, as_json: bool) -> None:
        """Show changes of its settings, files and prompts between commits, or since one."""
        a = a or "HEAD"
        old = self._state_at(a)
        new = self._state_at(b) if b is not None else self._current
        lines = [*_diff(old, new)]
        if as_json:
            changed = _find_changed(old.target, new.target)
            document = {"name": self._name, "a": a, "b": b, "changed": changed, "lines": lines}
            echo_json(document)
            return
        after = f"{self._name}@{b}" if b is not None else "the files"
        echo_diff(lines, f"{self._name}@{a}", after)

    @cached_property
    def _current(self) -> TargetState:
        root = self._project.root
        files = WorkingFiles(root)
        target = load_target(self._name, self._settings, root=root, files=files, missing_ok=True)
        return TargetState("", target, files)

    def _state_at(self, ref: str) -> TargetState:
        """Its state in a commit.

        Raises:
            GitError: There is no such commit.
            UsageError: It has no such target.
        """
        repository = Repository.open(self._project.root)
        state = self._in_commit(repository, repository.commit(ref), ref)
        if state is None:
            fix = f"regauge log {quote(self._name)} lists the commits that have it"
            raise UsageError(f"{ref} has no target {self._name!r}", fix=fix)
        return state

    def _in_commit(self, repository: Repository, commit: str, place: str) -> TargetState | None:
        base_commit = BaseCommit(
            project=self._project, repository=repository, ref=place, commit=commit, tip=commit
        )
        target = target_of_base(self._current.target, base_commit)
        if target is None:
            return None
        files = CommitFiles(repository=repository, commit=commit, prefix=base_commit.prefix)
        return TargetState(place, target, files)

    def _base(self) -> TargetState | None:
        """Its state on the base of the gate; None without one."""
        try:
            repository = Repository.open(self._project.root)
            ref = self._project.settings.gate.ref
            ref = ref if ref in repository.names() else repository.namesake(ref)
            base_commit = find_base(self._project, ref)
            return self._in_commit(base_commit.repository, base_commit.commit, ref)
        except (GitError, InvalidFileError):
            return None

    def _states(self) -> Iterator[tuple[Commit, TargetState]]:
        """Its states, newest first, each with the first commit of an unbroken series."""
        repository = Repository.open(self._project.root)
        project = self._project
        paths = [project.pyproject, *(project.root / path for path in self._current.paths())]
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

    def _points(self) -> list[TrendPoint]:
        """The measurements of its evals, those of lines with most runs first."""
        lines = measured_lines(self._project, self.evals)
        return [point for line in lines for point in line.points if point.suite.rate is not None]

    def _digest(self, state: TargetState) -> str:
        """The digest of a state in runs and baselines."""
        return state.target.describe_subject(self._name, path=self._project.pyproject).digest

    def _points_of(self, state: TargetState, points: Iterable[TrendPoint]) -> list[TrendPoint]:
        """The measurement of a state by each eval."""
        digest = self._digest(state)
        by_digest: dict[str, TrendPoint] = {}
        for point in points:
            if point.suite.prompt_digest == digest:
                by_digest.setdefault(point.suite.prompt, point)
        return [*by_digest.values()]


def _digests(target: Target, key: str) -> Mapping[str, str | None]:
    return cast("Mapping[str, str | None]", target.identity.get(key, {}))


def _find_changed(old: Target, new: Target) -> list[str]:
    """Settings, prompts and files that differ between two states."""
    settings = dict.fromkeys([*old.identity, *new.identity])
    rows = [
        key
        for key in settings
        if key not in {"files", "prompts"} and old.identity.get(key) != new.identity.get(key)
    ]
    for key, prefix in (("prompts", "prompt "), ("files", "")):
        before, after = _digests(old, key), _digests(new, key)
        names = sorted({*before, *after})
        rows += [f"{prefix}{name}" for name in names if before.get(name) != after.get(name)]
    if old.outputs and new.outputs and old.outputs.digest != new.outputs.digest:
        rows.append("outputs")
    return rows


def _diff(old: TargetState, new: TargetState) -> Iterator[str]:
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
