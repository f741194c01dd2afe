"""Read, update and write the calibration record of a judge."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic, InvalidFileError, find_errors
from regauge.judges import judge_status
from regauge.judges.calibration import (
    Calibration,
    CalibrationFile,
    LabelsSummary,
    UncalibratedError,
    calibration_path,
    current_calibration,
    find_disagreements,
    labels_path,
    load_calibrations,
    load_labels,
    measure_agreement,
    write_calibrations,
)
from regauge.project import CALIBRATION_SUFFIX
from regauge.reports import money, quantity
from regauge.wording import plural, table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.judges.calibration import (
        Agreement,
        IntervalEstimate,
        LabelKind,
        LabelledVerdict,
        Labels,
    )
    from regauge.maintenance.collection import UsedJudge
    from regauge.project import Project
    from regauge.runner import CallTotals


def usual_labels(judge: ModelJudge, project: Project) -> str:
    """The judge whose labels to compare with: itself, else that of its calibration record."""
    judge_record = _calibration_file(judge, project)
    if labels_path(judge.name, project).exists() or judge_record is None:
        return judge.name
    sources = (calibration.labels.judge for calibration in judge_record.calibrations)
    return next(filter(None, sources), judge.name)


def calibration_of(
    judge: ModelJudge, labels: Labels, verdicts: Sequence[LabelledVerdict], repeats: int
) -> Calibration:
    """The calibration from verdicts on labels, dated today."""
    return Calibration(
        models=tuple(judge.models),
        digest=judge.digest,
        date=datetime.now(UTC).date().isoformat(),
        repeats=repeats,
        labels=LabelsSummary(
            judge=None if labels.judge == judge.name else labels.judge,
            kind=labels.kind,
            count=len(labels),
            digest=labels.digest,
        ),
        agreement=measure_agreement(labels.kind, verdicts),
    )


def write_record(project: Project, judge: ModelJudge, calibration: Calibration) -> str:
    """Write the record; return a line on the result."""
    path = calibration_path(judge.name, project)
    judge_record = _calibration_file(judge, project)
    file = CalibrationFile(judge=judge.name, calibrations=(calibration,))
    if judge_record is not None:
        file = judge_record.with_calibration(calibration)
    word = "written" if write_calibrations(path, file) else "unchanged"
    return f"{word}: {project.relative(path).as_posix()}"


def _calibration_file(judge: ModelJudge, project: Project) -> CalibrationFile | None:
    """The calibration record of a judge; None if missing or unreadable."""
    try:
        file = load_calibrations(calibration_path(judge.name, project))
    except InvalidFileError:
        return None
    return file if file is not None and file.judge == judge.name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeStatusRow:
    """The status of one judge's verdicts.

    Attributes:
        prompts: The judged prompts; empty for a record that no eval uses.
        blocking: Whether the judge can fail a case.
        reason: The reason for its status.
        measured: Whether the current judge has a calibration, good or bad.
    """

    judge: str
    prompts: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    blocking: bool = False
    reason: str
    measured: bool = False

    def __str__(self) -> str:
        word = "blocking" if self.blocking else "advisory"
        prompts = f" on {', '.join(self.prompts)}" if self.prompts else ""
        models = f" ({', '.join(self.models)})" if self.models else ""
        return f"{word}  {self.judge}{models}{prompts}: {self.reason}"

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        names = ("judge", "prompts", "models", "blocking", "reason")
        return {name: getattr(self, name) for name in names}


def judge_status_rows(
    project: Project, used_judges: Mapping[str, UsedJudge]
) -> list[JudgeStatusRow]:
    """The LLM judges of evals, then records that no eval uses."""
    rows: list[JudgeStatusRow] = []
    for name, use in sorted(used_judges.items()):
        for judge in (use.judge, *use.rivals):
            status = judge_status(judge, project)
            rows.append(
                JudgeStatusRow(
                    judge=name,
                    prompts=tuple(sorted(set(use.prompts))),
                    models=tuple(judge.models),
                    blocking=status.blocking,
                    reason=status.reason,
                    measured=_is_measured(judge, project),
                )
            )
    current = {calibration_path(name, project) for name in used_judges}
    unused = [
        path.name.removesuffix(CALIBRATION_SUFFIX)
        for path in _records(project)
        if path not in current
    ]
    reason = "no eval has a judge of this name"
    return [*rows, *(JudgeStatusRow(judge=name, reason=reason) for name in unused)]


def _is_measured(judge: ModelJudge, project: Project) -> bool:
    try:
        current_calibration(judge, project)
    except UncalibratedError:
        return False
    return True


def lint_calibrations(project: Project, used_judges: Mapping[str, UsedJudge]) -> list[Diagnostic]:
    """One error per calibration record of an outdated judge.

    Judges without a calibration or with too little agreement are advisory, without an error.
    """
    diagnostics: list[Diagnostic] = []
    for name, use in sorted(used_judges.items()):
        path = calibration_path(name, project)
        for judge in (use.judge, *use.rivals) if path.exists() else ():
            try:
                current_calibration(judge, project)
            except UncalibratedError as error:
                message = f"judge {name!r} is advisory: {error}"
                fix = f"regauge judges calibrate {shlex.quote(name)}"
                diagnostics.append(Diagnostic(path=path, message=message, fix=fix))
    return diagnostics


def lint_labels(project: Project) -> list[Diagnostic]:
    """Errors in all files of labels and calibration records."""
    labels = sorted(project.labels_dir.glob("[!.]*.jsonl"))
    return [
        *find_errors(lambda path: load_labels(path.stem, project), labels),
        *find_errors(load_calibrations, _records(project)),
    ]


def _records(project: Project) -> list[Path]:
    return sorted(project.labels_dir.glob(f"[!.]*{CALIBRATION_SUFFIX}"))


_NUMBERS = (
    ("accuracy", "accuracy"),
    ("kappa", "Cohen's kappa"),
    ("weighted_kappa", "weighted kappa"),
    ("spearman", "Spearman"),
    ("kendall", "Kendall tau-b"),
)
_SHARES = {"outcomes": "pass", "scores": "mean score", "pairs": "prefer a"}
# The widest name of a measure, and what fits on a screen of disagreements.
_WIDTH = 18
_SHOWN_MAX = 20
_LINE_MAX = 300


def heading(judge: ModelJudge, labels: Labels, project: Project) -> str:
    """The heading that names a judge and its labels."""
    models = ", ".join(judge.models)
    simulated = " (simulated)" if any(model.startswith("sim:") for model in judge.models) else ""
    path = project.relative(labels.path).as_posix()
    return f"{judge.name}: {models}{simulated} and {path}"


def calibration_lines(calibration: Calibration) -> list[str]:
    """The numbers of a calibration."""
    agreement, kind = calibration.agreement, calibration.labels.kind
    noun = "pairs" if kind == "pairs" else "outputs"
    lines = [_row("labelled", f"{calibration.labels.count} {noun}{_left_out(agreement)}")]
    if agreement.base_rate is not None and agreement.majority_accuracy is not None:
        share = f"{agreement.base_rate:.2f} {_SHARES[kind]}"
        often = f"is right {agreement.majority_accuracy:.2f} of the time"
        lines.append(_row("base rate", f"{share}; always choosing the most frequent label {often}"))
    for key, name in _NUMBERS:
        estimate: IntervalEstimate | None = getattr(agreement, key)
        if estimate is not None:
            lines.append(_row(name, str(estimate)))
        elif key == "kappa":
            lines.append(_row(name, "not defined: labels and verdicts do not vary"))
    if (flips := agreement.position_flips) is not None:
        sides = f"{flips.for_first} for the output shown first, {flips.for_second} for the one"
        words = f"{flips.flips} of {flips.pairs} pairs: {sides} shown second"
        lines.append(_row("position flips", words))
    if agreement.self_consistency is not None:
        words = f"{agreement.self_consistency:.2f} over {calibration.repeats} repeats"
        lines.append(_row("self-consistency", words))
    confusion = agreement.confusion  # labels in rows, verdicts in columns
    first, *labels = confusion.labels
    rows = [["", f"judge: {first}", *labels]]
    for label, counts in zip(confusion.labels, confusion.counts, strict=True):
        rows.append([f"label: {label}", *map(str, counts)])
    return [*lines, "", *(f"  {line}" for line in table_lines(rows, texts=[0]))]


def disagreement_lines(kind: LabelKind, verdicts: Sequence[LabelledVerdict]) -> list[str]:
    """Disagreements of judge and labels with both reasons, then missing verdicts."""
    lines: list[str] = []
    disagreements = find_disagreements(kind, verdicts)
    if disagreements:
        lines += ["", f"judge and labels disagree on {len(disagreements)} of {len(verdicts)}:"]
        if kind == "scores":
            disagreements.sort(key=lambda case: -abs(float(case.label.value) - case.first.score))
        for case in disagreements[:_SHOWN_MAX]:
            lines += _both_sides(kind, case)
        if len(disagreements) > _SHOWN_MAX:
            lines.append(f"  and {len(disagreements) - _SHOWN_MAX} more, see --json")
    unreadable = [case for case in verdicts if "unreadable" in case.first.opinions]
    if unreadable:
        lines += ["", f"no verdict on {len(unreadable)} of {len(verdicts)}:"]
        lines += [f"  {case.label.id}: {_first_line(case.first.reason)}" for case in unreadable]
    return lines


def usage_text(totals: CallTotals) -> str:
    """One line on the model calls of the judge."""
    return (
        f"{plural(totals.calls, 'call')}, {totals.live} of them made now;"
        f" {quantity(totals.input_tokens + totals.output_tokens)} tokens, {money(totals.cost_usd)}"
    )


def calibration_document(
    judge: ModelJudge, calibration: Calibration, verdicts: Sequence[LabelledVerdict], missing: str
) -> dict[str, JSON]:
    """The calibration and its judgements as a JSON document."""
    differing = {
        disagree.label.id for disagree in find_disagreements(calibration.labels.kind, verdicts)
    }
    return {
        "judge": judge.name,
        **calibration.model_dump(mode="json"),
        "blocking": not missing,
        "reason": missing,
        "verdicts": [
            {
                "id": case.label.id,
                "case": case.label.case,
                "location": case.label.location,
                "label": case.label.value,
                "label_reason": case.label.reason,
                "author": case.label.author,
                "agrees": case.first.readable and case.label.id not in differing,
                "judgements": [dataclasses.asdict(judgement) for judgement in case.judgements],
            }
            for case in verdicts
        ],
    }


def _left_out(agreement: Agreement) -> str:
    parts = [f"{agreement.verdicts} judged"]
    if agreement.abstained:
        parts.append(f"{agreement.abstained} without an opinion of the judge")
    if agreement.unreadable:
        parts.append(f"{agreement.unreadable} without a readable verdict")
    return "" if len(parts) == 1 else f": {', '.join(parts)}"


def _row(name: str, text: str) -> str:
    return f"  {name:{_WIDTH}}{text}"


def _both_sides(kind: LabelKind, verdict: LabelledVerdict) -> list[str]:
    label, first = verdict.label, verdict.first
    case = f" (case {label.case})" if label.case else ""
    human_label = f"{label.value:g}" if isinstance(label.value, float) else label.value
    author = f", {label.author}" if label.author else ""
    judgement = {
        "outcomes": f"{first.opinions[0]} ({first.score:.2f})",
        "scores": f"{first.score:.2f}",
        "pairs": " and, exchanged, ".join(first.opinions),
    }[kind]
    return [
        f"  {label.id}{case}  {label.location}",
        f"    label:  {human_label}{author}"
        + (f": {_first_line(label.reason)}" if label.reason else ""),
        f"    judge:  {judgement}" + (f": {_first_line(first.reason)}" if first.reason else ""),
    ]


def _first_line(text: str) -> str:
    """A text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_MAX else flat[: _LINE_MAX - 1].rstrip() + "…"
