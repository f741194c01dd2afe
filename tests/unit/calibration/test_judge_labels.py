"""Labelled outputs are judged each as often as asked, and all that is missing is one error."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import BudgetError, JudgeError, ProviderError, UnmeasuredError, UsageError
from regauge.judges import Verdict
from regauge.judges.calibration import cases_of_labels, judge_labels
from regauge.judges.model._rubric import PairedVerdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.datasets import GoldenCase
    from regauge.providers import Completion


class Strict:
    """A judge of outputs that calls a model once, and then does what it is told."""

    name, digest, models = "strict", "d", ("sim:m",)

    def __init__(self, act: Callable[[str], Verdict] | None = None, *, hides: bool = False) -> None:
        self.act = act or (lambda text: Verdict(outcome="pass", score=0.5, reason=f"fine: {text}"))
        self.hides = hides
        self.seen: list[tuple[str, str, int]] = []

    async def judge_with(self, completion: Completion, case: GoldenCase, calls: Any) -> Verdict:
        assert (completion.finish_reason, completion.provider) == ("stop", "labels")
        self.seen.append((completion.text or "", case.id, calls.trial))
        try:
            await calls.complete(completion.text)
        except UnmeasuredError as error:
            if not self.hides:
                raise
            raise JudgeError("no response", judge=self.name) from error
        return self.act(completion.text or "")


class Comparing(Strict):
    """Also selects the better one of two outputs."""

    async def compare(self, a: str, b: str, case: GoldenCase, calls: Any) -> PairedVerdict:
        self.seen.append((f"{a} or {b}", case.id, calls.trial))
        return PairedVerdict(winners=("a", "tie"), reasonings=("clearer", "alike"))


class Calls:
    """The calls of one judgement."""

    def __init__(self, trial: int, error: Callable[[str], Exception | None]) -> None:
        self.trial = trial
        self._error = error

    async def complete(self, request: Any) -> Any:
        if (error := self._error(request)) is not None:
            raise error


def judged(
    load: Any,
    made: Any,
    judge: Any,
    *rows: dict[str, Any],
    repeats: int = 1,
    error: Callable[[str], Exception | None] = lambda _: None,
) -> list[Any]:
    labels = load([{"id": f"l{n}", "case": "c", **row} for n, row in enumerate(rows)])
    cases = cases_of_labels(labels, {"c": replace(made.case(), id="c")})
    return asyncio.run(
        judge_labels(
            judge,
            labels.labels,
            cases,
            calls=lambda label, repeat: Calls(10 * int(label.id[1:]) + repeat, error),
            repeats=repeats,
        )
    )


PASSES = [{"output": text, "label": "pass"} for text in ("one", "two", "three")]
PAIR = {"a": "one", "b": "two", "label": "a"}


def test_every_label_is_judged_as_often_as_asked_with_calls_of_its_own(load: Any, made: Any):
    judge = Strict()
    verdicts = judged(load, made, judge, *PASSES[:2], repeats=2)
    assert sorted(judge.seen) == [
        ("one", "c", 0), ("one", "c", 1), ("two", "c", 10), ("two", "c", 11),
    ]  # fmt: skip
    assert [verdict.label.id for verdict in verdicts] == ["l0", "l1"]
    assert [len(verdict.judgements) for verdict in verdicts] == [2, 2]
    first = verdicts[1].first
    assert (first.opinions, first.score, first.reason) == (("pass",), 0.5, "fine: two")
    assert first.readable


def test_pairs_are_compared_by_judges_that_can(load: Any, made: Any):
    judge = Comparing()
    (verdict,) = judged(load, made, judge, PAIR)
    assert verdict.first.opinions == ("a", "tie")
    assert judge.seen == [("one or two", "c", 0)]
    with pytest.raises(UsageError, match="are pairs, and this judge compares no pairs"):
        judged(load, made, Strict(), PAIR)
    assert judged(load, made, Comparing(), PASSES[0])[0].first.opinions == ("pass",)


def test_an_unreadable_response_is_no_verdict_and_no_error(load: Any, made: Any):
    def act(text: str) -> Verdict:
        if text == "two":
            raise JudgeError("not JSON", judge="strict")
        return Verdict(outcome="fail", score=0.0, reason="no")

    verdicts = judged(load, made, Strict(act), *PASSES)
    assert [verdict.first.opinions for verdict in verdicts] == [
        ("fail",), ("unreadable",), ("fail",),
    ]  # fmt: skip
    assert [verdict.first.readable for verdict in verdicts] == [True, False, True]
    assert verdicts[1].first.reason == "not JSON"


@pytest.mark.parametrize("hides", [False, True])
def test_missing_judgements_are_counted_by_reason(load: Any, made: Any, *, hides: bool):
    errors = {
        "one": ProviderError("local cannot be reached", kind="connection"),
        "two": BudgetError("0.1 of 0.2 USD are spent"),
        "three": BudgetError("0.15 of 0.2 USD are spent"),
    }
    with pytest.raises(UnmeasuredError) as caught:
        judged(load, made, Strict(hides=hides), *PASSES, error=errors.get)
    assert str(caught.value) == (
        "2 judgements missing: 0.1 of 0.2 USD are spent\n"
        "1 judgement missing: local cannot be reached"
    )


def test_a_judge_that_breaks_is_named_with_its_line(load: Any, made: Any):
    def act(text: str) -> Verdict:
        raise KeyError(text)

    with pytest.raises(UnmeasuredError) as caught:
        judged(load, made, Strict(act), PASSES[0])
    message, place = str(caught.value).splitlines()
    assert message == "1 judgement missing: judge strict broke: KeyError: 'one'"
    line = act.__code__.co_firstlineno + 1
    assert place == f"  at {__file__}:{line}"
