"""Checks of a project's prompt files that loading a single file does not make."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import Fault, GitError, LockError, PromptError
from regauge.prompts._contents import content_errors
from regauge.prompts._files import prompt_files
from regauge.prompts._history import Repository
from regauge.prompts._lock import LOCK_NAME, PromptLock
from regauge.prompts._parse import SUFFIXES, parse_prompt, prompt_name
from regauge.prompts._replaceable import replaceable_faults
from regauge.prompts._yaml import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.project import Project
    from regauge.prompts._prompt import Prompt

_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
# Shorter ones repeat by chance: headings, list items, lines of a table.
_SENTENCE_WORDS_MIN = 6


def lint_prompts(project: Project, *, against: str = "HEAD") -> list[Fault]:
    """Everything that is wrong with the prompt files and `prompts.lock` of a project.

    Args:
        against: The commit, branch or tag whose lock this one may only add to; where the project
            is in no git repository, or nothing was committed yet, nothing is compared.

    Raises:
        GitError: `against` names no commit, or git is not installed.
    """
    loaded, faults = _load_all(project)
    lock = PromptLock(project.prompts_dir / LOCK_NAME)
    try:
        lock = PromptLock.load(lock.path)
        faults += _removed(lock, against)
        locked = True
    except LockError as error:
        faults += error.faults
        locked = False
    faults += _twins(project.prompts_dir)
    for prompt in loaded:
        faults += _own_faults(prompt, locked=bool(lock.of(prompt.name)))
        if locked:
            faults += lock.check(prompt)
    return _sorted(faults)


def lint_warnings(project: Project) -> list[Fault]:
    """Warnings about prompt files that are no reason to fail."""
    loaded, _ = _load_all(project)
    warnings = [warning for prompt in loaded for warning in prompt.warnings]
    for prompt in loaded:
        warnings += _repeated_sentences(prompt)
        warnings += _content_warnings(prompt)
    tools = {prompt.path.parent / file for prompt in loaded for file in prompt.tool_files}
    for path in sorted(set(project.prompts_dir.rglob("[!.]*.y*ml")) - tools):
        if path.suffix in {".yml", ".yaml"} and not path.name.endswith(SUFFIXES):
            fix = f"name it {path.stem}.prompt.yml, or keep it elsewhere"
            warnings.append(
                Fault(path=path, line=None, message="is not loaded as a prompt", fix=fix)
            )
    return _sorted(warnings)


def _load_all(project: Project) -> tuple[list[Prompt], list[Fault]]:
    loaded: list[Prompt] = []
    faults: list[Fault] = []
    for path in prompt_files(project.prompts_dir):
        try:
            loaded.append(parse_prompt(read_text(path), path=path))
        except PromptError as error:
            faults += error.faults
    return loaded, faults


def _own_faults(prompt: Prompt, *, locked: bool) -> Iterator[Fault]:
    if prompt.version is None and not locked:
        fix = f"regauge bump {prompt.name} major starts it at 1.0.0"
        yield Fault(path=prompt.path, line=1, message="has no version", fix=fix)
    for spec in prompt.inputs or ():
        if spec.name not in prompt.variables:
            line = prompt.lines.get(f"inputs.{spec.name}")
            message = f"input {spec.name!r} is declared, but no message uses it"
            fix = f"use {{{{{spec.name}}}}} in a message, or remove the input"
            yield Fault(path=prompt.path, line=line, message=message, fix=fix)
    yield from replaceable_faults(prompt)
    for tool in prompt.tools:
        function = cast("dict[str, Any]", tool["function"])
        problem = _schema_error(function.get("parameters", {}))
        if problem:
            line = prompt.lines.get(f"tools.{function['name']}")
            message = f"the parameters of tool {function['name']!r} are no JSON schema: {problem}"
            yield Fault(path=prompt.path, line=line, message=message)
    problem = _schema_problem(prompt)
    if problem:
        line = prompt.lines.get("jsonSchema", prompt.lines.get("responseFormat"))
        message = f"the schema of the answer is no JSON schema: {problem}"
        yield Fault(path=prompt.path, line=line, message=message)


def _schema_problem(prompt: Prompt) -> str:
    wrapped = (prompt.response_format or {}).get("json_schema")
    return _schema_error(wrapped["schema"]) if isinstance(wrapped, dict) else ""


def _schema_error(schema: Any) -> str:
    # Imported by name because the library has no types.
    jsonschema: Any = importlib.import_module("jsonschema")
    latest: Any = jsonschema.Draft202012Validator
    try:
        jsonschema.validators.validator_for(schema, default=latest).check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"{error.message} (at {error.json_path})"
    return ""


def _removed(lock: PromptLock, against: str) -> list[Fault]:
    repository = Repository.find(lock.path.parent)
    if repository is None or (against == "HEAD" and not repository.has_commits()):
        return []
    try:
        inside = repository.inside(lock.path)
    except GitError:
        return []
    data = repository.read(repository.commit(against), inside)
    if data is None:
        return []
    try:
        older = PromptLock.parse(data.decode("utf-8", "replace"), lock.path)
    except LockError:
        # What was broken before cannot be compared with this state.
        return []
    return lock.check_against(older, against)


def _twins(prompts_dir: Path) -> list[Fault]:
    first: dict[str, Path] = {}
    faults: list[Fault] = []
    for path in prompt_files(prompts_dir):
        name = prompt_name(path)
        other = first.setdefault(name, path)
        if other != path:
            message = f"a second prompt named {name!r}; the other is {other}"
            fix = "rename one: a name stands for one prompt everywhere"
            faults.append(Fault(path=path, line=None, message=message, fix=fix))
    return faults


def _repeated_sentences(prompt: Prompt) -> Iterator[Fault]:
    seen: set[str] = set()
    reported: set[str] = set()
    for message in prompt.messages:
        for sentence in _SENTENCE_END.split(_FENCE.sub("\n", message.content)):
            words = sentence.split()
            form = " ".join(words).lstrip("-*#> ").casefold()
            if len(words) < _SENTENCE_WORDS_MIN or form in reported:
                continue
            if form in seen:
                reported.add(form)
                excerpt = sentence.strip().lstrip("-*#> ")
                excerpt = excerpt if len(excerpt) <= 60 else f"{excerpt[:57]}..."  # noqa: PLR2004  # a line's worth
                yield Fault(
                    path=prompt.path,
                    line=_second_line(prompt, form),
                    message=f"says twice: {excerpt!r}",
                    fix="say it once, where it matters most",
                )
            seen.add(form)


def _content_warnings(prompt: Prompt) -> Iterator[Fault]:
    for error in content_errors(prompt.messages, prompt.response_format):
        content = prompt.messages[error.message].content
        first = content[content.rfind("\n", 0, error.start) + 1 :].partition("\n")[0].strip()
        # Of lines that are alike, the one as far down among its like.
        above = content.count(first, 0, error.start) if first else 0
        place = prompt.source.find("\nmessages:")
        for _ in range(above + 1):
            place = prompt.source.find(first, place + 1)
        line = prompt.source.count("\n", 0, place) + 1 if first and place >= 0 else None
        line = line or prompt.lines.get("messages")
        yield Fault(path=prompt.path, line=line, message=error.text, fix=error.fix)


def _second_line(prompt: Prompt, form: str) -> int | None:
    pattern = re.compile(r"\s+".join(map(re.escape, form.split())), re.IGNORECASE)
    places = [match.start() for match in pattern.finditer(prompt.source)]
    if not places:
        return prompt.lines.get("messages")
    return prompt.source.count("\n", 0, places[min(1, len(places) - 1)]) + 1


def _sorted(faults: list[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: (str(fault.path), fault.line or 0))
