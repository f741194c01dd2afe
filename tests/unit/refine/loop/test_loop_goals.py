"""How goals steer a run: what they leave alone, what settles them, and when a run is over."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.refine._policy import RefinePolicy, RunLimits
from regauge.refine.loop._loop import begin
from regauge.refine.loop._plan import goals_digest, measure_goals
from regauge.refine.loop._state import Interrupted
from tests.unit.refine.loop.test_loop_properties import policies, wild_world
from tests.unit.refine.world import (
    HEALTHY,
    HOLDOUT,
    JSON,
    TRAIN,
    adding,
    goal,
    passes,
    without,
    world,
)


def limited(**limits: object) -> RefinePolicy:
    return RefinePolicy(limits=RunLimits(**limits))  # type: ignore[arg-type]  # whatever a test says


def utc_fails_often(share: float):
    """All is well, but for a share of the trials in which the time is wrong."""
    dice = random.Random(4)
    return lambda text, case, check: (
        dice.random() > share if check == "utc" else passes(text, case, check)
    )


def said(here, event="goals") -> list[str]:
    return [note.text for state in here.states for note in state.notes if note.event == event]


@pytest.mark.parametrize(
    ("base", "goals", "reason", "proposal", "text"),
    [
        (HEALTHY, [("json", 0.9)], "goal-met", False, "the prompt as it is meets every goal"),
        (without("json"), [("json", 0.9)], "goal-met", True, "1 of 1 goal met"),
        (without("json"), [("json short utc", 0.9)], "goal-met", True, "1 of 1 goal met"),
        # What no goal speaks of is left alone.
        (without("json"), [("utc", 0.9)], "goal-met", False, "the prompt as it is meets"),
        # More trials than a run draws would have to pass.
        (without("json"), [("json", 0.99)], "improved", True, "0 of 1 goal met, 1 undecided"),
        (HEALTHY, [("json", 0.99)], "goal-open", False, "0 of 1 goal met, 1 undecided"),
        (
            without("json", "utc"),
            [("json", 0.9), ("utc", 0.9), ("utc", 0.99)],
            "improved",
            True,
            "2 of 3 goals met, 1 undecided",
        ),
    ],
)
def test_a_run_ends_when_its_goals_are_met(base, goals, reason, proposal, text):
    here = world(base, goals=tuple(goal(checks, rate) for checks, rate in goals))

    state = here.run()

    assert (state.stop.reason, state.stop.proposal) == (reason, proposal)
    assert text in state.stop.text
    assert here.events[-1] == "stopped"
    assert here.events.count("goals") == 1


def test_failures_within_the_goals_are_left_alone_and_named():
    lax = world(HEALTHY, goals=(goal("utc", 0.5),), passes=utc_fails_often(0.25))
    state = lax.run()
    assert state.stop.reason == "goal-met"
    assert [mode.check for mode in state.spared_modes] == ["utc"]
    assert state.tested == 0
    # They would be worked on, so the goal that may allow them is settled before.
    assert [one.phase for one in lax.states][-2:] == ["settle", "stopped"]
    assert said(lax, "diagnosed")[-1] == "nothing fails more often than goals allow"

    strict = world(HEALTHY, goals=(goal("utc", 0.9),), passes=utc_fails_often(0.25))
    state = strict.run()
    assert state.stop.reason not in {"goal-met", "nothing-to-refine"}
    assert state.spared_modes == ()
    assert "utc/missing in" in said(strict, "diagnosed")[0]


def test_a_goal_that_allows_less_than_chance_has_rare_failures_repaired():
    def rarely():
        drawn = dict.fromkeys(TRAIN, 0)

        def ok(text, case, check):
            if check != "utc" or case not in TRAIN[:2]:
                return passes(text, case, check)
            drawn[case] += 1
            return drawn[case] % 3 != 1

        return ok

    assert world(HEALTHY, passes=rarely()).run().stop.reason == "nothing-to-refine"
    here = world(HEALTHY, passes=rarely(), goals=(goal("utc", 0.97),))
    here.run()
    assert "utc/missing in" in said(here, "diagnosed")[0]


def test_only_cases_of_a_goal_count_for_it():
    def ok(text, case, check):
        return passes(text, case, check) and not (check == "utc" and case in TRAIN[4:])

    here = world(HEALTHY, passes=ok, goals=(goal("utc", 0.8, (*TRAIN[:4], *HOLDOUT)),))
    state = here.run()
    assert state.stop.reason == "goal-met"
    assert [mode.check for mode in state.spared_modes] == ["utc"]


def test_more_trials_settle_a_goal_and_are_dealt_evenly():
    here = world(without("json"), goals=(goal("json", 0.9),))
    state = here.run()
    phases = [one.phase for one in here.states]
    assert phases[-2:] == ["settle", "stopped"]
    (found,) = measure_goals(state, with_revision=True)
    assert found.status == "met"
    trials = {case: state.fresh.trials(state.text.digest, case) for case in (*TRAIN, *HOLDOUT)}
    assert set(trials.values()) == {-(-2 * 35 // 12)}, "twice the fewest that can, for bad luck"
    assert len(here.drawn) == len(set(here.drawn)), "no trial is drawn twice"
    assert not [trial for *_, trial in here.drawn if trial < 0]


def test_cases_on_which_a_check_keeps_silent_are_drawn_no_further():
    spoken_of = (*TRAIN[:3], HOLDOUT[0])

    here = world(HEALTHY, goals=(goal("utc", 0.8),))
    here.says_of = lambda case, check: check != "utc" or case in spoken_of
    state = here.run()

    assert state.stop.reason == "goal-met"
    trials = {case: state.tally.trials(HEALTHY.digest, case) for case in TRAIN}
    assert {trials[case] for case in TRAIN if case not in spoken_of} == {2}
    assert min(trials[case] for case in TRAIN[:3]) >= 4


def test_a_goal_that_cannot_be_paid_stays_unsettled():
    enough = world(without("json")).run().spending.calls
    here = world(without("json"), limited(calls=enough), goals=(goal("json", 0.9),))
    state = here.run()
    assert (state.stop.reason, state.stop.proposal) == ("improved", True)
    assert state.spending.calls <= enough
    assert "1 undecided" in state.stop.text

    broke = world(HEALTHY, limited(usd=0.16), usd=0.01, goals=(goal("json", 0.9),))
    state = broke.run()
    assert (state.stop.reason, state.spending.calls) == ("goal-open", 16)


def test_an_outage_while_goals_are_settled_ends_the_run_for_now():
    here = world(without("json"), goals=(goal("json", 0.9),))
    here.run()
    again = world(
        without("json"),
        goals=(goal("json", 0.9),),
        told={here.actions: Interrupted(reason="provider-outage", text="503")},
    )
    state = again.run()
    assert again.states[-2].phase == "settle"
    assert (state.stop.reason, state.stop.proposal) == ("provider-outage", False)


def test_an_edit_that_harms_single_cases_of_several_checks_is_not_proposed():
    def ok(text, case, check):
        if check == "json":
            return "JSON" in text
        harmed = {"short": "train-0", "utc": "train-1"}
        return passes(text, case, check) and not ("at length" in text and harmed[check] == case)

    here = world(
        without("json"), propose=lambda *_: [adding("- Answer in JSON, at length.")], passes=ok
    )

    state = here.run()

    # Neither check shows it alone, so the gate has to.
    assert said(here, "refuted") == []
    assert "suite-reject" in here.events
    assert not state.stop.proposal


def test_goals_are_known_by_what_they_ask():
    config = world(HEALTHY, goals=(goal("json", 0.9),)).config
    same = replace(config, goals=(goal("json", 0.9),))
    assert goals_digest(config) == goals_digest(same)
    for other in (goal("json", 0.91), goal("utc", 0.9), goal("json", 0.9, TRAIN)):
        assert goals_digest(config) != goals_digest(replace(config, goals=(other,)))


def test_without_goals_nothing_is_drawn_for_any():
    here = world(without("json"))
    state = here.run()
    assert "goals" not in here.events
    assert JSON in state.text.full_text
    assert {one.phase for one in here.states}.isdisjoint({"settle"})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    policy=policies,
    rates=st.lists(st.sampled_from([0.5, 0.8, 0.9, 0.95]), min_size=1, max_size=3),
)
def test_a_run_with_goals_ends_within_its_limits_and_says_met_only_where_it_is_shown(
    seed, policy, rates
):
    here = wild_world(seed, policy)
    checks = ("json", "short utc", "short json utc")
    goals = tuple(goal(name, rate) for name, rate in zip(checks, rates, strict=False))
    here.config = replace(here.config, goals=goals)

    state = here.run(begin(here.config))

    assert state.stop is not None
    assert state.spending.calls <= policy.limits.calls
    shown = measure_goals(state, with_revision=state.stop.proposal)
    if state.stop.reason == "goal-met":
        assert [one.status for one in shown] == ["met"] * len(goals)
    elif state.stop.proposal:
        assert state.stop.reason == "improved"
        assert not all(one.status == "met" for one in shown)
