"""Replayed cases are judged a stretch at a time where nobody can tell."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from regauge.judges import all_of, max_words, not_, on_text, passed, rule
from regauge.runner import EvalResult, PlannedCase
from regauge.runner._stretches import Stretches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.judges import Check, Judge, Verdict


@rule()
def noisy() -> Check:
    """A rule of somebody else, which may do anything."""

    def check(text: str) -> Verdict:
        warnings.warn(text, stacklevel=1)
        return passed("heard")

    return on_text(None, check)


class Judging:
    """Stretches over so many cases; a tick of the clock passes each time it is looked at."""

    def __init__(
        self,
        made: Any,
        *,
        judges: Iterable[Judge] = (),
        unanswered: Iterable[int] = (),
        tick_s: float = 0.0,
    ) -> None:
        first = replace(made.suite(), judges=tuple(judges))
        other = replace(first, origin="another eval")
        self.cases = [
            PlannedCase(first if number < 4 else other, made.case(number)) for number in range(6)
        ]
        self.judged: list[str] = []
        waiting = {f"c{number}" for number in unanswered}
        self.stretches = Stretches(
            self.cases,
            make=self.make,
            ready=lambda planned: planned.case.id not in waiting,
            clock=count(step=tick_s).__next__,
        )
        self._made = made

    def make(self, planned: PlannedCase) -> EvalResult:
        self.judged.append(planned.case.id)
        result: EvalResult = replace(self._made.result([self._made.trial()]), case=planned.case)
        return result

    def turn(self, number: int) -> list[str]:
        """What was judged on the turn of a case."""
        self.judged = []
        planned = self.cases[number]
        result = self.stretches.take(planned)
        if result is None:
            result = self.make(planned)
            self.stretches.go_on_from(planned)
        assert result.case is planned.case
        return self.judged


def test_the_cases_that_come_next_in_an_eval_are_judged_with_the_first(made: Any):
    judging = Judging(made, judges=[max_words(3), ~max_words(1), all_of(max_words(9))])
    assert [judging.turn(number) for number in range(6)] == [
        ["c0", "c1", "c2", "c3"],
        [],
        [],
        [],
        ["c4", "c5"],
        [],
    ]


def test_an_answer_that_must_be_waited_for_ends_a_stretch(made: Any):
    judging = Judging(made, unanswered=[2])
    assert [judging.turn(number) for number in range(4)] == [["c0", "c1"], [], ["c2", "c3"], []]


def test_slow_rules_judge_in_their_turn(made: Any):
    judging = Judging(made, tick_s=0.0015)
    assert [judging.turn(number) for number in range(4)] == [["c0", "c1"], [], ["c2", "c3"], []]


def test_a_case_that_was_skipped_is_forgotten_and_one_that_has_another_turn_judged_again(made: Any):
    judging = Judging(made)
    assert judging.turn(0) == ["c0", "c1", "c2", "c3"]
    assert judging.turn(2) == []
    assert judging.turn(2) == ["c2", "c3"]
    assert judging.turn(0) == ["c0"]
    assert judging.turn(4) == ["c4", "c5"]
    assert judging.turn(1) == ["c1"]


@pytest.mark.parametrize(
    "judge",
    [noisy(), not_(noisy()), all_of(max_words(3), noisy()), noisy().named("max_words")],
    ids=str,
)
def test_what_others_wrote_judges_in_its_turn(made: Any, judge: Judge):
    judging = Judging(made, judges=[max_words(3), judge])
    assert [judging.turn(number) for number in range(3)] == [["c0"], ["c1"], ["c2"]]
