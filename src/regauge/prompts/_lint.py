"""Checks of the prompt files and the lock of a project."""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from datetime import date
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import Diagnostic, GitError, LockError, PromptError
from regauge.prompts._content import content_errors
from regauge.prompts._parse import SUFFIXES, parse_prompt, prompt_name
from regauge.prompts._replaceable import replaceable_errors
from regauge.prompts._repository import check_links
from regauge.prompts._types import Semver
from regauge.prompts._versions import LOCK_NAME, PromptLock, prompt_files, read_prompt_text
from regauge.strict_json import mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._versions import LockEntry

_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
# Shorter sentences repeat by chance: headings, list items, table rows.
_SENTENCE_WORDS_MIN = 6


def lint_prompts(project: Project, *, against: str = "HEAD") -> list[Diagnostic]:
    """The errors in the prompt files and the `prompts.lock` of a project.

    Args:
        project: The project.
        against: The commit, branch or tag with the previous lock; ignored without a git
            repository or commits.

    Raises:
        GitError: `against` names no commit, or git is not installed.
    """
    loaded, diagnostics = _load_all(project)
    lock = PromptLock(project.prompts_dir / LOCK_NAME)
    for path in (*prompt_files(project.prompts_dir), lock.path):
        try:
            check_links(project.root, [path])
        except GitError as error:
            diagnostics.append(Diagnostic(path=path, message=error.message, fix=error.fix))
    try:
        lock = PromptLock.load(lock.path)
        removed = lock.check_since(against)
        diagnostics += removed
        if lock.entries or not removed:  # else its fix is to restore the lock
            for prompt in loaded:
                diagnostics += lock.check(prompt)
    except LockError as error:
        diagnostics += error.diagnostics
    diagnostics += _duplicate_names(project.prompts_dir)
    for prompt in loaded:
        diagnostics += _prompt_errors(prompt, locked=bool(lock.entries_of(prompt.name)))
    return _sort(diagnostics)


def lint_warnings(project: Project) -> list[Diagnostic]:
    """The warnings about the prompt files of a project."""
    loaded, _ = _load_all(project)
    warnings: list[Diagnostic] = []
    lock = PromptLock(project.prompts_dir / LOCK_NAME)
    with suppress(LockError):  # reported with the errors
        lock = PromptLock.load(lock.path)
    for prompt in loaded:
        warnings += (*prompt.warnings, *_repeated_sentences(prompt), *_content_warnings(prompt))
        warnings += _changelog_warnings(prompt, lock.entries_of(prompt.name))
    tools = {prompt.path.parent / file for prompt in loaded for file in prompt.tool_files}
    for path in sorted(set(project.prompts_dir.rglob("[!.]*.y*ml")) - tools):
        if path.suffix in {".yml", ".yaml"} and not path.name.endswith(SUFFIXES):
            fix = f"name it {path.stem}.prompt.yml, or keep it elsewhere"
            warnings.append(
                Diagnostic(path=path, line=None, message="is not loaded as a prompt", fix=fix)
            )
    return _sort(warnings)


def _load_all(project: Project) -> tuple[list[Prompt], list[Diagnostic]]:
    loaded: list[Prompt] = []
    diagnostics: list[Diagnostic] = []
    for path in prompt_files(project.prompts_dir):
        try:
            loaded.append(parse_prompt(read_prompt_text(path), path=path))
        except PromptError as error:
            diagnostics += error.diagnostics
    return loaded, diagnostics


def _prompt_errors(prompt: Prompt, *, locked: bool) -> Iterator[Diagnostic]:
    if prompt.version is None and not locked:
        fix = f"regauge bump {quote(prompt.name)} major, which starts it at 1.0.0"
        yield Diagnostic(path=prompt.path, line=1, message="has no version", fix=fix)
    for spec in prompt.inputs or ():
        if spec.name not in prompt.variables:
            line = prompt.lines.get(f"inputs.{spec.name}")
            message = f"input {spec.name!r} is declared, but no message uses it"
            fix = f"use {{{{{spec.name}}}}} in a message, or remove the input"
            yield Diagnostic(path=prompt.path, line=line, message=message, fix=fix)
    yield from replaceable_errors(prompt)
    for tool in prompt.tools:
        function = cast("dict[str, Any]", tool["function"])
        problem = _schema_error(function.get("parameters", {}))
        if problem:
            line = prompt.lines.get(f"tools.{function['name']}")
            name = function["name"]
            message = f"the parameters of tool {name!r} are not a JSON schema: {problem}"
            yield Diagnostic(path=prompt.path, line=line, message=message)
    wrapped = mapping_of((prompt.response_format or {}).get("json_schema"))
    problem = _schema_error(wrapped["schema"]) if wrapped else ""
    if problem:
        line = prompt.lines.get("jsonSchema", prompt.lines.get("responseFormat"))
        message = f"the output schema is not a JSON schema: {problem}"
        yield Diagnostic(path=prompt.path, line=line, message=message)


def _schema_error(schema: Any) -> str:
    # Imported by name because the library has no types.
    jsonschema: Any = importlib.import_module("jsonschema")
    latest: Any = jsonschema.Draft202012Validator
    try:
        jsonschema.validators.validator_for(schema, default=latest).check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"{error.message} (at {error.json_path})"
    return ""


def _duplicate_names(prompts_dir: Path) -> list[Diagnostic]:
    first: dict[str, Path] = {}
    diagnostics: list[Diagnostic] = []
    for path in prompt_files(prompts_dir):
        name = prompt_name(path)
        other = first.setdefault(name, path)
        if other != path:
            message = f"a second prompt named {name!r}; the other is {other}"
            fix = "rename one: names of prompts are unique"
            diagnostics.append(Diagnostic(path=path, line=None, message=message, fix=fix))
    return diagnostics


def _repeated_sentences(prompt: Prompt) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    duplicates: set[str] = set()
    for message in prompt.messages:
        for sentence in _SENTENCE_END.split(_FENCE.sub("\n", message.content)):
            words = sentence.split()
            form = " ".join(words).lstrip("-*#> ").casefold()
            if len(words) < _SENTENCE_WORDS_MIN or form in duplicates:
                continue
            if form in seen:
                duplicates.add(form)
                excerpt = sentence.strip().lstrip("-*#> ")
                excerpt = excerpt if len(excerpt) <= 60 else f"{excerpt[:57]}..."  # noqa: PLR2004  # a line's worth
                yield Diagnostic(
                    path=prompt.path,
                    line=_second_line(prompt, form),
                    message=f"repeats {excerpt!r}",
                    fix="write it once, where it matters most",
                )
            seen.add(form)


def _content_warnings(prompt: Prompt) -> Iterator[Diagnostic]:
    for error in content_errors(prompt.messages, prompt.response_format):
        content = prompt.messages[error.message].content
        first = content[content.rfind("\n", 0, error.start) + 1 :].partition("\n")[0].strip()
        # Among equal lines, find the one with the same number of equal lines above it.
        earlier = "\n".join(message.content for message in prompt.messages[: error.message])
        above = earlier.count(first) + content.count(first, 0, error.start)
        places = re.compile(re.escape(first)).finditer(
            prompt.source, prompt.source.find("\nmessages:") + 1
        )
        place = next(islice(places, above, None), None) if first else None
        line = prompt.lines.get("messages")
        if place is not None:
            line = prompt.source.count("\n", 0, place.start()) + 1
        yield Diagnostic(path=prompt.path, line=line, message=error.text, fix=error.fix)


def _is_date(text: str) -> bool:
    try:
        return not text or bool(date.fromisoformat(text))
    except ValueError:
        return False


def _changelog_warnings(prompt: Prompt, released: Sequence[LockEntry]) -> Iterator[Diagnostic]:
    """Entries of the changelog without text or date, out of order, or of an unreleased version."""
    versions = [Semver.parse(entry.version) for entry in prompt.changelog]
    valid_versions = {prompt.version, *(entry.version for entry in released)}
    is_ascending = versions[:2] == sorted(versions[:2])
    for number, (entry, version) in enumerate(zip(prompt.changelog, versions, strict=True)):
        problems: list[tuple[str, str]] = []
        if not _is_date(entry.date):
            problems.append((f"has the date {entry.date!r}", "write it as in 2026-11-30"))
        if not entry.text:
            problems.append(("has no text", "write what changed, or remove the entry"))
        # Versions before the first release are older than the lock.
        if released and version > released[0].version and version not in valid_versions:
            fix = "correct the version, or remove the entry"
            problems.append(("is of a version that was never released", fix))
        if number and (versions[number - 1] < version) != is_ascending:
            problems.append(("is out of order", "put the newest version first"))
        for problem, fix in problems:
            line = prompt.lines.get(f"changelog.{entry.version}")
            message = f"the entry {version} of changelog {problem}"
            yield Diagnostic(path=prompt.path, line=line, message=message, fix=fix)


def _second_line(prompt: Prompt, form: str) -> int | None:
    pattern = re.compile(r"\s+".join(map(re.escape, form.split())), re.IGNORECASE)
    places = [match.start() for match in pattern.finditer(prompt.source)]
    if not places:
        return prompt.lines.get("messages")
    return prompt.source.count("\n", 0, places[min(1, len(places) - 1)]) + 1


def _sort(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=lambda diagnostic: (str(diagnostic.path), diagnostic.line or 0))
