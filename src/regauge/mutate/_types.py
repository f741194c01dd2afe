"""The values of a measurement: cases, trials, classes, results, and who draws the trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.gate import CaseTier, History, TrialFacts
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
    history: History | None = None
    repeats: int = 0
    answer: str = ""
    tier: CaseTier = "required"
    blocks: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One judged trial, with its output."""

    facts: TrialFacts
    output: str


class Bench(Protocol):
    """Draws trials; a real prompt's evals do, and simulated ones."""

    async def draw(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> Sequence[Observed | Exception]:
        """Trials of cases, by key and number from 0; of the base where `prompt` is None.

        A trial that could not be made is the error that says why.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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
    found: Found
