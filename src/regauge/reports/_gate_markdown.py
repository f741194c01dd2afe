"""A decision as Markdown, for a comment on a pull request and a job summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.printable import printable
from regauge.reports._answer_diff import answer_diff
from regauge.reports._gate_console import VERDICTS, calls_line, headline, version_step
from regauge.reports._markdown import escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.reports._decision import CaseDocument, DecisionDocument, PromptDocument

__all__ = ["decision_markdown"]

# What finds the comment of an earlier run, to write over it.
_MARK = "<!-- regauge gate -->"
# GitHub takes 65,536 characters of a comment.
_CASES_MAX = 30
_DIFFS_MAX = 8
_DIFF_LINES_MAX = 60
_DIFF_CHARS_MAX = 4000
_PROMPT_DIFFS_MAX = 4
_MARKS = {"accept": "✅", "reject": "❌", "undecided": "❔", "unmeasured": "⚠️"}


def decision_markdown(document: DecisionDocument) -> str:
    """The decision, a table of prompts, each case that matters, and how to decide again.

    Everything a model, a judge or a file says is escaped.
    """
    return "\n".join(_parts(document)) + "\n"


def _parts(document: DecisionDocument) -> Iterator[str]:
    yield _MARK
    yield f"### {_MARKS[document.decision]} regauge gate: {_text(headline(document))}"
    yield ""
    for reason in document.reasons:
        yield f"- {_text(reason)}"
    if document.prompts:
        yield ""
        yield from _table(document)
    for prompt in document.prompts:
        yield from _rules(prompt)
    yield from _cases(document)
    for prompt in document.prompts[:_PROMPT_DIFFS_MAX]:
        yield from _prompt_diff(prompt)
    yield ""
    if document.notes:
        yield from (f"- {_text(note)}" for note in document.notes)
        yield ""
    yield f"{calls_line(document)} {_text(document.operating_line)}".rstrip()
    yield ""
    yield f"Decide again: {_code(document.again)}"
    if document.go_on:
        yield f"<br>Go on: {_code(document.go_on)}"


def _cases(document: DecisionDocument) -> Iterator[str]:
    diffs_left = _DIFFS_MAX
    for verdict, words in VERDICTS.items():
        cases = [case for case in document.cases if case.verdict == verdict]
        if words.shown and cases:
            yield ""
            yield f"**{words.title}**"
            yield ""
            for case in cases[:_CASES_MAX]:
                yield f"- {_text(case.message)}{_accepted(case)}"
                if words.diff and diffs_left:
                    diffs_left -= 1
                    yield from _answers(case)
            if len(cases) > _CASES_MAX:
                yield f"- … and {len(cases) - _CASES_MAX} more"


def _table(document: DecisionDocument) -> Iterator[str]:
    met = [
        verdict
        for verdict in VERDICTS
        if any(prompt.counts.get(verdict) for prompt in document.prompts)
    ]
    yield f"| prompt | version | {' | '.join(VERDICTS[one].column for one in met)} |"
    yield f"|---|---|{'--:|' * len(met)}"
    for prompt in document.prompts:
        cells = [
            _text(prompt.prompt),
            _text(version_step(prompt)),
            *(str(prompt.counts.get(verdict, 0)) for verdict in met),
        ]
        yield f"| {' | '.join(cells)} |"


def _rules(prompt: PromptDocument) -> Iterator[str]:
    if prompt.rules:
        yield ""
        yield f"**Versions of {_text(prompt.prompt)}**"
        yield ""
        for rule in prompt.rules:
            fix = f". Fix: {_code(rule.fix)}" if rule.fix else ""
            yield f"- {_text(rule.message)}{fix}"


def _accepted(case: CaseDocument) -> str:
    return f" Accepted by the changelog: {_text(case.accepted)}" if case.accepted else ""


def _answers(case: CaseDocument) -> Iterator[str]:
    lines = answer_diff(case)
    if lines:
        yield from _folded("answers", lines, indent="  ")


def _prompt_diff(prompt: PromptDocument) -> Iterator[str]:
    if prompt.diff:
        yield ""
        yield from _folded(f"diff of {prompt.path}", printable(prompt.diff).splitlines())


def _folded(title: str, lines: Sequence[str], *, indent: str = "") -> Iterator[str]:
    """A block that opens on a click; nothing in it can end it, however it is made."""
    shown: list[str] = []
    chars_left = _DIFF_CHARS_MAX
    for line in lines[:_DIFF_LINES_MAX]:
        if chars_left <= 0:
            break
        shown.append(line if len(line) <= chars_left else f"{line[:chars_left]}…")
        chars_left -= len(line)
    if len(lines) > len(shown):
        shown.append(f"… {len(lines) - len(shown)} more lines")
    runs = (len(run) for line in shown for run in re.findall("`+", line))
    fence = "`" * max(3, 1 + max(runs, default=0))
    yield f"{indent}<details><summary>{_text(title)}</summary>"
    yield ""
    yield f"{indent}{fence}diff"
    yield from (f"{indent}{line}" for line in shown)
    yield f"{indent}{fence}"
    yield ""
    yield f"{indent}</details>"


def _text(text: str) -> str:
    """Text of others that is shown as it is, and moves no cursor where it is printed."""
    return escape_markdown(printable(text))


def _code(text: str) -> str:
    """A command as inline code, whatever is in it."""
    text = " ".join(printable(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"
