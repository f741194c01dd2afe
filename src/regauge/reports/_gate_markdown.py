"""A decision as Markdown, for the comment and the job summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.markdown import fence_lines, fold_lines, table_lines
from regauge.reports._console import duration, failed_tests_text, money, named_evals
from regauge.reports._gate_console import (
    STATUSES,
    accepted_cases,
    calls_line,
    difference_words,
    groups_of,
    guard_lines,
    headline,
    listed_cases,
    output_diff,
    reasons_beside,
    version_step,
)
from regauge.reports._markdown import (
    cut_off_notes,
    failed_test_blocks,
    inline_code,
    run_markdown,
    shown_name,
    shown_text,
    suggestion_blocks,
)
from regauge.wording import percent, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.evidence import CaseStatus
    from regauge.reports._documents import (
        CaseDocument,
        DecisionDocument,
        EvalSummary,
        PromptDocument,
        RunRecord,
        Suggestion,
    )
    from regauge.reports._gate_console import CaseGroup


def prompt_table(document: DecisionDocument, evals: Sequence[EvalSummary]) -> Iterator[str]:
    """The results of each prompt's cases, with cost and latency.

    Args:
        document: The decision.
        evals: The evals of the run, for cost and latency; empty to omit these.
    """
    statuses: list[CaseStatus] = [
        status
        for status in STATUSES
        if any(prompt.counts.get(status) for prompt in document.prompts)
    ]
    has_trials = any(case.candidate.trials for case in document.cases)
    heads = ["prompt", "version", "cases", *(STATUSES[name].column for name in statuses)]
    heads += ["pass rate"] if has_trials else []
    heads += ["cost per 1000", "p50"] if evals else []
    rows: list[list[str]] = []
    for prompt in document.prompts:
        cells = [shown_text(prompt.prompt), shown_text(version_step(prompt))]
        cells += [str(sum(prompt.counts.values()))]
        cells += [str(prompt.counts.get(status, 0)) for status in statuses]
        cells += [pass_rates(document, prompt)] if has_trials else []
        if evals:
            cells += [_step(prompt, evals, _cost)]
            cells += [_step(prompt, evals, lambda eval_: duration(eval_.latency_p50_s))]
        rows.append(cells)
    yield from table_lines(heads, rows, numbers=slice(2, None))


def pass_rates(document: DecisionDocument, prompt: PromptDocument) -> str:
    """The pass rates of base and candidate, with the 95 % interval of the difference."""
    if prompt.test is not None and prompt.test.status == "unmeasured":
        return "-"
    if prompt.test is not None and (difference := prompt.test.difference) is not None:
        rates = f"{_percent(difference.base)} → {_percent(difference.candidate)}"
        left_out = accepted_cases(document, prompt.prompt)
        return f"{rates}, {difference_words(difference, left_out=left_out)}"
    sides = [
        (
            case.candidate,
            case.before.passed + case.today.passed,
            case.before.trials + case.today.trials,
        )
        for case in document.cases
        if case.prompt == prompt.prompt and case.candidate.trials
    ]
    if not sides:
        return "-"
    rate = sum(new.passed / new.trials for new, _, _ in sides) / len(sides)
    of_base = [passed / trials for _, passed, trials in sides if trials]
    before = f"{_percent(sum(of_base) / len(of_base))} → " if len(of_base) == len(sides) else ""
    return f"{before}{_percent(rate)}"


def _percent(rate: float) -> str:
    return percent(rate, digits=0)


def _step(
    prompt: PromptDocument,
    evals: Sequence[EvalSummary],
    cell_of: Callable[[EvalSummary], str],
) -> str:
    """The values of base and candidate; only the candidate's if base has none or the same."""
    of_sides = {
        eval_.side: cell_of(eval_)
        for eval_ in evals
        if eval_.prompt == prompt.prompt and eval_.trials > eval_.unmeasured
    }
    candidate, base = of_sides.get("candidate", "-"), of_sides.get("base")
    return candidate if base in {None, candidate} else f"{base} → {candidate}"


def _cost(eval_: EvalSummary) -> str:
    return "-" if eval_.cost_usd is None else money(1000 * eval_.cost_usd / max(eval_.trials, 1))


# The mark by which a later run finds the comment, to update it.
_MARK = "<!-- regauge gate -->"
# GitHub accepts 65,536 characters in a comment; the rest is for its other parts.
_CHARS_MAX = 60_000
_MESSAGE_CHARS_MAX = 1000
# Longer diffs open on a click.
_OPEN_LINES_MAX = 24
# These decide nothing, so their cases are folded.
_FOLDED = frozenset({"flaky", "mixed", "known-failing"})
_MARKS = {
    "accept": "✅",
    "reject": "❌",
    "refused": "⛔",
    "undecided": "❔",
    "unmeasured": "⚠️",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _MarkdownLimits:
    """The limits of a comment's parts.

    Attributes:
        cases: The number of cases or groups of cases per status, and of cases per group.
        outputs: The number of cases with outputs.
        prompts: The number of prompts with a diff.
        lines: The number of lines per folded block.
        chars: The number of characters per folded block.
    """

    cases: int
    outputs: int
    prompts: int
    lines: int
    chars: int


# The first limits whose text fits into a comment apply.
_LIMITS = (
    _MarkdownLimits(cases=30, outputs=8, prompts=4, lines=60, chars=4000),
    _MarkdownLimits(cases=15, outputs=4, prompts=2, lines=40, chars=2000),
    _MarkdownLimits(cases=5, outputs=2, prompts=1, lines=20, chars=800),
)


def record_markdown(record: RunRecord, rows: Iterable[dict[str, Any]]) -> str:
    """The decision of a run, or its tables without a gate."""
    if record.decision is None:
        return run_markdown(record, rows)
    evals = named_evals(record.evals, record.decision)
    return decision_markdown(
        record.decision,
        evals=evals,
        suggestions=record.suggestions,
        failed_tests=record.failed_tests,
    )


def decision_markdown(
    document: DecisionDocument,
    *,
    evals: Sequence[EvalSummary] = (),
    suggestions: Sequence[Suggestion] = (),
    failed_tests: Mapping[str, str] | None = None,
) -> str:
    """The decision, a table of prompts, listed cases, and the command that decides again.

    Texts of models, judges and files are escaped.

    Args:
        document: The decision.
        evals: The evals of the run, for cost and latency.
        suggestions: Suggested revisions.
        failed_tests: The messages of tests that failed apart from their judges, by node id.
    """
    text = ""
    tests = failed_tests or {}
    below = [*failed_test_blocks(tests), *suggestion_blocks(suggestions)]
    for limits in _LIMITS:
        text = "\n".join(_parts(document, evals, tests, below, limits)) + "\n"
        if len(text) <= _CHARS_MAX:
            break
    return text


def _parts(
    document: DecisionDocument,
    evals: Sequence[EvalSummary],
    tests: Mapping[str, str],
    below: Sequence[str],
    limits: _MarkdownLimits,
) -> Iterator[str]:
    yield _MARK
    title = headline(document, name=shown_name, words=shown_text)
    mark = _MARKS["reject" if tests else document.decision]
    yield f"### {mark} regauge gate: {title}{failed_tests_text(tests)}"
    yield ""
    for refusal in document.refusals:
        yield f"- {shown_text(refusal.message)}"
        yield from (f"  - {shown_text(detail)}" for detail in refusal.details[: limits.cases])
        if hidden_count := len(refusal.details[limits.cases :]):
            yield f"  - … and {hidden_count} more"
    reasons = [f"- {shown_text(reason)}" for reason in reasons_beside(document)]
    reasons += [
        f"- Fix of {shown_text(omission.path)}: {shown_text(omission.fix)}"
        for omission in document.unmeasured
        if omission.fix
    ]
    yield from reasons
    if document.prompts and document.decision != "refused":
        if reasons or document.refusals:
            yield ""
        yield from prompt_table(document, evals)
    yield from _anchors(document)
    yield from _guards(document)
    for prompt in document.prompts:
        yield from _rules(prompt)
    for prompt in document.prompts[: limits.prompts]:
        yield from _prompt_diff(prompt, limits)
    if any(prompt.diff for prompt in document.prompts[limits.prompts :]):
        yield ""
        yield f"… and the diffs of {len(document.prompts) - limits.prompts} more prompts"
    yield from _cases(document, limits)
    yield from below
    yield ""
    cut_off = cut_off_notes([eval_ for eval_ in evals if eval_.side == "candidate"])
    if notes := [*document.notes, *cut_off]:
        yield from (f"- {shown_text(note)}" for note in notes)
        yield ""
    sees = map(shown_text, document.sensitivity.splitlines())
    yield "<br>".join([calls_line(document), *sees])
    yield ""
    yield f"Decide again: {inline_code(document.rerun_command)}"
    if document.next.text:
        command = f": {inline_code(document.next.command)}" if document.next.command else ""
        yield f"<br>**Next:** {shown_text(document.next.text)}{command}"


def _anchors(document: DecisionDocument) -> Iterator[str]:
    for prompt in document.prompts:
        if prompt.anchor is not None:
            yield f"\n{shown_text(prompt.prompt)} {shown_text(prompt.anchor.message)}"


def _guards(document: DecisionDocument) -> Iterator[str]:
    for prompt in document.prompts:
        for guards in prompt.guards:
            yield ""
            yield f"{shown_text(prompt.prompt)} {shown_text(guards.message)}"
            yield ""
            yield from (f"- {shown_text(line)}" for line in guard_lines(guards))


def _cases(document: DecisionDocument, limits: _MarkdownLimits) -> Iterator[str]:
    outputs_left = limits.outputs
    for status, words, cases in listed_cases(document):
        yield ""
        if status in _FOLDED:
            title = f"{words.title}: {len(cases)}"
            yield from fold_lines(title, _list_cases(cases, limits))
            continue
        yield f"**{words.title}**"
        yield ""
        if words.diff:
            groups = groups_of(cases)
            for group in groups[: limits.cases]:
                yield from _group(group, limits, with_outputs=outputs_left > 0)
                outputs_left -= 1
            if rest := sum(len(group.cases) for group in groups[limits.cases :]):
                yield f"- … and {plural(rest, 'case')} of other kinds"
        else:
            yield from _list_cases(cases, limits)


def _message(case: CaseDocument) -> str:
    """The message of a case, with its name as code."""
    name = f"{case.prompt}/{case.case}"
    text = _shorten(case.message)
    if not text.startswith(f"{name}:"):
        return shown_text(text)
    return shown_name(name) + shown_text(text.removeprefix(name))


def _group(group: CaseGroup, limits: _MarkdownLimits, *, with_outputs: bool) -> Iterator[str]:
    """Cases of one kind: the first with its outputs, the others folded."""
    first, *other_cases = group.cases
    if not other_cases:
        yield f"- {_message(first)}{_accepted_reason(first)}"
    else:
        yield f"- **{shown_text(group.title)}**, such as"
        yield f"  {_message(first)}{_accepted_reason(first)}"
    if with_outputs and (outputs := output_diff(first)):
        yield from _fold("outputs", outputs, limits, indent="  ")
    if other_cases:
        lines = (f"  {line}" for line in _list_cases(other_cases, limits))
        yield from fold_lines(f"{len(other_cases)} more", lines, indent="  ")


def _list_cases(cases: Sequence[CaseDocument], limits: _MarkdownLimits) -> Iterator[str]:
    for case in cases[: limits.cases]:
        yield f"- {_message(case)}{_accepted_reason(case)}"
    if len(cases) > limits.cases:
        yield f"- … and {len(cases) - limits.cases} more"


def _rules(prompt: PromptDocument) -> Iterator[str]:
    if prompt.rules:
        yield ""
        yield f"**Versions of {shown_text(prompt.prompt)}**"
        yield ""
        for rule in prompt.rules:
            fix = f". Fix: {inline_code(rule.fix)}" if rule.fix else ""
            yield f"- {shown_text(rule.message)}{fix}"


def _accepted_reason(case: CaseDocument) -> str:
    return f" Accepted by the changelog: {shown_text(case.accepted)}" if case.accepted else ""


def _prompt_diff(prompt: PromptDocument, limits: _MarkdownLimits) -> Iterator[str]:
    if prompt.diff:
        yield ""
        lines = printable(prompt.diff).splitlines()
        yield from _fold(f"diff of {prompt.path}", lines, limits)


def _fold(
    title: str, lines: Sequence[str], limits: _MarkdownLimits, *, indent: str = ""
) -> Iterator[str]:
    """A folded block, open if short; the text inside cannot end it."""
    fence = fence_lines(lines, lines_max=limits.lines, chars_max=limits.chars, indent=indent)
    is_open = len(lines) <= _OPEN_LINES_MAX
    yield from fold_lines(shown_text(title), fence, indent=indent, is_open=is_open)


def _shorten(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARS_MAX else f"{text[:_MESSAGE_CHARS_MAX]}…"
