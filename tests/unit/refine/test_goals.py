"""Goals held to trials: when one is met, missed or neither, and what would settle it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from regauge.refine.analysis import CheckOutcome, Outcome
from regauge.refine.loop._plan import (
    Goal,
    least_trials,
    measure_goal,
    passed_all,
    trials_to_settle,
)
from tests.unit.refine.world import HEALTHY, world

Drawn = dict[str, list[tuple[bool | None, ...]]]


def goal(pass_rate=0.9, checks=("json", "short"), cases=("a", "b")) -> Goal:
    return Goal(name="the goal", checks=checks, cases=cases, pass_rate=pass_rate)


def outcomes(case: str, drawn: list[tuple[bool | None, ...]]) -> list[Outcome]:
    """Trials of a case: for each what json, short and utc said; None where one abstained."""
    return [
        Outcome(
            text="t",
            case=case,
            trial=number,
            checks=tuple(
                CheckOutcome(check=check, passed=passed)
                for check, passed in zip(("json", "short", "utc"), said, strict=False)
                if passed is not None
            ),
        )
        for number, said in enumerate(drawn)
    ]


def held(one: Goal, drawn: Drawn):
    return measure_goal(one, lambda case: outcomes(case, drawn.get(case, [])), one.cases)


GOOD, BAD, NONE = (True, True), (True, False), (None, None)


@pytest.mark.parametrize(
    ("drawn", "standing"),
    [
        ({"a": [GOOD] * 20, "b": [GOOD] * 20}, "met"),
        ({"a": [GOOD] * 20, "b": [GOOD] * 10}, "undecided"),
        ({"a": [GOOD] * 20, "b": [BAD] * 20}, "missed"),
        ({"a": [GOOD] * 99, "b": []}, "undecided"),  # a case that nobody drew is never green
        ({"a": [GOOD] * 99, "b": [NONE] * 9}, "met"),  # nor is one that no check speaks of red
        ({"a": [NONE] * 99, "b": [NONE] * 9}, "undecided"),
        ({}, "undecided"),
        # Many trials of the good case hide no bad one: cases count alike.
        ({"a": [GOOD] * 900, "b": [BAD] * 5}, "missed"),
        # Nor do few trials of the bad one: what a bound says of the mean is not enough.
        ({"a": [GOOD] * 900, "b": [BAD]}, "undecided"),
        # Trials of one check that other checks of the goal failed are no passes.
        ({"a": [(True, None)] * 20, "b": [(None, True)] * 20}, "met"),
    ],
)
def test_a_goal_is_met_missed_or_not_settled(drawn: Drawn, standing: str):
    assert held(goal(), drawn).status == standing


def test_what_is_said_of_a_goal_can_be_counted_again():
    found = held(goal(0.5), {"a": [GOOD, BAD, GOOD], "b": [(None, True), NONE]})
    assert (found.count.passed, found.count.trials, found.cases, found.untested) == (3, 4, 2, 0)
    assert str(found) == "the goal: undecided (passed 3 of 4, 30.1 to 100.0 %)"
    assert found.to_json()["status"] == "undecided"
    assert passed_all(("utc",), outcomes("a", [(True, True, False), (True, True)])).trials == 1


def test_bounds_are_those_of_all_trials_and_of_a_mean_over_cases():
    """Without a trial nothing is known; few trials of one case say little of the mean."""
    assert str(held(goal(), {})) == (
        "the goal: undecided (passed 0 of 0, 0.0 to 100.0 %, 2 cases without trials)"
    )
    uneven = held(goal(0.8), {"a": [GOOD] * 30, "b": [GOOD, BAD]})
    # 2 squared over 1/30 + 1/2: as much as 7 trials dealt evenly, of which 5.25 pass.
    assert str(uneven) == "the goal: undecided (passed 31 of 32, 84.3 to 97.4 %)"
    assert held(goal(0.95), {"a": [GOOD] * 40, "b": []}).status == "undecided"
    assert held(goal(0.9), {"a": [BAD] * 40, "b": []}).status == "undecided"


said = st.sampled_from([GOOD, BAD, NONE, (False, False), (True, None)])
tables = st.fixed_dictionaries({
    "a": st.lists(said, max_size=25),
    "b": st.lists(said, max_size=25),
})  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(drawn=tables, rate=st.floats(0.05, 0.99), case=st.sampled_from("ab"), more=st.integers(1, 9))
def test_more_passes_never_unmeet_a_goal(drawn, rate, case, more):
    order = ("missed", "undecided", "met")
    one = goal(rate)
    before = held(one, drawn).status
    after = held(one, {**drawn, case: [*drawn[case], *[GOOD] * more]}).status
    repaired = held(one, {**drawn, case: [GOOD if x == BAD else x for x in drawn[case]]}).status
    assert before != "met" or after == "met"
    assert order.index(repaired) >= order.index(before)


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.9, 0.95, 0.98, 0.99])
def test_the_fewest_trials_that_meet_a_goal_do_and_one_fewer_does_not(rate: float):
    least = least_trials(rate)
    one = goal(rate, cases=("a",))
    assert held(one, {"a": [GOOD] * least}).status == "met"
    assert held(one, {"a": [GOOD] * (least - 1)}).status == "undecided"


def test_the_more_trials_passed_the_fewer_settle_a_goal():
    all_passed = [held(goal(0.8), {"a": [GOOD] * n, "b": [GOOD] * n}) for n in (1, 5, 20, 90)]
    totals = [trials_to_settle(found) for found in all_passed]
    assert totals == sorted(totals, reverse=True)
    some = held(goal(0.8), {"a": [GOOD] * 20, "b": [*[GOOD] * 17, *[BAD] * 3]})
    assert trials_to_settle(some) > totals[2]
    none = held(goal(0.8), {"a": [BAD], "b": [BAD]})
    assert trials_to_settle(none) == 2 * least_trials(0.8), "it may have been bad luck"


def test_a_strict_goal_tolerates_fewer_failures_and_a_lax_one_no_more():
    goals = [goal(0.98, ("json",)), goal(0.5, ("short",)), goal(0.95, ("json", "utc"))]
    rates = world(HEALTHY, goals=tuple(goals)).config.tolerated
    assert {check: round(rate, 6) for check, rate in rates.items()} == {
        "json": 0.02, "short": 0.1, "utc": 0.05,
    }  # fmt: skip
