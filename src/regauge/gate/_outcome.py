"""The values a gate comes to: what it found of checks, cases and suites, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.evidence import CaseState, CaseTier, CaseVerdict, CheckReport, Count, SuiteReport
    from regauge.gate._policy import GatePolicy

# So many versions of the last ten that break a case make it edit-sensitive.
_SENSITIVE_FROM = 2

Decision: TypeAlias = Literal["accept", "reject", "undecided", "unmeasured"]
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
class CaseReport:
    """The result of one case.

    Attributes:
        blocks: Whether this case alone keeps the change from being accepted.
        candidate: Trials of the candidate in which every check passed, all that were drawn.
        before: The same of main before this run, or of its first trials if there were none.
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
    before: Count
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
class Reason:
    """One thing that the decision rests on, or that a reader should know.

    Attributes:
        leads_to: What it alone would lead to; `accept` for advisory checks.
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
