"""The values a gate comes to: what it found of checks, cases and suites, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import CaseState, CaseTier, Count

# So many versions of the last ten that break a case make it edit-sensitive.
_SENSITIVE_FROM = 2

Decision: TypeAlias = Literal["accept", "reject", "undecided", "unmeasured"]
CaseVerdict: TypeAlias = Literal[
    "pass",
    "regressed",
    "improved",
    "flaky",
    "undecided",
    "drifted",
    "known-failing",
    "new",
    "unchanged",
    "removed",
    "unmeasured",
]
SuiteVerdict: TypeAlias = Literal[
    "pass", "regressed", "drifted", "undecided", "unmeasured", "untested"
]
ReasonKind: TypeAlias = Literal[
    "regressed",
    "critical",
    "suite",
    "scores",
    "head-to-head",
    "new",
    "removed",
    "unmeasured",
    "not-recorded",
    "undecided",
    "drifted",
    "accepted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What the gate found of one check of one case.

    Attributes:
        history: Main's trials before this run, or its first ones in this run if there were none.
        today: Main's further trials in this run.
        candidate: The candidate's trials that count; answers out of a cache count once.
        direction: Which way the evidence was weighed; None where nothing had to be.
        e_value: The evidence; None where nothing was weighed.
        bound: The e-value that would name the check; None where nothing was weighed.
    """

    check: str
    verdict: CaseVerdict
    history: Count
    today: Count
    candidate: Count
    direction: Literal["worse", "better"] | None = None
    e_value: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """What the gate found of one case.

    Attributes:
        blocks: Whether this case alone keeps the change from being accepted.
        candidate: Trials of the candidate in which every check passed, all that were drawn.
        history: The same of main before this run, or of its first trials if there were none.
        today: The same of main's further trials in this run.
        checks: One report for each required check, in the order of the case.
        repeated: Trials of the candidate that do not count, because today answers repeat, main's
            too, that hardly ever did.
        missing: Trials asked for that could not be measured.
        needs: Trials that would have to be drawn live; 0 unless a recording was too short.
        recorded: Trials of the candidate that there were.
        flaky: Whether main's history says that the case is flaky.
        bar: Passes and trials that a case of its own bar needs (a new or critical case).
        broke_before: In how many of the last versions the case broke, and was accepted.
        failure_bound: For a critical case that never failed on main: the greatest failure rate
            that is still plausible (rule of three).
    """

    prompt: str
    case: str
    tier: CaseTier
    state: CaseState
    verdict: CaseVerdict
    blocks: bool
    candidate: Count
    history: Count
    today: Count
    checks: tuple[CheckReport, ...]
    accepted: str = ""
    repeated: int = 0
    missing: int = 0
    needs: int = 0
    recorded: int = 0
    flaky: bool = False
    bar: Count | None = None
    failure_bound: float | None = None
    broke_before: int = 0

    @property
    def edit_sensitive(self) -> bool:
        """Whether edits of the prompt break the case again and again."""
        return self.broke_before + (self.verdict == "regressed") >= _SENSITIVE_FROM

    @property
    def decisive(self) -> CheckReport | None:
        """The check that the verdict of the case comes from; None where nothing was drawn."""
        same = [check for check in self.checks if check.verdict == self.verdict]
        return max(same, key=lambda check: check.e_value or 0.0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round of the test of a whole suite.

    Attributes:
        trials: How many trials of each case were used.
        fails: Failures of the candidate among them.
        expected: Failures that main's record predicts.
        p_value: How likely so many failures are with an unchanged prompt.
        bound: Up to this p-value the suite counts as worse.
        scores: The same for checks with scores: p-value by check.
        score_bound: Up to this p-value the scores count as worse.
    """

    trials: int
    fails: int
    expected: float
    p_value: float
    bound: float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    score_bound: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """Main drawn again before a suite is said to be worse.

    Attributes:
        check: The check whose scores were weighed; empty when it was all cases.
        p_history: How likely main's trials of today are if main is as its history says.
        p_candidate: How likely the candidate's are if it is as good as main is today.
    """

    main: Count
    p_history: float
    p_candidate: float
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadToHead:
    """Main and candidate drawn side by side, because main's history tells nothing any more.

    Attributes:
        p_value: How likely the candidate is so far behind main if both are alike.
        bound: Up to this p-value the candidate counts as worse.
        check: The check whose scores were weighed; empty when it was all cases.
    """

    main: Count
    candidate: Count
    p_value: float
    bound: float
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """What the gate found of all cases of one prompt together.

    Attributes:
        verdict: `untested` where nothing could be compared, or where single cases had decided
            before it was settled whether the suite is worse.
        cases: How many cases were compared.
        rounds: What was weighed, round by round; empty when nothing could be compared.
        stable_failed: Cases that main never failed and the candidate failed in the last round.
        needs: Trials that would have to be drawn live; 0 unless recordings were too short.
    """

    prompt: str
    verdict: SuiteVerdict
    cases: int
    rounds: tuple[RoundReport, ...] = ()
    control: ControlReport | None = None
    head_to_head: HeadToHead | None = None
    stable_failed: int = 0
    needs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that the decision rests on, or that a reader should know.

    Attributes:
        leads_to: What it alone would lead to; `accept` for what only informs.
        case: Empty when it is the whole suite.
        check: For scores: whose.
    """

    kind: ReasonKind
    leads_to: Decision
    prompt: str
    case: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOutcome:
    """What the gate decided, and everything it rests on.

    Attributes:
        cases: In the order in which they were given.
        suites: One for each changed prompt, in order of first mention.
        reasons: Those that lead to the decision first.
        cells: How many pairs of case and check were tested together.
        candidate_trials: Trials of the candidate that were measured.
        main_trials: Trials of main that were measured in this run.
        finished: Whether every trial that was asked for was answered.
    """

    decision: Decision
    cases: tuple[CaseReport, ...]
    suites: tuple[SuiteReport, ...]
    reasons: tuple[Reason, ...]
    policy: GatePolicy
    cells: int
    candidate_trials: int
    main_trials: int
    finished: bool

    @property
    def regressed(self) -> tuple[CaseReport, ...]:
        """Cases that the candidate broke."""
        return tuple(case for case in self.cases if case.verdict == "regressed")

    @property
    def improved(self) -> tuple[CaseReport, ...]:
        """Cases that the candidate repaired."""
        return tuple(case for case in self.cases if case.verdict == "improved")
