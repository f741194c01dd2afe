"""The difference between a passing and a failing answer, line by line."""

from __future__ import annotations

import json
from contextlib import suppress
from difflib import unified_diff
from typing import TYPE_CHECKING

from regauge.printable import printable
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.reports._decision import AnswerDocument, CaseDocument

__all__ = ["answer_diff", "answer_lines"]

_ANSWER_CHARS_MAX = 2000
_CONTEXT_LINES = 2


def answer_diff(case: CaseDocument) -> list[str]:
    """One passing and one failing answer of a case as a unified diff, then what the judge said.

    Where there is but one of them, that answer; nothing where there is none.
    """
    passing, failing = case.passing, case.failing
    if passing is None or failing is None:
        only = passing or failing
        if only is None:
            return []
        label = "passed" if only is passing else "failed"
        return [f"{label} ({_who(only)}):", *answer_lines(only.text), *_reason(only)]
    first, second = (failing, passing) if case.verdict == "fixed" else (passing, failing)
    labels = ("failed", "passed") if case.verdict == "fixed" else ("passed", "failed")
    lines = list(
        unified_diff(
            answer_lines(first.text),
            answer_lines(second.text),
            f"{labels[0]} ({_who(first)})",
            f"{labels[1]} ({_who(second)})",
            lineterm="",
            n=_CONTEXT_LINES,
        )
    )
    lines = [line for line in lines if not line.startswith("@@ ")]
    return [*(lines or ["both answers are the same text"]), *_reason(failing)]


def _who(answer: AnswerDocument) -> str:
    return f"{answer.arm}, trial {answer.trial}"


def _reason(answer: AnswerDocument) -> list[str]:
    if not answer.reason:
        return []
    return [f"{answer.judge}: {printable(' '.join(answer.reason.split()))}"]


def answer_lines(text: str) -> list[str]:
    """The lines of an answer; JSON with a line per value, so that a diff shows which differ."""
    if len(text) <= _ANSWER_CHARS_MAX and text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            text = json.dumps(read_json(text), ensure_ascii=False, indent=2)
    if len(text) > _ANSWER_CHARS_MAX:
        text = f"{text[:_ANSWER_CHARS_MAX]}\n… {len(text) - _ANSWER_CHARS_MAX} more characters"
    return printable(text).splitlines() or ["(empty)"]
