"""The words of a failed case: which judge, why, expected and actual, the answer, the command."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from regauge.printable import printable

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.prompts import Prompt
    from regauge.runner._trial import JudgedVerdict, Trial

__all__ = ["FailedCase", "describe_failure", "one_line"]

_ANSWER_CHARS_MAX = 1200
_VALUE_CHARS_MAX = 300


class FailedCase(Protocol):
    """What the words need of a case's result."""

    case: GoldenCase
    trials: tuple[Trial, ...]
    where: str
    passed: int

    @property
    def prompt(self) -> Prompt: ...

    @property
    def needed(self) -> int: ...


def describe_failure(result: FailedCase) -> str:
    """Everything a person needs to see why a case failed, in the order it is read."""
    prompt = result.prompt
    lines = [f"{prompt.id} · case {result.case.id} · {_count(result)} · {result.case.at}"]
    shown: Trial | None = None
    for judge, failed in _by_judge(result).items():
        trial, judged = failed[0]
        shown = shown or trial
        times = (
            f" in {len(failed)} of {len(result.trials)} trials" if len(result.trials) > 1 else ""
        )
        lines.append(f"  ✗ {judge}{times}: {one_line(judged.verdict.reason, _VALUE_CHARS_MAX)}")
        if judged.verdict.expected is not None:
            lines.append(f"      expected: {_value(judged.verdict.expected)}")
        if judged.verdict.actual is not None:
            lines.append(f"      actual:   {_value(judged.verdict.actual)}")
    passed = {
        judged.judge
        for trial in result.trials
        for judged in trial.verdicts
        if judged.gates and judged.verdict.outcome == "pass"
    } - set(_by_judge(result))
    if passed:
        lines.append(f"  ✓ {', '.join(sorted(passed))}")
    lines.extend(_informing(result))
    if shown is not None and shown.answer is not None:
        completion = shown.answer.completion
        label = f"trial {shown.number}, " if len(result.trials) > 1 else ""
        lines.append(f"  answer ({label}{completion.model}, {shown.answer.source}):")
        text = completion.text if completion.text is not None else completion.refusal or ""
        lines.extend(f"    {line}" for line in _shorten(text).splitlines() or ["(empty)"])
        if completion.finish_reason not in {"stop", "unknown"}:
            lines.append(f"  finish reason: {completion.finish_reason}")
    lines.append(f"  again: pytest {shlex.quote(result.where)}")
    return printable("\n".join(lines))


def one_line(text: str, limit: int = _VALUE_CHARS_MAX) -> str:
    """`text` on one line, cut at `limit` characters with a mark of the cut."""
    folded = printable(" ".join(text.split()))
    return folded if len(folded) <= limit else f"{folded[: limit - 1]}…"


def _count(result: FailedCase) -> str:
    if len(result.trials) == 1:
        return "failed"
    return f"passed {result.passed} of {len(result.trials)} trials, {result.needed} needed"


def _informing(result: FailedCase) -> list[str]:
    """What judges without a say say, one line each, on the first trial they judged."""
    said: dict[str, JudgedVerdict] = {}
    for trial in result.trials:
        for judged in trial.verdicts:
            if not judged.gates:
                said.setdefault(judged.judge, judged)
    return [
        f"  · {name} (informs only) says {judged.verdict.outcome}"
        f" ({judged.verdict.score:.2f}): {one_line(judged.verdict.reason)}"
        for name, judged in said.items()
    ]


def _by_judge(result: FailedCase) -> dict[str, list[tuple[Trial, JudgedVerdict]]]:
    failed: dict[str, list[tuple[Trial, JudgedVerdict]]] = defaultdict(list)
    for trial in result.trials:
        for judged in trial.failures:
            failed[judged.judge].append((trial, judged))
    return failed


def _value(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text)


def _shorten(text: str) -> str:
    if len(text) <= _ANSWER_CHARS_MAX:
        return text
    return f"{text[:_ANSWER_CHARS_MAX]}\n… {len(text) - _ANSWER_CHARS_MAX} more characters"
