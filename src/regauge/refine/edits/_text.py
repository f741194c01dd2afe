"""The text of a prompt as lines with places: what edits act on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from regauge.digests import digest_of
from regauge.prompts import Message

__all__ = ["Line", "LineKind", "PromptText", "after_marker", "content_words", "count_words", "stem"]

LineKind = Literal["blank", "heading", "rule", "text"]

_HEADING = re.compile(r"#{1,6}\s|</?[A-Za-z][\w-]*>\s*$|\S[^\n]*:\s*$")
_CLOSING = re.compile(r"</")
_RULE = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_TOKEN = re.compile(r"\w+|[^\w\s]")
# Words that say nothing about what a line is about.
_COMMON = frozenset({
    "a", "an", "all", "always", "and", "any", "are", "as", "at", "be", "but", "by", "can", "do",
    "each", "either", "every", "for", "from", "give", "has", "have", "if", "in", "include",
    "into", "is", "it", "its", "more", "must", "never", "no", "not", "of", "on", "one", "only",
    "or", "other", "out", "please", "should", "so", "some", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "to", "use", "was", "what", "when",
    "where", "which", "will", "with", "without", "write", "you", "your",
})  # fmt: skip


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


def content_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, without endings such as a plural's.

    >>> sorted(content_words("Write every timestamp in `UTC`; timestamps end in Z."))
    ['end', 'timestamp', 'utc', 'z']
    """
    return frozenset(
        stem(word) for found in _WORD.findall(text) if (word := found.lower()) not in _COMMON
    )


def stem(word: str) -> str:
    """A word without its commonest endings; crude, and the same for both sides of a comparison."""
    # The plural's first, so that "greetings" and "greeting" end up the same.
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 - a stem
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    # "value" has to meet "values", and "close" "closed".
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004 - a stem


def after_marker(text: str) -> int:
    """Where the words of a rule begin, behind its bullet or number; 0 where it has neither.

    >>> after_marker("- Be brief."), after_marker("Be brief.")
    (2, 0)
    """
    marker = _RULE.match(text)
    return marker.end() if marker else 0


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
    if after_marker(text):
        return "rule"
    return "heading" if _HEADING.match(text) else "text"
