"""Evidence of a gate: counts, differences, and the tests of checks and prompts.

Run records store these values unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    @classmethod
    def of(cls, outcomes: Iterable[bool | None]) -> Count:
        """Count outcomes; None does not count.

        >>> Count.of([True, None, False])
        Count(passed=1, trials=2)
        """
        measured = [outcome for outcome in outcomes if outcome is not None]
        return cls(passed=sum(measured), trials=len(measured))

    def __str__(self) -> str:
        return f"{self.passed} of {self.trials}"

    def __add__(self, other: Count) -> Count:
        return Count(passed=self.passed + other.passed, trials=self.trials + other.trials)

    @property
    def failed(self) -> int:
        """The number of failed trials."""
        return self.trials - self.passed

    @property
    def rate(self) -> float:
        """The pass rate, between 0 and 1; 0 without trials."""
        return self.passed / self.trials if self.trials else 0.0


NO_TRIALS = Count(passed=0, trials=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDifference:
    """Pass rate of the candidate minus that of the base, with its interval.

    Attributes:
        base: Mean pass rate of the base over cases, between 0 and 1.
        candidate: Mean pass rate of the candidate, between 0 and 1.
        low: Lower end of the interval of the difference, between -1 and 1.
        high: Upper end of the interval.
    """

    base: float
    candidate: float
    low: float
    high: float

    @property
    def value(self) -> float:
        """The difference; above 0 if the candidate passes more."""
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


SuiteStatus: TypeAlias = Literal[
    "passed", "worse", "unconfirmed", "undecided", "unmeasured", "untested"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of one check of one case.

    Attributes:
        before: Trials of the base before this run, or its first ones in this run without any.
        today: Trials of the base in this run that are paired with the candidate's.
        candidate: Trials of the candidate; cached completions count once.
        paired: Trials of the candidate that are paired with the base's.
        direction: Direction of the test; None if the check was not tested.
        e_value: Evidence against all trials of the base; None without a test.
        bound: E-value from which the check is broken or fixed; None without a test.
        e_today: Evidence of the paired trials alone; None without pairs.
    """

    check: str
    status: CaseStatus
    before: Count
    today: Count
    candidate: Count
    paired: Count = NO_TRIALS
    direction: Literal["worse", "better"] | None = None
    e_value: float | None = None
    bound: float | None = None
    e_today: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round of a suite against the baseline. It may request paired trials and decides nothing.

    Attributes:
        trials: Trials of each case.
        total_trials: Trials of all cases.
        fails: Failures of the candidate.
        expected: Failures that the baseline predicts.
        p_value: Probability of at least this many failures if nothing changed.
        bound: Largest p-value that requests paired trials.
        equal: Whether the p-value, the smaller of two, is that of equal weights.
        scores: P-value of each check with scores.
    """

    trials: int
    total_trials: int
    fails: int
    expected: float
    p_value: float
    bound: float
    equal: bool = False
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """Control trials of the base in the first round: an outage check, which decides nothing.

    Attributes:
        p_baseline: Probability of these trials if the base matches its baseline.
        bound: Largest p-value that counts as worse than the baseline.
    """

    base: Count
    p_baseline: float
    bound: float

    @property
    def below(self) -> bool:
        """Return whether the base is worse than its baseline today. False proves nothing."""
        return self.p_baseline <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsReport:
    """One look at paired trials, which the baseline test requested.

    Attributes:
        base: Paired trials of the base so far, over all cases.
        candidate: Paired trials of the candidate.
        p_values: Probability of a candidate this much worse if nothing changed. The key is empty
            for all cases together, else the check whose scores are tested.
        bound: Largest p-value that calls the suite worse.
    """

    base: Count
    candidate: Count
    p_values: Mapping[str, float]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetReport:
    """One look at paired trials of all cases, which weighs broken against fixed cases.

    Attributes:
        base: Paired trials of the base so far, over all cases.
        candidate: Paired trials of the candidate.
        p_worse: Probability of a candidate this much worse if nothing changed overall.
        p_better: Probability of a candidate this much better.
        bound: Largest `p_worse` that rejects the change.
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
        status: `unconfirmed` if paired trials did not confirm a suspected loss; `untested` if
            nothing was compared, or single cases decided first.
        cases: Number of compared cases.
        first_trials: Trials of every case in the first round.
        rounds: Rounds against the baseline; empty if nothing was compared.
        suspects: Tests that requested paired trials: the empty text for all cases together, or the
            name of a check with scores.
        pairs: Looks at the paired trials.
        net: Looks that weighed broken against fixed cases.
        broken: Number of required cases that broke, without accepted ones.
        fixed: Number of fixed cases.
        difference: Candidate minus base, with its interval; None if nothing was compared.
        side_by_side: Whether the difference is of paired trials, not against the baseline.
        control: Control trials of the base; None without any.
        stable_failed: Number of cases that the candidate failed and the base never did.
        unrecorded_trials: Live trials needed because recordings are too short.
    """

    prompt: str
    status: SuiteStatus
    cases: int
    first_trials: int = 1
    rounds: tuple[RoundReport, ...] = ()
    suspects: tuple[str, ...] = ()
    pairs: tuple[PairsReport, ...] = ()
    net: tuple[NetReport, ...] = ()
    broken: int = 0
    fixed: int = 0
    difference: RateDifference | None = None
    side_by_side: bool = False
    control: ControlReport | None = None
    stable_failed: int = 0
    unrecorded_trials: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReport:
    """A prompt compared with an old version: the sum of all changes since.

    Attributes:
        version: Version of the anchor.
        message: Difference with its interval, or why it is not measured.
        cases: Number of compared cases.
        difference: Candidate minus anchor; None if nothing was compared.
        p_value: Probability of at least this many failures if nothing changed since; None, too.
        of_base: Whether the baseline was compared, as the candidate has no trials.
        base_lost: Whether `regauge baseline update` confirmed a loss of the base.
        has_loss: Whether the base has a confirmed loss and the change does not make up for it.
        blocks: Whether the loss rejects the change.
    """

    version: str
    message: str
    cases: int = 0
    difference: RateDifference | None = None
    p_value: float | None = None
    of_base: bool = False
    base_lost: bool = False
    has_loss: bool = False
    blocks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The comparison of recorded trials with new ones.

    Attributes:
        trials: Number of compared trials.
        better: Trials that passed when recorded and failed again.
        worse: Trials that failed when recorded and passed again.
        p_value: Probability of at least `better` such trials if none were selected.
        level: Largest p-value that counts as better than new trials.
        result: `agree`; `better` than new trials; or `base-worse`: better, but the base is also
            worse than its baseline today, so the provider may have changed.
        prompts: Prompts with more `better` than `worse` trials.
    """

    trials: int
    better: int
    worse: int
    p_value: float
    level: float
    result: Literal["agree", "base-worse", "better"]
    prompts: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The result in plain counts."""
        names = ", ".join(self.prompts)
        agreement = "agree with" if self.result == "agree" else f"of {names} are better than"
        cause = "; the base is below its record today, too: recorded again, or the provider changed"
        return (
            f"recordings {agreement} fresh trials: {self.better} of {self.trials} recorded trials"
            f" passed where a fresh one failed, {self.worse} the reverse (p = {self.p_value:.2g})"
            f"{cause if self.result == 'base-worse' else ''}"
        )

    @property
    def fix(self) -> str:
        """The command that records new completions; empty if none is needed."""
        if self.result != "better":
            return ""
        return f"`regauge record --refresh {' '.join(self.prompts)}`, then commit the recordings"
