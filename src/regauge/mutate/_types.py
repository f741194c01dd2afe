"""The values of a measurement: cases, trials, classes, results, and the protocol for trials."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import log
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from regauge.errors import BudgetError, MissingRecordingError
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.errors import RegaugeError
    from regauge.gate import BaseTrials, CaseTier, TrialFacts
    from regauge.mutate._operators import Mutant
    from regauge.prompts import Prompt


MutantClass: TypeAlias = Literal[
    "killed", "survived", "no-effect", "harmful", "undecided", "equivalent"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One golden case, and the known trials of the base.

    Attributes:
        text: Its inputs, expectation, tags and checks, compared with the mutated text.
        checks: The blocking checks.
        baseline: The base's trials in the baseline; None without any.
        repeats: Number of these trials known to have the same output as the first; 0 if outputs
            differ or are unknown.
        output_digest: The first digits of the digest of that output, if the baseline has it.
        blocks: Whether a broken case rejects a change: critical or required, and not accepted.
        strict: Whether one failure of a critical case is enough.
    """

    key: str
    text: str
    checks: tuple[str, ...]
    baseline: BaseTrials | None = None
    repeats: int = 0
    output_digest: str = ""
    tier: CaseTier = "required"
    blocks: bool = True
    strict: bool = False

    def with_baseline(self, baseline: BaseTrials | None, output_digests: Sequence[str]) -> Case:
        """Return the case with the base's trials.

        Args:
            baseline: The trials; None without any.
            output_digests: The first digits of the digests of their outputs.
        """
        trials = baseline.total.trials if baseline is not None else 0
        is_steady = baseline is not None and len(output_digests) == 1
        return replace(
            self,
            baseline=baseline,
            repeats=trials if is_steady else 0,
            output_digest=output_digests[0] if is_steady else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTrial:
    """One judged trial, with its output."""

    facts: TrialFacts
    output: str


class Bench(Protocol):
    """A source of trials: a prompt's evals, or a simulation."""

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> Sequence[JudgedTrial | Exception]:
        """Run trials of cases, by key and number from 0; of the base if `prompt` is None.

        The result of an unmeasured trial is its exception.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The class of one prompt text, and the evidence for it.

    Attributes:
        cases: The broken cases of a killed mutant, the changed cases of a survivor, or the fixed
            cases of a harmful mutant.
        judges: The checks that broke.
        evidence: As in the JSON report.
        calls: Number of trials of the mutant, including replayed ones.
        novel_cases: Cases with an output that the base never had.
        reason: The reason if it is undecided.
        unmeasured: Whether trials are missing for another reason than the budget.
    """

    kind: MutantClass
    cases: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    evidence: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    calls: int = 0
    novel_cases: frozenset[str] = frozenset()
    reason: str = ""
    unmeasured: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A mutant and its class."""

    mutant: Mutant
    outcome: Classification


def missing_reason(error: RegaugeError) -> tuple[str, bool]:
    """The reason for missing trials, and whether it is another one than the budget."""
    if isinstance(error, BudgetError):
        return "out of budget", False
    if isinstance(error, MissingRecordingError):
        return "not recorded", True
    return str(error).partition("\n")[0], True


# The words of a section select a group of cases; those of the text select the case.
_SECTION_WEIGHT = 0.25


class CaseRanking:
    """The order of a suite's cases by relevance; rare words count more than common ones."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._words = [content_words(case.text) for case in cases]
        case_counts = Counter(word for words in self._words for word in words)
        self._weights = {word: log(len(cases) / count) for word, count in case_counts.items()}

    def rank(
        self, text: str, section: str = "", *, first: Collection[str] = ()
    ) -> list[tuple[Case, float]]:
        """Return the cases with their relevance, most relevant first.

        Args:
            text: The mutated text.
            section: The heading above the text.
            first: Cases that killed this mutant before.
        """
        text_words = content_words(text)
        section_words = content_words(section) - text_words
        scores = [
            (
                case,
                self._score_overlap(text_words, words),
                self._score_overlap(section_words, words),
            )
            for case, words in zip(self._cases, self._words, strict=True)
        ]
        scores.sort(
            key=lambda entry: (
                entry[0].key not in first,
                not entry[0].blocks or _base_pass_rate(entry[0]) < 1 / 2,
                -(entry[1] + _SECTION_WEIGHT * entry[2]),
                -_base_pass_rate(entry[0]),
            )
        )
        return [(case, score) for case, score, _ in scores]

    def _score_overlap(self, words: Collection[str], of_case: Collection[str]) -> float:
        return sum(self._weights[word] for word in words if word in of_case)


def _base_pass_rate(case: Case) -> float:
    """Return the base's pass rate: a failing case cannot show a break."""
    baseline = case.baseline
    return baseline.total.rate if baseline is not None and baseline.total.trials else 1.0
