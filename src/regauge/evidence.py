"""The evidence of a gate as values: counts, differences, and the tests of checks and prompts.

The engine makes them, and the run record holds them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

CaseState: TypeAlias = Literal["changed", "unchanged", "new", "removed"]
CaseTier: TypeAlias = Literal["critical", "required", "tracked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of passed trials among some.

    >>> str(Count(passed=3, trials=12))
    '3 of 12'
    """

    passed: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.passed <= self.trials:
            raise ValueError(f"{self.passed} of {self.trials} trials cannot have passed")

    def __str__(self) -> str:
        return f"{self.passed} of {self.trials}"

    def __add__(self, other: Count) -> Count:
        return Count(passed=self.passed + other.passed, trials=self.trials + other.trials)

    @property
    def failed(self) -> int:
        """The number of trials that failed."""
        return self.trials - self.passed

    @property
    def rate(self) -> float:
        """The share that passed; 0 without trials."""
        return self.passed / self.trials if self.trials else 0.0


NONE_DRAWN = Count(passed=0, trials=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDifference:
    """Candidate minus the base, between -1 and 1, with its interval.

    Attributes:
        base: The mean pass rate of the base, over cases.
        candidate: The mean pass rate of the candidate.
        low: Where the interval of the difference begins.
        high: Where it ends.
    """

    base: float
    candidate: float
    low: float
    high: float

    @property
    def value(self) -> float:
        """Above 0 where the candidate passes more."""
        return self.candidate - self.base


CaseStatus: TypeAlias = Literal[
    "passed",
    "broken",
    "fixed",
    "flaky",
    "mixed",
    "undecided",
    "drifted",
    "known-failing",
    "new",
    "unchanged",
    "removed",
    "unmeasured",
]


SuiteVerdict: TypeAlias = Literal[
    "passed", "worse", "unconfirmed", "undecided", "unmeasured", "untested"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of one check of one case.

    Attributes:
        before: The base's trials before this run, or its first ones in this run if there were none.
        today: The base's trials of this run that were drawn side by side with the candidate's.
        candidate: The candidate's trials that count; completions out of a cache count once.
        paired: Those of them that were drawn side by side with the base's.
        direction: Which way the evidence was weighed; None where nothing had to be.
        e_value: The evidence against the base's record, its trials of today included; None where
            nothing was weighed.
        bound: The e-value that would name the check; None where nothing was weighed.
        e_today: The evidence of the trials side by side alone; None where there are none.
    """

    check: str
    verdict: CaseStatus
    before: Count
    today: Count
    candidate: Count
    paired: Count = NONE_DRAWN
    direction: Literal["worse", "better"] | None = None
    e_value: float | None = None
    bound: float | None = None
    e_today: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round of a whole suite against the base's record. It asks for pairs; it decides nothing.

    Attributes:
        trials: How many trials of each case were used.
        drawn: How many trials of all cases there were.
        fails: Failures of the candidate among them.
        expected: Failures that the base's record predicts.
        p_value: The probability of at least this many failures if the base is as its baseline.
        bound: Up to this p-value both sides are drawn side by side.
        equal: Whether the p-value is that of equal weights, the smaller of two.
        scores: The same for checks with scores: p-value by check.
    """

    trials: int
    drawn: int
    fails: int
    expected: float
    p_value: float
    bound: float
    equal: bool = False
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """The base's few trials of the first round: a check for an outage, which decides nothing.

    Attributes:
        p_history: How likely they are if the base is as its record.
        bound: Up to this p-value the base counts as below its record.
    """

    base: Count
    p_history: float
    bound: float

    @property
    def below(self) -> bool:
        """Return whether the base is below its record today. False proves nothing."""
        return self.p_history <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsReport:
    """One look at both sides side by side, because the record asked for it.

    Attributes:
        base: The base's trials side by side so far, of all cases.
        candidate: The candidate's.
        p_values: How likely the candidate is so far behind if the prompt changed nothing: of all
            cases under the empty text, of the scores of a check under its name.
        bound: Up to this p-value the suite is worse.
    """

    base: Count
    candidate: Count
    p_values: Mapping[str, float]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetReport:
    """One look at all cases side by side, because some broke and others were fixed.

    Attributes:
        base: The base's trials side by side so far, of all cases.
        candidate: The candidate's.
        p_worse: How likely the candidate is so far behind if nothing changed on the whole.
        p_better: How likely it is so far ahead.
        bound: Up to this `p_worse` the change is rejected.
    """

    base: Count
    candidate: Count
    p_worse: float
    p_better: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """The result of all cases of one prompt together.

    Attributes:
        verdict: `unconfirmed` where the record asked for trials side by side, which did not confirm
            the loss; `untested` where nothing could be compared, or where single cases had decided
            before it was settled whether the suite is worse.
        cases: How many cases were compared.
        first_draws: Trials of every case in the first round.
        rounds: The rounds against the base's record; empty when nothing could be compared.
        asked: What of the last round asked for trials side by side: the empty text for all cases,
            or checks by the scores they gave.
        pairs: The looks side by side that followed.
        net: The looks that weighed broken cases against fixed ones.
        broken: Required cases that broke, without those that are accepted.
        fixed: Cases that were fixed.
        difference: Candidate minus the base, with its interval; None where nothing was compared.
        side_by_side: Whether the difference is that of trials side by side, not against the record.
        control: The base's trials of the first round.
        stable_failed: Cases that the base never failed and the candidate failed.
        needs: Trials that would have to be drawn live; 0 unless recordings were too short.
    """

    prompt: str
    verdict: SuiteVerdict
    cases: int
    first_draws: int = 1
    rounds: tuple[RoundReport, ...] = ()
    asked: tuple[str, ...] = ()
    pairs: tuple[PairsReport, ...] = ()
    net: tuple[NetReport, ...] = ()
    broken: int = 0
    fixed: int = 0
    difference: RateDifference | None = None
    side_by_side: bool = False
    control: ControlReport | None = None
    stable_failed: int = 0
    needs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReport:
    """A prompt next to an old version: the sum of what changed since.

    Attributes:
        version: The old version.
        message: The difference with its interval, or why it is not measured.
        cases: How many cases were compared.
        difference: The candidate minus the old version; null where nothing was compared.
        p_value: The probability of at least this many failures if nothing changed since; null, too.
        of_base: Whether the base's record was compared, since the candidate has no trials.
        base_lost: Whether `regauge baseline update` confirmed a loss of the base.
        lost: Whether the base lost and the change does not make up for it.
        blocks: Whether that rejects the change.
    """

    version: str
    message: str
    cases: int = 0
    difference: RateDifference | None = None
    p_value: float | None = None
    of_base: bool = False
    base_lost: bool = False
    lost: bool = False
    blocks: bool = False
