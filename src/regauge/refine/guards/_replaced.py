"""What holds for sections that are replaced as a whole, and for those that may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.prompts import SectionError
from regauge.refine.edits import ReplaceSection, count_words, section_at, section_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts import Replaceable
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.edits import Edit, PromptText

__all__ = ["OpenSection", "SectionRules", "replaces_section"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSection:
    """A section that may be replaced, where it stands now.

    Attributes:
        heading: The line that begins it.
        message: The number of its message, from 0.
        first: The number of its first line in there, from 1.
        last: The number of its last line.
        words_max: The most words and marks it may come to have.
    """

    heading: str
    message: int
    first: int
    last: int
    words_max: int


def replaces_section(edit: Edit) -> bool:
    """Whether an edit is of a whole section."""
    return any(isinstance(op, ReplaceSection) for op in edit.ops)


class SectionRules:
    """Knows which sections may be replaced, and by how much.

    Args:
        base: The prompt as it was when the run began.
        marks: What its author marked.
        policy: How far a section may grow and shrink.
    """

    def __init__(self, base: PromptText, marks: Sequence[Replaceable], policy: GuardPolicy) -> None:
        self._marks = marks
        self._policy = policy
        self._words = {mark: _words(base, mark) for mark in marks}

    def open_in(self, text: PromptText) -> tuple[OpenSection, ...]:
        """The sections of a text that may be replaced, in the order of their marks."""
        found: list[OpenSection] = []
        for mark in self._marks:
            try:
                index, place = mark.found_in(text.messages)
            except SectionError:
                continue
            found.append(
                OpenSection(
                    heading=mark.section,
                    message=index,
                    first=place.first + 1,
                    last=place.end,
                    words_max=self._most(mark),
                )
            )
        return tuple(found)

    def objection(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        """Why an edit is not to be tried, as far as sections go; empty where nothing speaks so."""
        had, has = self.open_in(before), self.open_in(after)
        gone = [one.heading for one in had if one.heading not in {other.heading for other in has}]
        if gone:
            return f"it takes away {gone[0]!r}, which begins a section that may be replaced"
        return next(
            (said for op in edit.ops if (said := self._of(op, before))), ""
        ) or self._outgrown(before, after)

    def _outgrown(self, before: PromptText, after: PromptText) -> str:
        """A section that any edit makes longer than its author lets it become."""
        for mark in self._marks:
            words = _words(after, mark)
            if mark.words is not None and words > max(mark.words, _words(before, mark)):
                said = f"the section {mark.section!r} would have {words} words"
                return f"{said}, more than {mark.words}"
        return ""

    def _of(self, op: object, before: PromptText) -> str:
        if not isinstance(op, ReplaceSection):
            return ""
        index, place = section_at(before, op.anchor)
        heading = op.anchor.line.strip()
        mark = next((mark for mark in self._marks if self._is(mark, heading, index, before)), None)
        if mark is None:
            return f"the section {heading!r} is not marked as replaceable"
        words, most = count_words(op.text), self._most(mark)
        if words > most:
            return f"the section {heading!r} would have {words} words, more than {most}"
        least = (1 - self._policy.section_shrink) * count_words(section_text(before, index, place))
        if words < least:
            return f"the section {heading!r} would have {words} words, fewer than {least:.0f}"
        return ""

    def _is(self, mark: Replaceable, heading: str, index: int, text: PromptText) -> bool:
        if mark.section != heading:
            return False
        try:
            return mark.found_in(text.messages)[0] == index
        except SectionError:
            return False

    def _most(self, mark: Replaceable) -> int:
        if mark.words is not None:
            return mark.words
        policy = self._policy
        return int((1 + policy.section_growth) * self._words[mark] + policy.section_words)


def _words(text: PromptText, mark: Replaceable) -> int:
    try:
        return count_words(section_text(text, *mark.found_in(text.messages)))
    except SectionError:
        return 0
