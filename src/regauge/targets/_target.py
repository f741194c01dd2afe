"""Targets: functions, endpoints, commands and files of outputs under test."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from regauge.digests import digest_of
from regauge.errors import PromptError, UsageError
from regauge.files import read_regular, write_whole
from regauge.git import find_ignored
from regauge.project import PythonTarget, RecordedTarget
from regauge.prompts import (
    LOADED_SUFFIX,
    Acknowledgement,
    ChangelogEntry,
    Prompt,
    parse_prompt,
    prompt_name,
)
from regauge.providers import CompletionRequest, ModelId
from regauge.strict_json import is_mapping, mapping_of
from regauge.targets._output import RecordedOutputs, read_outputs
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import Settings, TargetChange, TargetSettings
    from regauge.prompts import Repository


MODULES_FILE: Final = "fixtures/recordings/targets.json"
"""The modules that each callable loaded at its last recording."""


class Files(Protocol):
    """The files of a project; paths are relative to its root, with slashes."""

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        ...

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        ...


@dataclass(frozen=True, slots=True)
class WorkingFiles:
    """The files of the working directory."""

    root: Path

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        return {path: self._read(path) for path in paths}

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories, without those that git ignores."""
        files = (path for path in (self.root / directory).rglob("*") if path.is_file())
        names = [path.relative_to(self.root).as_posix() for path in files]
        ignored = find_ignored(self.root, names)
        return [name for name in names if name not in ignored]

    def _read(self, path: str) -> bytes | None:
        try:
            return read_regular(self.root / path)
        except OSError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """The files of a commit.

    Attributes:
        prefix: The project's root, relative to the top of the repository.
    """

    repository: Repository
    commit: str
    prefix: str

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        paths = list(paths)
        places = [(self.commit, self._place(path)) for path in paths]
        return dict(zip(paths, self.repository.read_all(places), strict=True))

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        names = self.repository.files(self.commit, self._place(directory))
        return [PurePosixPath(name).relative_to(self.prefix).as_posix() for name in names]

    def _place(self, path: str) -> str:
        return (PurePosixPath(self.prefix) / path).as_posix()


def digests_of(files: Files, paths: Iterable[str]) -> dict[str, str | None]:
    """The SHA-256 of each file, also of files in directories; None for a missing file.

    Hidden files and `__pycache__` in directories do not count.
    """
    digests: dict[str, str | None] = {}
    for path, data in files.read(paths).items():
        if data is not None:
            digests[path] = hashlib.sha256(data).hexdigest()
            continue
        inside = [
            name
            for name in files.below(path)
            if not any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
        ]
        if inside:
            digests |= digests_of(files, sorted(inside))
        else:
            digests[path] = None
    return digests


def loaded_modules(
    name: str,
    files: Files,
    *,
    discover: Callable[[], list[str]] | None,
    root: Path,
    fallback_paths: Iterable[str] = (),
) -> dict[str, str | None]:
    """The modules below the root that the import of a callable loads, with their digests.

    The list is kept with the recordings, and valid until one of the modules changes.

    Args:
        name: The callable, as `module:function`.
        files: The files of the project.
        discover: Called to find the modules, in another process; None to start no process.
        root: The directory of the project, to which the list is written.
        fallback_paths: The modules to use without a list.
    """
    document = _read_modules(files)
    earlier: Mapping[str, Any] = document.get(name, {})
    digests = digests_of(files, earlier)
    if discover is None or (earlier and digests == earlier):
        return digests or digests_of(files, fallback_paths or _own_module(name, files))
    digests = digests_of(files, discover())
    if digests and digests != earlier:
        text = json.dumps({**document, name: digests}, indent=1, sort_keys=True, ensure_ascii=False)
        write_whole(root / MODULES_FILE, f"{text}\n".encode())
    return digests or digests_of(files, _own_module(name, files))


def _read_modules(files: Files) -> Mapping[str, Mapping[str, Any]]:
    data = files.read([MODULES_FILE])[MODULES_FILE]
    try:
        document: object = json.loads(data or b"{}")
    except ValueError:
        return {}  # such as with merge conflicts; the next recording writes it again
    return {name: table for name, table in mapping_of(document).items() if is_mapping(table)}


def _own_module(name: str, files: Files) -> list[str]:
    """The file of a callable's module, if it is below the root or `src`."""
    stem = name.partition(":")[0].replace(".", "/")
    places = [f"{top}{stem}{end}" for top in ("", "src/") for end in (".py", "/__init__.py")]
    return [path for path, data in files.read(places).items() if data is not None]


# Settings that do not change the output, such as limits.
_OPERATION: Final = {
    "files",
    "prompts",
    "concurrency",
    "timeout_s",
    "deadline_s",
    "max_attempts",
    "cost_usd",
    "base",
    "changelog",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A system under test, with the identity of its recordings.

    Attributes:
        name: The name of its table in the settings, or the callable.
        settings: The settings of the target.
        root: The working directory.
        identity: Everything that its outputs depend on: kind, configuration, version, the digests
            of files and prompts. A change makes recordings stale.
        prompts: The prompts that it loads.
        outputs: The outputs of a `recorded` target; None for the others, which are called.
        unavailable: The reason why it cannot be called; empty if it can.
        call_settings: The settings to call it with instead, such as those of the base's
            deployment; None for `settings`.
        checkout: Called to create the working directory; None for `root`.
        is_tool: Whether it is a tool of a model, which may return any JSON value.
        candidates: The directory with the candidate texts for `load_prompt`; None without any.
    """

    name: str
    settings: TargetSettings
    root: Path
    identity: Mapping[str, JSON]
    prompts: tuple[Prompt, ...] = ()
    outputs: RecordedOutputs | None = field(default=None, repr=False)
    unavailable: str = ""
    call_settings: TargetSettings | None = None
    checkout: Callable[[], Path] | None = None
    is_tool: bool = False
    candidates: Path | None = None

    @property
    def model(self) -> ModelId:
        """Its kind and name, for reports that name a model."""
        return ModelId(provider=self.settings.kind, model=self.name)

    @cached_property
    def digest(self) -> str:
        """The digest of its identity."""
        return digest_of(self.identity)

    @property
    def as_declared(self) -> bool:
        """Return whether it runs as declared, without other settings, files or texts."""
        overrides = (
            self.unavailable,
            self.call_settings,
            self.checkout,
            self.is_tool,
            self.candidates,
        )
        return not any(overrides)

    def request(self, case: GoldenCase, trial: int, *, origin: str) -> CompletionRequest:
        """The request for one trial of one case."""
        parameters: dict[str, JSON] = {"target": self.digest, "inputs": digest_of(case.inputs)}
        if self.outputs is not None:
            parameters["outputs"] = self.outputs.digest_of_case(case.id)
        return CompletionRequest(
            provider=self.settings.kind,
            model=self.name,
            messages=(),
            parameters=parameters,
            trial=trial,
            origin=origin,
            case=case,
        )

    def with_candidate(self, prompt: Prompt, directory: Path) -> Target:
        """The same target with another text of one of its prompts.

        Args:
            prompt: The prompt with the new text.
            directory: The empty directory to write the text to.
        """
        file = directory / f"{prompt.name}.prompt.yml"
        file.write_bytes(prompt.source.encode())
        prompts = tuple(prompt if loaded.name == prompt.name else loaded for loaded in self.prompts)
        digests: dict[str, JSON] = {loaded.name: loaded.digest for loaded in prompts}
        identity = {**self.identity, "prompts": digests}
        return replace(self, identity=identity, prompts=prompts, candidates=directory)

    def check_candidate_loaded(self) -> None:
        """Check that its process loaded the candidate text.

        Raises:
            UsageError: It did not, so its outputs do not depend on the text.
        """
        if self.candidates is None or any(self.candidates.glob(f"*{LOADED_SUFFIX}")):
            return
        [file] = self.candidates.iterdir()
        name = prompt_name(file)
        raise UsageError(
            f"the target {self.name} ran without load_prompt({name!r}), so an edited text does not"
            " reach it\n"
            f"  fix: load the prompt with regauge.load_prompt({name!r}) in the code of the target,"
            " without a version"
        )

    def describe_subject(self, name: str, *, path: Path) -> Prompt:
        """The target in the form of a prompt, for baselines and reports.

        Args:
            name: The name of the eval.
            path: The file that declares the target.
        """
        outputs: dict[str, JSON] = {}
        if self.outputs is not None:
            outputs["outputs"] = self.outputs.digest
        source = json.dumps({**self.identity, **outputs}, indent=2, ensure_ascii=False)
        return Prompt(
            name=name,
            path=path,
            messages=(),
            parameters={"target": self.digest, **outputs},
            changelog=tuple(map(_changelog_entry, self.settings.changelog)),
            source=f"{source}\n",
        )

    @property
    def version(self) -> str:
        """The declared version, else that of the newest change; empty without both."""
        newest = next(iter(self.settings.changelog), None)
        return self.settings.version or (newest.version if newest is not None else "")


def _changelog_entry(change: TargetChange) -> ChangelogEntry:
    accepted, removed = (
        tuple(Acknowledgement(case=case.case, reason=case.reason) for case in cases)
        for cases in (change.accepted, change.removed)
    )
    texts = change.model_dump(include={"version", "text", "date"})
    return ChangelogEntry(**texts, accepted=accepted, removed=removed)


def settings_of_target(target_name: str, settings: Settings) -> tuple[str, TargetSettings]:
    """The name and the settings of a target: a table, or a callable as `module:function`.

    Raises:
        UsageError: There is no such table.
    """
    target_settings = settings.targets.get(target_name)
    if target_settings is not None:
        return target_name, target_settings
    if ":" in target_name:
        try:
            return target_name, PythonTarget(callable=target_name)
        except ValueError as error:
            fix = "write module:function, such as app.pipeline:run"
            raise UsageError(f"{target_name!r} is not a callable", fix=fix) from error
    names = ", ".join(sorted(settings.targets)) or "none"
    hint = did_you_mean(target_name, settings.targets)
    module, dot, function = target_name.rpartition(".")
    if dot and not hint:
        hint = f"did you mean '{module}:{function}'?"
    table = f"declare [tool.regauge.targets.{target_name}] in pyproject.toml"
    fix = hint or f"{table}, or name a function as module:function"
    raise UsageError(f"there is no target {target_name!r}; declared: {names}\n  fix: {fix}")


def load_target(
    name: str,
    settings: TargetSettings,
    *,
    root: Path,
    files: Files,
    discover: Callable[[], list[str]] | None = None,
    missing_ok: bool = False,
    like: Target | None = None,
) -> Target:
    """Load a target, with the digests of its files.

    Args:
        name: The name of its table, or the callable.
        settings: The settings of the target.
        root: The project's root.
        files: The files of the project.
        discover: Called to find the modules of its callable, in another process; None to start no
            process.
        missing_ok: Whether declared files may be missing, as in another commit.
        like: The target in another commit, whose modules are used without a list; None for none.

    Raises:
        UsageError: A declared file does not exist.
        PromptError: A declared prompt cannot be read.
        DatasetError: The file of outputs cannot be read.
    """
    configuration: dict[str, Any] = settings.model_dump(
        mode="json", exclude=_OPERATION, exclude_none=True
    )
    outputs = None
    if isinstance(settings, RecordedTarget):
        configuration.pop("path")  # the outputs count, wherever they are
        path = f"fixtures/{settings.path}"
        outputs = read_outputs(
            files.read([path])[path], place=root / path, name=name, cost_usd=settings.cost_usd
        )
    if settings.files is not None:
        digests = digests_of(files, settings.files)
        missing = [path for path, digest in digests.items() if digest is None]
        if missing and not missing_ok:
            message = f"pyproject.toml: tool.regauge.targets.{name}.files: there is no {missing[0]}"
            fix = "correct the path; it counts from the root of the project"
            raise UsageError(message, fix=fix)
    elif isinstance(settings, PythonTarget):
        fallback_paths: object = like.identity["files"] if like is not None else {}
        digests = loaded_modules(
            settings.callable,
            files,
            discover=discover,
            root=root,
            fallback_paths=cast("dict[str, str]", fallback_paths),
        )
    else:
        digests = {}
    prompts = tuple(_prompt(prompt_name, files, root) for prompt_name in settings.prompts)
    identity: dict[str, JSON] = {**configuration, "files": digests}
    if prompts:
        identity["prompts"] = {prompt.name: prompt.digest for prompt in prompts}
    return Target(
        name=name, settings=settings, root=root, identity=identity, prompts=prompts, outputs=outputs
    )


def _prompt(name: str, files: Files, root: Path) -> Prompt:
    paths = [f"prompts/{name}.prompt.yml", f"prompts/{name}.prompt.yaml"]
    for path, data in files.read(paths).items():
        if data is not None:
            return parse_prompt(data.decode("utf-8", "replace"), path=root / path)
    fix = "correct `prompts` of the target in pyproject.toml"
    raise PromptError.at_place(root / paths[0], "no such file", fix)
