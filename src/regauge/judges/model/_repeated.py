"""Tells what a reply states from what it merely repeats of the judged texts."""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Repeated"]

_WORDS_MIN: Final = 3
# A shorter text stands in a reply by chance.
_ECHO_MIN: Final = 20
# Spaces, marks of Markdown, and the characters of Unicode that format and are not seen.
_UNSEEN: Final = re.compile(
    r"[\s*_`\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u180b-\u180e\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e01ef]+"
)


class Repeated:
    """The judged texts, in the form in which repetitions of them are recognised.

    Args:
        texts: The judged texts.
        labels: The words that a verdict may be.
    """

    def __init__(self, texts: Collection[str], *, labels: Collection[str]) -> None:
        self._given = texts
        self._labels = {_plain(label) for label in labels}

    def blanked(self, reply: str) -> str:
        """A reply with blanks where it repeats a whole text, so that places stay what they are."""
        long = {text.strip() for text in self._given if len(text.strip()) >= _ECHO_MIN}
        for text in sorted(long, key=len, reverse=True):
            reply = reply.replace(text, " " * len(text))
        return reply

    def holds(self, words: str) -> bool:
        """Whether words stand in a judged text, however they are spaced, cased or marked."""
        plain = _plain(words)
        if len(plain) < _WORDS_MIN or _bare(words) in self._labels:
            # A lone word occurs in many texts; only a line of its own looks like a verdict.
            return _bare(words) in self._lines
        return any(plain in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        return [_plain(text) for text in self._given]

    @cached_property
    def _lines(self) -> set[str]:
        return {_bare(line) for text in self._given for line in text.splitlines()}


def _plain(text: str) -> str:
    """What a reader sees of a text, less its spaces, its case and its marks."""
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _UNSEEN.sub("", folded).casefold()


def _bare(line: str) -> str:
    return _plain(line).strip(">#-.!\"'")
