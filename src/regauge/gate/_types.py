"""The values of a gate: inputs, limits and outcome."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads it
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict

from regauge.evidence import CaseState, CaseTier, Count  # noqa: TC001 - pydantic reads them
from regauge.stats import (
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
    auto_baseline_trials,
    auto_first_trials,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.evidence import CaseStatus, CheckReport, SuiteReport
    from regauge.project import GateSettings


OnBroken: TypeAlias = Literal["net", "block", "warn"]
BlockOrWarn: TypeAlias = Literal["block", "warn"]
Auto: TypeAlias = Literal["auto"]

# Trials between the looks of a continued run.
_MORE_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """The settings of a decision.

    Attributes:
        case: Test for broken and fixed cases.
        suite: Test for a worse suite.
        net: Test that weighs broken against fixed cases.
        critical: Rule for critical cases.
        on_broken: Effect of broken cases: weigh them against fixed ones (`net`), `block`, or only
            `warn`. Critical cases always block.
        on_undecided: Whether an undecided case keeps the change from being accepted. A recording
            that is too short always does, unless the run is provisional.
        on_drifted: The same for a case that the base fails today, too.
        on_new: Effect of a new case that misses its bar.
        first_trials: Trials of every case in the first round, at least 1; `auto` is about 100 for
            each prompt.
        baseline_trials: Trials of every case in a complete baseline; `auto` is about 200 in all,
            and at least 12.
        accepted_max: Limit of broken cases that changelogs may accept in one change; None for no
            limit.
        min_effect: Decrease of scores that does not count, from 0 to below 1.
        first_baseline: Minimum trials of the base in the same run for a case without a baseline.
        new_trials: Trials of a new case.
        new_passes: Trials of a new case that must pass.
        improved_at_most: Largest pass rate of the base for a case to be tested for a fix; below 0
            for none.
        provisional: Whether recorded trials alone decide, until a run with a key audits them.
            Suspects without enough recorded trials are left to that run.
    """

    case: CasePolicy = field(default_factory=CasePolicy)
    suite: SuitePolicy = field(default_factory=SuitePolicy)
    net: NetPolicy = field(default_factory=NetPolicy)
    critical: CriticalPolicy = field(default_factory=CriticalPolicy)
    on_broken: OnBroken = "net"
    on_undecided: BlockOrWarn = "block"
    on_drifted: BlockOrWarn = "warn"
    on_new: BlockOrWarn = "block"
    first_trials: int | Auto = "auto"
    baseline_trials: int | Auto = "auto"
    accepted_max: int | None = None
    min_effect: float = 0.0
    first_baseline: int = 3
    new_trials: int = 3
    new_passes: int = 3
    improved_at_most: float = 0.25
    provisional: bool = False

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        for name in ("first_trials", "baseline_trials"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise ValueError(f"{name} must be at least 1 or 'auto', not {value}")
        if not 0 <= self.min_effect < 1 or not self.improved_at_most < 1:
            raise ValueError("min_effect must be at least 0, and it and improved_at_most below 1")
        if self.first_baseline < 1:
            raise ValueError(f"first_baseline must be at least 1, not {self.first_baseline}")
        if not 0 <= self.new_passes <= self.new_trials or self.new_trials < 1:
            raise ValueError(
                f"new_passes must be 0 to new_trials, not {self.new_passes} of {self.new_trials}"
            )

    def first_trials_of(self, cases: int) -> int:
        """Trials of every case in the first round of a prompt with `cases` compared cases."""
        return auto_first_trials(cases) if self.first_trials == "auto" else self.first_trials

    def baseline_trials_of(self, cases: int) -> int:
        """Trials of every case in a complete baseline of `cases` cases."""
        if self.baseline_trials == "auto":
            return auto_baseline_trials(cases)
        return self.baseline_trials

    @property
    def more_trials(self) -> int:
        """Trials of a suspect beyond the policy's own steps."""
        return sum(self.case.extra_steps)


def with_more_trials(policy: GatePolicy, trials: int) -> GatePolicy:
    """The policy for a run that continues an undecided one, with further trials of each suspect.

    Evidence of single cases may be gathered without limit: the error rates hold at every stop. Each
    further look at a suite spends half of the remaining 5 %. Looks come every 8 trials, so 16 more
    trials continue the run that had 8 more.

    >>> with_more_trials(GatePolicy(), 24).case.extra_steps
    (8, 8, 8)
    """
    if trials < 1:
        return policy
    full_steps, rest = divmod(trials, _MORE_STEP)
    steps = (*policy.case.extra_steps, *(_MORE_STEP,) * full_steps, *((rest,) if rest else ()))
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

    def apply_to(self, policy: GatePolicy) -> GatePolicy:
        """The policy with these options."""
        return replace(policy, **self._overrides())

    def looser_options(self, policy: GatePolicy) -> tuple[str, ...]:
        """The options that are looser than the policy, as on the command line.

        >>> PolicyOptions(on_drifted="warn", on_undecided="warn").looser_options(GatePolicy())
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
    """The policy of settings."""
    return GatePolicy(
        case=CasePolicy(alpha=settings.alpha_case),
        suite=SuitePolicy(alpha=settings.alpha_suite),
        on_broken=settings.on_broken,
        on_undecided=settings.on_undecided,
        on_drifted=settings.on_drifted,
        on_new=settings.on_new,
        first_trials=settings.first_trials,
        baseline_trials=settings.baseline_trials,
        accepted_max=settings.accepted_max,
        min_effect=settings.min_effect,
        new_trials=settings.new_case_trials,
        new_passes=settings.new_case_passes,
    )


Side: TypeAlias = Literal["candidate", "base"]
NotRecorded: TypeAlias = Literal["not-recorded", "unavailable"]
"""A trial without facts: it is not recorded, or nothing can be called or read for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTrials:
    """The trials of the base of one case before this run.

    Attributes:
        checks: Passes and trials of each required check, without abstentions.
        total: Trials in which every required check passed.
        scores: Scores of each check, if it gives any, each between 0 and 1.
        sessions: Ids of the sessions.
        distinct_outputs: Number of different outputs.
    """

    checks: Mapping[str, Count]
    total: Count
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    sessions: tuple[str, ...] = ()
    distinct_outputs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One golden case of one prompt, and its baseline.

    Attributes:
        prompt: Name of the prompt.
        case: Id of the golden case.
        checks: Names of the required checks; at least one.
        baseline: Trials of the base; None without any.
        state: `unchanged` if the request is the same to the byte: no trials are needed. `new` if
            the base has no such case, so that it has its own bar.
        tier: `critical` cases must not fail whatever the base does; `tracked` ones only count for
            the suite, and outweigh no broken case.
        strict: Whether one failure of a critical case is enough.
        accepted: Reason why this case may break or be removed; empty if it may not.
        broke_before: Number of recent versions of the base that accept the case as broken.
        recorded: Whether both sides have recorded outputs only, so that no trial can be added.
        edited: Whether the change edited the case; a fix of it outweighs no broken case.
        graded: Checks whose scores are compared as well, sorted.
    """

    prompt: str
    case: str
    checks: tuple[str, ...]
    baseline: BaseTrials | None = None
    state: CaseState = "changed"
    tier: CaseTier = "required"
    strict: bool = False
    accepted: str = ""
    broke_before: int = 0
    recorded: bool = False
    edited: bool = False
    graded: tuple[str, ...] = ()

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        if not self.checks or len(set(self.checks)) < len(self.checks):
            raise ValueError(
                f"case {self.case!r} of {self.prompt!r} needs checks with names of their own, "
                f"not {list(self.checks)}"
            )

    @property
    def key(self) -> tuple[str, str]:
        """Prompt and case."""
        return self.prompt, self.case

    @property
    def is_removed_silently(self) -> bool:
        """Return whether the case was removed without an entry in the changelog."""
        return self.state == "removed" and not self.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """The result of one trial.

    Attributes:
        checks: Whether each required check passed; None if it abstained.
        scores: Scores of checks that give one, between 0 and 1.
        output_digest: Digest of the output; equal for equal texts.
    """

    checks: Mapping[str, bool | None]
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    output_digest: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether all checks without an abstention passed; None if all abstained."""
        opinions = [passed for passed in self.checks.values() if passed is not None]
        return all(opinions) if opinions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """Trials of one case that the gate requests.

    Attributes:
        trials: Numbers from 0 within the side: the candidate's trials, or the base's of this run.
            The caller maps them to stored numbers.
    """

    prompt: str
    case: str
    side: Side
    trials: range


def tier_held(tier: CaseTier, base: Count, trials_min: int) -> CaseTier:
    """The tier that applies to a case: critical only if the base passed that many trials.

    A critical case that the base sometimes fails would block harmless changes.

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

# Breaks in the last ten versions that make a case edit-sensitive: a single one may be an accident.
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
        candidate: Trials of the candidate in which every check passed, of all its trials.
        before: The same of the base before this run, or of its first trials without any.
        today: The same of the base's trials in this run that are paired with the candidate's.
        checks: Report of each required check, in the order of the case.
        repeat_count: Trials of the candidate that do not count because completions, the base's too,
            repeat today that hardly ever did.
        unmeasured_trials: Requested trials that could not be measured.
        unrecorded_trials: Live trials needed because a recording is too short.
        recorded: Measured trials of the candidate.
        flaky: Whether the baseline is flaky.
        bar: Passes and trials required of a new or critical case; None for others.
        broke_before: Number of recent versions that broke the case and were accepted.
        failure_bound: For a critical case that never failed on the base: the greatest plausible
            failure rate (rule of three).
    """

    prompt: str
    case: str
    tier: CaseTier
    state: CaseState
    status: CaseStatus
    blocks: bool
    candidate: Count
    before: Count
    today: Count
    checks: tuple[CheckReport, ...]
    accepted: str = ""
    repeat_count: int = 0
    unmeasured_trials: int = 0
    unrecorded_trials: int = 0
    recorded: int = 0
    flaky: bool = False
    bar: Count | None = None
    failure_bound: float | None = None
    broke_before: int = 0

    @property
    def edit_sensitive(self) -> bool:
        """Return whether edits of the prompt repeatedly break the case."""
        return self.broke_before + (self.status == "broken") >= _SENSITIVE_FROM

    @property
    def decisive(self) -> CheckReport | None:
        """The check that the status of the case comes from; None without trials."""
        checks = [check for check in self.checks if check.status == self.status]
        return max(checks, key=lambda check: check.e_value or 0.0, default=None)


def accepted_broken(cases: Iterable[CaseReport]) -> tuple[CaseReport, ...]:
    """Cases that broke, or are new and miss their bar, and that the changelog accepts."""
    return tuple(
        case
        for case in cases
        if case.accepted
        and (
            case.status == "broken"
            or (
                case.status == "new"
                and case.bar is not None
                and case.candidate.failed > case.bar.failed
            )
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason of the decision, or a note for the reader.

    Attributes:
        leads_to: Decision that it leads to alone; `accept` if it does not block.
        case: Id of the case; empty for the whole suite.
        check: Name of the check, for scores.
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
        cases: Reports in the order of the input.
        suites: One for each changed prompt, in order of first mention.
        reasons: Reasons, strongest first.
        checks: Number of checks tested together.
        base_trials: Measured trials of the base in this run.
        finished: Whether no trials are pending.
        first_trials: Trials of every case in the first round, by prompt.
    """

    decision: Decision
    cases: tuple[CaseReport, ...]
    suites: tuple[SuiteReport, ...]
    reasons: tuple[Reason, ...]
    policy: GatePolicy
    checks: int
    base_trials: int
    finished: bool
    first_trials: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def accepted_broken(self) -> tuple[CaseReport, ...]:
        """Cases that miss their bar and do not block, as the author of the change accepts them."""
        return accepted_broken(self.cases)
