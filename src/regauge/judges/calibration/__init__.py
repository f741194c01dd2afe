"""Calibration: how far a judge that asks a model agrees with people, and with itself."""

from __future__ import annotations

from regauge.judges.calibration._agreement import (
    ComparingJudge,
    Judged,
    Judgement,
    agreement_of,
    cases_of_labels,
    disagrees,
    judge_labels,
)
from regauge.judges.calibration._labels import (
    Label,
    LabelKind,
    Labels,
    file_stem,
    labels_path,
    load_labels,
)
from regauge.judges.calibration._record import (
    Agreement,
    Calibration,
    CalibrationFile,
    Confusion,
    Estimate,
    Flips,
    LabelsSummary,
    UncalibratedError,
    calibration_path,
    current_calibration,
    load_calibrations,
    shortfall,
    write_calibrations,
)

__all__ = [
    "Agreement",
    "Calibration",
    "CalibrationFile",
    "ComparingJudge",
    "Confusion",
    "Estimate",
    "Flips",
    "Judged",
    "Judgement",
    "Label",
    "LabelKind",
    "Labels",
    "LabelsSummary",
    "UncalibratedError",
    "agreement_of",
    "calibration_path",
    "cases_of_labels",
    "current_calibration",
    "disagrees",
    "file_stem",
    "judge_labels",
    "labels_path",
    "load_calibrations",
    "load_labels",
    "shortfall",
    "write_calibrations",
]
