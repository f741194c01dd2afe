"""Guards against harmful edits, without model calls; the cheapest come first."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from regauge.prompts import SectionError
from regauge.refine.changes import (
    changed_lines,
    comparisons,
    lost_statements,
    new_statements,
    units_of,
)
from regauge.refine.edits import PromptText, ReplaceSection, count_words, section_at, section_text
from regauge.refine.feedback import takes_over
from regauge.refine.leaks import CaseText, Leaks
from regauge.statements import content_words, guess_language, is_negated, normalise, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regauge.prompts import Replaceable
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.edits import Edit

_LABEL = re.compile(r"[*_`'\"]*([^\W\d_][\w-]*(?: [\w-]+){0,2})[*_`'\"]*:[*_]*\s+\S")
# Entries that begin so define nothing, and a list may have many of them.
_NO_LABELS = frozenset({"answer", "example", "for example", "input", "note", "output"})


def explained_twice(text: PromptText) -> list[str]:
    """The words that one list explains more than once, each in other words."""
    explained: dict[tuple[int, str], dict[str, str]] = {}
    for tree in text.trees:
        for entry in tree.nodes("entry"):
            said = tree.of(entry).split("\n", 1)[0].strip()
            match = _LABEL.match(said.lstrip("-*+•0123456789.) "))
            if match and match[1].casefold() not in _NO_LABELS:
                key = (id(tree.parent(entry)), match[1].casefold())
                explained.setdefault(key, {})[normalise(said)] = said
    return [
        f"{label!r} is explained twice: {' and '.join(map(repr, said.values()))}"
        for (_, label), said in explained.items()
        if len(said) > 1
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSection:
    """A section that may be replaced, where it stands now.

    Attributes:
        heading: The line that begins it.
        first: The number of its first line in there, from 1.
        words_max: The most words and marks it may come to have.
    """

    heading: str
    message: int
    first: int
    last: int
    words_max: int


def replaces_section(edit: Edit) -> bool:
    """Return whether an edit is of a whole section."""
    return any(isinstance(op, ReplaceSection) for op in edit.ops)


def _words(text: PromptText, mark: Replaceable) -> int:
    try:
        return count_words(section_text(text, *mark.found_in(text.messages)))
    except SectionError:
        return 0


_WORD_RUN = re.compile(r"[\w'-]+")
# So many words that mean something, in one order, are no one else's.
_TELLING = 3
_SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
# Of the words of both; a suspicion asks for more evidence and refuses nothing, so it may be low.
_SAME_SUBJECT = 0.5
# With fewer words in common, two lines may speak of different things.
_PLAINLY = 3


@dataclass(eq=False)
class Guard:
    """The rules that every edit must keep.

    Attributes:
        public: What may be said besides the prompt itself: what checks want, older versions.
        frozen: Lines that must stay as they are.
        released: Texts of earlier versions: lines that stood there may come back, however many
            they are, and do not contradict each other.
        replaceable: The sections that an edit may replace as a whole.
        people: What people said of answers; an edit says it in words of its own.
    """

    base: PromptText
    cases: Sequence[CaseText]
    public: Iterable[str]
    policy: GuardPolicy
    frozen: Sequence[str] = field(default=(), kw_only=True)
    released: Iterable[str] = field(default=(), kw_only=True)
    replaceable: Sequence[Replaceable] = field(default=(), kw_only=True)
    people: Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        self._public = (self.base.whole, *self.public)
        self._released = [
            {normalise(tree.of(atom)) for atom in tree.atoms} for tree in map(parse, self.released)
        ]
        self._base_said = {normalise(t.of(atom)) for t in self.base.trees for atom in t.atoms}

    # What follows is read once something is proposed: a sound prompt needs none of it.

    @cached_property
    def _leaks(self) -> Leaks:
        return Leaks(self.cases, self._public, self.policy)

    @cached_property
    def _copies(self) -> set[str]:
        """Runs of words that people said and no one else does."""
        if not self.people:
            return set()
        public = {run for text in self._public for run in self._runs(text)}
        return {run for text in self.people for run in self._runs(text)} - public

    @cached_property
    def _case_words(self) -> dict[str, frozenset[str]]:
        """The words of each case's input that tell it apart: no public ones, not of most cases."""
        words = {case.id: content_words("\n".join(case.texts)) for case in self.cases}
        held = Counter(word for its in words.values() for word in its)
        public = content_words("\n".join(self._public))
        public |= {word for word, number in held.items() if 2 * number > len(self.cases)}
        return {case: its - public for case, its in words.items()}

    def objection(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        """The objection to an edit, in words; empty without one."""
        return (
            self._sections(edit, before, after)
            or self._size(edit, before, after)
            or self._invariants(edit, before, after)
            or self._copied(before, after)
        )

    def suspicion(self, before: PromptText, after: PromptText) -> str:
        """A possible problem of an edit, as far as words show it: more evidence, no veto."""
        new = [said for found in comparisons(before, after) for said in found.added]
        staying = [said for said in _instructions(after) if said not in new]
        added = [said for said in _instructions(after) if said in new]
        for one in added:
            rivals = staying
            if self._was_released(one):  # it stood next to others that a release had
                rivals = [other for other in staying if not self._was_released(other)]
            clash = next((other for other in rivals if _contradicts(one, other)), None)
            if clash is not None:
                return f"{one!r} may contradict {clash!r}, which stays"
        clashes = (
            (one, other) for one, other in combinations(added, 2) if _contradicts(one, other)
        )
        return next((f"{one!r} may contradict {other!r}" for one, other in clashes), "")

    def open_sections(self, text: PromptText) -> tuple[OpenSection, ...]:
        """The sections of a text that may be replaced, in the order of their marks."""
        policy, found = self.policy, list[OpenSection]()
        for mark in self.replaceable:
            grown = (1 + policy.section_growth) * _words(self.base, mark) + policy.section_words
            with suppress(SectionError):
                index, place = mark.found_in(text.messages)
                section = OpenSection(
                    heading=mark.section,
                    message=index,
                    first=place.first + 1,
                    last=place.end,
                    words_max=int(grown) if mark.words is None else mark.words,
                )
                found.append(section)
        return tuple(found)

    def named_in(self, added: str) -> frozenset[str]:
        """The ids of the cases whose input shares a word with new text that nothing public has."""
        said = content_words(added)
        return frozenset(case for case, words in self._case_words.items() if said & words)

    def _sections(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        had, has = (
            self.open_sections(before),
            {section.heading for section in self.open_sections(after)},
        )
        gone = next((one.heading for one in had if one.heading not in has), "")
        if gone:
            return f"it takes away {gone!r}, which begins a section that may be replaced"
        replaced = [op for op in edit.ops if isinstance(op, ReplaceSection)]
        said = next((said for op in replaced if (said := self._section(op, before, had))), "")
        return said or self._outgrown(before, after)

    def _section(
        self, op: ReplaceSection, before: PromptText, marked: Sequence[OpenSection]
    ) -> str:
        index, place = section_at(before, op.anchor)
        heading, words = op.anchor.line.strip(), count_words(op.text)
        known = next((m for m in marked if (m.heading, m.message) == (heading, index)), None)
        if known is None:
            return f"the section {heading!r} is not marked as replaceable"
        least = (1 - self.policy.section_shrink) * count_words(section_text(before, index, place))
        would = f"the section {heading!r} would have {words} words"
        if words > known.words_max:
            return f"{would}, more than {known.words_max}"
        return f"{would}, fewer than {least:.0f}" if words < least else ""

    def _outgrown(self, before: PromptText, after: PromptText) -> str:
        """A section that any edit makes longer than its author lets it become."""
        for mark in self.replaceable:
            words = _words(after, mark)
            if mark.words is not None and words > max(mark.words, _words(before, mark)):
                return (
                    f"the section {mark.section!r} would have {words} words, more than {mark.words}"
                )
        return ""

    def _size(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        policy = self.policy
        if after.shape == before.shape:
            return "it changes nothing"
        units = units_of(before, after)
        whole = replaces_section(edit) or self._puts_back(before, after)
        if len(units) > policy.ops and not whole:
            return f"it makes {len(units)} changes, more than {policy.ops}"
        grown = after.size - before.size - self._put_back(before, after)
        allowed = policy.growth * self.base.size + policy.growth_words
        # A section has limits of its own.
        if grown > allowed and not replaces_section(edit):
            return f"it adds {grown} words, more than {allowed:.0f}"
        limit = (1 + policy.growth_hard) * self.base.size + policy.growth_words
        size = after.size - self._put_back(self.base, after)
        if size > limit:
            return f"the prompt would have {size} words, more than {limit:.0f}"
        return ""

    def _put_back(self, before: PromptText, after: PromptText) -> int:
        """The words of statements that a release had and that come back."""
        added = (said for found in comparisons(before, after) for said in found.added)
        return sum(count_words(said) for said in added if self._was_released(said))

    def _puts_back(self, before: PromptText, after: PromptText) -> bool:
        """Return whether all that comes was in one release, and all that goes was not."""
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
        for line in sorted({line.strip() for line in self.frozen}):
            tree = parse(line)
            if any(normalise(tree.of(atom)) not in kept for atom in tree.atoms):
                return f"it changes a line that is frozen: {line!r}"
        misled = [said for found in comparisons(before, after) for said in found.misled]
        if misled:
            return f"it takes out the step that {misled[0]!r} refers to"
        lost = [
            said for said in lost_statements(before, after) if normalise(said) in self._base_said
        ]
        many = len(lost) > self.policy.deletions
        if many and not replaces_section(edit) and not self._puts_back(before, after):
            return f"it takes {len(lost)} statements out, more than {self.policy.deletions}"
        return ""

    def _copied(self, before: PromptText, after: PromptText) -> str:
        """The parts that new text takes from an attacker, a case or a user."""
        if takes_over(changed_lines(before, after)[0]):
            return "it speaks to the model in another's name"
        leaks = self._leaks.knowing(before.whole)
        added = "\n".join(new_statements(before, after, leaks.is_public))
        leak = leaks.found(added)
        if leak:
            return f"it gives a case away: {leak}"
        runs = (run for line in added.splitlines() for run in self._runs(line))
        copied = next((run for run in runs if run in self._copies), "")
        return f"it takes a person's words into the prompt: {copied!r}" if copied else ""

    def _runs(self, text: str) -> Iterator[str]:
        words, phrase = _WORD_RUN.findall(text.casefold()), self.policy.phrase
        for start in range(len(words) - phrase + 1):
            run = " ".join(words[start : start + phrase])
            if len(content_words(run)) >= _TELLING:
                yield run


def faults_in(text: PromptText) -> list[str]:
    """Repeated and contradicting statements of a prompt, as far as words show them."""
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
    found += explained_twice(text)
    if said and not guess_language("\n".join(said)):
        found.append("its language is unknown here, so contradictions in it were not looked for")
    return found


def _instructions(text: PromptText) -> list[str]:
    """The statements of a prompt that instruct: no examples, no data, no inputs."""
    return [tree.of(statement) for tree in text.trees for statement in tree.statements]


def _slots(text: PromptText) -> list[frozenset[str]]:
    return [frozenset(_SLOT.findall(message.content)) for message in text.messages]


def _contradicts(one: str, other: str) -> bool:
    """Return whether one statement forbids what the other asks for, as far as their words tell."""
    negated = is_negated(one), is_negated(other)
    if None in negated or negated[0] == negated[1]:
        return False
    mine, its = content_words(one), content_words(other)
    least = min(len(mine), len(its))
    return least > 1 and len(mine & its) >= _SAME_SUBJECT * len(mine | its)
