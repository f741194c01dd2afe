"""Whether the calibration record of a judge is about the judge as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import DatasetError, FaultyFileError
from regauge.judges.calibration._labels import load_labels
from regauge.judges.calibration._record import calibration_path, load_calibrations

if TYPE_CHECKING:
    from regauge.judges._asking import ModelJudge
    from regauge.judges.calibration._record import Calibration, CalibrationFile
    from regauge.project import Project

__all__ = ["UncalibratedError", "current_calibration"]


class UncalibratedError(Exception):
    """No calibration speaks for a judge as it is; the message says why."""


def current_calibration(judge: ModelJudge, project: Project) -> Calibration:
    """The calibration of this very judge, by the labels as they are.

    Raises:
        UncalibratedError: There is none.
    """
    try:
        file = load_calibrations(calibration_path(judge.name, project))
    except FaultyFileError as error:
        raise UncalibratedError("its calibration record cannot be read") from error
    if file is None:
        raise UncalibratedError("no calibration record")
    if file.judge != judge.name:
        raise UncalibratedError(f"its calibration record is about {file.judge!r}")
    calibration = file.of(judge.digest)
    if calibration is None:
        raise UncalibratedError(_stale(file, judge))
    try:
        labels = load_labels(calibration.labels.of or judge.name, project)
    except DatasetError as error:
        raise UncalibratedError(f"its labels cannot be used: {error.faults[0].message}") from error
    if labels.digest != calibration.labels.digest:
        raise UncalibratedError("its labels changed since it was calibrated")
    return calibration


def _stale(file: CalibrationFile, judge: ModelJudge) -> str:
    if any(known.models == tuple(judge.models) for known in file.calibrations):
        return "its rubric or parameters changed since it was calibrated"
    models = " and ".join(sorted({", ".join(one.models) for one in file.calibrations}))
    return f"it was calibrated with {models}, not with {', '.join(judge.models)}"
