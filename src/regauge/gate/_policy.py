"""The limits of a project's gate as one value, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from regauge.errors import UsageError
from regauge.stats import (
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
    auto_baseline_trials,
    auto_first_draws,
)

if TYPE_CHECKING:
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
        on_drifted: The same for a case that main fails too, today.
        on_new: What a new case does that misses its bar.
        first_draws: Trials of every case in the first round, at least 1; `auto` is about 100 in
            all for each prompt.
        baseline_trials: Trials of every case in a complete baseline; `auto` is about 200 in all,
            and at least 12.
        accepted_max: The most broken cases that changelogs may accept in one change; None is no
            limit.
        min_effect: How much lower scores may be and not count; between 0 and 1.
        first_history: How many trials of main, at least, are drawn in the same run for a case that
            has none.
        new_trials: How many trials a new case gets.
        new_passes: How many of them must pass.
        improved_at_most: Only cases that main passes at most so often are tested for being fixed;
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
        return sum(self.case.more)


def with_more_trials(policy: GatePolicy, more: int) -> GatePolicy:
    """The same policy for a run that continues an undecided one, by `more` trials of a suspect.

    Evidence of single cases may be gathered for as long as you like: the error rates hold at every
    stop. Tests of a whole suite spend half of what is left of 5 % at each further look. Looks come
    every 8 trials, so 16 more trials continue the run that had 8 more.

    >>> with_more_trials(GatePolicy(), 24).case.more
    (8, 8, 8)
    """
    if more < 1:
        return policy
    whole, rest = divmod(more, _MORE_STEP)
    steps = (*policy.case.more, *(_MORE_STEP,) * whole, *((rest,) if rest else ()))
    return replace(
        policy,
        case=replace(policy.case, more=steps),
        suite=replace(policy.suite, more=steps),
        net=replace(policy.net, more=steps),
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
        return replace(policy, **self._given())

    def loosened(self, policy: GatePolicy) -> tuple[str, ...]:
        """The options that are looser than the policy, as they are typed.

        >>> PolicyOptions(on_drifted="warn", on_undecided="warn").loosened(GatePolicy())
        ('--on-undecided warn',)
        """
        return tuple(
            f"--{name.replace('_', '-')} {value}"
            for name, value in self._given().items()
            if _LOOSER.index(value) > _LOOSER.index(getattr(policy, name))
        )

    def _given(self) -> dict[str, Any]:
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
        raise UsageError(f"[tool.regauge.gate]: {error}\n  fix: change it in pyproject.toml") from (
            error
        )
