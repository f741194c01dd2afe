"""Calibration: the agreement of an LLM judge with human labels, and with itself."""

# ruff: noqa: I001 - isort would give each name a statement of its own
from __future__ import annotations

from regauge.judges.calibration._agreement import (
    ComparingJudge as ComparingJudge,
    LabelledVerdict as LabelledVerdict,
    Judgement as Judgement,
    measure_agreement as measure_agreement,
    cases_of_labels as cases_of_labels,
    find_disagreements as find_disagreements,
    judge_labels as judge_labels,
)
from regauge.judges.calibration._record import (
    Label as Label,
    LabelKind as LabelKind,
    Labels as Labels,
    LabelSheet as LabelSheet,
    file_stem as file_stem,
    labels_path as labels_path,
    load_labels as load_labels,
)
from regauge.judges.calibration._record import (
    Agreement as Agreement,
    Calibration as Calibration,
    CalibrationFile as CalibrationFile,
    Confusion as Confusion,
    IntervalEstimate as IntervalEstimate,
    Flips as Flips,
    LabelsSummary as LabelsSummary,
    UncalibratedError as UncalibratedError,
    calibration_path as calibration_path,
    current_calibration as current_calibration,
    load_calibrations as load_calibrations,
    shortfall as shortfall,
    write_calibrations as write_calibrations,
)
