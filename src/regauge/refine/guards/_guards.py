"""What an edit may not do, found without asking any model; the cheapest questions come first."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from regauge.refine.edits import content_words, count_words, said_in
from regauge.refine.guards._copies import Copies
from regauge.refine.guards._labels import Labels, defined_twice, label_of
from regauge.refine.guards._leaks import CaseText, Leaks
from regauge.refine.guards._replaced import OpenSection, SectionRules, replaces_section
from regauge.refine.guards._scope import Scope
from regauge.refine.memory import changed_lines
from regauge.refine.people import takes_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.prompts import Replaceable
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.edits import Edit, PromptText

__all__ = ["Guard", "faults_in"]

_SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_NEGATED = re.compile(
    r"\b(?:never|no|not|don't|do not|without|skip|avoid|omit|forbid\w*)\b", re.IGNORECASE
)
_SAME_SUBJECT = 0.5
# With fewer words in common, two lines may speak of different things.
_PLAINLY = 3


class Guard:
    """The rules that every edit must keep.

    Args:
        base: The prompt as it was when the run began.
        cases: Of train and holdout.
        public: What may be said besides the prompt itself: what checks want, older versions.
        policy: How far an edit may go.
        frozen: Lines that must stay as they are.
        released: Texts of earlier versions: lines that stood there may come back, however many
            they are, and do not contradict each other.
        replaceable: The sections that an edit may replace as a whole.
        people: What people said of answers; an edit says it in words of its own.
    """

    def __init__(
        self,
        base: PromptText,
        cases: Sequence[CaseText],
        public: Iterable[str],
        policy: GuardPolicy,
        *,
        frozen: Sequence[str] = (),
        released: Iterable[str] = (),
        replaceable: Sequence[Replaceable] = (),
        people: Sequence[str] = (),
    ) -> None:
        self._base = base
        self._sections = SectionRules(base, replaceable, policy)
        texts = tuple(released)
        self._labels = Labels(texts)
        self._released = frozenset(
            line.strip() for text in texts for line in text.split("\n") if line.strip()
        )
        self._policy = policy
        self._frozen = frozenset(line.strip() for line in frozen)
        self._cases = cases
        self._public = (base.whole, *public)
        self._copies = Copies(people, self._public, policy.phrase)
        self._base_lines = frozenset(line.text for line in base.lines if line.text.strip())

    @cached_property
    def _leaks(self) -> Leaks:
        """Read once something is proposed: for a prompt that is sound, all cases are left alone."""
        return Leaks(self._cases, self._public, self._policy)

    @cached_property
    def _scope(self) -> Scope:
        return Scope(self._cases, self._public)

    def objection(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        """Why an edit is not to be tried, in words; empty where nothing speaks against it."""
        return (
            self._sections.objection(edit, before, after)
            or self._size(edit, before, after)
            or self._invariants(edit, before, after)
            or self._meaning(edit, before, after)
            or self._leak(before, after)
        )

    def open_sections(self, text: PromptText) -> tuple[OpenSection, ...]:
        """The sections of a text that an edit may replace as a whole."""
        return self._sections.open_in(text)

    def named_in(self, added: str) -> frozenset[str]:
        """The ids of the cases that new text speaks of, and of no others."""
        return self._scope.named(added)

    def leaks_in(self, text: PromptText) -> str:
        """What a whole text gives away that the prompt did not when the run began."""
        added, _ = changed_lines(self._base, text)
        return self._leaks.found(added)

    def _size(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        policy = self._policy
        if after.shape == before.shape:
            return "it changes nothing"
        if len(edit.ops) > policy.ops and not self._puts_back(before, after):
            return f"it has {len(edit.ops)} operations, more than {policy.ops}"
        grown = after.size - before.size - self._put_back(before, after)
        allowed = policy.growth * self._base.size + policy.growth_words
        # A section has limits of its own.
        if grown > allowed and not replaces_section(edit):
            return f"it adds {grown} words, more than {allowed:.0f}"
        limit = (1 + policy.growth_hard) * self._base.size + policy.growth_words
        size = after.size - self._put_back(self._base, after)
        if size > limit:
            return f"the prompt would have {size} words, more than {limit:.0f}"
        return ""

    def _put_back(self, before: PromptText, after: PromptText) -> int:
        """The words of lines that a release had and that come back."""
        added, _ = changed_lines(before, after)
        return sum(
            count_words(line) for line in added.split("\n") if line.strip() in self._released
        )

    def _puts_back(self, before: PromptText, after: PromptText) -> bool:
        """Whether what goes stands in sections that may be replaced, and a release had the rest."""
        added, lost = changed_lines(before, after)
        gone = set(lost.split("\n"))
        return (
            bool(added.strip() and lost.strip())
            and all(line.strip() in self._released for line in added.split("\n") if line.strip())
            and all(
                any(
                    one.message == line.message and one.first <= line.number + 1 <= one.last
                    for one in self.open_sections(before)
                )
                for line in before.lines
                if line.text.strip() and line.text in gone
            )
        )

    def _invariants(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        if _slots(after) != _slots(before):
            return "it changes which inputs the prompt takes"
        kept = {line.text.strip() for line in after.lines}
        lost_frozen = [line for line in self._frozen if line not in kept]
        if lost_frozen:
            return f"it changes a line that is frozen: {lost_frozen[0]!r}"
        stays = {line.text for line in after.lines}
        was = {line.text for line in before.lines}
        lost = [line for line in self._base_lines if line in was and line not in stays]
        many = len(lost) > self._policy.deletions
        if many and not replaces_section(edit) and not self._puts_back(before, after):
            return f"it takes {len(lost)} lines out, more than {self._policy.deletions}"
        return ""

    def _meaning(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        added, _ = changed_lines(before, after)
        if takes_over(added):
            return "it speaks to the model in another's name"
        new = [line for line in added.splitlines() if line.strip()]
        staying = [line.text for line in after.lines if line.text not in new]
        had = {said for line in before.lines for said in said_in(line.text)}
        for line in new:
            rivals = staying
            if line.strip() in self._released:  # it stood beside others that a release had
                rivals = [other for other in staying if other.strip() not in self._released]
            clash = next(
                (
                    said
                    for other in rivals
                    for said in said_in(other)
                    if any(_contradicts(mine, said) for mine in said_in(line) if mine not in had)
                ),
                None,
            )
            if clash is not None:
                return f"it contradicts {clash.strip()!r}, which stays"
        return self._labels.objection(before, after) or self._sections.contradiction(
            edit, _plainly_contradicts
        )

    def _leak(self, before: PromptText, after: PromptText) -> str:
        added, _ = changed_lines(before, after)
        leak = self._leaks.found(added)
        if leak:
            return f"it gives a case away: {leak}"
        copied = self._copies.found(added)
        return f"it takes a person's words into the prompt: {copied!r}" if copied else ""


def faults_in(text: PromptText) -> list[str]:
    """What a prompt says twice, or says and forbids, as far as its words tell plainly."""
    lines = [line for line in text.lines if line.kind in {"rule", "text"}]
    found = [f"{line.text.strip()!r} stands there twice" for line in lines if line.occurrence == 1]
    found += [
        f"{other.text.strip()!r} may contradict {one.text.strip()!r}"
        for one, other in combinations(lines, 2)
        if _plainly_contradicts(one.text, other.text)
    ]
    found += [
        f"{label_of(one.text).strip()!r} is explained twice: {one.text.strip()!r} and"
        f" {other.text.strip()!r}"
        for one, other in defined_twice(text)
    ]
    return found


def _plainly_contradicts(one: str, other: str) -> bool:
    return _contradicts(one, other) and len(content_words(one) & content_words(other)) >= _PLAINLY


def _slots(text: PromptText) -> list[frozenset[str]]:
    return [frozenset(_SLOT.findall(message.content)) for message in text.messages]


def _contradicts(one: str, other: str) -> bool:
    """Whether one line forbids what the other asks for, as far as their words tell."""
    if bool(_NEGATED.search(one)) == bool(_NEGATED.search(other)):
        return False
    mine, its = content_words(_NEGATED.sub("", one)), content_words(_NEGATED.sub("", other))
    least = min(len(mine), len(its))
    return least > 1 and len(mine & its) >= _SAME_SUBJECT * len(mine | its)
