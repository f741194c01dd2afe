"""The values of a measurement: cases, trials, classes, results, and who draws the trials."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.gate import BaseTrials, CaseTier, TrialFacts
    from regauge.mutate._operators import Mutant
    from regauge.prompts import Prompt


MutantClass: TypeAlias = Literal[
    "killed", "survived", "no-effect", "harmful", "undecided", "equivalent"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One golden case, and what is known of the base.

    Attributes:
        text: Its inputs, expectation, tags and checks: what a mutated text may share with it.
        checks: The blocking checks.
        history: The base's trials in the baseline; None without any.
        repeats: How many of these trials are known to give the output of the first one; 0 where
            the base's outputs differ from each other, or are unknown.
        answer: The first digits of the digest of that output, where the baseline has it.
        blocks: Whether a broken case rejects a change: critical or required, and not accepted.
        strict: Whether one failure of a critical case is enough.
    """

    key: str
    text: str
    checks: tuple[str, ...]
    history: BaseTrials | None = None
    repeats: int = 0
    answer: str = ""
    tier: CaseTier = "required"
    blocks: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTrial:
    """One judged trial, with its output."""

    facts: TrialFacts
    output: str


class Bench(Protocol):
    """Draws trials; a real prompt's evals do, and simulated ones."""

    async def draw(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> Sequence[JudgedTrial | Exception]:
        """Trials of cases, by key and number from 0; of the base where `prompt` is None.

        A trial that could not be made is the error that says why.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The class of one prompt text, and the evidence for it.

    Attributes:
        cases: The broken cases of a killed mutant, the changed ones of a survivor, the fixed ones
            of a harmful text.
        judges: The checks that broke.
        evidence: As in the JSON report.
        calls: Trials of the mutant that were drawn or replayed.
        novel: Cases with an output that the base never gave.
        reason: Why it is undecided.
        unmeasured: Whether trials are missing for another reason than the budget.
    """

    kind: MutantClass
    cases: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    evidence: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    calls: int = 0
    novel: frozenset[str] = frozenset()
    reason: str = ""
    unmeasured: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A mutant and its class."""

    mutant: Mutant
    outcome: Classification


# The words of a section say which group of cases a text is for; its own words say which case.
_SECTION_WEIGHT = 0.25


class CaseRanking:
    """Ranks the cases of a suite; rare words count more than common ones."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._words = [content_words(case.text) for case in cases]
        met = Counter(word for words in self._words for word in words)
        self._weights = {word: log(len(cases) / count) for word, count in met.items()}

    def rank(
        self, text: str, section: str = "", *, first: Collection[str] = ()
    ) -> list[tuple[Case, float]]:
        """The cases with their relevance, the most relevant first.

        Args:
            section: The heading above the text.
            first: Cases that killed this mutant before.
        """
        own = content_words(text)
        above = content_words(section) - own
        scored = [
            (case, self._shared(own, words), self._shared(above, words))
            for case, words in zip(self._cases, self._words, strict=True)
        ]
        scored.sort(
            key=lambda scored_case: (
                scored_case[0].key not in first,
                not scored_case[0].blocks or _passes(scored_case[0]) < 1 / 2,
                -(scored_case[1] + _SECTION_WEIGHT * scored_case[2]),
                -_passes(scored_case[0]),
            )
        )
        return [(case, score) for case, score, _ in scored]

    def _shared(self, words: Collection[str], of_case: Collection[str]) -> float:
        return sum(self._weights[word] for word in words if word in of_case)


def _passes(case: Case) -> float:
    """The base's pass rate: a case that fails anyway cannot show that it breaks."""
    stored = case.history
    return stored.total.rate if stored is not None and stored.total.trials else 1.0
