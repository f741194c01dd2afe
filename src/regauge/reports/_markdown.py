"""A run as Markdown, for a job summary or a comment. What a model wrote is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.criteria import CRITERIA
from regauge.reports._console import duration, money, quantity
from regauge.reports._labels import label_table, wrong_labels
from regauge.reports._models import difference_text, rate_text
from regauge.reports._suggestions import suggestion_blocks
from regauge.reports._verbatim import escape_markdown, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.reports._schema import RunRecord, SuiteSummary

__all__ = ["run_markdown", "suite_table"]

_REASON_CHARS_MAX = 200
_COUNTS = ("prompt", "version", "model", "cases", "passed", "failed", "tracked", "unmeasured")
_COMPARED = ("pass rate (95 % interval)", "difference to the first")
_CALLS = ("tokens", "cost", "p50", "p95")
_TEXTS = frozenset({"prompt", "version", "model"})
_FAILED_CASES_MAX = 50


def run_markdown(record: RunRecord, rows: Iterable[dict[str, Any]]) -> str:
    """The table of suites, then each failed or unmeasured case with its reasons.

    Args:
        record: The run.
        rows: Its rows, in the shape of `TrialRow`.
    """
    lines = [
        f"### regauge: {_headline(record)}",
        "",
        *suite_table(record.suites),
    ]
    lines += [
        *_criteria_notes(record.suites),
        *_judge_notes(record.suites),
        *_label_tables(record.suites),
    ]
    troubled = [
        row
        for row in rows
        if row["outcome"] != "passed" and row["tier"] != "tracked" and not row.get("not_blocking")
    ]
    if troubled:
        lines += ["", "| case | trial | what | why |", "|---|--:|---|---|"]
        several = {suite.prompt for suite in record.suites if suite.comparison is not None}
        lines += [
            _case_row(row, with_model=row["prompt"] in several)
            for row in troubled[:_FAILED_CASES_MAX]
        ]
        if len(troubled) > _FAILED_CASES_MAX:
            lines += ["", f"… and {len(troubled) - _FAILED_CASES_MAX} more."]
    lines += suggestion_blocks(record.suggestions)
    when, by = escape_markdown(record.started_at), escape_markdown(record.regauge_version)
    lines += ["", f"Run {shown_name(record.id)}, {when}, regauge {by}."]
    return "\n".join(lines) + "\n"


def _headline(record: RunRecord) -> str:
    failed = sum(suite.failed for suite in record.suites)
    unmeasured = sum(suite.unmeasured for suite in record.suites)
    not_blocking = sum(suite.not_blocking for suite in record.suites)
    cases = sum(suite.cases for suite in record.suites)
    counted = "1 case" if cases == 1 else f"{cases} cases"
    if record.status == "interrupted":
        return f"interrupted after {counted}"
    if failed or unmeasured:
        return f"{failed} of {counted} failed, {unmeasured} unmeasured"
    if not_blocking:
        return f"{counted}, {not_blocking} failed without blocking"
    return f"{counted}, none failed"


def suite_table(suites: Sequence[SuiteSummary]) -> list[str]:
    """The table of suites; with several models of a prompt, each next to the first."""
    compared = any(suite.comparison for suite in suites)
    columns = (*_COUNTS, *(_COMPARED if compared else ()), *_CALLS)
    return [
        f"| {' | '.join(columns)} |",
        f"|{'|'.join('---' if name in _TEXTS else '--:' for name in columns)}|",
        *(_suite_row(suite, compared=compared) for suite in suites),
    ]


def _suite_row(suite: SuiteSummary, *, compared: bool) -> str:
    found = suite.comparison
    comparison = (rate_text(found), difference_text(found)) if found is not None else ("-", "-")
    model = f"{suite.model} (simulated)" if suite.simulated else suite.model
    cells = [
        escape_markdown(suite.prompt),
        escape_markdown(suite.version or "-"),
        escape_markdown(model),
        suite.cases,
        suite.passed,
        suite.failed,
        suite.tracked_failed,
        suite.unmeasured,
        *(comparison if compared else ()),
        quantity(suite.input_tokens + suite.output_tokens),
        money(suite.cost_usd),
        duration(suite.latency_p50_s),
        duration(suite.latency_p95_s),
    ]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _criteria_notes(suites: Sequence[SuiteSummary]) -> list[str]:
    """Where any verdict that decides fails: how many, by what kind of quality it is about."""
    judges = [judge for suite in suites for judge in suite.judges if judge.gates]
    said: list[str] = []
    for criterion in CRITERIA:
        failed = sum(judge.failed for judge in judges if judge.criterion == criterion)
        passed = sum(judge.passed for judge in judges if judge.criterion == criterion)
        if failed or passed:
            said.append(f"{criterion} {failed} of {failed + passed}")
    if not any(judge.failed for judge in judges) or len(said) <= 1:
        return []
    return ["", f"Failed verdicts by criterion: {', '.join(said)}."]


def _judge_notes(suites: Sequence[SuiteSummary]) -> list[str]:
    """What judges' model calls came to, and which judges have no say."""
    calls = sum(suite.judge_calls for suite in suites)
    notes: list[str] = []
    if calls:
        tokens = sum(suite.judge_input_tokens + suite.judge_output_tokens for suite in suites)
        costs = [suite.judge_cost_usd for suite in suites]
        known = [cost for cost in costs if cost is not None]
        cost = money(sum(known) if len(known) == len(costs) else None)
        made = "1 model call" if calls == 1 else f"{calls} model calls"
        notes += ["", f"Judges made {made}: {quantity(tokens)} tokens, {cost}."]
    informing = [(suite, judge) for suite in suites for judge in suite.judges if not judge.gates]
    if informing:
        notes += ["", "Advisory judges:", ""]
        notes += [
            f"- {escape_markdown(suite.prompt)}: {escape_markdown(judge.name)}"
            f" ({escape_markdown(judge.standing)}), passed {judge.passed}, failed {judge.failed}"
            for suite, judge in informing
        ]
    return notes


def _label_tables(suites: Sequence[SuiteSummary]) -> list[str]:
    """The confusion matrix of each judge that found wrong labels."""
    lines: list[str] = []
    for suite in suites:
        for judge in wrong_labels(suite):
            head, *rows = [[escape_markdown(cell) for cell in row] for row in label_table(judge)]
            lines += [
                "",
                f"Labels of {escape_markdown(suite.prompt)} by {escape_markdown(judge.name)}:",
                "",
                f"| {' | '.join(head)} |",
                f"|---|{'--:|' * (len(head) - 1)}",
                *(f"| {' | '.join(row)} |" for row in rows),
            ]
    return lines


def _case_row(row: dict[str, Any], *, with_model: bool) -> str:
    if row["cause"] is not None:
        what, why = "unmeasured", row["cause"]["message"]
    else:
        failed = [
            verdict
            for verdict in row["verdicts"]
            if verdict["outcome"] == "fail" and verdict.get("gates", True)
        ]
        what = ", ".join(verdict["judge"] for verdict in failed) or row["outcome"]
        why = "; ".join(verdict["reason"] for verdict in failed)
    if len(why) > _REASON_CHARS_MAX:
        why = f"{why[: _REASON_CHARS_MAX - 1]}…"
    case = f"{escape_markdown(row['prompt'])} {shown_name(row['case'])}"
    case += f", {escape_markdown(row['model'])}" if with_model else ""
    return f"| {case} | {row['trial']} | {escape_markdown(what)} | {escape_markdown(why)} |"
