"""Checks of prompt files, and common errors in the content of messages, with their edits.

Errors are: an instruction that overrides the others, a rule in another language, a double negation,
an entry twice with different numbers, a truncated line. Others are: examples or keys against the
schema, and a placeholder in the tags of another one.
"""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import Diagnostic, GitError, LockError, PromptError
from regauge.lexicon import Lexicon
from regauge.prompts._parse import SUFFIXES, parse_prompt, prompt_name
from regauge.prompts._replaceable import replaceable_errors
from regauge.prompts._repository import Repository
from regauge.prompts._versions import LOCK_NAME, PromptLock, prompt_files, read_prompt_text
from regauge.statements import guess_language, is_negated, normalise, parse
from regauge.strict_json import mapping_of, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._types import Message
    from regauge.statements import Node, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentError:
    """One error in the content of a message.

    Attributes:
        message: The index of the message, from 0.
        start: The offset of its start in the message.
        end: The offset after its end.
        text: The problem.
        fix: The fix.
        replacement: The text without the error; None if only the author knows.
    """

    message: int
    start: int
    end: int
    text: str
    fix: str
    replacement: str | None = None


_LEXICON = Lexicon("regauge.prompts")
_KEY_ENTRY = re.compile(
    r"^[ \t]*[-*•][ \t]+[`\"*]*(?P<key>[A-Za-z_]\w*)[`\"*]*:(?=\s)", re.MULTILINE
)
_OBJECT = re.compile(r"\{[^{}]*\"[^{}]*\}")
_SLOT_IN_TAG = re.compile(
    r"<(?P<tag>[A-Za-z][\w-]*)>\s*\{\{\s*(?P<slot>[\w.-]+)\s*\}\}\s*</(?P=tag)>"
)
_NUMBER = re.compile(r"\d+")
_STOP = re.compile(r"[.!?:;。！？…\"'`)\]}]\s*$")  # noqa: RUF001 - ends of sentences
_ENTRY = re.compile(
    r"^(?P<indent>[ \t]*)(?:[-*•+]|\d+[.)])[ \t]+(?P<label>[^\n:]{1,40}):[ \t]", re.MULTILINE
)
# Two entries or two words can be similar by chance.
_LIST_MIN = 3
_WORDS_MIN = 3
# With its location, an excerpt fills a line of a terminal.
_EXCERPT_CHARS = 70


def content_errors(
    messages: Sequence[Message], response_format: Mapping[str, JSON] | None = None
) -> tuple[ContentError, ...]:
    """The errors in the content of messages, in order and without overlaps.

    Args:
        messages: The messages of one prompt; those of the assistant are examples, and skipped.
        response_format: The response format, with the output schema; None for plain text.
    """
    schema = _schema(response_format)
    slots = frozenset(
        match["slot"] for message in messages for match in _SLOT_IN_TAG.finditer(message.content)
    )
    language = guess_language("\n".join(m.content for m in messages if m.role != "assistant"))
    errors: list[ContentError] = []
    for number, message in enumerate(messages):
        if message.role == "assistant":
            continue
        tree = parse(message.content)
        message_errors = (
            *_sentence_errors(tree, language),
            *_duplicate_entries(tree),
            *_truncated_entries(tree),
            *_schema_mismatches(tree, schema),
            *_swapped_inputs(tree, slots),
        )
        errors += [replace(error, message=number) for error in message_errors]
    selected: list[ContentError] = []
    for error in sorted(errors, key=lambda error: (error.message, error.start, -error.end)):
        if not selected or selected[-1].message != error.message or selected[-1].end <= error.start:
            selected.append(error)
    return tuple(selected)


def fix_messages(
    messages: Sequence[Message], response_format: Mapping[str, JSON] | None = None
) -> tuple[Message, ...]:
    """Fix all errors that have a replacement, and change nothing else."""
    contents = [message.content for message in messages]
    for error in reversed(content_errors(messages, response_format)):
        if error.replacement is not None:
            was = contents[error.message]
            contents[error.message] = was[: error.start] + error.replacement + was[error.end :]
    return tuple(
        replace(message, content=content)
        for message, content in zip(messages, contents, strict=True)
    )


def _sentence_errors(tree: Tree, language: str) -> Iterator[ContentError]:
    for node in tree.nodes("sentence"):
        text = tree.text_of(node)
        if tree.is_data(node) or not text.strip():
            continue
        quoted = _excerpt(text)
        if _LEXICON.override.search(text):
            yield _removable_error(
                tree, node, f"overrides the other instructions: {quoted}",
                "remove it, or edit the rule that it changes",
            )  # fmt: skip
        elif twice := _LEXICON.twice_negated.search(text):
            inner = twice["inner"]
            replacement = (
                text.replace(f"{inner} ", "", 1) if inner and inner.endswith("to") else None
            )
            yield ContentError(
                message=0, start=node.start, end=node.end, replacement=replacement,
                text=f"negates twice: {quoted}", fix="write what to do, or what not to do",
            )  # fmt: skip
        elif _is_foreign(text, language):
            yield _removable_error(
                tree, node, f"is in another language than the rest, and models obey it: {quoted}",
                "write it in the language of the prompt, and check for contradictions",
            )  # fmt: skip


def _is_foreign(text: str, language: str) -> bool:
    """Return whether a sentence forbids something in another language."""
    other = guess_language(text)
    plain = len(re.findall(r"\w+", text)) >= _WORDS_MIN
    return bool(plain and language and other and other != language and is_negated(text))


def _removable_error(tree: Tree, node: Node, text: str, fix: str) -> ContentError:
    """An error that is fixed by removing its sentence, or the line or paragraph that it fills."""
    start, end = node.start, node.end
    content = tree.text
    first, last = content.rfind("\n", 0, start) + 1, content.find("\n", end)
    last = len(content) if last < 0 else last
    if not content[first:start].strip(" \t-*+•0123456789.)") and not content[end:last].strip():
        before, after = content[:first], content[last + 1 :]
        start, end = first, min(last + 1, len(content))
        if not before.rpartition("\n\n")[2].strip() and after.startswith("\n"):
            end += 1
        elif before.endswith("\n\n") and not after.strip():
            start -= 1
    elif content[end:last].startswith(" "):
        end += 1
    elif content[first:start].endswith(" "):
        start -= 1
    return ContentError(message=0, start=start, end=end, text=text, fix=fix, replacement="")


def _duplicate_entries(tree: Tree) -> Iterator[ContentError]:
    """Entries with the label of an earlier one, and different numbers."""
    text = tree.text
    entries = list(_ENTRY.finditer(text))
    for n, entry in enumerate(entries):
        earlier = [
            other
            for other in entries[:n]
            if other["indent"] == entry["indent"]
            and normalise(other["label"]) == normalise(entry["label"])
        ]
        if not earlier:
            continue
        was, now = _entry_at(text, earlier[0]), _entry_at(text, entry)
        words, its = _masked_words(text[slice(*now)]), _masked_words(text[slice(*was)])
        alike = sum((words & its).values()) * 2 >= sum(words.values())
        if alike and text[slice(*now)].strip() != text[slice(*was)].strip():
            yield ContentError(
                message=0, start=now[0], end=now[1], replacement="",
                text=f"explains {entry['label'].strip()!r} twice, with other numbers",
                fix="keep the one that holds",
            )  # fmt: skip


def _entry_at(text: str, entry: re.Match[str]) -> tuple[int, int]:
    """The start and end of an entry with its indented lines."""
    end = text.find("\n", entry.start())
    while end >= 0:
        line = text[end + 1 :].partition("\n")[0]
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent <= len(entry["indent"]):
            break
        end = text.find("\n", end + 1)
    return entry.start(), len(text) if end < 0 else end + 1


def _masked_words(text: str) -> Counter[str]:
    return Counter(_NUMBER.sub("#", normalise(line)) for line in text.splitlines() if line.strip())


def _truncated_entries(tree: Tree) -> Iterator[ContentError]:
    """Last entries without a stop in lists whose other entries all have one."""
    for node in tree.nodes("list"):
        entries = [tree.text_of(child).rstrip() for child in node.children if child.kind == "entry"]
        if len(entries) < _LIST_MIN or any("\n" in entry for entry in entries):
            continue
        last, previous = entries[-1], entries[:-1]
        if all(_STOP.search(entry) for entry in previous) and last[-1:].isalnum():
            start = tree.text.rindex(last, node.start, node.end)
            yield ContentError(
                message=0, start=start, end=start + len(last),
                text=f"may be cut off: {_excerpt(last)}",
                fix="write it to its end, with a full stop",
            )  # fmt: skip


def _schema_mismatches(tree: Tree, schema: Mapping[str, Any]) -> Iterator[ContentError]:
    properties = mapping_of(schema.get("properties"))
    if not properties:
        return
    text = tree.text
    entries = list(_KEY_ENTRY.finditer(text))
    listed_keys = [entry["key"] for entry in entries]
    examples = [(match, value) for match in _OBJECT.finditer(text) if (value := _value(match[0]))]
    candidates = [key for key in listed_keys if _in_key_list(tree, listed_keys, key, properties)]
    candidates += [key for _, value in examples for key in value]
    unknown = [key for key in dict.fromkeys(candidates) if key not in properties]
    missing = [key for key in properties if key not in listed_keys]
    renamed = dict(zip(unknown, missing, strict=False)) if len(unknown) == len(missing) else {}
    for entry in entries:
        if entry["key"] in unknown:
            yield _wrong_key(entry.start("key"), entry["key"], renamed)
    for match, value in examples:
        for key, example_value in value.items():
            position = match.start() + match[0].index(f'"{key}"') + 1
            spec = mapping_of(properties.get(renamed.get(key, key)))
            allowed: list[Any] | None = spec.get("enum")
            if key not in properties:
                yield _wrong_key(position, key, renamed)
            elif allowed is not None and example_value not in allowed:
                quoted = json.dumps(example_value, ensure_ascii=False)
                place = text.find(quoted, position, match.end())
                values = ", ".join(map(str, allowed))
                yield ContentError(
                    message=0, start=max(position, place), end=max(position, place) + len(quoted),
                    text=f"the example gives {key!r} the value {quoted}, not one of the schema's",
                    fix=f"use one of {values}",
                )  # fmt: skip


def _in_key_list(
    tree: Tree, listed_keys: Sequence[str], key: str, properties: Mapping[str, Any]
) -> bool:
    """Return whether an entry is in a list with keys of the schema."""
    for node in tree.nodes("list"):
        keys = [match["key"] for match in _KEY_ENTRY.finditer(tree.text_of(node))]
        if (
            key in keys
            and listed_keys.count(key) == 1
            and any(other in properties for other in keys)
        ):
            return True
    return False


def _wrong_key(position: int, key: str, renamed: Mapping[str, str]) -> ContentError:
    right = renamed.get(key)
    return ContentError(
        message=0, start=position, end=position + len(key), replacement=right,
        text=f"names the key {key!r}, which the schema does not have",
        fix=f"name it {right!r}" if right else "use the schema's keys",
    )  # fmt: skip


def _swapped_inputs(tree: Tree, slots: frozenset[str]) -> Iterator[ContentError]:
    """Placeholders between the tags of another placeholder of the prompt."""
    for match in _SLOT_IN_TAG.finditer(tree.text):
        tag, slot = match["tag"], match["slot"]
        if tag != slot and tag in slots:
            yield ContentError(
                message=0, start=match.start("slot"), end=match.end("slot"), replacement=tag,
                text=f"<{tag}> holds {{{{{slot}}}}}", fix=f"put {{{{{tag}}}}} there",
            )  # fmt: skip


def _schema(response_format: Mapping[str, JSON] | None) -> Mapping[str, Any]:
    wrapped = mapping_of((response_format or {}).get("json_schema"))
    return mapping_of(wrapped.get("schema"))


def _value(text: str) -> Mapping[str, Any]:
    try:
        return mapping_of(read_json(text))
    except ValueError:
        return {}


def _excerpt(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain if len(plain) <= _EXCERPT_CHARS else f"{plain[: _EXCERPT_CHARS - 3]}...")


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
    try:
        lock = PromptLock.load(lock.path)
        diagnostics += _find_removed(lock, against)
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
    for prompt in loaded:
        warnings += (*prompt.warnings, *_repeated_sentences(prompt), *_content_warnings(prompt))
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
        fix = f"regauge bump {prompt.name} major, which starts it at 1.0.0"
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
            message = f"the parameters of tool {function['name']!r} are no JSON schema: {problem}"
            yield Diagnostic(path=prompt.path, line=line, message=message)
    wrapped = mapping_of((prompt.response_format or {}).get("json_schema"))
    problem = _schema_error(wrapped["schema"]) if wrapped else ""
    if problem:
        line = prompt.lines.get("jsonSchema", prompt.lines.get("responseFormat"))
        message = f"the output schema is no JSON schema: {problem}"
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


def _find_removed(lock: PromptLock, against: str) -> list[Diagnostic]:
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
        # An invalid previous lock cannot be compared.
        return []
    return lock.check_against(older, against)


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


def _second_line(prompt: Prompt, form: str) -> int | None:
    pattern = re.compile(r"\s+".join(map(re.escape, form.split())), re.IGNORECASE)
    places = [match.start() for match in pattern.finditer(prompt.source)]
    if not places:
        return prompt.lines.get("messages")
    return prompt.source.count("\n", 0, places[min(1, len(places) - 1)]) + 1


def _sort(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=lambda diagnostic: (str(diagnostic.path), diagnostic.line or 0))
