"""The text of a prompt as lines with places: what edits act on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from regauge.digests import digest_of
from regauge.prompts import Message
from regauge.statements import Tree, parse

__all__ = ["Line", "LineKind", "PromptText", "count_words"]

LineKind = Literal["blank", "heading", "rule", "text"]

_HEADING = re.compile(r"#{1,6}\s|</?[A-Za-z][\w-]*>\s*$|\S[^\n]*:\s*$")
_CLOSING = re.compile(r"</")
_RULE = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of one message.

    Attributes:
        message: Which message, from 0.
        number: Which line of it, from 0.
        section: The heading above it; empty where there is none.
        occurrence: How many equal lines stand above it in the same message.
    """

    message: int
    number: int
    text: str
    section: str
    occurrence: int
    kind: LineKind


@dataclass(frozen=True, kw_only=True)
class PromptText:
    """The messages of a prompt, to be edited line by line."""

    messages: tuple[Message, ...]

    @classmethod
    def of(cls, *contents: str) -> PromptText:
        """A system message, with further messages of the user where there are any."""
        return cls(
            messages=tuple(
                Message(role="user" if index else "system", content=content)
                for index, content in enumerate(contents)
            )
        )

    @cached_property
    def digest(self) -> str:
        """Over every character of it."""
        return digest_of([[message.role, message.content] for message in self.messages])

    @cached_property
    def shape(self) -> str:
        """The digest without regard to white space: what counts as the same text."""
        return digest_of(
            [[message.role, " ".join(message.content.split())] for message in self.messages]
        )

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Every line, in order."""
        return tuple(
            line for index, message in enumerate(self.messages) for line in _lines(index, message)
        )

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The statements of each message."""
        return tuple(parse(message.content) for message in self.messages)

    def with_content(self, index: int, content: str) -> PromptText:
        """The text with another content of one message."""
        messages = list(self.messages)
        messages[index] = replace(messages[index], content=content)
        return PromptText(messages=tuple(messages))

    @cached_property
    def size(self) -> int:
        """Words and marks, as a stand-in for tokens."""
        return sum(count_words(message.content) for message in self.messages)

    @property
    def whole(self) -> str:
        """All messages in one text."""
        return "\n".join(message.content for message in self.messages)


def count_words(text: str) -> int:
    """How many words and marks a text has.

    >>> count_words("at most 3 entries.")
    5
    """
    return len(_TOKEN.findall(text))


def _lines(index: int, message: Message) -> list[Line]:
    lines: list[Line] = []
    section = ""
    met: dict[str, int] = {}
    for number, text in enumerate(message.content.split("\n")):
        kind = _kind(text)
        if kind == "heading":
            section = "" if _CLOSING.match(text) else text.strip()
        lines.append(
            Line(
                message=index,
                number=number,
                text=text,
                section="" if kind == "heading" else section,
                occurrence=met.get(text, 0),
                kind=kind,
            )
        )
        met[text] = met.get(text, 0) + 1
    return lines


def _kind(text: str) -> LineKind:
    if not text.strip():
        return "blank"
    if _RULE.match(text):
        return "rule"
    return "heading" if _HEADING.match(text) else "text"
