"""Errors in the instructions of a prompt, each with an edit that could undo it.

These are the slips that people make: an order that overrides the others, a rule in another
language, two negations, a list twice with other numbers, a line cut off, an example that the
schema refuses, a key that it does not have, a placeholder in another's tags.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from regauge.statements import guess_language, is_negated, normalise, parse
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.prompts._types import Message
    from regauge.statements import Node, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentError:
    """One error in what a message says.

    Attributes:
        message: Which message, from 0.
        start: Where it begins in the message; it ends before `end`.
        text: What is wrong.
        fix: What to do about it.
        instead: What the message would say there without the error; None where only its author
            knows.
    """

    message: int
    start: int
    end: int
    text: str
    fix: str
    instead: str | None = None


_ALL_ABOVE = (
    r"(?:above|previous|preceding|prior|earlier|foregoing|before|other) ?(?:instructions?|rules?)?"
)
# An order that is meant for all others: in English, German, French, Spanish and Japanese.
_OVERRIDE = re.compile(
    rf"\b(?:ignore|disregard|forget|override)\b[^.\n]{{0,40}}\b{_ALL_ABOVE}"
    r"|\b(?:what(?:ever|soever)|no matter what|regardless of (?:what|anything|everything)|despite"
    r" (?:what|anything|everything)|notwithstanding)\b[^.\n]{0,60}\b(?:above|before|says?|said"
    r"|stands?|written|instructed|otherwise)\b"
    r"|\b(?:ignoriere|vergiss|missachte)\w*\b[^.\n]{0,40}\b(?:obige|vorherige|vorige|bisherige|oben)"
    r"|\b(?:ungeachtet|egal,? was|was auch immer)\b[^.\n]{0,60}\b(?:oben|steht|gesagt|vorher)"
    r"|\b(?:ignore[zr]?|oublie[zr]?)\b[^.\n]{0,40}\b(?:ci-dessus|précédent|qui précède)"
    r"|\bquoi qu'il\b[^.\n]{0,60}\b(?:ci-dessus|dit|écrit)"
    r"|\b(?:ignor[ae]|olvid[ae])\b[^.\n]{0,40}\b(?:anterior|previas?|arriba)"
    r"|(?:上記|以上|これまで)[^。\n]{0,20}(?:無視|関係なく|かかわらず)",
    re.IGNORECASE,
)
# To be told not to leave something undone is to be told to do it.
_TWICE_NEGATED = re.compile(
    r"\b(?:do not|don't|never|must not|should not|cannot|can't)\s+(?:ever\s+)?"
    r"(?P<inner>fail to|refrain from|abstain from|avoid|omit|neglect to|decline to|refuse to|skip"
    r"|stop)\b"
    r"|\b(?:unterlasse|vermeide|versäume|verzichte)\w*\b[^.\n]{0,40}\b(?:nicht|nie|niemals|keinesfalls)\b"
    r"|\bn(?:e |')(?:manque|omet|évite|refuse|renonce)\w*\b[^.\n]{0,20}\b(?:pas|jamais)\b",
    re.IGNORECASE,
)
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
# Two entries or two words look alike by chance.
_LIST_MIN = 3
_WORDS_MIN = 3
# With its place, an excerpt fills a line of a terminal.
_SHOWN = 70


def content_errors(
    messages: Sequence[Message], response_format: Mapping[str, JSON] | None = None
) -> tuple[ContentError, ...]:
    """The errors in what messages say, in their order; each place has one at most.

    Args:
        messages: Of one prompt; those of the assistant are examples and are left out.
        response_format: With the schema that answers are to keep.
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
        every = (
            *_orders(tree, language),
            *_listed_twice(tree),
            *_cut_off(tree),
            *_against_schema(tree, schema),
            *_swapped_inputs(tree, slots),
        )
        errors += [replace(each, message=number) for each in every]
    kept: list[ContentError] = []
    for each in sorted(errors, key=lambda error: (error.message, error.start, -error.end)):
        if not kept or kept[-1].message != each.message or kept[-1].end <= each.start:
            kept.append(each)
    return tuple(kept)


def without_errors(
    messages: Sequence[Message], response_format: Mapping[str, JSON] | None = None
) -> tuple[Message, ...]:
    """The messages with every error undone that can be, and nothing else changed."""
    contents = [message.content for message in messages]
    for error in reversed(content_errors(messages, response_format)):
        if error.instead is not None:
            was = contents[error.message]
            contents[error.message] = was[: error.start] + error.instead + was[error.end :]
    return tuple(
        replace(message, content=content)
        for message, content in zip(messages, contents, strict=True)
    )


def _orders(tree: Tree, language: str) -> Iterator[ContentError]:
    for node in _sentences(tree):
        text = tree.of(node)
        quoted = _shown(text)
        if _OVERRIDE.search(text):
            yield _taken_out(
                tree, node, f"overrides the other instructions: {quoted}",
                "take it out, or say it where the rule stands that it changes",
            )  # fmt: skip
        elif twice := _TWICE_NEGATED.search(text):
            inner = twice["inner"]
            gone = text.replace(f"{inner} ", "", 1) if inner and inner.endswith("to") else None
            yield ContentError(
                message=0, start=node.start, end=node.end, instead=gone,
                text=f"negates twice: {quoted}", fix="say what to do, or what not to do",
            )  # fmt: skip
        elif _is_foreign(text, language):
            yield _taken_out(
                tree, node, f"is in another language than the rest, and models obey it: {quoted}",
                "say it in the language of the prompt, and see that nothing contradicts it",
            )  # fmt: skip


def _sentences(tree: Tree) -> Iterator[Node]:
    """Sentences that instruct, each as a whole."""
    for node in tree.nodes("sentence"):
        if not tree.is_data(node) and tree.of(node).strip():
            yield node


def _is_foreign(text: str, language: str) -> bool:
    """Return whether a sentence forbids something in another language."""
    other = guess_language(text)
    plain = len(re.findall(r"\w+", text)) >= _WORDS_MIN
    return bool(plain and language and other and other != language and is_negated(text))


def _taken_out(tree: Tree, node: Node, text: str, fix: str) -> ContentError:
    """An error that goes with its sentence, and with the line or paragraph that it fills."""
    start, end = node.start, node.end
    whole = tree.text
    first, last = whole.rfind("\n", 0, start) + 1, whole.find("\n", end)
    last = len(whole) if last < 0 else last
    if not whole[first:start].strip(" \t-*+•0123456789.)") and not whole[end:last].strip():
        before, after = whole[:first], whole[last + 1 :]
        start, end = first, min(last + 1, len(whole))
        if not before.rpartition("\n\n")[2].strip() and after.startswith("\n"):
            end += 1
        elif before.endswith("\n\n") and not after.strip():
            start -= 1
    elif whole[end:last].startswith(" "):
        end += 1
    elif whole[first:start].endswith(" "):
        start -= 1
    return ContentError(message=0, start=start, end=end, text=text, fix=fix, instead="")


def _listed_twice(tree: Tree) -> Iterator[ContentError]:
    """A part that stands there again under the same label, with other numbers."""
    text = tree.text
    entries = list(_ENTRY.finditer(text))
    for n, entry in enumerate(entries):
        earlier = [
            each
            for each in entries[:n]
            if each["indent"] == entry["indent"]
            and normalise(each["label"]) == normalise(entry["label"])
        ]
        if not earlier:
            continue
        was, now = _entry_at(text, earlier[0]), _entry_at(text, entry)
        words, its = _masked(text[slice(*now)]), _masked(text[slice(*was)])
        alike = sum((words & its).values()) * 2 >= sum(words.values())
        if alike and text[slice(*now)].strip() != text[slice(*was)].strip():
            yield ContentError(
                message=0, start=now[0], end=now[1], instead="",
                text=f"explains {entry['label'].strip()!r} twice, with other numbers",
                fix="keep the one that holds",
            )  # fmt: skip


def _entry_at(text: str, entry: re.Match[str]) -> tuple[int, int]:
    """Where an entry with all that is indented below it begins and ends."""
    end = text.find("\n", entry.start())
    while end >= 0:
        line = text[end + 1 :].partition("\n")[0]
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent <= len(entry["indent"]):
            break
        end = text.find("\n", end + 1)
    return entry.start(), len(text) if end < 0 else end + 1


def _masked(text: str) -> Counter[str]:
    return Counter(_NUMBER.sub("#", normalise(line)) for line in text.splitlines() if line.strip())


def _cut_off(tree: Tree) -> Iterator[ContentError]:
    """The last entry of a list whose other entries all end with a stop."""
    for node in tree.nodes("list"):
        entries = [tree.of(child).rstrip() for child in node.children if child.kind == "entry"]
        if len(entries) < _LIST_MIN or any("\n" in entry for entry in entries):
            continue
        last, others = entries[-1], entries[:-1]
        if all(_STOP.search(entry) for entry in others) and last[-1:].isalnum():
            start = tree.text.rindex(last, node.start, node.end)
            yield ContentError(
                message=0, start=start, end=start + len(last),
                text=f"may be cut off: {_shown(last)}", fix="write it to its end, with a full stop",
            )  # fmt: skip


def _against_schema(tree: Tree, schema: Mapping[str, Any]) -> Iterator[ContentError]:
    properties = _object(schema.get("properties"))
    if not properties:
        return
    text = tree.text
    entries = list(_KEY_ENTRY.finditer(text))
    listed = [each["key"] for each in entries]
    examples = [(match, value) for match in _OBJECT.finditer(text) if (value := _value(match[0]))]
    unknown = [
        key
        for key in listed
        if key not in properties and _in_key_list(tree, listed, key, properties)
    ]
    unknown += [
        key
        for _, value in examples
        for key in value
        if key not in properties and key not in unknown
    ]
    missing = [key for key in properties if key not in listed]
    renamed = dict(zip(unknown, missing, strict=False)) if len(unknown) == len(missing) else {}
    for entry in entries:
        if entry["key"] in unknown:
            yield _wrong_key(entry.start("key"), entry["key"], renamed)
    for match, value in examples:
        if not set(value) & (set(properties) | set(unknown)):
            continue
        for key, stated in value.items():
            at = match.start() + match[0].index(f'"{key}"') + 1
            allowed: list[Any] | None = _object(properties.get(renamed.get(key, key))).get("enum")
            if key not in properties:
                yield _wrong_key(at, key, renamed)
            elif allowed is not None and stated not in allowed:
                quoted = json.dumps(stated, ensure_ascii=False)
                place = text.find(quoted, at, match.end())
                values = ", ".join(map(str, allowed))
                yield ContentError(
                    message=0, start=max(at, place), end=max(at, place) + len(quoted),
                    text=f"the example gives {key!r} the value {quoted}, not one of the schema's",
                    fix=f"use one of {values}",
                )  # fmt: skip


def _in_key_list(
    tree: Tree, listed: Sequence[str], key: str, properties: Mapping[str, Any]
) -> bool:
    """Return whether an entry stands in one list with keys that the schema has."""
    for node in tree.nodes("list"):
        keys = [match["key"] for match in _KEY_ENTRY.finditer(tree.of(node))]
        if key in keys and listed.count(key) == 1 and any(other in properties for other in keys):
            return True
    return False


def _wrong_key(at: int, key: str, renamed: Mapping[str, str]) -> ContentError:
    right = renamed.get(key)
    return ContentError(
        message=0, start=at, end=at + len(key), instead=right,
        text=f"names the key {key!r}, which the schema does not have",
        fix=f"name it {right!r}" if right else "use the schema's keys",
    )  # fmt: skip


def _swapped_inputs(tree: Tree, slots: frozenset[str]) -> Iterator[ContentError]:
    """A placeholder between the tags of another one that the prompt has as well."""
    for match in _SLOT_IN_TAG.finditer(tree.text):
        tag, slot = match["tag"], match["slot"]
        if tag != slot and tag in slots:
            yield ContentError(
                message=0, start=match.start("slot"), end=match.end("slot"), instead=tag,
                text=f"<{tag}> holds {{{{{slot}}}}}", fix=f"put {{{{{tag}}}}} there",
            )  # fmt: skip


def _schema(response_format: Mapping[str, JSON] | None) -> dict[str, Any]:
    wrapped = _object((response_format or {}).get("json_schema"))
    return _object(wrapped.get("schema"))


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _value(text: str) -> dict[str, Any]:
    try:
        return _object(read_json(text))
    except ValueError:
        return {}


def _shown(text: str) -> str:
    plain = " ".join(text.split())
    return repr(plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 3]}...")
