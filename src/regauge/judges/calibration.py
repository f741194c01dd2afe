"""Calibration: the agreement of an LLM judge with human labels, and with itself.

Labels are in `fixtures/labels/<judge>.jsonl`, calibration records next to them.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regauge.datasets import GoldenCase, Record, Source, read_jsonl
from regauge.digests import JSON, digest_of
from regauge.errors import (
    BudgetError,
    DatasetError,
    Diagnostic,
    InvalidFileError,
    JudgeError,
    RegaugeError,
    UnmeasuredError,
    UsageError,
)
from regauge.files import read_regular
from regauge.judges._types import is_number
from regauge.project import CALIBRATION_SUFFIX
from regauge.providers import Completion, Usage
from regauge.strict_json import explain_format
from regauge.wording import did_you_mean, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.judges._types import JudgeCalls, ModelJudge
    from regauge.judges.model._rubric import PairedVerdict
    from regauge.project import CalibrationSettings, Project
    from regauge.providers import CompletionRequest
    from regauge.stats import Sampled, Side


LabelKind: TypeAlias = Literal["outcomes", "scores", "pairs"]

_TEXTS = ("id", "case", "output", "a", "b", "author", "reason", "origin", "note", "split")
_KEYS = (*_TEXTS, "label", "score", "inputs", "expected")
_WORDS: Mapping[LabelKind, tuple[str, ...]] = {
    "outcomes": ("pass", "fail"),
    "pairs": ("a", "b", "tie"),
}
_LABEL_FORMS: Mapping[LabelKind, str] = {
    "outcomes": "`label` is pass or fail",
    "scores": "`score` is a number from 0 to 1",
    "pairs": "`label` is a, b or tie",
}
_ERRORS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A human label for one output, or for a pair.

    Attributes:
        id: Unique in its file.
        outputs: The output; for a pair both, `a` first.
        value: `pass` or `fail`, a score from 0 to 1, or for a pair `a`, `b` or `tie`.
        case: The id of the golden case; empty if the label has its own `inputs` and `expected`.
        inputs: The inputs of a case outside all datasets; None if `case` names one.
        author: The user who set the label.
        reason: The author's reason.
        origin: The origin of the output.
        split: For example `train` for outputs that were used to write the rubric.
        location: File and line, as `fixtures/labels/x.jsonl:12`.
    """

    id: str
    outputs: tuple[str, ...]
    value: str | float
    case: str = ""
    inputs: Mapping[str, JSON] | None = None
    expected: JSON = None
    author: str = ""
    reason: str = ""
    origin: str = ""
    split: str = ""
    location: str = ""

    def to_json(self) -> dict[str, JSON]:
        """The parts that can change agreement, for digests; without author and reason."""
        return {
            "answers": self.outputs,
            "case": self.case,
            "expected": self.expected,
            "inputs": self.inputs,
            "says": self.value,
        }


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of one judge, in the order of their file.

    Attributes:
        judge: The judge's name.
        kind: The kind of all labels: pass or fail, scores, or winners of pairs.
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
        """The SHA-256 of the labels, by id."""
        return digest_of({label.id: label.to_json() for label in self.labels})


def file_stem(judge: str) -> str:
    """The stem of file names about a judge: its name without forbidden characters.

    >>> file_stem("incident-faithfulness"), file_stem("deepeval(GEval, name=no blame)")
    ('incident-faithfulness', 'deepeval-GEval-name-no-blame')
    """
    return re.sub(r"[^\w.-]+", "-", judge).strip("-.")


def labels_path(judge: str, project: Project) -> Path:
    """The path of a judge's labels."""
    return project.labels_dir / f"{file_stem(judge)}.jsonl"


def load_labels(judge: str, project: Project) -> Labels:
    """Read the labels of a judge.

    Raises:
        DatasetError: There are no labels, or the file cannot be used; lists all errors.
    """
    path = labels_path(judge, project)
    source = Source(path=path, place=project.relative(path), record_noun="a label")
    try:
        records = [*read_jsonl(source)]
    except FileNotFoundError:
        source.add_error(
            None,
            f"no labels of judge {judge!r}",
            f"regauge judges calibrate {shlex.quote(judge)} --from-run latest lists outputs to"
            ' label; or write one label a line: {"id": ..., "case": ..., "output": ...,'
            ' "label": "pass", "author": ..., "reason": ...}' + _near(judge, project),
        )
        raise DatasetError(source.diagnostics) from None
    except OSError as error:
        raise DatasetError([Diagnostic.unreadable(source.place, error)]) from error
    records = [record for record in records if not _is_unlabelled(record.values)]
    if not records and not source.diagnostics:
        fix = "write pass or fail behind `label` in each line of the file"
        source.add_error(None, "no line has a label yet", fix)
        raise DatasetError(source.diagnostics)
    labels = _labels(records, source)
    if source.diagnostics:
        diagnostics = sorted(source.diagnostics, key=lambda diagnostic: diagnostic.line or 0)
        raise DatasetError(diagnostics[:_ERRORS_SHOWN_MAX])
    return Labels(judge=judge, path=path, kind=_kind(records[0]), labels=tuple(labels))


@dataclass(slots=True, kw_only=True)
class LabelSheet:
    """A file of labels while outputs are added to it; labelled lines stay as they are.

    Attributes:
        lines: All lines, each a JSON object.
        kind: The kind of the existing labels; `outcomes` for an empty file.
    """

    lines: list[str]
    kind: Literal["outcomes", "scores"]

    @classmethod
    def read(cls, text: str, path: str) -> LabelSheet:
        """Read the text of a file of labels.

        Raises:
            UsageError: A line is not a label of one output.
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
        """Add outputs without a line yet, unlabelled, and return their number.

        They are sorted by digest: good and bad outputs are mixed, in the same order for all users.
        """
        ids = {json.loads(line).get("id") for line in self.lines}
        new = sorted(
            (output for output in outputs if output["id"] not in ids),
            key=lambda output: digest_of(output["id"]),
        )
        empty: Mapping[str, JSON] = {self.key: None if self.kind == "scores" else ""}
        self.lines += [
            json.dumps(
                {**output, **empty, "author": "", "reason": "", "origin": origin},
                ensure_ascii=False,
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
        """The lines without a label."""
        return [values for line in self.lines if _is_unlabelled(values := json.loads(line))]

    @property
    def text(self) -> str:
        """The text of the file."""
        return "".join(f"{line}\n" for line in self.lines)


def _is_unlabelled(values: Mapping[str, object]) -> bool:
    """Return whether a line has no label yet."""
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
        before = len(source.diagnostics)
        label = _label(record, source)
        if label.id in lines:
            source.add_error(
                record.line,
                f"the id {label.id!r} is taken: line {lines[label.id]} has it too",
                "every label needs an id of its own",
            )
        elif label.id:
            lines[label.id] = record.line
        first = _kind(records[0])
        if _kind(record) != first:
            source.add_error(
                record.line,
                f"another kind of label than line {records[0].line}: there {_LABEL_FORMS[first]}",
                "keep one kind of label per file",
            )
        if len(source.diagnostics) == before:
            labels.append(label)
    return labels


def _label(record: Record, source: Source) -> Label:
    for key in record.values:
        if key not in _KEYS:
            fix = did_you_mean(key, _KEYS) or f"known keys: {', '.join(_KEYS)}"
            source.add_error(record.line, f"unknown key {key!r}", fix)
    texts = {key: _text(record, key, source) for key in _TEXTS}
    kind = _kind(record)
    required = ("id", "a", "b") if kind == "pairs" else ("id", "output")
    for key in required:
        if key not in record.values:
            source.add_error(record.line, f"a label without `{key}`")
    if "id" in record.values and not texts["id"]:
        source.add_error(record.line, "the id is empty")
    if kind == "pairs" and "output" in record.values:
        source.add_error(record.line, "`output` next to `a` and `b`", "keep the one or the others")
    return Label(
        **{key: texts[key] for key in ("id", "case", "author", "reason", "origin", "split")},
        outputs=tuple(texts[key] for key in required[1:]),
        value=_value(record, kind, source),
        inputs=_inputs(record, source),
        expected=cast("JSON", record.values.get("expected")),
        location=f"{source.place.as_posix()}:{record.line}",
    )


def _text(record: Record, key: str, source: Source) -> str:
    value = record.values.get(key, "")
    if isinstance(value, str):
        return value
    source.add_error(
        record.line, f"`{key}` is not text but {str(value)[:40]!r}", "put it in quotes"
    )
    return ""


def _value(record: Record, kind: LabelKind, source: Source) -> str | float:
    values = record.values
    if "label" in values and "score" in values:
        source.add_error(record.line, "`label` next to `score`", "keep one of them")
    if kind == "scores":
        score = values["score"]
        if is_number(score) and 0 <= score <= 1:
            return float(score)
        source.add_error(record.line, f"the score is {str(score)[:40]!r}, not a number from 0 to 1")
        return 0.0
    label = values.get("label")
    if isinstance(label, str) and label in _WORDS[kind]:
        return label
    if "label" not in values:
        source.add_error(record.line, f"a label without a value: {_LABEL_FORMS[kind]}")
    else:
        words = " or ".join(_WORDS[kind])
        source.add_error(record.line, f"the label is {str(label)[:40]!r}, not {words}")
    return ""


def _inputs(record: Record, source: Source) -> Mapping[str, JSON] | None:
    values = record.values
    inputs = values.get("inputs")
    if inputs is None:
        if not values.get("case"):
            source.add_error(
                record.line,
                "a label without a case",
                "name a golden case: `case`, or give `inputs` and `expected`",
            )
        elif "expected" in values:
            source.add_error(
                record.line, "`expected` without `inputs`", "the golden case has its own"
            )
        return None
    if not isinstance(inputs, dict):
        source.add_error(record.line, "`inputs` is not a mapping of names to values")
        return None
    return cast("Mapping[str, JSON]", inputs)


class _CalibrationDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IntervalEstimate(_CalibrationDocument):
    """A number with its 95 % interval; None without enough data."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        interval = "" if self.low is None else f"  [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


class Confusion(_CalibrationDocument):
    """`counts[i][j]`: labels i by users with verdict j of the judge."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class Flips(_CalibrationDocument):
    """The number of pairs whose winner changed with the order of the outputs."""

    pairs: int
    flips: int
    for_first: int
    for_second: int


class Agreement(_CalibrationDocument):
    """The agreement of a judge with users, and with itself.

    Attributes:
        verdicts: The number of labelled outputs, or pairs, with a verdict.
        abstained: The number of abstentions.
        unreadable: The number of unreadable responses.
        base_rate: The share of passing labels; the mean of scores; for pairs the share won by `a`.
        majority_accuracy: The accuracy of always giving the most frequent label.
        accuracy: The share of equal labels; scores are rounded to the nearest level.
        kappa: Cohen's kappa; None if undefined, such as for a single distinct label.
        weighted_kappa: Cohen's kappa with quadratic weights, for scores.
        spearman: The rank correlation of the judge's scores with the labels.
        kendall: Kendall's tau-b of the same.
        self_consistency: The share of equal judgements among repeats; None without repeats.
        position_flips: The flips of winners, for pairs.
        disagreements: The ids of the labels that the judge contradicts.
    """

    verdicts: int
    abstained: int = 0
    unreadable: int = 0
    base_rate: float | None
    majority_accuracy: float | None
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
        judge: The judge whose labels they are; None for the calibrated judge itself.
    """

    judge: str | None = None
    kind: LabelKind
    count: int
    digest: str


class Calibration(_CalibrationDocument):
    """The calibration of one judge.

    Attributes:
        digest: The digest of the judge: its rubric, parameters and models.
        models: The judge's models.
        date: The date, as `2026-11-21`.
        repeats: The judgements of each output.
    """

    models: tuple[str, ...]
    digest: str
    date: str
    repeats: int
    labels: LabelsSummary
    agreement: Agreement


class CalibrationFile(_CalibrationDocument):
    """A calibration file: one calibration for each set of models."""

    format: Literal[1] = 1
    judge: str
    calibrations: tuple[Calibration, ...] = Field(min_length=1)

    def find(self, digest: str) -> Calibration | None:
        """The calibration with a judge's digest; None for none."""
        return next(
            (calibration for calibration in self.calibrations if calibration.digest == digest), None
        )

    def with_calibration(self, new: Calibration) -> CalibrationFile:
        """The file with `new` instead of earlier entries of the same models.

        An unchanged calibration keeps its date.
        """
        other_models = [
            calibration for calibration in self.calibrations if calibration.models != new.models
        ]
        same_models = [
            calibration
            for calibration in self.calibrations
            if calibration.model_copy(update={"date": new.date}) == new
        ]
        calibrations = sorted(
            [*other_models, *(same_models or [new])], key=lambda record: record.models
        )
        return CalibrationFile(judge=self.judge, calibrations=tuple(calibrations))

    def to_text(self) -> str:
        """The text of the file, sorted for small diffs."""
        document = self.model_dump(mode="json", exclude_none=False)
        return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def calibration_path(judge: str, project: Project) -> Path:
    """The path of a judge's calibration record."""
    return project.labels_dir / f"{file_stem(judge)}{CALIBRATION_SUFFIX}"


def load_calibrations(path: Path) -> CalibrationFile | None:
    """Read a calibration record; None if the file does not exist.

    Raises:
        InvalidFileError: The file cannot be read.
    """
    try:
        return CalibrationFile.model_validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"cannot be read: {error}"
    except ValidationError as error:
        problem = explain_format(error.errors()[0])
    judge = path.name.removesuffix(CALIBRATION_SUFFIX)
    raise InvalidFileError.at_place(
        path, problem, fix=f"write it again: regauge judges calibrate {judge}"
    )


def parse_calibrations(data: bytes) -> CalibrationFile | None:
    """Parse a calibration record, such as one of an older commit; None if it is none."""
    try:
        return CalibrationFile.model_validate_json(data)
    except ValidationError:
        return None


def write_calibrations(path: Path, file: CalibrationFile) -> bool:
    """Write a calibration record, unless the file has the same content.

    Returns:
        Whether the file was written.
    """
    from regauge.files import write_whole

    content = file.to_text().encode()
    if path.exists() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True


# With fewer labels, resamples often miss them, and the interval is too narrow.
_RARER_MIN = 10


def _rarer_labels(calibration: Calibration) -> int:
    """The number of human labels that are not the most frequent one."""
    per_label = [sum(row) for row in calibration.agreement.confusion.counts]
    # A pair is judged, and counted, in both orders.
    orders = 2 if calibration.labels.kind == "pairs" else 1
    return (sum(per_label) - max(per_label, default=0)) // orders


def shortfall(calibration: Calibration, policy: CalibrationSettings) -> str:
    """The reason why a calibration keeps its judge advisory; empty if it is blocking."""
    agreement = calibration.agreement
    if agreement.verdicts < policy.min_labels:
        return f"{agreement.verdicts} labelled outputs were judged, {policy.min_labels} are needed"
    rarer = _rarer_labels(calibration)
    if rarer < _RARER_MIN:
        return (
            f"{rarer} labels differ from the most frequent one, {_RARER_MIN} are needed:"
            " add labels of the rarer kind"
        )
    name, estimate = "kappa", agreement.kappa
    if calibration.labels.kind == "scores":
        name, estimate = "Spearman's correlation", agreement.spearman
    if estimate is None or estimate.low is None:
        return f"{name} is not defined: labels or verdicts hardly vary"
    if estimate.low <= policy.floor:
        return f"{name} may be as low as {estimate.low:.2f}, the floor is {policy.floor:.2f}"
    return ""


class UncalibratedError(Exception):
    """The judge has no current calibration; the message has the reason."""


def current_calibration(judge: ModelJudge, project: Project) -> Calibration:
    """The calibration of a judge's current version by its current labels.

    Raises:
        UncalibratedError: The judge has no such calibration.
    """
    try:
        file = load_calibrations(calibration_path(judge.name, project))
    except InvalidFileError as error:
        raise UncalibratedError("its calibration record cannot be read") from error
    if file is None:
        raise UncalibratedError("no calibration record")
    if file.judge != judge.name:
        raise UncalibratedError(f"its calibration record is about {file.judge!r}")
    calibration = file.find(judge.digest)
    if calibration is None:
        raise UncalibratedError(_stale_note(file, judge))
    try:
        labels = load_labels(calibration.labels.judge or judge.name, project)
    except DatasetError as error:
        raise UncalibratedError(
            f"its labels cannot be used: {error.diagnostics[0].message}"
        ) from error
    if labels.digest != calibration.labels.digest:
        raise UncalibratedError("its labels changed since it was calibrated")
    return calibration


def _stale_note(file: CalibrationFile, judge: ModelJudge) -> str:
    if any(record.models == tuple(judge.models) for record in file.calibrations):
        return "its rubric or parameters changed since it was calibrated"
    models = " and ".join(
        sorted({", ".join(calibration.models) for calibration in file.calibrations})
    )
    return f"it was calibrated with {models}, not with {', '.join(judge.models)}"


Opinion: TypeAlias = Literal["pass", "fail", "a", "b", "tie", "abstain", "unreadable"]

# More levels are a continuous score, which quarters describe.
_LEVELS_MAX = 10
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Records are rounded so that they are equal on all machines; the seed makes intervals repeatable.
_DIGITS = 4
_SEED = 2026
_NO_VERDICT = frozenset({"abstain", "unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of one labelled output or pair.

    Attributes:
        opinions: One outcome; for a pair two winners, in the original and the exchanged order.
        score: From 0 to 1; 0 for a pair.
        reason: The judge's reason, or the error without a verdict.
    """

    opinions: tuple[Opinion, ...]
    score: float = 0.0
    reason: str = ""

    @property
    def readable(self) -> bool:
        """Return whether it is a verdict."""
        return not _NO_VERDICT.intersection(self.opinions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledVerdict:
    """A label with the judgements of the same output.

    Attributes:
        judgements: At least one. The first is compared with the label; the others measure
            self-consistency.
    """

    label: Label
    judgements: tuple[Judgement, ...]

    @property
    def first(self) -> Judgement:
        """The judgement that is compared with the label."""
        return self.judgements[0]


def measure_agreement(kind: LabelKind, verdicts: Sequence[LabelledVerdict]) -> Agreement:
    """Measure the agreement of verdicts with their labels.

    Args:
        kind: The kind of the labels.
        verdicts: The verdicts, in the order of the labels.
    """
    first = [verdict.first.opinions for verdict in verdicts]
    raters = _RaterLabels(kind, verdicts)
    rows = [_Row(raters, verdict) for verdict in verdicts if verdict.first.readable]
    human, judge = _flatten(rows)
    by_label = Counter(row.human for row in rows).values()
    return Agreement(
        verdicts=len(rows),
        abstained=sum("abstain" in opinions for opinions in first),
        unreadable=sum("unreadable" in opinions for opinions in first),
        base_rate=_mean([row.label_score for row in rows]),
        majority_accuracy=round(max(by_label) / len(rows), _DIGITS) if rows else None,
        confusion=_confusion(raters, human, judge),
        self_consistency=_self_consistency(raters, verdicts),
        position_flips=_flips(rows) if kind == "pairs" else None,
        disagreements=tuple(row.id for row in rows if row.differs),
        **_estimates(raters, rows, human, judge),
    )


def find_disagreements(
    kind: LabelKind, verdicts: Sequence[LabelledVerdict]
) -> list[LabelledVerdict]:
    """Find the verdicts that contradict their label, in order."""
    raters = _RaterLabels(kind, verdicts)
    return [
        verdict for verdict in verdicts if verdict.first.readable and _Row(raters, verdict).differs
    ]


class _RaterLabels:
    """The common labels of user and judge: pass and fail, levels of a scale, or winners."""

    def __init__(self, kind: LabelKind, verdicts: Sequence[LabelledVerdict]) -> None:
        self.kind = kind
        scores = {float(verdict.label.value) for verdict in verdicts if kind == "scores"}
        levels = sorted(scores) if len(scores) <= _LEVELS_MAX else _QUARTERS
        # Scores with the same text are one level.
        self._levels = tuple(dict.fromkeys(float(f"{level:g}") for level in levels))
        self.names = _WORDS.get(kind) or tuple(f"{level:g}" for level in self._levels)

    def of_label(self, label: Label) -> str:
        """The label of a user."""
        return self._level(float(label.value)) if self.kind == "scores" else str(label.value)

    def of_judgement(self, judgement: Judgement) -> tuple[str, ...]:
        """The labels of the judge: one, or for a pair two."""
        if self.kind == "scores" and judgement.readable:
            return (self._level(judgement.score),)
        return judgement.opinions

    def _level(self, score: float) -> str:
        return f"{min(self._levels, key=lambda level: abs(level - score)):g}"


class _Row:
    """A label and its first judgement, as common labels; a pair counts in both orders."""

    def __init__(self, raters: _RaterLabels, verdict: LabelledVerdict) -> None:
        value = verdict.label.value
        self.id = verdict.label.id
        self.human = raters.of_label(verdict.label)
        self.judge = raters.of_judgement(verdict.first)
        self.score = verdict.first.score
        self.label_score = value if isinstance(value, float) else float(value in {"pass", "a"})
        self.differs = any(judge != self.human for judge in self.judge)


def _mean(shares: Sequence[float]) -> float | None:
    return round(sum(shares) / len(shares), _DIGITS) if shares else None


def _flatten(rows: Sequence[_Row]) -> tuple[list[str], list[str]]:
    """The labels of both raters, one for each judgement."""
    pairs = [(row.human, judge) for row in rows for judge in row.judge]
    return [human for human, _ in pairs], [judge for _, judge in pairs]


def _confusion(raters: _RaterLabels, human: list[str], judge: list[str]) -> Confusion:
    from regauge.stats import confusion_matrix

    labels = [name for name in raters.names if name != "tie" or "tie" in {*human, *judge}]
    counts = confusion_matrix(human, judge, labels=labels).counts
    return Confusion(labels=tuple(labels), counts=counts)


_SHOWN: dict[str, Side] = {"a": "first", "b": "second", "tie": "tie"}
_EXCHANGED: dict[str, Side] = {"a": "second", "b": "first", "tie": "tie"}


def _flips(rows: Sequence[_Row]) -> Flips:
    from regauge.stats import position_flips

    # In the exchanged order, output `a` is shown second.
    first_order: list[Side] = [_SHOWN[row.judge[0]] for row in rows]
    exchanged: list[Side] = [_EXCHANGED[row.judge[1]] for row in rows]
    return Flips(**asdict(position_flips(first_order, exchanged)))


def _self_consistency(raters: _RaterLabels, verdicts: Sequence[LabelledVerdict]) -> float | None:
    """The mean share of equal pairs among the judgements of one output; None without repeats."""
    shares: list[float] = []
    for labelled in verdicts:
        opinions = [raters.of_judgement(judgement) for judgement in labelled.judgements]
        pairs = list(combinations(opinions, 2))
        if pairs:
            shares.append(sum(first == second for first, second in pairs) / len(pairs))
    return _mean(shares)


def _estimates(
    raters: _RaterLabels, rows: Sequence[_Row], human: list[str], judge: list[str]
) -> dict[str, IntervalEstimate | None]:
    import numpy as np

    from regauge.stats import accuracy, cohen_kappa, kendall_tau_b, spearman

    row_of = np.array([n for n, row in enumerate(rows) for _ in row.judge], dtype=np.int64)

    def of_words(statistic: Sampled) -> Sampled:
        return lambda samples: statistic(samples[:, row_of])

    measures = {
        "accuracy": _estimate(of_words(accuracy(human, judge)), rows, is_accuracy=True),
        "kappa": _estimate(of_words(cohen_kappa(human, judge)), rows),
    }
    if raters.kind != "pairs":
        scores = [row.label_score for row in rows], [row.score for row in rows]
        measures["spearman"] = _estimate(spearman(*scores), rows)
        measures["kendall"] = _estimate(kendall_tau_b(*scores), rows)
    if raters.kind == "scores":
        weighted = cohen_kappa(human, judge, weights="quadratic", labels=raters.names)
        measures["weighted_kappa"] = _estimate(of_words(weighted), rows)
    return measures


def _estimate(
    statistic: Sampled, rows: Sequence[_Row], *, is_accuracy: bool = False
) -> IntervalEstimate | None:
    """A statistic with its bootstrap interval; labels are resampled with both orders of a pair."""
    from regauge.stats import Interval, bootstrap_interval, of_all

    value = of_all(statistic, len(rows))
    if value is None:
        return None
    interval = bootstrap_interval(statistic, len(rows), seed=_SEED)
    if interval is not None and interval.low == interval.high and abs(value) == 1:
        # Resampling of perfect labels always yields perfect agreement.
        margin = _margin_of_perfect(rows, accuracy=is_accuracy)
        interval = Interval(low=min(value, 1 - margin), high=max(value, margin - 1))
    return IntervalEstimate(
        value=round(value, _DIGITS),
        low=None if interval is None else round(interval.low, _DIGITS),
        high=None if interval is None else round(interval.high, _DIGITS),
    )


def _margin_of_perfect(rows: Sequence[_Row], *, accuracy: bool) -> float:
    """The margin of a statistic whose resamples are all 1, by Wilson's interval.

    For kappa and correlations it is corrected for agreement by chance.
    """
    from regauge.stats import wilson

    margin = 1 - wilson(len(rows), len(rows)).low
    if accuracy:
        return margin
    counts = Counter(row.human for row in rows).values()
    by_chance: float = sum((count / len(rows)) ** 2 for count in counts)
    return min(1.0, margin / (1 - by_chance)) if by_chance < 1 else 1.0


# Bounds tasks in memory; the provider limits concurrent calls itself.
_CALLS_MAX = 64


@runtime_checkable
class ComparingJudge(Protocol):
    """A judge that selects the better one of two outputs."""

    async def compare(self, a: str, b: str, case: GoldenCase, calls: JudgeCalls) -> PairedVerdict:
        """Compare two outputs of one case, in both orders.

        Raises:
            JudgeError: The judge reached no verdict.
            UnmeasuredError: The model could not be called.
        """
        ...


def cases_of_labels(
    labels: Labels, dataset_cases: Mapping[str, GoldenCase]
) -> dict[str, GoldenCase]:
    """The golden case of every label, by the label's id.

    Args:
        labels: The labels; each names a case or has its own inputs.
        dataset_cases: The cases of the datasets, by id.

    Raises:
        DatasetError: Labels name unknown cases; lists all of them.
    """
    cases: dict[str, GoldenCase] = {}
    diagnostics: list[Diagnostic] = []
    for label in labels.labels:
        if label.inputs is not None:
            cases[label.id] = GoldenCase(
                id=label.case or label.id,
                inputs=label.inputs,
                expected=label.expected,
                split="train",
                location=label.location,
            )
        elif label.case in dataset_cases:
            cases[label.id] = dataset_cases[label.case]
        else:
            message = f"there is no golden case {label.case!r}"
            fix = "name its dataset (--dataset NAME), or give the label its own `inputs`"
            diagnostics.append(Diagnostic.at_location(label.location, message, fix))
    if diagnostics:
        raise DatasetError(diagnostics)
    return cases


async def judge_labels(
    judge: ModelJudge,
    labels: Sequence[Label],
    cases: Mapping[str, GoldenCase],
    *,
    calls: Callable[[Label, int], JudgeCalls],
    repeats: int,
) -> list[LabelledVerdict]:
    """Judge every label, `repeats` times; an unreadable response is not a verdict.

    Args:
        judge: The judge; it must compare pairs if the labels are pairs.
        labels: The labels of one file.
        cases: The golden cases, by the label's id.
        calls: Called with a label and the number of the repeat, from 0; returns the model calls of
            that judgement.
        repeats: Judgements of each label, at least 1.

    Raises:
        UnmeasuredError: The model could not be called for some labels; finished judgements are
            recorded.
        UsageError: The labels are pairs, and the judge does not compare pairs.
    """
    if any(len(label.outputs) > 1 for label in labels) and not isinstance(judge, ComparingJudge):
        raise UsageError(
            f"the labels of {judge.name!r} are pairs, and this judge compares no pairs\n"
            "  fix: label single outputs, or calibrate a judge that compares: pairwise(...)"
        )
    room = asyncio.Semaphore(_CALLS_MAX)

    async def judge_label(label: Label, repeat: int) -> Judgement | Exception:
        tracked_calls = _TrackedCalls(calls(label, repeat))
        async with room:
            try:
                return await _judge_label(judge, label, cases[label.id], tracked_calls)
            except Exception as error:  # noqa: BLE001 - a judge may break in any way
                if tracked_calls.failure is None and isinstance(error, JudgeError):
                    return Judgement(opinions=("unreadable",), reason=str(error))
                return tracked_calls.failure or error

    numbered = [(label, repeat) for label in labels for repeat in range(repeats)]
    results = await asyncio.gather(*(judge_label(label, repeat) for label, repeat in numbered))
    if errors := [result for result in results if isinstance(result, Exception)]:
        raise _missing_error(errors, judge.name)
    judgements = iter(cast("list[Judgement]", results))
    return [
        LabelledVerdict(label=label, judgements=tuple(next(judgements) for _ in range(repeats)))
        for label in labels
    ]


def _missing_error(errors: Sequence[Exception], judge: str) -> UnmeasuredError:
    """The error for missing judgements: how many for which reason."""
    counts: Counter[str] = Counter()
    budget_reason = ""
    for error in errors:
        reason = str(error)
        if isinstance(error, BudgetError):  # the sums in its message differ between calls
            budget_reason = reason = budget_reason or reason
        elif not isinstance(error, RegaugeError):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            reason = (
                f"judge {judge} broke: {type(error).__name__}: {error}\n"
                f"  at {frame.filename}:{frame.lineno}"
            )
        counts[reason] += 1
    return UnmeasuredError(
        "\n".join(
            f"{plural(count, 'judgement')} missing: {reason}"
            for reason, count in counts.most_common()
        )
    )


class _TrackedCalls:
    """The calls of one judgement; stores the first error, even if the judge hides it."""

    def __init__(self, calls: JudgeCalls) -> None:
        self._calls = calls
        self.failure: UnmeasuredError | None = None

    @property
    def trial(self) -> int:
        return self._calls.trial

    async def complete(self, request: CompletionRequest) -> Completion:
        try:
            return await self._calls.complete(request)
        except UnmeasuredError as error:
            self.failure = self.failure or error
            raise


async def _judge_label(
    judge: ModelJudge, label: Label, case: GoldenCase, calls: JudgeCalls
) -> Judgement:
    output, *other_outputs = label.outputs
    if other_outputs and isinstance(judge, ComparingJudge):
        comparison = await judge.compare(output, other_outputs[0], case, calls)
        return Judgement(opinions=comparison.winners, reason=comparison.reason)
    completion = Completion(
        text=output,
        finish_reason="stop",
        usage=Usage(),
        model="labelled",
        provider="labels",
        latency_s=0.0,
    )
    verdict = await judge.judge_with(completion, case, calls)
    return Judgement(opinions=(verdict.outcome,), score=verdict.score, reason=verdict.reason)
