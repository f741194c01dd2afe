"""Points of a trend: which run of a version counts, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.history import trend_lines
from regauge.reports import MeasuredEval


def _suite(number: int = 0, **more: Any) -> MeasuredEval:
    given: dict[str, Any] = {
        "run": f"run-{number}",
        "started_at": f"2026-01-{number + 1:02}T10:00:00+00:00",
        "commit": None,
        "dirty": False,
        "prompt": "triage",
        "version": "1.0.0",
        "prompt_digest": "a",
        "dataset": "triage",
        "eval": "evals/test_triage.py::test_triage",
        "model": "local:clerk",
        "side": None,
        "cases": 10,
        "measured": 10,
        "passed": 8,
        "trials": 1,
        "completions": 10,
        "cost_usd": 0.02,
        "latency_p50_s": None,
        "judges_digest": "j",
        "cases_digest": "c",
    }
    return MeasuredEval(**(given | more))


def test_of_the_runs_of_a_version_the_fullest_counts_and_of_those_the_newest():
    (line,) = trend_lines([_suite(0), _suite(1, passed=9), _suite(2, measured=2, passed=2)])
    (point,) = line.points
    assert (point.eval.run, point.runs, point.eval.rate) == ("run-1", 3, 0.9)
    assert line.runs == 3
    assert point.eval.cost_per_completion_usd == 0.002


def test_versions_stand_where_they_were_first_run():
    suites = [_suite(0), _suite(1, prompt_digest="b"), _suite(2)]
    (line,) = trend_lines(suites)
    assert [point.eval.run for point in line.points] == ["run-2", "run-1"]
    (line,) = trend_lines(suites, every_run=True)
    assert [point.eval.run for point in line.points] == ["run-0", "run-1", "run-2"]


def test_what_changed_beside_the_prompt_is_named():
    (line,) = trend_lines(
        [
            _suite(0),
            _suite(1, prompt_digest="b", judges_digest="other", cases_digest="other"),
            _suite(2, prompt_digest="c", judges_digest="other", cases_digest="other", trials=3),
            _suite(3, prompt_digest="d", judges_digest="other", cases_digest="other", trials=3),
        ]
    )
    assert [point.changed for point in line.points] == [(), ("cases", "judges"), ("trials",), ()]


def test_models_and_datasets_have_lines_of_their_own_and_what_a_gate_drew_of_main_has_none():
    lines = trend_lines(
        [
            _suite(0, model="other:model"),
            _suite(1, dataset="more"),
            _suite(2),
            _suite(3),
            _suite(4, side="base", passed=0),
            _suite(5, side="candidate", passed=7),
        ]
    )
    assert [(line.dataset, line.model, line.runs) for line in lines] == [
        ("triage", "local:clerk", 3),
        ("more", "local:clerk", 1),
        ("triage", "other:model", 1),
    ]
    assert lines[0].points[0].eval.rate == 0.7


def test_a_point_as_json_has_the_measurement_and_what_is_computed_from_it():
    (line,) = trend_lines([_suite(0, commit="1a2b", dirty=True, latency_p50_s=0.5)])
    (point,) = line.points
    assert point.to_json() == {
        "version": "1.0.0",
        "digest": "a",
        "run": "run-0",
        "started_at": "2026-01-01T10:00:00+00:00",
        "commit": "1a2b",
        "dirty": True,
        "runs": 1,
        "cases": 10,
        "measured": 10,
        "passed": 8,
        "trials": 1,
        "pass_rate": 0.8,
        "low": pytest.approx(0.490, abs=0.001),
        "high": pytest.approx(0.943, abs=0.001),
        "cost_per_completion_usd": 0.002,
        "latency_p50_s": 0.5,
        "changed": [],
    }


def test_what_was_not_measured_has_no_rate():
    (line,) = trend_lines([_suite(measured=0, passed=0, completions=0)])
    (point,) = line.points
    assert (line.runs, line.unmeasured, point.runs) == (0, 1, 0)
    assert (point.eval.rate, point.eval.cost_per_completion_usd) == (None, None)
    assert (point.interval.low, point.interval.high) == (0.0, 1.0)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 5)).map(
            lambda drawn: {
                "prompt_digest": drawn[0],
                "measured": max(drawn[1:]),
                "passed": min(drawn[1:]),
            }
        )
    )
)
def test_every_run_that_measured_counts_once_and_no_fuller_run_is_passed_over(
    drawn: list[dict[str, Any]],
):
    suites = [_suite(number, **more) for number, more in enumerate(drawn[:28])]
    lines = trend_lines(suites)
    points = [point for line in lines for point in line.points]
    assert sum(line.runs + line.unmeasured for line in lines) == len(suites)
    assert sum(point.runs for point in points) == sum(line.runs for line in lines)
    for point in points:
        same = [one for one in suites if one.prompt_digest == point.eval.prompt_digest]
        assert point.runs == len([one for one in same if one.measured])
        assert point.eval.measured == max(one.measured for one in same)
        fullest = [one for one in same if one.measured == point.eval.measured]
        assert point.eval.run == fullest[-1].run
