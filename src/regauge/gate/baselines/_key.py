"""What the trials of a suite are filed under in a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.gate.baselines._baseline import HistoryKey

if TYPE_CHECKING:
    from regauge.judges import Judge
    from regauge.runner import Suite

__all__ = ["gating_judges", "key_of"]


def gating_judges(suite: Suite) -> tuple[Judge, ...]:
    """The judges whose verdicts decide: all but model judges without a passing calibration."""
    return tuple(judge for judge in suite.judges if suite.standing(judge).gates)


def key_of(suite: Suite) -> HistoryKey:
    """What the trials of a suite are filed under in a baseline.

    Raises:
        UsageError: None of its judges decides.
    """
    judges = gating_judges(suite)
    if not judges:
        names = ", ".join(judge.name for judge in suite.judges)
        raise UsageError(
            f"{suite.prompt.name}: no judge decides, all of them only inform: {names}\n"
            "  fix: add a rule, or calibrate a judge: regauge calibrate"
        )
    return HistoryKey(
        prompt=suite.prompt.digest,
        model=str(suite.model),
        parameters=suite.prompt.parameters,
        dataset=suite.dataset.name,
        judges={judge.name: judge.digest for judge in judges},
    )
