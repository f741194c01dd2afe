"""The gate's error rates on suites with known pass probabilities, in few runs.

`benchmarks/gate.py` measures the same in thousands of runs; these bounds only leave room for that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gate import measured
from regauge.gate import GatePolicy

ROOT = Path(__file__).resolve().parents[4]


def rates(scenario, *, mix="typical", cases=100, runs):
    return measured(
        scenario, mix=mix, cases=cases, runs=runs, policy=GatePolicy(), stored=12, seed=7
    )


@pytest.mark.parametrize(
    ("mix", "runs", "calls"), [("typical", 120, 1.30), ("clean", 60, 1.2), ("agentic", 40, 1.9)]
)
def test_an_unchanged_prompt_is_hardly_ever_blocked_and_costs_little_more_than_one_call(
    mix, runs, calls
):
    found = rates("A/A", mix=mix, runs=runs)
    assert found.blocked <= 0.03
    assert found.calls_per_case <= calls


@pytest.mark.parametrize(("cases", "runs"), [(20, 80), (50, 40), (100, 30)])
def test_one_broken_case_is_always_found(cases, runs):
    found = rates("flip1", cases=cases, runs=runs)
    assert found.blocked == found.by_case == 1.0


@pytest.mark.parametrize(
    ("scenario", "runs", "least", "most"),
    [("drop10", 30, 0.9, 1.0), ("drop2", 40, 0.1, 0.5), ("swap3", 20, 1.0, 1.0)],
)
def test_drops_and_swaps_are_found_as_often_as_specified(scenario, runs, least, most):
    assert least <= rates(scenario, runs=runs).blocked <= most


def test_a_provider_that_drifted_is_recognised_and_the_change_not_blamed():
    found = rates("drift", runs=25)
    assert found.drifted == 1.0
    assert found.blocked <= 0.1


def test_a_cache_that_answers_for_the_model_breaks_no_case():
    """Without looking for it, nearly one run in four would name a case."""
    found = rates("cache", runs=40)
    assert found.by_case <= 0.05


def test_repaired_cases_are_named_and_nothing_is_blocked():
    found = rates("fix3", runs=25)
    assert found.blocked == 0.0
    assert found.improved > 2


def test_the_benchmark_says_its_rates_as_json():
    done = subprocess.run(
        [
            sys.executable,
            "benchmarks/gate.py",
            *("--mix", "noisy", "--n", "10", "--runs", "5", "--scenario", "A/A", "half1", "--json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["mix"], found["n"]) == ("noisy", 10)
    assert [one["scenario"] for one in found["scenarios"]] == ["A/A", "half1"]
    assert found["scenarios"][0]["runs"] == 5
