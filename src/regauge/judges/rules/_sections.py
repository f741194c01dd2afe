"""Markdown: headings and the sections below them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["has_sections"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_BOLD = re.compile(r" {0,3}(?:\*\*|__)([^*_]+?)(?:\*\*|__)[ \t]*:?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_MARKS = re.compile(r"[*_`]|^\s*\d+[.)]\s+")


@dataclass(slots=True)
class Section:
    """A heading with what stands below it, up to the next of its level or above."""

    title: str
    level: int
    lines: list[str]

    @property
    def filled(self) -> bool:
        """Whether anything but white space stands below the heading."""
        return any(line.strip() for line in self.lines)


def _headings(text: str, *, bold: bool) -> Iterator[tuple[str, int, str]]:
    """Every line with its heading level (0 for none) and title; -1 -2 name the line before."""
    fence, previous = "", ""
    for line in text.splitlines():
        level, title = 0, ""
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        elif atx := _ATX.match(line):
            level, title = len(atx[1]), atx[2] or ""
        elif bold and (strong := _BOLD.match(line)):
            level, title = 7, strong[1]
        elif previous.strip() and (under := _UNDERLINE.match(line)):
            level, title = (-1 if under[1][0] == "=" else -2), previous
        previous = "" if fence or level else line
        yield line, level, title


def sections_of(text: str, *, bold: bool = False) -> list[Section]:
    r"""The sections of a Markdown text, in order; headings in code fences are none.

    >>> [(part.level, part.title) for part in sections_of("# A\n## B\ntext")]
    [(1, 'A'), (2, 'B')]
    """
    found: list[Section] = []
    open_: list[Section] = []
    for line, level, title in _headings(text, bold=bold):
        if level == 0:
            for section in open_:
                section.lines.append(line)
            continue
        if level < 0:  # the title stands on the line before, which went into the sections
            for section in open_:
                section.lines.pop()
        open_ = [section for section in open_ if section.level < abs(level)]
        for section in open_:
            section.lines.append(line)
        open_.append(Section(title.strip(), abs(level), []))
        found.append(open_[-1])
    return found


def _plain(title: str) -> str:
    return " ".join(_MARKS.sub("", title).split()).removesuffix(":").rstrip().casefold()


@rule(codes=("missing_section", "empty_section", "section_order"))
def has_sections(
    *titles: str,
    level: int | None = None,
    ordered: bool = False,
    filled: bool = True,
    bold: bool = False,
    field: str | None = None,
) -> Check:
    r"""The answer is Markdown with these sections.

    Titles are compared without case, emphasis, numbering and a colon at the end. The score is the
    share of titles that are there.

    Args:
        titles: The headings that must be there.
        level: Only headings of this level count, from 1 to 6.
        ordered: They must come in this order.
        filled: Something must stand below each.
        bold: A line that is bold as a whole counts as a heading too.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(has_sections("Meaning", "Impact").check_text("## Meaning\nThe disk is full."))
    fail (0.50): no section 'Impact'
    """
    if not titles:
        raise UsageError("has_sections: name at least one section")
    if level is not None and level not in range(1, 7):
        raise UsageError(f"has_sections: a level is a number from 1 to 6, not {level!r}")
    wanted = [(title, _plain(title)) for title in titles]

    def check(text: str) -> Verdict:
        places: dict[str, int] = {}
        empty: set[str] = set()
        for place, section in enumerate(sections_of(text, bold=bold)):
            if level is not None and section.level != level:
                continue
            title = _plain(section.title)
            if title not in places or title in empty:
                places[title] = place
                (empty.discard if section.filled else empty.add)(title)
        missing = [title for title, key in wanted if key not in places]
        if missing:
            return failed(
                f"no section {listed(missing)}",
                code="missing_section",
                score=1 - len(missing) / len(wanted),
                expected=titles,
                actual=[part.title for part in sections_of(text, bold=bold)][:20],
                details={"missing": missing},
            )
        bare = [title for title, key in wanted if key in empty]
        if filled and bare:
            return failed(
                f"nothing stands below {listed(bare)}",
                code="empty_section",
                score=1 - len(bare) / len(wanted),
                details={"empty": bare},
            )
        order = [places[key] for _, key in wanted]
        if ordered and order != sorted(order):
            actual = [title for _, title in sorted(zip(order, titles, strict=True))]
            return failed(
                f"the order is {listed(actual)}",
                code="section_order",
                expected=titles,
                actual=actual,
            )
        return passed(f"has {listed(titles)}")

    return on_text(field, check)
