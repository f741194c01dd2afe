"""The line of pyproject.toml that a setting stands on."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["line_of"]


def line_of(text: str, where: Sequence[int | str]) -> int | None:
    r"""The line of a setting's key; that of its table where the key is not there.

    Args:
        text: The file.
        where: The setting's path below `[tool.regauge]`; a number is a place in a list of tables.

    >>> goals = "[[refine.goals]]\ntag = 1\n[[refine.goals]]\njudge = 2\ntag = 3"
    >>> line_of(goals, ("refine", "goals", 1, "tag"))
    5
    >>> line_of(goals, ("refine", "goals", 0, "judge"))
    1
    """
    lines = text.splitlines()
    key = next(str(part) for part in reversed(where) if isinstance(part, str))
    begins = re.compile(rf"\s*(\[.*\b{re.escape(key)}\b.*\]|\"?{re.escape(key)}\"?\s*=)")
    header, end = _table(lines, where)
    found = (n for n in range(header or 0, end) if begins.match(lines[n]))
    line = next(found, header)
    return None if line is None else line + 1


def _table(lines: Sequence[str], where: Sequence[int | str]) -> tuple[int | None, int]:
    """The first line of a table in a list of tables, and the line after its last."""
    for name, place in pairwise(where):
        if isinstance(place, int):
            heads = re.compile(rf"\s*\[\[.*\b{re.escape(str(name))}\"?\s*\]\]")
            headers = [n for n, line in enumerate(lines) if heads.match(line)]
            if place < len(headers):
                start = headers[place]
                rest = range(start + 1, len(lines))
                return start, next(
                    (n for n in rest if lines[n].lstrip().startswith("[")), len(lines)
                )
    return None, len(lines)
