"""What a gate can find, simulated from a suite's own baseline."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from regauge.gate import (
    Count,
    DetectableDrop,
    GatePolicy,
    Rate,
    SensitivityLine,
    cases_needed,
    first_trials_needed,
    sensitivity_line,
    sensitivity_line_of,
)
from regauge.stats import CasePolicy, SuitePolicy
from tests.unit.gate.engine.drive import Scripted, run, scripted


def typical(cases: int, *, trials: int = 12, seed: int = 3) -> list[Count]:
    """A suite like those people have: mostly stable, some flaky, some never passing."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.999, 0.98, 0.75, 0.03], size=cases, p=[0.6, 0.22, 0.13, 0.05])
    return [Count(passed=int(s), trials=trials) for s in rng.binomial(trials, p)]


def typical_cases(prompt: str) -> list[Scripted]:
    """Half of a typical suite of 40 cases each, that pass as they did."""
    counts = typical(40)[::2] if prompt == "triage" else typical(40)[1::2]
    return [
        scripted(was=f"{count.passed}/{count.trials}", name=f"{prompt}-{i}", prompt=prompt)
        for i, count in enumerate(counts)
    ]


def line(baselines: list[Count], policy: GatePolicy | None = None, **more: Any) -> SensitivityLine:
    found = sensitivity_line(baselines, policy or GatePolicy(), **more)
    assert found is not None
    return found


def test_a_typical_suite_is_told_what_was_published_for_one():
    found = line(typical(100))
    drops = dict(found.drops)
    assert found.false_alarm.value <= 0.015
    assert found.one_broken is not None
    assert found.one_broken.value >= 0.99
    assert drops[0.10].value >= 0.93
    assert 0.75 <= drops[0.05].value <= 0.95
    assert 0.15 <= drops[0.02].value <= 0.45
    assert found.flaky_drop is not None
    assert found.flaky_drop.value >= 0.75
    assert 1.05 <= found.calls_per_case <= 1.4
    assert re.fullmatch(
        r"sees: 1 broken case > 99 %, -10 points (> )?\d\d %, -5 points \d\d %, on flaky cases"
        r" alone \d\d %, -2 points \d\d %; false alarm < 1 %",
        str(found),
    )


def test_a_short_record_or_a_small_suite_gets_a_range():
    """One number would be off by 11 to 18 points there."""
    for baselines in (typical(40), typical(140, trials=3)):
        found = line(baselines, drops=[0.05])
        rate = found.drops[0][1]
        assert rate.range is not None
        assert rate.range.low <= rate.value <= rate.range.high
        assert re.search(r"-5 points \d\d % \(\d+-\d+\)", str(found))


def test_a_small_suite_is_shown_what_more_first_trials_find_and_cost():
    small = line(typical(10, trials=20))
    assert small.step is not None
    assert small.step.first_trials == 20
    assert {*dict(small.step.drops)} == {0.05, 0.10}
    assert dict(small.step.drops)[0.05].value > dict(small.drops)[0.05].value + 0.1
    assert small.step.calls_per_case == pytest.approx(2 * small.calls_per_case, rel=0.2)
    assert re.search(
        r"\nfirst_trials = 20 sees -10 points .*, -5 points \d\d % .*,"
        r" for \d\d\.\d calls per case instead of \d\d\.\d$",
        str(small),
    )
    for baselines in (typical(140), typical(3, trials=48)):
        assert line(baselines).step is None
    doubled = line(typical(10, trials=20), GatePolicy(first_trials=20))
    assert doubled.step is None or doubled.step.first_trials == 24


def test_a_short_record_does_not_make_the_gate_look_worse_than_it_is():
    """8 of 3,000 trials failed: the gate hardly ever blocks an unchanged prompt there."""
    baselines = [Count(passed=3 - (i < 8), trials=3) for i in range(1000)]
    found = line(baselines, drops=())
    assert found.false_alarm.hits == 0
    assert str(found).endswith("false alarm < 1 %")


def test_a_replay_of_one_recorded_trial_sees_large_losses_only():
    baselines = [Count(passed=12, trials=12)] * 60
    policy = GatePolicy()
    replay = sensitivity_line(baselines, policy, recorded=1)
    called = sensitivity_line(baselines, policy)
    assert replay
    assert called
    assert str(replay).startswith("this replay, with 1 recorded trial of each case, sees: ")
    assert replay.one_broken
    assert called.one_broken
    assert replay.one_broken.value < 0.1 < called.one_broken.value
    found, found_with_calls = dict(replay.drops), dict(called.drops)
    assert 0.5 < found[0.1].value < found_with_calls[0.1].value
    assert replay.false_alarm.value < 0.05


def test_one_seed_gives_one_line_and_more_cases_see_more():
    assert line(typical(20), drops=()) == line(typical(20), drops=())
    few, many = (line(typical(60), cases=cases, drops=[0.05]) for cases in (20, 100))
    assert (few.cases, many.cases) == (20, 100)
    assert few.drops[0][1].value < many.drops[0][1].value


def test_more_checks_of_each_case_raise_the_bar_for_each():
    """Six failures in a row name one of 40 checks; among 10,000 checks they are not enough."""
    six = GatePolicy(
        case=CasePolicy(steps=(2, 3), late_steps=()), suite=SuitePolicy(alpha=1e-9), first_trials=1
    )
    one, many = (line(typical(40), six, checks=checks, drops=()) for checks in (40, 10_000))
    assert one.one_broken is not None
    assert many.one_broken is not None
    assert one.one_broken.value > 0.9
    assert many.one_broken.value < 0.1


def test_a_suite_that_base_hardly_passes_has_no_case_to_break():
    found = line([Count(passed=0, trials=12)] * 10)
    assert found.one_broken is None
    assert "broken" not in str(found)


def test_without_trials_of_base_nothing_is_said():
    none = [Count(passed=0, trials=0)]
    assert sensitivity_line([], GatePolicy()) is None
    assert sensitivity_line(none, GatePolicy()) is None
    assert cases_needed(none, GatePolicy(), DetectableDrop(drop=0.1, power=0.8)) is None
    assert first_trials_needed(none, GatePolicy(), DetectableDrop(drop=0.1, power=0.8)) is None


def test_it_is_said_how_many_cases_or_trials_a_wanted_drop_takes():
    suite, policy = typical(60), GatePolicy(first_trials=1)
    needed = cases_needed(suite, policy, DetectableDrop(drop=0.05, power=0.8))
    assert needed is not None
    assert 60 < needed < 160
    assert cases_needed(suite, policy, DetectableDrop(drop=0.02, power=0.8), at_most=100) is None
    draws = first_trials_needed(suite, policy, DetectableDrop(drop=0.05, power=0.8))
    assert draws is not None
    assert draws > 1
    assert (
        first_trials_needed(suite, policy, DetectableDrop(drop=0.01, power=0.99), at_most=2) is None
    )


@pytest.mark.parametrize(
    ("hits", "said"),
    [
        (0, "< 1 %"),
        (9, "< 1 %"),
        (10, "1 %"),
        (854, "85 %"),
        (990, "99 %"),
        (991, "> 99 %"),
    ],
)
def test_a_rate_is_said_as_a_plain_count(hits, said):
    assert str(Rate(hits=hits, runs=1000)) == said


def test_the_line_of_an_outcome_is_that_of_the_cases_it_compared():
    """Two prompts share the error rate; cases that cost nothing and new ones are not counted."""
    outcome = run(
        [
            *typical_cases("triage"),
            *typical_cases("summary"),
            scripted(name="same", state="unchanged"),
            scripted("111", was=None, name="new", state="new"),
        ]
    )
    found = sensitivity_line_of(outcome)
    together = line(typical(40), drops=[0.05])
    assert found is not None
    assert found.cases == 40
    assert dict(found.drops)[0.05].value < together.drops[0][1].value
    assert sensitivity_line_of(run([scripted(state="unchanged")])) is None
