"""What is said of failed cases, and how calls and what is missing add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from regauge.providers import Usage
from regauge.runner import CallTotals, CaseFailed, MissingJudgements
from regauge.runner._result import one_line
from tests.transcripts import assert_as_written


def with_text(trial: Any, text: str, **more: Any) -> Any:
    completion = replace(trial.sourced_completion.completion, text=text, **more)
    return replace(
        trial, sourced_completion=replace(trial.sourced_completion, completion=completion)
    )


def judged(trial: Any, **more: Any) -> Any:
    """A trial of which a further, advisory judge says something."""
    (first, *_) = trial.verdicts
    return replace(
        trial, verdicts=(*trial.verdicts, replace(first, judge="tone", blocking=False, **more))
    )


def test_a_failure_is_told_as_it_was_written_down(made: Any):
    failed, passed = made.trial(0, "failed"), made.trial(1)
    other = replace(passed.verdicts[0], judge="other")
    failures = {
        "one trial": [failed],
        "several trials": [passed, made.trial(2, "failed"), made.trial(3, "failed")],
        "an advisory judge": [judged(failed)],
        "another judge passed": [replace(failed, verdicts=(*failed.verdicts, other))],
        "no text": [with_text(failed, "")],
        "a long text": [with_text(failed, "x" * 1201)],
        "at the limit": [with_text(failed, "x" * 1200)],
        "cut off": [with_text(failed, "a\nb", finish_reason="length")],
        "an unknown end": [with_text(failed, "a", finish_reason="unknown")],
    }
    lines: list[str] = []
    for name, trials in failures.items():
        result = made.result(trials, node_id="evals/test_a.py::test a[c]")
        with pytest.raises(CaseFailed) as error:
            result.check()
        lines += [f"== {name}", str(error.value), error.value.short, repr(error.value)]
    assert_as_written("\n".join([*lines, ""]), "runner/failures")


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [("a\n b  c", 5, "a b c"), ("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…")],
)
def test_a_line_is_folded_and_cut_with_a_mark(text: str, limit: int, line: str):
    assert one_line(text, limit) == line


def test_calls_add_up_and_only_live_ones_are_paid(made: Any):
    completion = replace(
        made.trial().sourced_completion.completion,
        usage=Usage(input_tokens=10, output_tokens=3),
        attempts=3,
        cost_usd=0.25,
        latency_s=1.5,
    )
    totals = CallTotals().plus(completion, live=True).plus(completion, live=False)
    assert totals == CallTotals(
        calls=2,
        live=1,
        retries=2,
        input_tokens=20,
        output_tokens=6,
        cost_usd=0.5,
        spent_usd=0.25,
        latency_s=3.0,
    )
    unknown = totals.plus(replace(completion, cost_usd=None), live=False)
    assert (unknown.cost_usd, unknown.spent_usd, unknown.calls) == (None, 0.25, 3)
    assert totals.plus(replace(completion, cost_usd=None), live=True).spent_usd is None
    kept = CallTotals.from_json(totals.to_json())
    assert kept == replace(totals, live=0, retries=0, spent_usd=0.0)
    assert CallTotals.from_json({}) == CallTotals()
    odd = CallTotals.from_json({"calls": "x", "cost_usd": None, "latency_s": "y"})
    assert odd == CallTotals(cost_usd=None, latency_s=None)


def test_what_two_processes_miss_adds_up():
    one = MissingJudgements(
        prompt="p",
        judge="j",
        models="m",
        simulated=True,
        judgements=3,
        cases=2,
        stale=1,
        calls=5,
        tokens=100,
        cost_usd=0.5,
        batch_cost_usd=0.25,
        command="regauge record p",
    )
    both = one.plus(replace(one, judgements=4, cases=5, stale=6, calls=7, tokens=8, cost_usd=2.0))
    assert both == replace(
        one,
        judgements=7,
        cases=7,
        stale=7,
        calls=12,
        tokens=108,
        cost_usd=2.5,
        batch_cost_usd=0.5,
    )
    for lacking in ("cost_usd", "batch_cost_usd"):
        unknown = replace(one, **{lacking: None})
        assert getattr(one.plus(unknown), lacking) is None
        assert getattr(unknown.plus(one), lacking) is None
