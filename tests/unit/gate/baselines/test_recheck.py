"""Fresh trials of base, held against a baseline: what they find, and how seldom they find nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from regauge.gate import Count, Drift, GatePolicy, Recheck
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import BaselineKey, Session, StoredBaseline, StoredTrials

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = BaselineKey(prompt="a" * 64, model="m:m", dataset="d", judges={"tone": "b" * 64})
DIGEST = "1" * 64


def known(passed: list[int], trials: int = 12) -> StoredBaseline:
    """A baseline of cases that passed so often."""
    cases = {
        f"case-{n}": StoredTrials(
            digest=DIGEST[:16],
            numbers=tuple(range(100, 100 + trials)),
            passed=times,
            checks={"tone": Count(passed=times, trials=trials)},
        )
        for n, times in enumerate(passed)
    }
    session = Session(id="2026-11-21T09:30:00Z", first=100, last=99 + trials, models=("m-1",))
    return StoredBaseline(key=KEY, version="1.0.0", sessions=(session,), cases=cases)


def rechecked(
    baseline: StoredBaseline, passes: Callable[[str, int], bool | None], *, trials: int = 2
) -> tuple[Drift, int]:
    """What trials that pass as told come to, and how many were asked for."""
    digests = dict.fromkeys(baseline.cases, DIGEST)
    recheck = Recheck(baseline, digests, GatePolicy(), prompt="greet", trials=trials)
    asked = 0
    for requests in recheck.rounds():
        asked += len(requests)
        for case, number in requests:
            passed = passes(case, number)
            facts = (
                None if passed is None else TrialFacts(checks={"tone": passed}, output_digest="x")
            )
            recheck.add(case, number, facts)
    return recheck.drift(models={"m-1"}), asked


def test_a_case_that_fails_now_is_drawn_on_until_that_is_sure():
    drift, asked = rechecked(known([12] * 30), lambda case, _: case != "case-7")
    (change,) = drift.changes
    assert str(change) == ("case-7: tone worse: passed 0 of 4; 12 of 12 when the baseline was made")
    assert change.e_value >= change.bound
    assert (drift.worse, drift.stale, asked) == (True, True, 2 * 30 + 2)


def test_many_cases_that_fail_now_and_then_are_worse_together():
    drift, _ = rechecked(known([12] * 30), lambda case, n: n > 0 or int(case[5:]) > 5)
    assert drift.changes == ()
    assert drift.suite is not None
    assert (drift.worse, drift.suite.fails, drift.suite.p_value <= drift.suite.bound) == (
        True,
        6,
        True,
    )
    assert (drift.now, drift.before) == (Count(passed=54, trials=60), Count(passed=360, trials=360))


def test_cases_that_pass_now_begin_a_new_history_and_are_no_harm():
    drift, _ = rechecked(known([0, *[12] * 9]), lambda *_: True, trials=3)
    assert [(change.case, change.direction) for change in drift.changes] == [("case-0", "better")]
    assert (drift.worse, drift.stale) == (False, True)


@pytest.mark.parametrize("passed", [0, 1, 2])
@pytest.mark.parametrize("worse", [4, 12])
def test_worse_cases_are_no_evidence_for_better_ones(passed: int, worse: int):
    """As many trials show that a case passes now, whether or not others fail now."""

    def better(others: int) -> list[str]:
        drift, _ = rechecked(
            known([passed, *[12] * 60]),
            lambda case, _: case == "case-0" or int(case[5:]) > others,
            trials=1,
        )
        assert len(drift.changes) == 1 + others
        return [str(change) for change in drift.changes if change.direction == "better"]

    assert better(worse) == better(0)


def test_who_never_answered_before_is_told():
    baseline = known([12] * 3)
    recheck = Recheck(
        baseline, dict.fromkeys(baseline.cases, DIGEST), GatePolicy(), prompt="p", trials=1
    )
    for requests in recheck.rounds():
        for case, number in requests:
            recheck.add(case, number, TrialFacts(checks={"tone": True}, output_digest="x"))
    drift = recheck.drift(models={"m-2"})
    assert (drift.new_models, drift.worse, drift.stale) == (("m-2",), False, True)
    assert not recheck.drift(models={"m-1", "m-2"}).stale


def test_a_base_that_is_as_it_was_is_hardly_ever_blamed():
    """One in two hundred nights is what the suite's test is allowed; flaky cases included."""
    dice = random.Random(7)
    rates = [1.0] * 12 + [0.9] * 5 + [0.5] * 3
    alarms = 0
    for _ in range(200):
        baseline = known([sum(dice.random() < rate for _ in range(12)) for rate in rates])
        drift, asked = rechecked(baseline, lambda case, _: dice.random() < rates[int(case[5:])])
        alarms += drift.worse
        assert asked < 2 * len(rates) + 24 * 8
    assert alarms <= 4


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=8), st.data())
def test_any_trials_come_to_an_end_and_unmeasured_ones_blame_nobody(
    first: list[bool | None], data: st.DataObject
):
    baseline = known([data.draw(st.integers(0, 12)) for _ in first])
    drift, _ = rechecked(baseline, lambda case, _: first[int(case[5:])], trials=1)
    named = {change.case for change in drift.changes}
    assert not named & {f"case-{n}" for n, passed in enumerate(first) if passed is None}
    assert not (drift.worse and all(passed is not False for passed in first))
