"""A run as Markdown, and escaping of untrusted text in Markdown."""

from __future__ import annotations

import re
from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING, Any

from regauge.markdown import (
    escape_markdown,
    fence_lines,
    fold_lines,
    longest_fence,
    table_lines,
)
from regauge.project import CRITERIA
from regauge.providers import sum_if_known, transcript
from regauge.reports._console import (
    COMPARED,
    NOT_BLOCKING,
    cut_off_note,
    eval_cells,
    eval_titles,
    failed_test_lines,
    failed_tests_text,
    money,
    named_evals,
    named_rows,
    quantity,
    rates_of_k,
)
from regauge.reports._tally import label_table, wrong_labels
from regauge.wording import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.reports._documents import EvalSummary, RunRecord, Suggestion

_NAME = re.compile(r"[A-Za-z0-9_.+/~^-]{1,250}")


def shown_text(text: str) -> str:
    """Reduce untrusted text to one plain line, without control characters."""
    return escape_markdown(printable(text))


def shown_name(text: str) -> str:
    """An id, a path or a commit as code, which GitHub does not link; other texts are escaped.

    >>> shown_name("alert/case-deadbeef"), shown_name("a|b")
    ('`alert/case-deadbeef`', 'a&#124;b')
    """
    return f"`{text}`" if _NAME.fullmatch(text) else shown_text(text)


def inline_code(text: str) -> str:
    """A command as inline code, with any characters.

    >>> inline_code("pytest -k `x`")
    '`` pytest -k `x` ``'
    """
    text = " ".join(printable(text).split())
    fence = "`" * (1 + longest_fence([text]))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


# A comment has room for a few suggestions, each with up to a dozen lines of text and a diff.
_SHOWN_MAX = 3
_LINES_MAX = 80
_CHARS_MAX = 6000
_LINE_CHARS_MAX = 600


def suggestion_blocks(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """A folded block per suggested revision: evidence, cost, commands, diff.

    Texts of models and files are escaped.
    """
    revisions = [suggestion for suggestion in suggestions if suggestion.diff]
    for proposal in revisions[:_SHOWN_MAX]:
        diff = printable(proposal.diff).splitlines()
        lines = [
            *(f"- {_line(text)}" for text in proposal.evidence),
            f"- Cost: {shown_text(cost_of(proposal))}.",
            *(f"- {text}" for text in taking_lines(proposal)),
            "",
            *fence_lines(diff, lines_max=_LINES_MAX, chars_max=_CHARS_MAX),
        ]
        yield ""
        yield from fold_lines(f"Suggested revision: {_line(proposal.headline)}", lines)
    stops = [suggestion for suggestion in suggestions if not suggestion.diff]
    if stops or len(revisions) > _SHOWN_MAX:
        yield ""
        yield from (f"- No revision is suggested: {_line(other.headline)}" for other in stops)
        yield from (
            f"- Suggested revision: {_line(revision.headline)}"
            for revision in revisions[_SHOWN_MAX:]
        )


def taking_lines(suggestion: Suggestion) -> list[str]:
    """The commands that apply or explain a suggested revision, as Markdown."""
    local_command = inline_code(f"regauge refine apply {suggestion.run}")
    other_command = inline_code(
        f"regauge refine {quote(suggestion.prompt)} --proposers=rules --apply"
    )
    return [
        (
            f"Take it: {local_command} where it was found; anywhere else {other_command},"
            " which looks for it again."
        ),
        f"See why: {inline_code(f'regauge refine show {suggestion.run}')}",
    ]


def cost_of(suggestion: Suggestion) -> str:
    """The calls and cost of a suggestion.

    >>> from regauge.reports import Suggestion
    >>> cost_of(Suggestion(prompt="p", stop="improved", headline="", calls=7, simulated=True))
    '7 calls of the simulated model, free'
    """
    model = " of the simulated model" if suggestion.simulated else ""
    price = money(suggestion.usd) if suggestion.usd else "free"
    return f"{plural(suggestion.calls, 'call')}{model}, {price}"


def _line(text: str) -> str:
    return shown_text(text if len(text) <= _LINE_CHARS_MAX else f"{text[:_LINE_CHARS_MAX]}…")


# GitHub accepts 65,536 characters in a comment; the HTML report has every case.
_REASON_CHARS_MAX = 200
_TEXTS = ("prompt", "version", "model")
_COUNTS = ("cases", "passed", "failed", "tracked", NOT_BLOCKING, "unmeasured")
_CALLS = ("tokens", "cost", "p50", "p95")
_HEADLINE = ("cases", "failed", "unmeasured", "tracked_failed", "not_blocking")
# Within the same limit.
_FAILED_CASES_MAX = 50
_CONVERSATIONS_MAX = 5
_CONVERSATION_CHARS_MAX = 6000


def run_markdown(
    record: RunRecord,
    rows: Iterable[dict[str, Any]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The table of evals, then failed and unmeasured cases with their reasons.

    Args:
        record: The run.
        rows: Its rows, in the shape of `TrialRow`.
        title: The headline; by default, the counts of the run.
        notes: Notes below the table.
    """
    evals, rows = named_evals(record.evals), named_rows(rows, record)
    title = title or run_headline(record)
    lines = [f"### regauge: {title}", "", *eval_table(evals), *_rates(evals)]
    notes = [*(f"note: {note}" for note in notes), *cut_off_notes(evals)]
    lines += ["", *(f"- {shown_text(note)}" for note in notes)] if notes else []
    lines += [*_criteria_notes(evals), *_judge_notes(evals), *_label_tables(evals)]
    troubled: list[dict[str, Any]] = []
    conversations: list[dict[str, Any]] = []
    count = 0
    for row in rows:  # a large run has more rows than fit in memory
        if row["outcome"] != "passed" and row["tier"] != "tracked" and not row.get("not_blocking"):
            count += 1
            if count <= _FAILED_CASES_MAX:
                troubled.append(row)
            if row.get("messages") and len(conversations) < _CONVERSATIONS_MAX:
                conversations.append(row)
    if troubled:
        several = {eval_.prompt for eval_ in evals if eval_.comparison is not None}
        cells = [_case_cells(row, with_model=row["prompt"] in several) for row in troubled]
        lines += ["", *table_lines(("case", "trial", "what", "why"), cells, numbers=slice(1, 2))]
        if count > _FAILED_CASES_MAX:
            lines += ["", f"… and {count - _FAILED_CASES_MAX} more."]
        lines += _conversations(conversations)
    lines += failed_test_blocks(record.failed_tests)
    lines += suggestion_blocks(record.suggestions)
    started_at = escape_markdown(record.started_at)
    version = escape_markdown(record.regauge_version)
    lines += ["", f"Run {shown_name(record.id)}, {started_at}, regauge {version}."]
    return "\n".join(lines) + "\n"


def cut_off_notes(evals: Sequence[EvalSummary]) -> list[str]:
    """A line per eval with passed outputs that end at their token limit."""
    names = eval_titles(evals)
    return [cut_off_note(eval_, names) for eval_ in evals if eval_.cut_off]


def run_headline(record: RunRecord) -> str:
    """The counts of a run without a decision, in words."""
    counts: Counter[str] = Counter()
    for eval_ in record.evals:
        counts.update({name: getattr(eval_, name) for name in _HEADLINE})
    if not counts["cases"]:
        return f"nothing was measured{failed_tests_text(record.failed_tests)}"
    cases = plural(counts["cases"], "case")
    text = f"{counts['failed']} of {cases} failed" if counts["failed"] else f"{cases}, none failed"
    if record.awaits_decision:
        text = "trials of a gate, no decision yet"
    if unmeasured := counts["unmeasured"]:
        text += f", {unmeasured} unmeasured"
    if tracked := counts["tracked_failed"]:
        text += f"; {plural(tracked, 'tracked case')} failed without blocking"
    if not_blocking := counts["not_blocking"]:
        text += f"; {plural(not_blocking, 'case')} failed without blocking"
    begin = "interrupted: " if record.status == "interrupted" else ""
    return f"{begin}{text}{failed_tests_text(record.failed_tests)}"


def failed_test_blocks(tests: Mapping[str, str]) -> list[str]:
    """The tests that failed apart from their judges, with their messages."""
    lines = failed_test_lines(tests, name=inline_code, words=_line)
    return ["", "Failed apart from judges:", "", *(f"- {line}" for line in lines)] if lines else []


def eval_table(evals: Sequence[EvalSummary]) -> list[str]:
    """The table of evals; several models of a prompt are compared with the first."""
    has_comparison = any(eval_.comparison for eval_ in evals)
    counts = [
        name for name in _COUNTS if name != NOT_BLOCKING or any(row.not_blocking for row in evals)
    ]
    numbers = (*counts, *(COMPARED if has_comparison else ()), *_CALLS)
    heads = ["pass rate (95 % interval)" if name == "pass rate" else name for name in numbers]
    rows = [
        [*(escape_markdown(cells[name]) for name in _TEXTS), *(cells[name] for name in numbers)]
        for cells in map(eval_cells, evals)
    ]
    return [*table_lines((*_TEXTS, *heads), rows, numbers=slice(len(_TEXTS), None))]


def _rates(evals: Sequence[EvalSummary]) -> list[str]:
    """pass^k and pass@k of evals with several trials."""
    rates = {eval_.prompt: rates_of_k(eval_) for eval_ in evals}
    return [
        line
        for prompt, text in rates.items()
        if text
        for line in ("", f"{escape_markdown(prompt)}: {text}.")
    ]


def _conversations(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The conversations of failed trials, each folded."""
    lines: list[str] = []
    for row in rows:
        title = f"{escape_markdown(row['prompt'])} {shown_name(row['case'])}, trial {row['trial']}"
        text = printable(transcript(row["messages"])).splitlines()
        fence = fence_lines(text, lines_max=200, chars_max=_CONVERSATION_CHARS_MAX, language="text")
        lines += ["", *fold_lines(f"Conversation of {title}", fence)]
    return lines


def _criteria_notes(evals: Sequence[EvalSummary]) -> list[str]:
    """A line with failed blocking verdicts by criterion; empty with fewer than two criteria."""
    judges = [judge for eval_ in evals for judge in eval_.judges if judge.blocking]
    notes: list[str] = []
    for criterion in CRITERIA:
        failed = sum(judge.failed for judge in judges if judge.criterion == criterion)
        passed = sum(judge.passed for judge in judges if judge.criterion == criterion)
        if failed or passed:
            notes.append(f"{criterion} {failed} of {failed + passed}")
    if not any(judge.failed for judge in judges) or len(notes) <= 1:
        return []
    return ["", f"Failed verdicts by criterion: {', '.join(notes)}."]


def _judge_notes(evals: Sequence[EvalSummary]) -> list[str]:
    """The model calls of judges, and the advisory judges."""
    usages = [eval_.judge_usage for eval_ in evals]
    calls = sum(usage.calls for usage in usages)
    notes: list[str] = []
    if calls:
        tokens = sum(usage.input_tokens + usage.output_tokens for usage in usages)
        cost = money(sum_if_known(usage.cost_usd for usage in usages))
        call_count = plural(calls, "model call")
        notes += ["", f"Judges made {call_count}: {quantity(tokens)} tokens, {cost}."]
    advisory = [(eval_, judge) for eval_ in evals for judge in eval_.judges if not judge.blocking]
    if advisory:
        notes += ["", "Advisory judges:", ""]
        notes += [
            f"- {escape_markdown(eval_.prompt)}: {escape_markdown(judge.name)}"
            f" ({escape_markdown(judge.status_reason)}), passed {judge.passed},"
            f" failed {judge.failed}"
            for eval_, judge in advisory
        ]
    return notes


def _label_tables(evals: Sequence[EvalSummary]) -> list[str]:
    """The confusion matrix of each judge with wrong labels."""
    lines: list[str] = []
    for eval_ in evals:
        for judge in wrong_labels(eval_):
            head, *rows = [[escape_markdown(cell) for cell in row] for row in label_table(judge)]
            title = f"Labels of {escape_markdown(eval_.prompt)} by {escape_markdown(judge.name)}:"
            lines += ["", title, "", *table_lines(head, rows, numbers=slice(1, None))]
    return lines


def _case_cells(row: dict[str, Any], *, with_model: bool) -> tuple[str, ...]:
    if row["cause"] is not None:
        checks, reason = "unmeasured", row["cause"]["message"]
    else:
        failed = [
            verdict
            for verdict in row["verdicts"]
            if verdict["outcome"] == "fail" and verdict.get("blocking", True)
        ]
        checks = ", ".join(verdict["judge"] for verdict in failed) or row["outcome"]
        reasons = [verdict["reason"] for verdict in failed] or [row.get("failed_test", "")]
        reason = "; ".join(reasons)
        if row["finish_reason"] == "length":
            reason = "; ".join(filter(None, ("cut off at the token limit", reason)))
    if len(reason) > _REASON_CHARS_MAX:
        reason = f"{reason[: _REASON_CHARS_MAX - 1]}…"
    case = f"{escape_markdown(row['prompt'])} {shown_name(row['case'])}"
    case += f", {escape_markdown(row['model'])}" if with_model else ""
    return case, str(row["trial"]), escape_markdown(checks), escape_markdown(reason)
