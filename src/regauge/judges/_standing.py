"""Whether a judge that asks a model decides or informs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import DatasetError, FaultyFileError
from regauge.judges._asking import Standing
from regauge.judges.calibration._labels import load_labels
from regauge.judges.calibration._record import (
    calibration_path,
    load_calibrations,
    shortfall,
)

if TYPE_CHECKING:
    from regauge.judges._asking import ModelJudge
    from regauge.judges.calibration._record import Calibration, CalibrationFile
    from regauge.project import Project

__all__ = ["standing_of"]


def standing_of(judge: ModelJudge, project: Project) -> Standing:
    """What a judge's verdicts count for in a project.

    A judge decides when its calibration record is about this very judge (rubric, parameters,
    models) and the labels as they are, and meets `[tool.regauge.calibration]`.
    """
    try:
        calibration = _current(judge, project)
    except _UncalibratedError as error:
        return Standing(gates=False, reason=str(error))
    missing = shortfall(calibration, project.settings.calibration)
    if missing:
        return Standing(gates=False, reason=missing)
    return Standing(gates=True, reason=f"calibrated on {calibration.date}")


class _UncalibratedError(Exception):
    """No calibration speaks for a judge; the message says why."""


def _current(judge: ModelJudge, project: Project) -> Calibration:
    """The calibration of this very judge, by the labels as they are."""
    try:
        file = load_calibrations(calibration_path(judge.name, project))
    except FaultyFileError as error:
        raise _UncalibratedError("its calibration record cannot be read") from error
    if file is None:
        raise _UncalibratedError("no calibration record")
    if file.judge != judge.name:
        raise _UncalibratedError(f"its calibration record is about {file.judge!r}")
    calibration = file.of(judge.digest)
    if calibration is None:
        raise _UncalibratedError(_stale(file, judge))
    try:
        labels = load_labels(judge.name, project)
    except DatasetError as error:
        raise _UncalibratedError(f"its labels cannot be used: {error.faults[0].message}") from error
    if labels.digest != calibration.labels.digest:
        raise _UncalibratedError("its labels changed since it was calibrated")
    return calibration


def _stale(file: CalibrationFile, judge: ModelJudge) -> str:
    if any(known.models == tuple(judge.models) for known in file.calibrations):
        return "its rubric or parameters changed since it was calibrated"
    models = " and ".join(sorted({", ".join(one.models) for one in file.calibrations}))
    return f"it was calibrated with {models}, not with {', '.join(judge.models)}"
