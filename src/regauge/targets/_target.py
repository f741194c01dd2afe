"""A target: a function, endpoint, command or file of outputs that golden cases are put to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.errors import Fault, PromptError, UsageError
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
from regauge.regular_file import read_regular
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
"""The modules that each callable loads, found when its outputs were recorded."""


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
    """The files as they are now."""

    root: Path

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        return {path: self._read(path) for path in paths}

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        files = (path for path in (self.root / directory).rglob("*") if path.is_file())
        return [path.relative_to(self.root).as_posix() for path in files]

    def _read(self, path: str) -> bytes | None:
        try:
            return read_regular(self.root / path)
        except OSError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """The files of a commit.

    Attributes:
        prefix: The project's root below the top of the repository; "." where it is the top.
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
    """The SHA-256 of each file, those of directories among them; None where there is no such file.

    Hidden files and `__pycache__` below a directory do not count.
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
    others: Iterable[str] = (),
) -> dict[str, str | None]:
    """The modules below the root that importing a callable loads, with their digests.

    They are kept with the recordings. While none of them changes, they load the same modules.

    Args:
        name: The callable, as `module:function`.
        files: Where modules are read.
        discover: Finds the modules by importing the callable in a process; None where no process
            may be started.
        root: Where the modules that were found are kept.
        others: What counts where no modules are known.
    """
    document = _read_modules(files)
    earlier: Mapping[str, Any] = document.get(name, {})
    digests = digests_of(files, earlier)
    if discover is None or (earlier and digests == earlier):
        return digests or digests_of(files, others or _own_module(name, files))
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
        return {}  # such as with the marks of a merge; the next recording writes it again
    tables = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    return {
        name: cast("Mapping[str, Any]", table)
        for name, table in tables.items()
        if isinstance(table, dict)
    }


def _own_module(name: str, files: Files) -> list[str]:
    """The file of a callable's module, where it is in one of the usual places."""
    stem = name.partition(":")[0].replace(".", "/")
    places = [f"{top}{stem}{end}" for top in ("", "src/") for end in (".py", "/__init__.py")]
    return [path for path, data in files.read(places).items() if data is not None]


# What does not change the output: how often and how fast a target is called.
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
    """A system that receives cases, with the identity of its recordings.

    Attributes:
        name: Of its table in the settings; or the callable.
        settings: Its table.
        root: The directory that it runs in.
        identity: What decides its outputs: kind, configuration, version, the digests of files and
            prompts. Outputs of another identity are not its own.
        prompts: The prompts that it loads.
        outputs: What a `recorded` target has; None for the others, which are called.
        unavailable: Why it cannot be called; empty where it can.
        called: The settings that it is called with instead, as those of the base's deployment.
        checkout: Makes the directory that it runs in, where that is not `root`.
        is_tool: Whether it answers a tool call of a model, with any JSON value.
        candidates: The directory with the candidate texts that `load_prompt` reads in its process.
    """

    name: str
    settings: TargetSettings
    root: Path
    identity: Mapping[str, JSON]
    prompts: tuple[Prompt, ...] = ()
    outputs: RecordedOutputs | None = field(default=None, repr=False)
    unavailable: str = ""
    called: TargetSettings | None = None
    checkout: Callable[[], Path] | None = None
    is_tool: bool = False
    candidates: Path | None = None

    @property
    def model(self) -> ModelId:
        """Its kind and name, where reports name a model."""
        return ModelId(provider=self.settings.kind, model=self.name)

    @cached_property
    def digest(self) -> str:
        """Of its identity."""
        return digest_of(self.identity)

    @property
    def as_declared(self) -> bool:
        """Return whether it runs as the project declares it, with no other files or texts."""
        others = (self.unavailable, self.called, self.checkout, self.is_tool, self.candidates)
        return not any(others)

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
        """The same target while it loads another text of one of its prompts.

        Args:
            prompt: The prompt with that text.
            directory: Where the text is written; an empty directory of this target alone.
        """
        file = directory / f"{prompt.name}.prompt.yml"
        file.write_bytes(prompt.source.encode())
        prompts = tuple(prompt if each.name == prompt.name else each for each in self.prompts)
        digests: dict[str, JSON] = {each.name: each.digest for each in prompts}
        identity = {**self.identity, "prompts": digests}
        return replace(self, identity=identity, prompts=prompts, candidates=directory)

    def check_candidate_loaded(self) -> None:
        """See that its process loaded the candidate text.

        Raises:
            UsageError: It did not, so its outputs say nothing about the text.
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

    def subject(self, name: str, *, path: Path) -> Prompt:
        """The subject in the form that baselines and reports use.

        Args:
            name: The name that the eval gives it.
            path: The file that declares it.
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
        """Its declared version, else that of its newest change; empty without both."""
        newest = next(iter(self.settings.changelog), None)
        return self.settings.version or (newest.version if newest is not None else "")


def _changelog_entry(change: TargetChange) -> ChangelogEntry:
    accepted, removed = (
        tuple(Acknowledgement(case=case.case, reason=case.reason) for case in cases)
        for cases in (change.accepted, change.removed)
    )
    texts = change.model_dump(include={"version", "text", "date"})
    return ChangelogEntry(**texts, accepted=accepted, removed=removed)


def settings_of_target(named: str, settings: Settings) -> tuple[str, TargetSettings]:
    """The name and the settings of a target: a table, or a callable as `module:function`.

    Raises:
        UsageError: There is no such table.
    """
    declared = settings.targets.get(named)
    if declared is not None:
        return named, declared
    if ":" in named:
        try:
            return named, PythonTarget(callable=named)
        except ValueError as error:
            fix = "write module:function, such as app.pipeline:answer"
            raise UsageError(f"{named!r} is no callable", fix=fix) from error
    names = ", ".join(sorted(settings.targets)) or "none"
    hint = did_you_mean(named, settings.targets)
    module, dot, function = named.rpartition(".")
    if dot and not hint:
        hint = f"did you mean '{module}:{function}'?"
    fix = f"{hint} " if hint else ""
    raise UsageError(
        f"there is no target {named!r}; declared: {names}\n"
        f"  fix: {fix}declare [tool.regauge.targets.{named}] in pyproject.toml, or name a function"
        " as module:function"
    )


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
    """A target as its files are.

    Args:
        name: Of its table; or the callable.
        settings: Its table.
        root: The project's root.
        files: Where its files are read.
        discover: Finds the modules that its callable loads, in a process; None where none may be
            started.
        missing_ok: Whether files that it declares may be missing, as those of another commit.
        like: The target in another commit, whose modules count where none are known.

    Raises:
        UsageError: A file that it declares does not exist.
        PromptError: A prompt that it declares cannot be read.
        DatasetError: Its file of outputs cannot be read.
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
        others: object = like.identity["files"] if like is not None else {}
        digests = loaded_modules(
            settings.callable,
            files,
            discover=discover,
            root=root,
            others=cast("dict[str, str]", others),
        )
    else:
        digests = {}
    prompts = tuple(_prompt(each, files, root) for each in settings.prompts)
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
    raise PromptError([Fault(path=root / paths[0], message="no such file", fix=fix)])
