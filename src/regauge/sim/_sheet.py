"""The contents of a judging prompt: criteria, and the texts to apply them to."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.sim._evidence import statements_of
from regauge.sim._text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.prompts import Message

_RE: Final = Lexicon("regauge.sim", "sheet")


Part = Literal[
    "answer", "expected", "source", "input", "text", "items", "criteria", "bands", "first",
    "second", "question", "contestants", "mapping", "task", "talk", "role", "topics", "tools",
    "score", "findings", "rest",
]  # fmt: skip

_TAGS: Final[dict[str, Part]] = {
    tag: part for part, tags in _RE.entry("tags").items() for tag in tags.split()
}

_ANY_NAME: Final = "NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One judging prompt, taken apart.

    Attributes:
        criteria: Everything that says how to judge.
        parts: The texts to judge by, by what they are.
        others: Named texts whose name says nothing known, in order.
    """

    criteria: str
    parts: Mapping[Part, str]
    others: tuple[tuple[str, str], ...] = ()

    def text(self, *names: Part) -> str:
        """The first of these parts that is there; empty when none is."""
        return next((self.parts[name] for name in names if self.parts.get(name)), "")

    @property
    def judged(self) -> str:
        """The judged text."""
        return self.text("answer", "text", "talk", "first")

    @property
    def ground(self) -> str:
        """The text to compare with: a source, else an input or any other text."""
        others = "\n".join(text for _, text in self.others)
        return joined(self.text("source")) or others or self.text("input", "task", "tools")


def _pieces(text: str) -> list[tuple[str, str]]:
    """The text in order: between tags under their name, and outside them under no name."""
    tags = list(_RE.tag.finditer(text))
    closing: dict[tuple[str, str], list[int]] = {}
    for index, tag in enumerate(tags):
        if tag["close"]:
            closing.setdefault((tag["name"], tag["mark"] or ""), []).append(index)
    pieces: list[tuple[str, str]] = []
    index = end = 0
    while index < len(tags):
        tag = tags[index]
        # A tag with attributes is closed by its bare name.
        mark = tag["mark"] or ""
        places = closing.get((tag["name"], "" if mark[:1].isspace() else mark), [])
        place = bisect_right(places, index)
        if tag["close"] or tag["name"] == _ANY_NAME or place == len(places):
            index += 1
            continue
        close = tags[places[place]]
        pieces += [("", text[end : tag.start()]), (tag["name"], text[tag.end() : close.start()])]
        index, end = places[place] + 1, close.end()
    return [*pieces, ("", text[end:])]


def _tagged(messages: Sequence[Message]) -> Sheet | None:
    parts: dict[Part, str] = {}
    others: list[tuple[str, str]] = []
    outside: list[str] = []
    for message in messages:
        for tag, body in _pieces(message.content):
            name = tag.lower()
            part = _TAGS.get(name)
            if not name:
                outside.append(body)
            elif part is None or part in parts:
                others.append((name, body))
            else:
                parts[part] = body.strip()
    if not parts.keys() & {"answer", "first", "source", "items"}:
        return None
    told = "\n".join(outside).split("\n\n")
    # How the texts are marked is no criterion to judge them by.
    criteria = "\n\n".join(text for text in told if f"<{_ANY_NAME}" not in text)
    return Sheet(criteria=criteria, parts=parts, others=tuple(others))


def _unfenced(messages: Sequence[Message]) -> tuple[str, list[tuple[int, int]]]:
    """A conversation without tags around fields, and where those fields are.

    The words that explain the tags are left out, too.
    """
    text = "\n\n".join(
        message.content
        for message in messages
        if not (message.role == "system" and f"<{_ANY_NAME}-" in message.content)
    )
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    at = length = 0
    while (tag := _RE.field_opens.search(text, at)) is not None:
        closing = f"\n</field.{tag['name']}-{tag['mark']}>"
        end = text.find(closing, tag.end())
        if end < 0:
            break
        before, inside = text[at : tag.start()], text[tag.end() : end]
        pieces += [before, inside]
        spans.append((length + len(before), length + len(before) + len(inside)))
        at, length = end + len(closing), spans[-1][1]
    return "".join([*pieces, text[at:]]), spans


def text_of(messages: Sequence[Message]) -> str:
    """The text of a conversation, without tags around the fields of a metric."""
    if any(_RE.field_opens.search(message.content) for message in messages):
        return _unfenced(messages)[0]
    return "\n\n".join(message.content for message in messages)


def _headed(messages: Sequence[Message]) -> Sheet:
    if any(_RE.field_opens.search(message.content) for message in messages):
        text, fields = _unfenced(messages)
    else:
        text, fields = "\n\n".join(message.content for message in messages), []

    def is_outside(match: re.Match[str]) -> bool:
        return not any(start <= match.start() < end for start, end in fields)

    ends = filter(is_outside, _RE.examples_end.finditer(text))
    begin = max((match.end() for match in ends), default=0)
    heads = list(filter(is_outside, _RE.heading.finditer(text, begin)))
    parts: dict[Part, str] = {}
    first = heads[0].start() if heads else len(text)
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        body = text[head.end() : end]
        tail = _RE.tail.search(body)
        body = (body[: tail.start()] if tail is not None else body).strip().strip("-").strip()
        part: Any = head.lastgroup
        if body:
            # What comes last is what is asked about; what came before is an example of it.
            parts[part] = body
    criteria = parts.pop("criteria", "")
    return Sheet(criteria=criteria or text[:first], parts=parts)


def read_sheet(messages: Sequence[Message]) -> Sheet:
    """Take a judging prompt apart, by tags where it has them, else by its headings."""
    return _tagged(messages) or _headed(messages)


def joined(text: str) -> str:
    """A text that is shown as a list of texts, put together again."""
    return "\n".join(listed(text)) if text.lstrip().startswith("[") else text


def _literal(text: str) -> Any:
    """The JSON or Python value of a text; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def listed(text: str) -> list[str]:
    r"""A list as a prompt shows one: JSON, Python, bullets, or one entry a line.

    >>> listed("['a b', 'c']"), listed("- a b\n- c")
    (['a b', 'c'], ['a b', 'c'])
    """
    body = text.strip()
    calls = _RE.tool_call.findall(body)
    if calls:
        return [" ".join(call.split()) for call in calls]
    if body.startswith(("[", "{")):
        value = _literal(body)
        if value is None:  # instructions may follow the list
            value = _literal(body.partition("\n")[0])
        if is_object(value):
            value = next((inner for inner in value.values() if is_list(inner)), [value])
        if is_list(value):
            return [
                entry if isinstance(entry, str) else json.dumps(entry, default=str)
                for entry in value
            ]
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) > 1:
        return [re.sub(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+", "", line).strip() for line in lines]
    return list(statements_of(body)) or ([body] if body else [])
