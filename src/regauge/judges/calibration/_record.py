"""Calibration records: `fixtures/labels/<judge>.calibration.json`, how far a judge agrees."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regauge.datasets import Record, Source, read_jsonl
from regauge.digests import JSON, digest_of
from regauge.errors import DatasetError, Fault, FaultyFileError, UsageError
from regauge.judges._types import is_number
from regauge.regular_file import read_regular
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.judges._types import ModelJudge
    from regauge.project import CalibrationSettings, Project


LabelKind: TypeAlias = Literal["outcomes", "scores", "pairs"]

_TEXTS = ("id", "case", "answer", "a", "b", "by", "why", "origin", "note", "split")
_KEYS = (*_TEXTS, "label", "score", "inputs", "expected")
_WORDS: Mapping[LabelKind, tuple[str, ...]] = {
    "outcomes": ("pass", "fail"),
    "pairs": ("a", "b", "tie"),
}
_SHOWN: Mapping[LabelKind, str] = {
    "outcomes": "`label` says pass or fail",
    "scores": "`score` is a number from 0 to 1",
    "pairs": "`label` says a, b or tie",
}
_FAULTS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of a user for one answer, or for two.

    Attributes:
        id: Unique in its file.
        answers: The answer; for a pair both, `a` first.
        says: `pass` or `fail`, a score from 0 to 1, or for a pair `a`, `b` or `tie`.
        case: The id of the golden case that was answered; empty where the label brings its own
            `inputs` and `expected`.
        inputs: Of a case that no dataset holds; None where `case` names one.
        by: Who says so.
        why: In that person's words.
        origin: Where the answer comes from.
        split: `train` for answers that were looked at while the rubric was written, say.
        at: Where it stands, as `fixtures/labels/x.jsonl:12`.
    """

    id: str
    answers: tuple[str, ...]
    says: str | float
    case: str = ""
    inputs: Mapping[str, JSON] | None = None
    expected: JSON = None
    by: str = ""
    why: str = ""
    origin: str = ""
    split: str = ""
    at: str = ""

    def to_json(self) -> dict[str, JSON]:
        """The parts that can change agreement, without author and reason."""
        return {
            "answers": self.answers,
            "case": self.case,
            "expected": self.expected,
            "inputs": self.inputs,
            "says": self.says,
        }


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of one judge, in the order of their file.

    Attributes:
        judge: The judge's name.
        kind: Of what kind all of them are: pass or fail, scores, or the better one of a pair.
        labels: At least one.
    """

    judge: str
    path: Path
    kind: LabelKind
    labels: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of what was labelled and how, by id."""
        return digest_of({label.id: label.to_json() for label in self.labels})


def file_stem(judge: str) -> str:
    """The stem of file names about a judge: its name without forbidden characters.

    >>> file_stem("incident-faithfulness"), file_stem("deepeval(GEval, name=no blame)")
    ('incident-faithfulness', 'deepeval-GEval-name-no-blame')
    """
    return re.sub(r"[^\w.-]+", "-", judge).strip("-.")


def labels_path(judge: str, project: Project) -> Path:
    """Where the labels of a judge are, or would be."""
    return project.labels_dir / f"{file_stem(judge)}.jsonl"


def load_labels(judge: str, project: Project) -> Labels:
    """Read the labels of a judge.

    Raises:
        DatasetError: There are none, or the file cannot be used; it lists all that is wrong.
    """
    path = labels_path(judge, project)
    source = Source(path=path, place=project.relative(path), record_noun="a label")
    try:
        records = [*read_jsonl(source)]
    except FileNotFoundError:
        source.add_fault(
            None,
            f"no labels of judge {judge!r}",
            'write one label a line: {"id": ..., "case": ..., "answer": ..., "label": "pass",'
            ' "by": ..., "why": ...}' + _near(judge, project),
        )
        raise DatasetError(source.faults) from None
    except OSError as error:
        source.add_fault(None, f"cannot be read: {(error.strerror or str(error)).lower()}")
        raise DatasetError(source.faults) from error
    records = [record for record in records if not _is_unlabelled(record.values)]
    if not records and not source.faults:
        fix = "write pass or fail behind `label` in each line of the file"
        source.add_fault(None, "no line has a label yet", fix)
        raise DatasetError(source.faults)
    labels = _labels(records, source)
    if not labels and not source.faults:
        source.add_fault(None, "no labels", "add one, or remove the file")
    if source.faults:
        faults = sorted(source.faults, key=lambda fault: fault.line or 0)
        raise DatasetError(faults[:_FAULTS_SHOWN_MAX])
    return Labels(judge=judge, path=path, kind=_kind(records[0]), labels=tuple(labels))


@dataclass(slots=True, kw_only=True)
class LabelSheet:
    """A file of labels while outputs are added to it; labelled lines stay as they are.

    Attributes:
        lines: All lines, each a JSON object.
        kind: Of the labels that are there; of an empty file, `outcomes`.
    """

    lines: list[str]
    kind: Literal["outcomes", "scores"]

    @classmethod
    def read(cls, text: str, path: str) -> LabelSheet:
        """Read the text of a file of labels.

        Raises:
            UsageError: A line is no label of one output.
        """
        sheet = cls(lines=[], kind="outcomes")
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                values: object = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(
                    f"{path}:{number}: not a label: {error}", fix="correct the line, or remove it"
                ) from error
            if not isinstance(values, dict) or "a" in values or "b" in values:
                raise UsageError(
                    f"{path}:{number}: this file holds pairs, and a run has single outputs",
                    fix="label pairs by hand: `a`, `b` and `label`",
                )
            if "score" in values and "label" not in values:
                sheet.kind = "scores"
            sheet.lines.append(line.rstrip("\r"))
        return sheet

    def add(self, outputs: Iterable[Mapping[str, str]], *, origin: str) -> int:
        """Add outputs that have no line yet, without a label; returns their number.

        They are sorted by a digest, so good and bad outputs are mixed, in the same order for
        every user.
        """
        ids = {json.loads(line).get("id") for line in self.lines}
        new = sorted(
            (output for output in outputs if output["id"] not in ids),
            key=lambda output: digest_of(output["id"]),
        )
        empty: Mapping[str, JSON] = {self.key: None if self.kind == "scores" else ""}
        self.lines += [
            json.dumps(
                {**output, **empty, "by": "", "why": "", "origin": origin}, ensure_ascii=False
            )
            for output in new
        ]
        return len(new)

    @property
    def key(self) -> str:
        """The key of a label."""
        return "score" if self.kind == "scores" else "label"

    @property
    def words(self) -> str:
        """The values of a label."""
        return "a number from 0 to 1" if self.kind == "scores" else " or ".join(_WORDS["outcomes"])

    @property
    def unlabelled(self) -> list[dict[str, JSON]]:
        """The lines that wait for a label."""
        return [values for line in self.lines if _is_unlabelled(values := json.loads(line))]

    @property
    def text(self) -> str:
        """The text of the file."""
        return "".join(f"{line}\n" for line in self.lines)


def _is_unlabelled(values: Mapping[str, object]) -> bool:
    """Return whether a line waits for a label."""
    return any(key in values and values[key] in ("", None) for key in ("label", "score"))


def _near(judge: str, project: Project) -> str:
    names = [path.stem for path in sorted(project.labels_dir.glob("*.jsonl"))]
    near = did_you_mean(file_stem(judge), names)
    return f"\n  or {near}" if near else ""


def _kind(record: Record) -> LabelKind:
    """The kind of a record by its keys; its values may still be wrong."""
    values = record.values
    if "a" in values or "b" in values:
        return "pairs"
    return "scores" if "score" in values and "label" not in values else "outcomes"


def _labels(records: Sequence[Record], source: Source) -> list[Label]:
    labels: list[Label] = []
    lines: dict[str, int] = {}
    for record in records:
        before = len(source.faults)
        label = _label(record, source)
        if label.id in lines:
            source.add_fault(
                record.line,
                f"the id {label.id!r} is taken: line {lines[label.id]} has it too",
                "every label needs an id of its own",
            )
        elif label.id:
            lines[label.id] = record.line
        first = _kind(records[0])
        if _kind(record) != first:
            source.add_fault(
                record.line,
                f"another kind of label than that of line {records[0].line}, where {_SHOWN[first]}",
                "keep one kind of label per file",
            )
        if len(source.faults) == before:
            labels.append(label)
    return labels


def _label(record: Record, source: Source) -> Label:
    for key in record.values:
        if key not in _KEYS:
            fix = did_you_mean(key, _KEYS) or f"known keys: {', '.join(_KEYS)}"
            source.add_fault(record.line, f"unknown key {key!r}", fix)
    texts = {key: _text(record, key, source) for key in _TEXTS}
    kind = _kind(record)
    required = ("id", "a", "b") if kind == "pairs" else ("id", "answer")
    for key in required:
        if key not in record.values:
            source.add_fault(record.line, f"a label without `{key}`")
    if "id" in record.values and not texts["id"]:
        source.add_fault(record.line, "the id is empty")
    if kind == "pairs" and "answer" in record.values:
        source.add_fault(record.line, "`answer` next to `a` and `b`", "keep the one or the others")
    return Label(
        **{key: texts[key] for key in ("id", "case", "by", "why", "origin", "split")},
        answers=tuple(texts[key] for key in required[1:]),
        says=_says(record, kind, source),
        inputs=_inputs(record, source),
        expected=cast("JSON", record.values.get("expected")),
        at=f"{source.place.as_posix()}:{record.line}",
    )


def _text(record: Record, key: str, source: Source) -> str:
    value = record.values.get(key, "")
    if isinstance(value, str):
        return value
    source.add_fault(
        record.line, f"`{key}` is not text but {str(value)[:40]!r}", "put it in quotes"
    )
    return ""


def _says(record: Record, kind: LabelKind, source: Source) -> str | float:
    values = record.values
    if "label" in values and "score" in values:
        source.add_fault(record.line, "`label` next to `score`", "keep one of them")
    if kind == "scores":
        score = values["score"]
        if is_number(score) and 0 <= score <= 1:
            return float(score)
        source.add_fault(record.line, f"the score is {str(score)[:40]!r}, not a number from 0 to 1")
        return 0.0
    label = values.get("label")
    if isinstance(label, str) and label in _WORDS[kind]:
        return label
    if "label" not in values:
        source.add_fault(record.line, f"nothing says what it is worth: {_SHOWN[kind]}")
    else:
        words = " or ".join(_WORDS[kind])
        source.add_fault(record.line, f"the label is {str(label)[:40]!r}, not {words}")
    return ""


def _inputs(record: Record, source: Source) -> Mapping[str, JSON] | None:
    values = record.values
    inputs = values.get("inputs")
    if inputs is None:
        if not values.get("case"):
            source.add_fault(
                record.line,
                "nothing says what was answered",
                "name a golden case: `case`, or give `inputs` and `expected`",
            )
        elif "expected" in values:
            source.add_fault(
                record.line, "`expected` without `inputs`", "the golden case has its own"
            )
        return None
    if not isinstance(inputs, dict):
        source.add_fault(record.line, "`inputs` is not a mapping of names to values")
        return None
    return cast("Mapping[str, JSON]", inputs)


_SUFFIX = ".calibration.json"


class _CalibrationDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IntervalEstimate(_CalibrationDocument):
    """A number with its 95 % interval, which is missing where too little is known."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        interval = "" if self.low is None else f"  [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


class Confusion(_CalibrationDocument):
    """`counts[i][j]`: people said label i, the judge label j."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class Flips(_CalibrationDocument):
    """The number of pairs whose winner changed with the order of the answers."""

    pairs: int
    flips: int
    for_first: int
    for_second: int


class Agreement(_CalibrationDocument):
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
    accuracy: IntervalEstimate | None
    kappa: IntervalEstimate | None
    weighted_kappa: IntervalEstimate | None = None
    spearman: IntervalEstimate | None = None
    kendall: IntervalEstimate | None = None
    confusion: Confusion
    self_consistency: float | None = None
    position_flips: Flips | None = None
    disagreements: tuple[str, ...] = ()


class LabelsSummary(_CalibrationDocument):
    """The labels that a judge was compared with.

    Attributes:
        of: The judge under whose name they are filed; None for those of its own.
    """

    of: str | None = None
    kind: Literal["outcomes", "scores", "pairs"]
    count: int
    digest: str


class Calibration(_CalibrationDocument):
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


class CalibrationFile(_CalibrationDocument):
    """The file: one calibration for each set of models that the judge was tried with."""

    format: Literal[1] = 1
    judge: str
    calibrations: tuple[Calibration, ...] = Field(min_length=1)

    def find(self, digest: str) -> Calibration | None:
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
        same_models = [
            calibration
            for calibration in self.calibrations
            if calibration.model_copy(update={"date": new.date}) == new
        ]
        kept = sorted([*others, *(same_models or [new])], key=lambda record: record.models)
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
    calibration = file.find(judge.digest)
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
    if any(record.models == tuple(judge.models) for record in file.calibrations):
        return "its rubric or parameters changed since it was calibrated"
    models = " and ".join(
        sorted({", ".join(calibration.models) for calibration in file.calibrations})
    )
    return f"it was calibrated with {models}, not with {', '.join(judge.models)}"
