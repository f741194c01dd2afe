"""What the history holds of a run."""

from __future__ import annotations

from typing import Any

from regauge.history import run_entry
from regauge.reports import RunRecord
from regauge.reports._tally import RunTally


def _row(case: int, outcome: str, trial: int = 0, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "node": f"evals/test.py::test[c{case}]",
        "prompt": "triage",
        "version": None,
        "prompt_digest": "d",
        "dataset": "triage",
        "case": f"c{case}",
        "case_digest": f"digest-{case}",
        "tier": "required",
        "model": "local:clerk",
        "trial": trial,
        "request_digest": "r",
        "case_outcome": outcome,
        "outcome": outcome,
        "verdicts": [],
        "cause": None,
        "finish_reason": None if outcome == "unmeasured" else "stop",
        "source": None if outcome == "unmeasured" else "live",
        "input_tokens": 0,
        "output_tokens": 0,
        "latency_s": None,
        "cost_usd": 0.5,
        "attempts": 1,
    }
    return given | more


def _entry(rows: list[dict[str, Any]]):
    tally = RunTally()
    for row in rows:
        tally.add(row)
    record = RunRecord(
        id="r",
        started_at="s",
        finished_at="f",
        status="finished",
        regauge_version="0",
        python_version="3",
        command=[],
        git=None,
        options={},
        evals=tally.evals(),
    )
    return run_entry(record, lambda: rows)


def test_cases_count_as_the_run_counted_them():
    (suite,) = _entry(
        [
            _row(0, "passed", 0, case_outcome="failed"),
            _row(0, "failed", 1),
            _row(1, "passed", 0),
            _row(1, "passed", 1),
            _row(2, "unmeasured"),
        ]
    ).evals
    assert (suite.cases, suite.measured, suite.passed, suite.trials) == (3, 2, 1, 2)
    assert (suite.completions, suite.cost_usd) == (4, 2.0)


def test_of_a_gate_the_first_trials_count_for_each_side():
    """It draws again what failed, and the first of these has any number."""
    suites = _entry(
        [
            _row(0, "failed", 3, side="candidate"),
            _row(0, "passed", 4, side="candidate"),
            _row(0, "passed", 5, side="candidate"),
            _row(1, "passed", 0, side="candidate"),
            _row(0, "passed", 0, side="base"),
        ]
    ).evals
    counts = {suite.side: (suite.passed, suite.measured, suite.trials) for suite in suites}
    assert counts == {"candidate": (1, 2, 1), "base": (1, 1, 1)}


def test_the_digest_of_cases_says_whether_they_are_the_same():
    one, two = _row(0, "passed"), _row(1, "passed")
    (forward,), (backward,) = _entry([one, two]).evals, _entry([two, one]).evals
    (edited,) = _entry([one, two | {"case_digest": "other"}]).evals
    assert forward.cases_digest == backward.cases_digest != edited.cases_digest
