"""What an edit may not do, found without asking any model; the cheapest questions come first."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from regauge.refine.edits import (
    changed_lines,
    changed_statements,
    comparisons,
    count_words,
    lost_statements,
    units_of,
)
from regauge.refine.feedback import takes_over
from regauge.refine.guards._copies import Copies
from regauge.refine.guards._labels import Labels, defined_twice, label_of
from regauge.refine.guards._leaks import CaseText, Leaks
from regauge.refine.guards._replaced import OpenSection, SectionRules, replaces_section
from regauge.refine.guards._scope import Scope
from regauge.statements import content_words, guess_language, is_negated, normalise, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.prompts import Replaceable
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.edits import Edit, PromptText

__all__ = ["Guard", "faults_in"]

_SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
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
        self._released = [
            {normalise(tree.of(atom)) for atom in tree.atoms} for tree in map(parse, texts)
        ]
        self._policy = policy
        self._frozen = frozenset(line.strip() for line in frozen)
        self._cases = cases
        self._public = (base.whole, *public)
        self._copies = Copies(people, self._public, policy.phrase)
        self._base_said = {normalise(t.of(atom)) for t in base.trees for atom in t.atoms}

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
            or self._meaning(before, after)
            or self._leak(before, after)
        )

    def suspicion(self, before: PromptText, after: PromptText) -> str:
        """What may be wrong with an edit, as far as words tell: it needs more evidence, no veto."""
        new = [said for found in comparisons(before, after) for said in found.added]
        staying = [said for said in _instructions(after) if said not in new]
        added = [said for said in _instructions(after) if said in new]
        for one in added:
            rivals = staying
            if self._was_released(one):  # it stood beside others that a release had
                rivals = [other for other in staying if not self._was_released(other)]
            clash = next((other for other in rivals if _contradicts(one, other)), None)
            if clash is not None:
                return f"{one!r} may contradict {clash!r}, which stays"
        clashes = (
            (one, other) for one, other in combinations(added, 2) if _contradicts(one, other)
        )
        return next((f"{one!r} may contradict {other!r}" for one, other in clashes), "")

    def open_sections(self, text: PromptText) -> tuple[OpenSection, ...]:
        """The sections of a text that an edit may replace as a whole."""
        return self._sections.open_in(text)

    def named_in(self, added: str) -> frozenset[str]:
        """The ids of the cases that new text speaks of, and of no others."""
        return self._scope.named(added)

    def leaks_in(self, text: PromptText) -> str:
        """What a whole text gives away that the prompt did not when the run began."""
        added, _ = changed_statements(self._base, text)
        return self._leaks.found(added)

    def _size(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        policy = self._policy
        if after.shape == before.shape:
            return "it changes nothing"
        units = units_of(before, after)
        whole = replaces_section(edit) or self._puts_back(before, after)
        if len(units) > policy.ops and not whole:
            return f"it makes {len(units)} changes, more than {policy.ops}"
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
        """The words of statements that a release had and that come back."""
        added = (said for found in comparisons(before, after) for said in found.added)
        return sum(count_words(said) for said in added if self._was_released(said))

    def _puts_back(self, before: PromptText, after: PromptText) -> bool:
        """Whether all that comes was in one release, and all that goes was not."""
        found = comparisons(before, after)
        come = {normalise(said) for one in found for said in one.added}
        gone = {normalise(said) for one in found for said in one.removed}
        return bool(come) and any(
            come <= version and not gone & version for version in self._released
        )

    def _was_released(self, said: str) -> bool:
        return any(normalise(said) in version for version in self._released)

    def _invariants(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        if _slots(after) != _slots(before):
            return "it changes which inputs the prompt takes"
        kept = {normalise(tree.of(atom)) for tree in after.trees for atom in tree.atoms}
        for line in sorted(self._frozen):
            tree = parse(line)
            if any(normalise(tree.of(atom)) not in kept for atom in tree.atoms):
                return f"it changes a line that is frozen: {line!r}"
        misled = [said for found in comparisons(before, after) for said in found.misled]
        if misled:
            return f"it takes out the step that {misled[0]!r} refers to"
        lost = [
            said for said in lost_statements(before, after) if normalise(said) in self._base_said
        ]
        many = len(lost) > self._policy.deletions
        if many and not replaces_section(edit) and not self._puts_back(before, after):
            return f"it takes {len(lost)} statements out, more than {self._policy.deletions}"
        return ""

    def _meaning(self, before: PromptText, after: PromptText) -> str:
        added, _ = changed_lines(before, after)
        if takes_over(added):
            return "it speaks to the model in another's name"
        return self._labels.objection(before, after)

    def _leak(self, before: PromptText, after: PromptText) -> str:
        added, _ = changed_statements(before, after)
        leak = self._leaks.found(added)
        if leak:
            return f"it gives a case away: {leak}"
        copied = self._copies.found(added)
        return f"it takes a person's words into the prompt: {copied!r}" if copied else ""


def faults_in(text: PromptText) -> list[str]:
    """What a prompt says twice, or says and forbids, as far as its words tell plainly."""
    said = _instructions(text)
    found = [
        f"{one!r} stands there twice"
        for one, times in Counter(said).items()
        if times > 1 and content_words(one)
    ]
    found += [
        f"{other!r} may contradict {one!r}"
        for one, other in combinations(dict.fromkeys(said), 2)
        if _contradicts(one, other) and len(content_words(one) & content_words(other)) >= _PLAINLY
    ]
    found += [
        f"{label_of(one.text).strip()!r} is explained twice: {one.text.strip()!r} and"
        f" {other.text.strip()!r}"
        for one, other in defined_twice(text)
    ]
    if said and not guess_language("\n".join(said)):
        found.append("its language is unknown here, so contradictions in it were not looked for")
    return found


def _instructions(text: PromptText) -> list[str]:
    """The statements of a prompt that instruct: no examples, no data, no inputs."""
    return [tree.of(one) for tree in text.trees for one in tree.statements]


def _slots(text: PromptText) -> list[frozenset[str]]:
    return [frozenset(_SLOT.findall(message.content)) for message in text.messages]


def _contradicts(one: str, other: str) -> bool:
    """Whether one statement forbids what the other asks for, as far as their words tell."""
    negated = is_negated(one), is_negated(other)
    if None in negated or negated[0] == negated[1]:
        return False
    mine, its = content_words(one), content_words(other)
    least = min(len(mine), len(its))
    return least > 1 and len(mine & its) >= _SAME_SUBJECT * len(mine | its)
