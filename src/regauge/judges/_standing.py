"""Whether a judge that asks a model decides or informs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges._asking import Standing, calibrated_judges

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.judges._asking import ModelJudge
    from regauge.project import Project

__all__ = ["calibrated_standing", "standing_of"]


def standing_of(judge: ModelJudge, project: Project) -> Standing:
    """What a judge's verdicts count for in a project.

    A judge decides when its calibration record is about this very judge (rubric, parameters,
    models) and the labels as they are, and meets `[tool.regauge.calibration]`. A judge that has
    `standing_in(project)` answers for itself.
    """
    own: Callable[[Project], Standing] | None = getattr(judge, "standing_in", None)
    if own is not None:
        return own(project)
    (calibrated,) = calibrated_judges(judge)
    return calibrated_standing(calibrated, project)


def calibrated_standing(judge: ModelJudge, project: Project) -> Standing:
    """What a judge's verdicts count for by its own calibration record."""
    # Whoever judges by rules alone reads no records, and needs nothing to read them with.
    from regauge.judges.calibration._current import UncalibratedError, current_calibration
    from regauge.judges.calibration._record import shortfall

    try:
        calibration = current_calibration(judge, project)
    except UncalibratedError as error:
        return Standing(gates=False, reason=str(error))
    missing = shortfall(calibration, project.settings.calibration)
    if missing:
        return Standing(gates=False, reason=missing)
    return Standing(gates=True, reason=f"calibrated on {calibration.date}")
