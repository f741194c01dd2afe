"""Common errors in the content of messages, with the edits that fix them.

Errors are: an instruction that overrides the others, a rule in another language, a double negation,
an entry twice with different numbers, a truncated line. Others are: examples or keys against the
schema, and a placeholder in the tags of another one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regauge.lexicon import Lexicon
from regauge.statements import guess_language, is_negated, normalise, parse
from regauge.strict_json import mapping_of, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON
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
_STOP = re.compile(r"[.!?:;。！？…][\"'`)\]}”»]*\s*$")  # noqa: RUF001 - ends of sentences
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
        content = _MessageText(number, parse(message.content))
        errors += _sentence_errors(content, language)
        errors += _duplicate_entries(content)
        errors += _truncated_entries(content)
        errors += _schema_mismatches(content, schema)
        errors += _swapped_inputs(content, slots)
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


@dataclass(frozen=True, slots=True)
class _MessageText:
    """The content of one message, by its index."""

    number: int
    tree: Tree

    def error(
        self, start: int, end: int, text: str, fix: str, replacement: str | None = None
    ) -> ContentError:
        """Return the error of a range of it."""
        return ContentError(
            message=self.number, start=start, end=end, text=text, fix=fix, replacement=replacement
        )


def _sentence_errors(content: _MessageText, language: str) -> Iterator[ContentError]:
    tree = content.tree
    for node in tree.nodes("sentence"):
        text = tree.text_of(node)
        if tree.is_data(node) or not text.strip():
            continue
        quoted = _excerpt(text)
        if _LEXICON.override.search(text):
            problem = f"overrides the other instructions: {quoted}"
            fix = "remove it, or edit the rule that it changes"
            yield _removable_error(content, node, problem, fix)
        elif twice := _LEXICON.twice_negated.search(text):
            inner = twice["inner"]
            plain = text.replace(f"{inner} ", "", 1) if inner and inner.endswith("to") else None
            fix = "write what to do, or what not to do"
            yield content.error(node.start, node.end, f"negates twice: {quoted}", fix, plain)
        elif _is_foreign(text, language):
            problem = f"is in another language than the rest, and models obey it: {quoted}"
            fix = "write it in the language of the prompt, and check for contradictions"
            yield _removable_error(content, node, problem, fix)


def _is_foreign(text: str, language: str) -> bool:
    """Return whether a sentence forbids something in another language."""
    other = guess_language(text)
    plain = len(re.findall(r"\w+", text)) >= _WORDS_MIN
    return bool(plain and language and other and other != language and is_negated(text))


def _removable_error(content: _MessageText, node: Node, text: str, fix: str) -> ContentError:
    """An error that is fixed by removing its sentence, or the line or paragraph that it fills."""
    start, end = node.start, node.end
    full_text = content.tree.text
    first, last = full_text.rfind("\n", 0, start) + 1, full_text.find("\n", end)
    last = len(full_text) if last < 0 else last
    if not full_text[first:start].strip(" \t-*+•0123456789.)") and not full_text[end:last].strip():
        before, after = full_text[:first], full_text[last + 1 :]
        start, end = first, min(last + 1, len(full_text))
        if not before.rpartition("\n\n")[2].strip() and after.startswith("\n"):
            end += 1
        elif before.endswith("\n\n") and not after.strip():
            start -= 1
    elif full_text[end:last].startswith(" "):
        end += 1
    elif full_text[first:start].endswith(" "):
        start -= 1
    return content.error(start, end, text, fix, "")


def _duplicate_entries(content: _MessageText) -> Iterator[ContentError]:
    """Entries with the label of an earlier one, and different numbers."""
    text = content.tree.text
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
            problem = f"explains {entry['label'].strip()!r} twice, with other numbers"
            yield content.error(*now, problem, "keep the one that holds", "")


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


def _truncated_entries(content: _MessageText) -> Iterator[ContentError]:
    """Last entries without a stop in lists whose other entries all have one."""
    tree = content.tree
    for node in tree.nodes("list"):
        entries = [tree.text_of(child).rstrip() for child in node.children if child.kind == "entry"]
        if len(entries) < _LIST_MIN or any("\n" in entry for entry in entries):
            continue
        last, previous = entries[-1], entries[:-1]
        if all(_STOP.search(entry) for entry in previous) and last[-1:].isalnum():
            start = tree.text.rindex(last, node.start, node.end)
            problem = f"may be cut off: {_excerpt(last)}"
            fix = "write it to its end, with a full stop"
            yield content.error(start, start + len(last), problem, fix)


def _schema_mismatches(content: _MessageText, schema: Mapping[str, Any]) -> Iterator[ContentError]:
    properties = mapping_of(schema.get("properties"))
    if not properties:
        return
    text = content.tree.text
    entries = list(_KEY_ENTRY.finditer(text))
    listed_keys = [entry["key"] for entry in entries]
    examples = [(match, value) for match in _OBJECT.finditer(text) if (value := _value(match[0]))]
    lists = [
        {match["key"] for match in _KEY_ENTRY.finditer(content.tree.text_of(node))}
        for node in content.tree.nodes("list")
    ]
    # Keys that are listed once, next to keys of the schema.
    near_keys = {key for keys in lists if keys & properties.keys() for key in keys}
    candidates = [key for key in listed_keys if key in near_keys and listed_keys.count(key) == 1]
    candidates += [key for _, value in examples for key in value]
    unknown = [key for key in dict.fromkeys(candidates) if key not in properties]
    missing = [key for key in properties if key not in listed_keys]
    renamed = dict(zip(unknown, missing, strict=False)) if len(unknown) == len(missing) else {}
    for entry in entries:
        if entry["key"] in unknown:
            yield _wrong_key(content, entry.start("key"), entry["key"], renamed)
    for match, value in examples:
        for key, example_value in value.items():
            position = match.start() + match[0].index(f'"{key}"') + 1
            spec = mapping_of(properties.get(renamed.get(key, key)))
            allowed: list[Any] | None = spec.get("enum")
            if key not in properties:
                yield _wrong_key(content, position, key, renamed)
            elif allowed is not None and example_value not in allowed:
                quoted = json.dumps(example_value, ensure_ascii=False)
                start = max(position, text.find(quoted, position, match.end()))
                problem = f"the example gives {key!r} the value {quoted}, not one of the schema's"
                fix = f"use one of {', '.join(map(str, allowed))}"
                yield content.error(start, start + len(quoted), problem, fix)


def _wrong_key(
    content: _MessageText, position: int, key: str, renamed: Mapping[str, str]
) -> ContentError:
    right = renamed.get(key)
    problem = f"names the key {key!r}, which the schema does not have"
    fix = f"name it {right!r}" if right else "use the schema's keys"
    return content.error(position, position + len(key), problem, fix, right)


def _swapped_inputs(content: _MessageText, slots: frozenset[str]) -> Iterator[ContentError]:
    """Placeholders between the tags of another placeholder of the prompt."""
    for match in _SLOT_IN_TAG.finditer(content.tree.text):
        tag, slot = match["tag"], match["slot"]
        if tag != slot and tag in slots:
            problem, fix = f"<{tag}> holds {{{{{slot}}}}}", f"put {{{{{tag}}}}} there"
            yield content.error(*match.span("slot"), problem, fix, tag)


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
