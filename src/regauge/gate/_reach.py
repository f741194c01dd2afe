"""The reach of changed targets: files that run no trial, and texts that only judges should know."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, cast

from regauge.gate._code import count_values, files_named_in, files_of_target, literals_in
from regauge.project import CommandTarget
from regauge.prompts import prompt_name
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from regauge.datasets import GoldenCase
    from regauge.gate._base import EvalBase
    from regauge.gate._commit import BaseCommit
    from regauge.targets import Target


_NAMES_MAX: Final = 3
# Shorter inputs occur in any code, and few occur by chance.
_INPUT_CHARS_MIN: Final = 12
_INPUTS_MIN: Final = 3
# Paths and modules, also the first part of one whose name is put together.
_PATH: Final = re.compile(r"[\w/-]*[./][\w./-]*")
# Data that loses this share of its lines may fit the golden cases alone.
_SHORTER: Final = 0.8
# The same of lists and mappings in code, which few edits shorten by accident.
_VALUES_MIN: Final = 20
# Words by which code recognises a test, or finds what measures it.
_TELLS: Final = re.compile(
    r"(?<![a-z])(pytest|regauge|fixtures/(?:golden|recordings|baselines|labels))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Edits that ran no trial, the command that measures them, and how to have the gate do it."""

    text: str
    command: str
    note: str = ""


def undeclared_changes(base_commit: BaseCommit, evals: Iterable[EvalBase]) -> Iterator[NotMeasured]:
    """Changed files that unchanged targets use and that make no recording stale."""
    targets = (eval_.candidate.target for eval_ in evals if not eval_.prompt_changed)
    for target in {target.name: target for target in targets if target is not None}.values():
        measured_files = {
            *_declared_files(base_commit, target),
            *(base_commit.repository.inside(prompt.path) for prompt in target.prompts),
        }
        if target.settings.version is not None and target.settings.files is None:
            continue  # the author states when its outputs change
        if undeclared := sorted(_files_in_reach(base_commit, target) - measured_files):
            files = first_of(undeclared, _NAMES_MAX)
            yield NotMeasured(
                text=f"{target.name} with {files} edited",
                command=f"{base_commit.project.run_command} --record all",
                note=f"the target {target.name} uses {files}, whose change runs no case: name it"
                " in `files` of the target, with the target's modules",
            )


def caveats_of_targets(base_commit: BaseCommit, evals: Iterable[EvalBase]) -> Iterator[str]:
    """Name changed files with golden inputs or words of the test, which the base's do not have."""
    for eval_ in evals:
        target = eval_.candidate.target
        if target is None or not eval_.prompt_changed:
            continue
        declared_files = _declared_files(base_commit, target)
        if eval_.base is not None and eval_.base.target is not None:
            base_files = _declared_files(base_commit, eval_.base.target) - declared_files
            if omitted := sorted(base_files & files_of_target(base_commit, target)):
                yield f"`files` of {target.name} without {first_of(omitted, _NAMES_MAX)}"
        files = _files_in_reach(base_commit, target) | (declared_files & base_commit.changed)
        for name in sorted(files.difference(base_commit.renamed.values())):
            yield from _caveats_of_file(base_commit, name, eval_)


def _caveats_of_file(base_commit: BaseCommit, name: str, eval_: EvalBase) -> Iterator[str]:
    path = base_commit.repository.top / name
    head = path.read_bytes() if path.is_file() else b""
    base = base_commit.repository.read(base_commit.commit, base_commit.renamed.get(name, name))
    text, before = (data.decode("utf-8", "replace") for data in (head, base or b""))
    case_count = sum(
        any(input_text in text and input_text not in before for input_text in _writings(case))
        for case in eval_.candidate.dataset
    )
    if case_count >= min(_INPUTS_MIN, len(eval_.candidate.dataset)):
        yield f"{name} has inputs of {plural(case_count, 'case')} of {eval_.name}"
    if tells := sorted(_telling_words(base_commit, name, text) - _words(before)):
        yield f"{name} names {first_of(tells, _NAMES_MAX)}"
    unit, least = ("value", _VALUES_MIN) if name.endswith(".py") else ("line", 1)
    count = count_values if name.endswith(".py") else _count_lines
    length, length_before = count(head), count(base or b"")
    if length_before >= least and length < _SHORTER * length_before:
        yield f"{name} shortened from {length_before} to {plural(length, unit)}"


def _count_lines(data: bytes) -> int:
    return len(data.splitlines())


def _writings(case: GoldenCase) -> Iterator[str]:
    """The longest text among the inputs of a case, as code and JSON write it."""
    texts = [value for value in case.inputs.values() if isinstance(value, str)]
    longest = max(texts, key=len, default="")
    if len(longest) >= _INPUT_CHARS_MIN:
        yield from {longest, repr(longest)[1:-1], json.dumps(longest)[1:-1]}


def _telling_words(base_commit: BaseCommit, name: str, text: str) -> set[str]:
    """The telling words of a file; of Python, of literals without spaces."""
    if name.endswith(".py"):
        texts = (value for value in literals_in(base_commit, [name]) if not re.search(r"\s", value))
        text = "\n".join(texts)
    return _words(text)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _TELLS.findall(text)}


def _declared_files(base_commit: BaseCommit, target: Target) -> frozenset[str]:
    """The files in the identity of a target."""
    files = cast("Mapping[str, object]", target.identity["files"])
    return frozenset(base_commit.repository.inside(target.root / path) for path in files)


def _files_in_reach(base_commit: BaseCommit, target: Target) -> frozenset[str]:
    """The changed files among a target's code, and those that it names, prompts by their name."""
    code = files_of_target(base_commit, target)
    literals = literals_in(base_commit, code)
    prompts_dir = base_commit.repository.inside(base_commit.project.prompts_dir)
    prompts = {
        name
        for name in base_commit.changed
        if name.startswith(f"{prompts_dir}/")
        and name.endswith((".prompt.yml", ".prompt.yaml"))
        and prompt_name(Path(name)) in literals
    }
    files = files_named_in(base_commit, code) | _files_of_words(base_commit, target, literals)
    return (code & base_commit.changed) | files | prompts


def _files_of_words(
    base_commit: BaseCommit, target: Target, literals: Iterable[str]
) -> frozenset[str]:
    """The changed files that code, a command or its scripts name, as module, path or directory."""
    words = {text for text in literals if _PATH.fullmatch(text)}
    modules = {word.replace(".", "/") for word in words}
    words |= modules.union(f"{module}.py" for module in modules)
    if isinstance(target.settings, CommandTarget):
        argv = {*" ".join(target.settings.argv).split()}
        scripts = (target.root / word for word in argv if not word.endswith(".py"))
        texts = [script.read_text("utf-8", "replace") for script in scripts if script.is_file()]
        words |= argv.union(*(text.split() for text in texts))
    patterns = {word.strip("\"'`();./") for word in words}
    patterns = {pattern for pattern in patterns if re.search(r"\w", pattern)}
    return frozenset(
        name
        for name in base_commit.changed
        if any(_matches(PurePosixPath(name), pattern) for pattern in patterns)
    )


def _matches(path: PurePosixPath, pattern: str) -> bool:
    return any(part.match(pattern) for part in (path, *path.parents) if part.name)
