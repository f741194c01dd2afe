"""Calibration records: `fixtures/labels/<judge>.calibration.json`, how far a judge agrees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regauge.errors import DatasetError, Fault, FaultyFileError, UsageError
from regauge.judges.calibration._labels import file_stem, load_labels
from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.judges._asking import ModelJudge
    from regauge.project import CalibrationSettings, Project


_SUFFIX = ".calibration.json"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Estimate(_Document):
    """A number with its 95 % interval, which is missing where too little is known."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        interval = "" if self.low is None else f"  [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


class Confusion(_Document):
    """`counts[i][j]`: people said label i, the judge label j."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class Flips(_Document):
    """The number of pairs whose winner changed with the order of the answers."""

    pairs: int
    flips: int
    for_first: int
    for_second: int


class Agreement(_Document):
    """The agreement of a judge with users, and with itself.

    Attributes:
        judged: How many labelled answers, or pairs, the judge came to a verdict on.
        abstained: How many it had no opinion on.
        unreadable: How many it gave no verdict on that could be read.
        base_rate: The share that people passed; for scores their mean; for pairs the share in
            which people prefer `a`.
        commonest: The accuracy of always saying what people say most often.
        accuracy: The share on which both say the same; scores are taken to the nearest level.
        kappa: Cohen's kappa; None where it is not defined, as when people say one thing only.
        weighted_kappa: With quadratic weights, for scores.
        spearman: Of the judge's scores and the labels.
        kendall: Kendall's tau-b of the same.
        self_consistency: How often two judgements of one answer are the same; None without
            repeats.
        position_flips: For pairs.
        disagreements: The ids of the labels the judge contradicts.
    """

    judged: int
    abstained: int = 0
    unreadable: int = 0
    base_rate: float | None
    commonest: float | None
    accuracy: Estimate | None
    kappa: Estimate | None
    weighted_kappa: Estimate | None = None
    spearman: Estimate | None = None
    kendall: Estimate | None = None
    confusion: Confusion
    self_consistency: float | None = None
    position_flips: Flips | None = None
    disagreements: tuple[str, ...] = ()


class LabelsSummary(_Document):
    """The labels that a judge was compared with.

    Attributes:
        of: The judge under whose name they are filed; None for those of its own.
    """

    of: str | None = None
    kind: Literal["outcomes", "scores", "pairs"]
    count: int
    digest: str


class Calibration(_Document):
    """The calibration of one judge.

    Attributes:
        digest: The judge's: over its rubric, its parameters and its models.
        models: Who was asked.
        date: When, as `2026-11-21`.
        repeats: How often every answer was judged.
    """

    models: tuple[str, ...]
    digest: str
    date: str
    repeats: int
    labels: LabelsSummary
    agreement: Agreement


class CalibrationFile(_Document):
    """The file: one calibration for each set of models that the judge was tried with."""

    format: Literal[1] = 1
    judge: str
    calibrations: tuple[Calibration, ...] = Field(min_length=1)

    def of(self, digest: str) -> Calibration | None:
        """The calibration of the judge that has this digest."""
        return next(
            (calibration for calibration in self.calibrations if calibration.digest == digest), None
        )

    def with_calibration(self, new: Calibration) -> CalibrationFile:
        """The same file with `new` instead of the earlier entries of the same models.

        A calibration that came out as before keeps its date.
        """
        others = [
            calibration for calibration in self.calibrations if calibration.models != new.models
        ]
        known = [
            calibration
            for calibration in self.calibrations
            if calibration.model_copy(update={"date": new.date}) == new
        ]
        kept = sorted([*others, *(known or [new])], key=lambda one: one.models)
        return CalibrationFile(judge=self.judge, calibrations=tuple(kept))

    def to_text(self) -> str:
        """The file's text: sorted, so that a change shows as a small diff."""
        document = self.model_dump(mode="json", exclude_none=False)
        return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def calibration_path(judge: str, project: Project) -> Path:
    """Where the calibration record of a judge is, or would be."""
    return project.labels_dir / f"{file_stem(judge)}{_SUFFIX}"


def load_calibrations(path: Path) -> CalibrationFile | None:
    """Read a calibration record; None where there is none.

    Raises:
        FaultyFileError: It cannot be read.
    """
    try:
        text = read_regular(path).decode("utf-8")
        return CalibrationFile.model_validate_json(text)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read: {error}"
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"no calibration record: {where + ': ' if where else ''}{first['msg']}"
    fault = Fault(
        path=path,
        line=None,
        message=problem,
        fix=f"write it again: regauge judges calibrate {path.name.removesuffix(_SUFFIX)}",
    )
    raise FaultyFileError([fault])


def write_calibrations(path: Path, file: CalibrationFile) -> bool:
    """Write a calibration record; one that would be the same is not touched.

    Returns:
        Whether it was written.

    Raises:
        UsageError: It cannot be written.
    """
    from regauge.atomic import write_whole

    content = file.to_text().encode()
    try:
        if path.exists() and path.read_bytes() == content:
            return False
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    return True


# With fewer, resampling often leaves one side out, and its interval is too narrow.
_RARER_MIN = 10


def _rarer_labels(calibration: Calibration) -> int:
    """The number of human labels that are not the most frequent one."""
    per_label = [sum(row) for row in calibration.agreement.confusion.counts]
    # A pair is judged, and counted, in both orders.
    orders = 2 if calibration.labels.kind == "pairs" else 1
    return (sum(per_label) - max(per_label, default=0)) // orders


def shortfall(calibration: Calibration, policy: CalibrationSettings) -> str:
    """The gaps of a calibration that keep its judge advisory; empty without any."""
    agreement = calibration.agreement
    if agreement.judged < policy.min_labels:
        return f"{agreement.judged} labelled answers were judged, {policy.min_labels} are needed"
    rarer = _rarer_labels(calibration)
    if rarer < _RARER_MIN:
        return (
            f"{rarer} labels differ from the most frequent one, {_RARER_MIN} are needed:"
            " add labels of the rarer kind"
        )
    name, deciding = "kappa", agreement.kappa
    if calibration.labels.kind == "scores":
        name, deciding = "Spearman's correlation", agreement.spearman
    if deciding is None or deciding.low is None:
        return f"{name} is not defined: labels or verdicts hardly vary"
    if deciding.low <= policy.floor:
        return f"{name} may be as low as {deciding.low:.2f}, the floor is {policy.floor:.2f}"
    return ""


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
    models = " and ".join(
        sorted({", ".join(calibration.models) for calibration in file.calibrations})
    )
    return f"it was calibrated with {models}, not with {', '.join(judge.models)}"
