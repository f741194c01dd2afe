"""The values of a gate: what is compared, under which limits, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict

from regauge.errors import UsageError
from regauge.evidence import CaseState, CaseTier, Count  # noqa: TC001 - pydantic reads them
from regauge.stats import (
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
    auto_baseline_trials,
    auto_first_draws,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.evidence import CaseStatus, CheckReport, SuiteReport
    from regauge.project import GateSettings


OnBroken: TypeAlias = Literal["net", "block", "warn"]
BlockOrWarn: TypeAlias = Literal["block", "warn"]
Auto: TypeAlias = Literal["auto"]

# Looks of runs that continue an undecided one come after so many trials each.
_MORE_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """Everything about a decision that a project can choose.

    Attributes:
        case: When one case counts as broken.
        suite: When a suite counts as worse.
        net: How broken cases are weighed against fixed ones.
        critical: When a critical case blocks.
        on_broken: What broken cases do: weigh them against fixed ones (`net`), `block`, or only
            `warn`. Critical cases always block.
        on_undecided: Whether a case that stays undecided keeps the change from being accepted. A
            recording that is too short always does, unless the run is provisional.
        on_drifted: The same for a case that the base fails too, today.
        on_new: What a new case does that misses its bar.
        first_draws: Trials of every case in the first round, at least 1; `auto` is about 100 in
            all for each prompt.
        baseline_trials: Trials of every case in a complete baseline; `auto` is about 200 in all,
            and at least 12.
        accepted_max: The most broken cases that changelogs may accept in one change; None is no
            limit.
        min_effect: How much lower scores may be and not count; between 0 and 1.
        first_history: How many trials of base, at least, are drawn in the same run for a case that
            has none.
        new_trials: How many trials a new case gets.
        new_passes: How many of them must pass.
        improved_at_most: Only cases that base passes at most so often are tested for being fixed;
            below 0 none is.
        provisional: Whether recorded trials alone decide, until a run with a key audits them: then
            suspects whose recorded trials run out are left to that run.
    """

    case: CasePolicy = field(default_factory=CasePolicy)
    suite: SuitePolicy = field(default_factory=SuitePolicy)
    net: NetPolicy = field(default_factory=NetPolicy)
    critical: CriticalPolicy = field(default_factory=CriticalPolicy)
    on_broken: OnBroken = "net"
    on_undecided: BlockOrWarn = "block"
    on_drifted: BlockOrWarn = "warn"
    on_new: BlockOrWarn = "block"
    first_draws: int | Auto = "auto"
    baseline_trials: int | Auto = "auto"
    accepted_max: int | None = None
    min_effect: float = 0.0
    first_history: int = 3
    new_trials: int = 3
    new_passes: int = 3
    improved_at_most: float = 0.25
    provisional: bool = False

    def __post_init__(self) -> None:
        for name in ("first_draws", "baseline_trials"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise ValueError(f"{name} must be at least 1 or 'auto', not {value}")
        if not 0 <= self.min_effect < 1 or not self.improved_at_most < 1:
            raise ValueError("min_effect must be at least 0, and it and improved_at_most below 1")
        if self.first_history < 1:
            raise ValueError(f"first_history must be at least 1, not {self.first_history}")
        if not 0 <= self.new_passes <= self.new_trials or self.new_trials < 1:
            raise ValueError(
                f"new_passes must be 0 to new_trials, not {self.new_passes} of {self.new_trials}"
            )

    def first_draws_of(self, cases: int) -> int:
        """Trials of every case in the first round of a prompt with `cases` compared cases."""
        return auto_first_draws(cases) if self.first_draws == "auto" else self.first_draws

    def baseline_trials_of(self, cases: int) -> int:
        """Trials of every case in a complete baseline of this number of cases."""
        if self.baseline_trials == "auto":
            return auto_baseline_trials(cases)
        return self.baseline_trials

    @property
    def more(self) -> int:
        """Trials of a suspect beyond the policy's own steps."""
        return sum(self.case.extra_steps)


def with_more_trials(policy: GatePolicy, more: int) -> GatePolicy:
    """The same policy for a run that continues an undecided one, by `more` trials of a suspect.

    Evidence of single cases may be gathered for as long as you like: the error rates hold at every
    stop. Tests of a whole suite spend half of what is left of 5 % at each further look. Looks come
    every 8 trials, so 16 more trials continue the run that had 8 more.

    >>> with_more_trials(GatePolicy(), 24).case.extra_steps
    (8, 8, 8)
    """
    if more < 1:
        return policy
    whole, rest = divmod(more, _MORE_STEP)
    steps = (*policy.case.extra_steps, *(_MORE_STEP,) * whole, *((rest,) if rest else ()))
    return replace(
        policy,
        case=replace(policy.case, extra_steps=steps),
        suite=replace(policy.suite, extra_pairs=steps),
        net=replace(policy.net, extra_pairs=steps),
    )


_LOOSER = ("block", "net", "warn")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Options of a command that replace settings of the base; None keeps the setting."""

    on_broken: OnBroken | None = None
    on_undecided: BlockOrWarn | None = None
    on_drifted: BlockOrWarn | None = None

    def applied(self, policy: GatePolicy) -> GatePolicy:
        """The policy with these options."""
        return replace(policy, **self._overrides())

    def loosened(self, policy: GatePolicy) -> tuple[str, ...]:
        """The options that are looser than the policy, as they are typed.

        >>> PolicyOptions(on_drifted="warn", on_undecided="warn").loosened(GatePolicy())
        ('--on-undecided warn',)
        """
        return tuple(
            f"--{name.replace('_', '-')} {value}"
            for name, value in self._overrides().items()
            if _LOOSER.index(value) > _LOOSER.index(getattr(policy, name))
        )

    def _overrides(self) -> dict[str, Any]:
        names = ("on_broken", "on_undecided", "on_drifted")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def policy_of(settings: GateSettings) -> GatePolicy:
    """The policy that settings ask for.

    Raises:
        UsageError: Two settings contradict each other.
    """
    try:
        return GatePolicy(
            case=CasePolicy(alpha=settings.alpha_case),
            suite=SuitePolicy(alpha=settings.alpha_suite),
            on_broken=settings.on_broken,
            on_undecided=settings.on_undecided,
            on_drifted=settings.on_drifted,
            on_new=settings.on_new,
            first_draws=settings.first_draws,
            baseline_trials=settings.baseline_trials,
            accepted_max=settings.accepted_max,
            min_effect=settings.min_effect,
            new_trials=settings.new_case_trials,
            new_passes=settings.new_case_passes,
        )
    except ValueError as error:
        fix = "change it in pyproject.toml"
        raise UsageError(f"[tool.regauge.gate]: {error}", fix=fix) from error


Side: TypeAlias = Literal["candidate", "base"]
NotRecorded: TypeAlias = Literal["not-recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTrials:
    """The trials of the base of one case before this run.

    Attributes:
        checks: Passes and trials of each required check; a check that abstained has fewer trials.
        whole: Trials in which every required check passed.
        scores: The scores of each check, where it gives any, each between 0 and 1.
        sessions: Ids of the runs the trials were made in.
        distinct_answers: How many different texts the answers were.
    """

    checks: Mapping[str, Count]
    whole: Count
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    sessions: tuple[str, ...] = ()
    distinct_answers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One golden case of one prompt, and what is known of it on the base.

    Attributes:
        prompt: The name of the prompt.
        case: The id of the golden case.
        checks: The names of the checks that must pass; at least one.
        history: The base's trials; None where there are none.
        state: `unchanged` when the request is the same to the byte: nothing is drawn. `new` when
            the base has no such case, so it is judged by its own bar.
        tier: `critical` cases must not fail whatever base does; `tracked` ones count for the suite
            alone.
        strict: Whether one failure of a critical case is enough.
        accepted: Why this case may change its verdict, or may be removed; empty when it may not.
        broke_before: In how many of the last versions of base its changelog accepts that the case
            broke.
        recorded: Whether both sides have recorded outputs alone, so that no trial can be added.
    """

    prompt: str
    case: str
    checks: tuple[str, ...]
    history: BaseTrials | None = None
    state: CaseState = "changed"
    tier: CaseTier = "required"
    strict: bool = False
    accepted: str = ""
    broke_before: int = 0
    recorded: bool = False

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        if not self.checks or len(set(self.checks)) < len(self.checks):
            raise ValueError(
                f"case {self.case!r} of {self.prompt!r} needs checks with names of their own, "
                f"not {list(self.checks)}"
            )

    @property
    def key(self) -> tuple[str, str]:
        """Prompt and case: what a case is known by."""
        return self.prompt, self.case


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """The result of one trial.

    Attributes:
        checks: Whether each required check passed; None where it abstained.
        scores: The scores of checks that give one, between 0 and 1.
        answer: A digest of the answer's text: equal texts have equal digests.
    """

    checks: Mapping[str, bool | None]
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    answer: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether all checks passed that had an opinion; None when none had."""
        opinions = [passed for passed in self.checks.values() if passed is not None]
        return all(opinions) if opinions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """Trials of one case that the gate asks for.

    Attributes:
        trials: Numbers counted from 0 within the side: the candidate's own trials, and the base's
            trials of this run. Whoever draws knows under which numbers they are stored.
    """

    prompt: str
    case: str
    side: Side
    trials: range


def tier_held(tier: CaseTier, base: Count, trials_min: int) -> CaseTier:
    """The tier a case is held to: a critical one only if the base passed that many trials.

    A case that the base itself fails now and then would block changes that did nothing.

    >>> from regauge.evidence import Count
    >>> tier_held("critical", Count(passed=3, trials=3), 1)
    'critical'
    >>> tier_held("critical", Count(passed=2, trials=3), 1)
    'required'
    """
    proven = not base.failed and base.trials >= trials_min
    return "required" if tier == "critical" and not proven else tier


CRITICAL_TRIALS = 20
"""Trials of the base that a critical case must have passed, all of them: with 20 of 20 the chance
of a failure is below 14 % (95 %). More make it harder to call a case critical."""

# So many versions of the last ten that break a case make it edit-sensitive: one may be an accident.
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
        before: The same of the base before this run, or of its first trials if there were none.
        today: The same of the base's trials of this run, drawn side by side with the candidate's.
        checks: One report for each required check, in the order of the case.
        repeated: Trials of the candidate that do not count, because today answers repeat, base's
            too, that hardly ever did.
        missing: Trials asked for that could not be measured.
        needs: Trials that would have to be drawn live; 0 unless a recording was too short.
        recorded: Trials of the candidate that there were.
        flaky: Whether the base's history says that the case is flaky.
        bar: Passes and trials that a case of its own bar needs (a new or critical case).
        broke_before: In how many of the last versions the case broke, and was accepted.
        failure_bound: For a critical case that never failed on the base: the greatest failure rate
            that is still plausible (rule of three).
    """

    prompt: str
    case: str
    tier: CaseTier
    state: CaseState
    verdict: CaseStatus
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
        base_trials: Trials of the base that were measured in this run.
        finished: Whether every trial that was asked for was answered.
        first_draws: Trials of every case in the first round, by prompt.
    """

    decision: Decision
    cases: tuple[CaseReport, ...]
    suites: tuple[SuiteReport, ...]
    reasons: tuple[Reason, ...]
    policy: GatePolicy
    cells: int
    base_trials: int
    finished: bool
    first_draws: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def accepted_broken(self) -> tuple[CaseReport, ...]:
        """Cases that miss their bar and block nothing, by the word of the change's author."""
        return accepted_broken(self.cases)
