"""Entries of a list that say what one word means, and say it twice."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from regauge.refine.edits import PromptText

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.refine.edits import Line

__all__ = ["Labels", "defined_twice", "label_of"]

_ENTRY = re.compile(
    r"(?P<indent>\s*)(?:[-*+•]|\d+[.)])\s+[*_`'\"]*(?P<label>[^\W\d_][\w-]*(?: [\w-]+){0,2})"
    r"[*_`'\"]*:[*_]*\s+\S"
)
# Entries that begin so define nothing, and a list may have many of them.
_NO_LABELS = frozenset({"answer", "example", "for example", "input", "note", "output"})


def label_of(line: str) -> str:
    """What an entry of a list begins with and explains, with its indent; empty where nothing.

    >>> label_of("- warning: look at it today"), label_of("- Be brief.")
    ('warning', '')
    """
    found = _ENTRY.match(line)
    if found is None or found["label"].casefold() in _NO_LABELS:
        return ""
    return f"{found['indent']}{found['label'].casefold()}"


def defined_twice(text: PromptText) -> list[tuple[Line, Line]]:
    """The entries of one section that explain the same word in other words."""
    entries: dict[tuple[int, str, str], list[Line]] = {}
    for line in text.lines:
        label = label_of(line.text)
        if label:
            entries.setdefault((line.message, line.section, label), []).append(line)
    return [
        (one, other)
        for same in entries.values()
        for one, other in combinations(same, 2)
        if one.text.split() != other.text.split()
    ]


class Labels:
    """Knows what words a release explained, each once.

    Args:
        released: Texts of earlier versions.
    """

    def __init__(self, released: Iterable[str]) -> None:
        texts = [PromptText.of(text) for text in released]
        self._lines = frozenset(line.text.strip() for text in texts for line in text.lines)
        self._several = {
            label_of(one.text).strip() for text in texts for one, _ in defined_twice(text)
        }

    def objection(self, before: PromptText, after: PromptText) -> str:
        """What comes back from a release while another meaning of the same word stays."""
        had = {line.text for line in before.lines}
        for one, other in defined_twice(after):
            back, stays = (one, other) if one.text not in had else (other, one)
            label = label_of(back.text).strip()
            if (
                back.text not in had
                and back.text.strip() in self._lines
                and stays.text.strip() not in self._lines
                and label not in self._several
            ):
                return (
                    f"it explains {label!r} once more, beside {stays.text.strip()!r}, which stays"
                )
        return ""
