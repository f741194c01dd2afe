"""Sections of a message: what stands below a heading, or between two tags."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regauge.errors import RegaugeError

__all__ = [
    "Section",
    "SectionError",
    "begins_section",
    "headings",
    "section_below",
]

_HEADING = re.compile(r"(?P<marks>#{1,6})\s+\S")
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]*)>")
_FENCE = re.compile(r"(?:`{3,}|~{3,})")


class SectionError(RegaugeError):
    """A text does not begin one section of a message, and one only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Where the text of a section stands in its message, without blank lines around it.

    Attributes:
        heading: The number of the line that begins it, from 0.
        first: The number of its first line.
        end: The number after that of its last line.
    """

    heading: int
    first: int
    end: int


def section_below(content: str, heading: str) -> Section:
    r"""The section of a message that a line begins.

    Below a Markdown heading it goes on to the next heading that is not deeper, below a line that
    ends with a colon to the next blank line, and between two tags to the closing one.

    >>> section_below("# Labels\n\n- now\n- later\n\n# Form\nJSON.", "# Labels")
    Section(heading=0, first=2, end=4)

    Raises:
        SectionError: There is no such line, there are several, or nothing stands below it.
    """
    found = headings(content, heading)
    if len(found) != 1:
        times = "no line says" if not found else f"{len(found)} lines say"
        raise SectionError(f"{times} {heading!r}")
    (at,) = found
    lines = content.split("\n")
    first, end = at + 1, _end(lines, at)
    while first < end and not lines[first].strip():
        first += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    if first == end:
        raise SectionError(f"nothing stands below {heading!r}")
    return Section(heading=at, first=first, end=end)


def headings(content: str, heading: str) -> list[int]:
    """The lines that say what begins a section; none inside a code block counts."""
    wanted = heading.strip()
    if not begins_section(wanted):
        return []
    lines = content.split("\n")
    fenced = _fenced(lines)
    return [n for n, line in enumerate(lines) if line.strip() == wanted and not fenced[n]]


def begins_section(line: str) -> bool:
    """Whether a line may begin a section, as far as its form tells."""
    return bool(_HEADING.match(line) or _TAG.fullmatch(line) or line.endswith(":"))


def _end(lines: list[str], at: int) -> int:
    """The number of the line that is no longer of the section which a line begins."""
    heading = lines[at].strip()
    marks, tag = _HEADING.match(heading), _TAG.fullmatch(heading)
    fenced = _fenced(lines)
    if tag is not None:
        closing = f"</{tag['name']}>"
        end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == closing), None)
        if end is None:
            raise SectionError(f"no line below {heading!r} says {closing!r}")
        return end
    for number in range(at + 1, len(lines)):
        line = lines[number].strip()
        if marks is None and not line:
            return number
        if fenced[number] or marks is None:
            continue
        other = _HEADING.match(line)
        if other is not None and len(other["marks"]) <= len(marks["marks"]):
            return number
    return len(lines)


def _fenced(lines: list[str]) -> list[bool]:
    """Which lines stand in a code block, its fences among them."""
    found: list[bool] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line.strip())
        found.append(bool(fence or mark))
        if not fence and mark is not None:
            fence = mark[0]
        elif fence and mark is not None and line.strip() == mark[0] and mark[0].startswith(fence):
            fence = ""
    return found
