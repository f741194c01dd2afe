"""The values a gate comes to: what it found of checks, cases and suites, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.gate._types import NONE_DRAWN, Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import CaseState, CaseTier
    from regauge.stats import RateDifference

# So many versions of the last ten that break a case make it edit-sensitive.
_SENSITIVE_FROM = 2

Decision: TypeAlias = Literal["accept", "reject", "undecided", "unmeasured"]
CaseVerdict: TypeAlias = Literal[
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
ReasonKind: TypeAlias = Literal[
    "broken",
    "critical",
    "suite",
    "scores",
    "net",
    "new",
    "removed",
    "unmeasured",
    "not-recorded",
    "undecided",
    "drifted",
    "accepted",
    "accepted-max",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of one check of one case.

    Attributes:
        history: Main's trials before this run, or its first ones in this run if there were none.
        today: Main's trials of this run that were drawn side by side with the candidate's.
        candidate: The candidate's trials that count; completions out of a cache count once.
        paired: Those of them that were drawn side by side with main's.
        direction: Which way the evidence was weighed; None where nothing had to be.
        e_value: The evidence against main's record, its trials of today included; None where
            nothing was weighed.
        bound: The e-value that would name the check; None where nothing was weighed.
        e_today: The evidence of the trials side by side alone; None where there are none.
    """

    check: str
    verdict: CaseVerdict
    history: Count
    today: Count
    candidate: Count
    paired: Count = NONE_DRAWN
    direction: Literal["worse", "better"] | None = None
    e_value: float | None = None
    bound: float | None = None
    e_today: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """The result of one case.

    Attributes:
        blocks: Whether this case alone keeps the change from being accepted.
        candidate: Trials of the candidate in which every check passed, all that were drawn.
        history: The same of main before this run, or of its first trials if there were none.
        today: The same of main's trials of this run, drawn side by side with the candidate's.
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
        """Return whether edits of the prompt break the case again and again."""
        return self.broke_before + (self.verdict == "broken") >= _SENSITIVE_FROM

    @property
    def decisive(self) -> CheckReport | None:
        """The check that the verdict of the case comes from; None where nothing was drawn."""
        same = [check for check in self.checks if check.verdict == self.verdict]
        return max(same, key=lambda check: check.e_value or 0.0, default=None)


def accepted_broken(cases: Iterable[CaseReport]) -> tuple[CaseReport, ...]:
    """Cases that broke, or are new and miss their bar, and that the changelog accepts."""
    return tuple(
        case
        for case in cases
        if case.accepted
        and (
            case.verdict == "broken"
            or (
                case.verdict == "new"
                and case.bar is not None
                and case.candidate.failed > case.bar.failed
            )
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round of a whole suite against main's record. It asks for pairs; it decides nothing.

    Attributes:
        trials: How many trials of each case were used.
        drawn: How many trials of all cases there were.
        fails: Failures of the candidate among them.
        expected: Failures that main's record predicts.
        p_value: How likely so many failures are if main is as its record.
        bound: Up to this p-value both arms are drawn side by side.
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
    """Main's few trials of the first round: a lamp for an outage, which decides nothing.

    Attributes:
        p_history: How likely they are if main is as its record.
        bound: Up to this p-value main counts as below its record.
    """

    main: Count
    p_history: float
    bound: float

    @property
    def below(self) -> bool:
        """Return whether main is below its record today. A lamp that is off proves nothing."""
        return self.p_history <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsReport:
    """One look at both arms side by side, because the record asked for it.

    Attributes:
        main: Main's trials side by side so far, of all cases.
        candidate: The candidate's.
        p_values: How likely the candidate is so far behind if the prompt changed nothing: of all
            cases under the empty text, of the scores of a check under its name.
        bound: Up to this p-value the suite is worse.
    """

    main: Count
    candidate: Count
    p_values: Mapping[str, float]
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NetReport:
    """One look at all cases side by side, because some broke and others were fixed.

    Attributes:
        main: Main's trials side by side so far, of all cases.
        candidate: The candidate's.
        p_worse: How likely the candidate is so far behind if nothing changed on the whole.
        p_better: How likely it is so far ahead.
        bound: Up to this `p_worse` the change is rejected.
    """

    main: Count
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
        rounds: The rounds against main's record; empty when nothing could be compared.
        asked: What of the last round asked for trials side by side: the empty text for all cases,
            or checks by the scores they gave.
        pairs: The looks side by side that followed.
        net: The looks that weighed broken cases against fixed ones.
        broken: Required cases that broke, without those that are accepted.
        fixed: Cases that were fixed.
        difference: Candidate minus main, with its interval; None where nothing was compared.
        side_by_side: Whether the difference is that of trials side by side, not against the record.
        control: Main's trials of the first round.
        stable_failed: Cases that main never failed and the candidate failed.
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
    """The decision of the gate, with its evidence.

    Attributes:
        cases: In the order in which they were given.
        suites: One for each changed prompt, in order of first mention.
        reasons: Those that lead to the decision first.
        cells: How many pairs of case and check were tested together.
        candidate_trials: Trials of the candidate that were measured.
        main_trials: Trials of main that were measured in this run.
        finished: Whether every trial that was asked for was answered.
        first_draws: Trials of every case in the first round, by prompt.
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
    first_draws: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def broken(self) -> tuple[CaseReport, ...]:
        """Cases that the candidate broke."""
        return tuple(case for case in self.cases if case.verdict == "broken")

    @property
    def fixed(self) -> tuple[CaseReport, ...]:
        """Cases that the candidate fixed."""
        return tuple(case for case in self.cases if case.verdict == "fixed")

    @property
    def accepted_broken(self) -> tuple[CaseReport, ...]:
        """Cases that miss their bar and block nothing, by the word of the change's author."""
        return accepted_broken(self.cases)

    @property
    def left_to_audit(self) -> tuple[CaseReport, ...]:
        """Suspects of a provisional run whose recorded trials ran out."""
        if not self.policy.provisional:
            return ()
        return tuple(case for case in self.cases if case.needs and case.verdict == "undecided")
