"""What a calibration says to people: numbers with intervals, the table, the disagreements."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from regauge.judges.calibration import disagrees
from regauge.reports import money, quantity
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.judges.calibration import (
        Agreement,
        Calibration,
        Confusion,
        Estimate,
        Judged,
        LabelKind,
        Labels,
    )
    from regauge.project import Project
    from regauge.runner import CallTotals

__all__ = [
    "calibration_document",
    "calibration_lines",
    "disagreement_lines",
    "heading",
    "used_text",
]

_NUMBERS = (
    ("accuracy", "accuracy"),
    ("kappa", "Cohen's kappa"),
    ("weighted_kappa", "weighted kappa"),
    ("spearman", "Spearman"),
    ("kendall", "Kendall tau-b"),
)
_SHARES = {"outcomes": "pass", "scores": "mean score", "pairs": "prefer a"}
_WIDTH = 18
_SHOWN_MAX = 20
_LINE_MAX = 300


def heading(judge: ModelJudge, labels: Labels, project: Project) -> str:
    """Which judge is compared with which labels."""
    models = ", ".join(judge.models)
    simulated = " (simulated)" if any(one.startswith("sim:") for one in judge.models) else ""
    where = project.relative(labels.path).as_posix()
    return f"{judge.name}: {models}{simulated} and {where}"


def calibration_lines(calibration: Calibration) -> list[str]:
    """The numbers of a calibration."""
    agreement, kind = calibration.agreement, calibration.labels.kind
    noun = "pairs" if kind == "pairs" else "answers"
    lines = [_row("labelled", f"{calibration.labels.count} {noun}{_left_out(agreement)}")]
    if agreement.base_rate is not None and agreement.commonest is not None:
        lines.append(
            _row(
                "base rate",
                f"{agreement.base_rate:.2f} {_SHARES[kind]}; always saying what is labelled most"
                f" often is right {agreement.commonest:.2f} of the time",
            )
        )
    for key, name in _NUMBERS:
        estimate: Estimate | None = getattr(agreement, key)
        if estimate is not None:
            lines.append(_row(name, str(estimate)))
        elif key == "kappa":
            lines.append(_row(name, "not defined: labels and verdicts do not vary"))
    if agreement.position_flips is not None:
        flips = agreement.position_flips
        lines.append(
            _row(
                "position flips",
                f"{flips.flips} of {flips.pairs} pairs: {flips.for_first} for the answer shown"
                f" first, {flips.for_second} for the one shown second",
            )
        )
    if agreement.self_consistency is not None:
        lines.append(
            _row(
                "self-consistency",
                f"{agreement.self_consistency:.2f} over {calibration.repeats} repeats",
            )
        )
    return [*lines, "", *_table(agreement.confusion)]


def disagreement_lines(kind: LabelKind, judged: Sequence[Judged]) -> list[str]:
    """Where judge and people differ, with both reasons; and what the judge did not decide."""
    lines: list[str] = []
    found = disagrees(kind, judged)
    if found:
        lines += ["", f"judge and people disagree on {len(found)} of {len(judged)}:"]
        if kind == "scores":
            found.sort(key=lambda one: -abs(float(one.label.says) - one.first.score))
        for one in found[:_SHOWN_MAX]:
            lines += _both_sides(kind, one)
        if len(found) > _SHOWN_MAX:
            lines.append(f"  and {len(found) - _SHOWN_MAX} more, see --json")
    unreadable = [one for one in judged if "unreadable" in one.first.said]
    if unreadable:
        lines += ["", f"no verdict on {len(unreadable)} of {len(judged)}:"]
        lines += [f"  {one.label.id}: {_first_line(one.first.reason)}" for one in unreadable]
    return lines


def used_text(totals: CallTotals) -> str:
    """What its model calls came to, in one line."""
    return (
        f"{plural(totals.calls, 'call')}, {totals.live} of them made now;"
        f" {quantity(totals.input_tokens + totals.output_tokens)} tokens, {money(totals.cost_usd)}"
    )


def calibration_document(
    judge: ModelJudge, calibration: Calibration, judged: Sequence[Judged], missing: str
) -> dict[str, JSON]:
    """Numbers and judgements as one document, for programs."""
    differing = {one.label.id for one in disagrees(calibration.labels.kind, judged)}
    return {
        "judge": judge.name,
        **calibration.model_dump(mode="json"),
        "gates": not missing,
        "reason": missing,
        "judged": [
            {
                "id": one.label.id,
                "case": one.label.case,
                "at": one.label.at,
                "label": one.label.says,
                "why": one.label.why,
                "by": one.label.by,
                "agrees": one.first.readable and one.label.id not in differing,
                "judgements": [dataclasses.asdict(judgement) for judgement in one.judgements],
            }
            for one in judged
        ],
    }


def _left_out(agreement: Agreement) -> str:
    parts = [f"{agreement.judged} judged"]
    if agreement.abstained:
        parts.append(f"{agreement.abstained} without an opinion of the judge")
    if agreement.unreadable:
        parts.append(f"{agreement.unreadable} without a readable verdict")
    return "" if len(parts) == 1 else f": {', '.join(parts)}"


def _row(name: str, text: str) -> str:
    return f"  {name:{_WIDTH}}{text}"


def _table(confusion: Confusion) -> list[str]:
    """Rows are what people say, columns what the judge says."""
    heads = [f"judge: {label}" if n == 0 else label for n, label in enumerate(confusion.labels)]
    names = [f"people: {label}" for label in confusion.labels]
    first = max(map(len, names), default=0)
    widths = [
        max(len(head), *(len(str(row[n])) for row in confusion.counts))
        for n, head in enumerate(heads)
    ]
    lines = ["  " + " " * first + "  " + _cells(heads, widths)]
    for name, row in zip(names, confusion.counts, strict=True):
        lines.append(f"  {name:{first}}  " + _cells([str(count) for count in row], widths))
    return lines


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _both_sides(kind: LabelKind, judged: Judged) -> list[str]:
    label, said = judged.label, judged.first
    where = f" (case {label.case})" if label.case else ""
    says = f"{label.says:g}" if isinstance(label.says, float) else label.says
    by = f", {label.by}" if label.by else ""
    verdict = {
        "outcomes": f"{said.said[0]} ({said.score:.2f})",
        "scores": f"{said.score:.2f}",
        "pairs": " and, exchanged, ".join(said.said),
    }[kind]
    return [
        f"  {label.id}{where}  {label.at}",
        f"    people: {says}{by}" + (f": {_first_line(label.why)}" if label.why else ""),
        f"    judge:  {verdict}" + (f": {_first_line(said.reason)}" if said.reason else ""),
    ]


def _first_line(text: str) -> str:
    """A text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_MAX else flat[: _LINE_MAX - 1].rstrip() + "…"
