"""The gate's error rates on suites with known pass rates, in few runs.

`benchmarks/gate.py` measures the same in thousands of runs; these bounds only leave room for that.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.gate import measured
from tests import processes

ROOT = Path(__file__).resolve().parents[4]


def rejected(scenario, *, mix="typical", cases=140, runs=300):
    """In percent."""
    return 100 * measured(mix, cases, scenario, runs=runs, seed=5).blocked.mean()


@pytest.mark.parametrize("cases", [8, 40, 140])
@pytest.mark.parametrize("mix", ["typical", "0/1", "flaky", "very flaky"])
def test_an_unchanged_prompt_is_hardly_ever_blocked(mix, cases):
    assert rejected("unchanged", mix=mix, cases=cases) <= 1.5


@pytest.mark.parametrize(("mix", "calls"), [("typical", 1.45), ("flaky", 1.85)])
def test_an_unchanged_prompt_costs_little_more_than_one_call_a_case(mix, calls):
    assert measured(mix, 140, "unchanged", runs=600).calls.mean() / 140 <= calls


@pytest.mark.parametrize("cases", [8, 40, 140])
@pytest.mark.parametrize("day", ["drift:2", "drift:5", "drift:10", "drift-logit:-1", "mood:-1"])
def test_a_provider_that_is_worse_today_is_not_blamed_on_the_prompt(day, cases):
    assert rejected(day, cases=cases) <= 6


@pytest.mark.parametrize(
    ("scenario", "cases", "least"),
    [
        ("drop:10", 8, 88),
        ("drop:10", 40, 95),
        ("drop:10", 140, 98),
        ("drop:5", 140, 88),
        ("logit:5", 140, 80),
        ("flaky:5", 140, 83),
        ("broken:1", 8, 98),
        ("broken:1", 140, 98),
        ("half:1", 140, 30),
        ("today:60", 140, 93),
        ("today:40", 140, 72),
    ],
)
def test_losses_are_found_as_often_as_specified(scenario, cases, least):
    assert rejected(scenario, cases=cases) >= least


@pytest.mark.parametrize("percent", [60, 40, 20])
def test_a_case_that_both_sides_fail_more_today_is_not_blamed(percent):
    assert rejected(f"today-alike:{percent}") <= 2


@pytest.mark.parametrize(
    ("points", "outcome", "least"),
    [(-14, "blocked", 95), (-11, "blocked", 95), (3, "accepted", 85), (14, "accepted", 95)],
)
def test_a_rewording_is_decided_by_its_net(points, outcome, least):
    played = measured("exam", 100, f"reword:{points}", runs=60)
    assert 100 * getattr(played, outcome).mean() >= least


def test_fixed_cases_are_named_and_nothing_is_blocked():
    played = measured("typical", 100, "fixed:3", runs=60)
    assert not played.blocked.any()
    assert played.fixed.mean() > 2


def test_a_base_that_hardly_passes_today_is_never_accepted_as_drifted():
    """One in five today, and the candidate never: mostly it cannot be told."""
    played = measured("typical", 140, "today:20", runs=200)
    assert played.undecided.mean() > 0.3


def test_the_benchmark_prints_its_rates():
    def run(*words):
        script = str(ROOT / "benchmarks/gate.py")
        done = processes.run(script, *words, cwd=ROOT, env={**os.environ})
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(run("--cell", "flaky", "10", "half:1", "--runs", "20", "--json"))
    assert (found["mix"], found["cases"], found["runs"]) == ("flaky", 10, 20)
    assert "| unchanged, flaky, n = 8 | rejected |" in run("--quick", "--only", "unchanged")
