"""From `[tool.regauge.gate]` to the policy of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regauge.errors import UsageError
from regauge.gate._policy import GatePolicy
from regauge.stats import CasePolicy, SuitePolicy

if TYPE_CHECKING:
    from regauge.gate._policy import BlockOrWarn, OnBroken
    from regauge.project import GateSettings

__all__ = ["PolicyOptions", "policy_of"]

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
