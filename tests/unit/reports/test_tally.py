from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.errors import BudgetError, JudgeError, MissingRecordingError
from regauge.reports import RunTally, TrialRow, rows_of
from regauge.reports._tally import _percentile
from regauge.runner import CallTotals, Trial


def tally_of(*results: Any) -> RunTally:
    tally = RunTally()
    for result in results:
        for row in rows_of(result):
            tally.add(row)
    return tally


@pytest.mark.parametrize("outcome", ["passed", "failed", "unmeasured"])
def test_rows_are_what_the_schema_promises(made: Any, outcome: str):
    (row,) = rows_of(made.result([made.trial(0, outcome)]))
    document = TrialRow.model_validate(row)
    assert document.outcome == document.case_outcome == outcome
    # Of conversations, and of judges without a verdict.
    assert set(row) == set(TrialRow.model_fields) - {"messages", "lost_usage"}
    assert document.attempts == (3 if outcome == "unmeasured" else 2)
    if outcome == "unmeasured":
        assert document.cause is not None
        assert document.cause.kind == "connection"


def test_one_summary_counts_cases_not_trials(made: Any):
    (summary,) = tally_of(
        made.result([made.trial(0), made.trial(1, "failed")], 0.5, node_id="a"),
        made.result([made.trial(0, "failed"), made.trial(1, "failed")], 0.5, node_id="b"),
        made.result([made.trial(0), made.trial(1, "unmeasured")], node_id="c"),
        made.result([made.trial(0, "failed")], node_id="d", case=made.case(1, tier="tracked")),
    ).evals()
    assert (summary.cases, summary.trials) == (4, 7)
    assert (summary.passed, summary.failed, summary.unmeasured) == (1, 1, 1)
    assert summary.tracked_failed == 1
    assert (summary.live, summary.replays, summary.retries) == (6, 0, 6)
    assert (summary.input_tokens, summary.output_tokens) == (600, 60)
    # Six answers at 50 cents, six verdicts at one cent.
    assert summary.cost_usd == pytest.approx(3.0)
    assert summary.judge_usage.cost_usd == pytest.approx(0.06)
    assert summary.spent_usd == pytest.approx(3.00)
    assert summary.simulated


def test_the_confusion_matrix_counts_one_trial_per_case(made: Any):
    def judged(case: str, outputs: list[str | None]) -> list[dict[str, Any]]:
        """One row per trial; None is a trial that a judge abstained from."""
        (row,) = rows_of(made.result([made.trial()], node_id=case))
        return [
            row
            | {
                "trial": number,
                "verdicts": [
                    {
                        **row["verdicts"][0],
                        "labels": True,
                        "outcome": {None: "abstain", case[0]: "pass"}.get(output, "fail"),
                        "expected": case[0],
                        "actual": output,
                    }
                ],
            }
            for number, output in enumerate(outputs)
        ]

    tally = RunTally()
    for case, outputs in [
        ("a1", ["a"]),
        ("a2", ["b", *"aaaaaaaaa"]),
        ("b1", ["b", *"aaa"]),
        ("b2", [None, "b", "a"]),
    ]:
        for row in judged(case, list(outputs)):
            tally.add(row)
    (judge,) = tally.evals()[0].judges
    assert [(row.count, row.outputs) for row in judge.labels] == [
        (2, {"a": 1, "b": 1}),
        (2, {"b": 2}),
    ]
    assert (judge.passed, judge.failed, judge.abstained) == (12, 5, 1)


def test_replayed_answers_cost_nothing_now(made: Any):
    (summary,) = tally_of(
        made.result([made.trial(0, source="recording"), made.trial(1, source="store")])
    ).evals()
    assert (summary.live, summary.replays) == (0, 2)
    assert summary.cost_usd == pytest.approx(1.0)
    assert summary.judge_usage.spent_usd == 0
    assert summary.spent_usd == 0.0
    assert summary.retries == 0


def test_suites_are_told_apart_by_prompt_and_kept_in_order(made: Any):
    tally = tally_of(
        made.result([made.trial()], eval=made.suite(name="b"), node_id="1"),
        made.result([made.trial()], eval=made.suite(name="a"), node_id="2"),
        made.result([made.trial()], eval=made.suite(name="b"), node_id="3"),
    )
    assert [(suite.prompt, suite.cases) for suite in tally.evals()] == [("b", 2), ("a", 1)]


def test_trials_without_a_recording_are_no_cause_where_the_case_is_measured(made: Any):
    missing = MissingRecordingError(prompt="alert", case="c0", trial=1, stale=False)
    trial = Trial(number=1, request_digest="d", sourced_completion=None, error=missing)
    for side, outcome, causes in [
        ("candidate", "passed", 0),
        ("candidate", "unmeasured", 1),
        ("base", "unmeasured", 0),
        (None, "unmeasured", 1),
    ]:
        tally = RunTally()
        for row in rows_of(made.result([trial])):
            tally.add(row | {"side": side, "case_outcome": outcome})
        assert len(tally.causes()) == causes


def test_causes_that_differ_only_in_the_line_of_the_case_are_one(made: Any):
    tally = RunTally()
    (row,) = rows_of(made.result([made.trial(0, "unmeasured")]))
    for line, what in [(1, "reference"), (2, "reference"), (3, "summary")]:
        message = f"j: case 'c{line}' has no expected.{what} (golden/t.jsonl:{line})"
        cause = {"kind": "JudgeError", "message": message}
        tally.add(row | {"node": f"test_alert[{line}]", "case": f"c{line}", "cause": cause})
    assert [len(group.cases) for group in tally.causes()] == [2, 1]


def test_causes_that_differ_only_in_the_case_they_name_are_one(made: Any):
    def unmeasured(number: int, error: Any) -> Any:
        trial = Trial(number=0, request_digest="d", sourced_completion=None, error=error)
        return made.result([trial], case=made.case(number), node_id=str(number))

    tally = tally_of(
        *[
            unmeasured(number, JudgeError(f"broke on case 'c{number}': gone", judge="j"))
            for number in range(3)
        ],
        *[
            unmeasured(
                number,
                MissingRecordingError(
                    prompt="alert", case=f"c{number}", trial=0, stale=number % 2 == 0
                ),
            )
            for number in range(3, 5)
        ],
        unmeasured(5, BudgetError("reached: $1")),
        unmeasured(6, BudgetError("reached: $2")),
        unmeasured(7, JudgeError("broke on case 'c7': other", judge="j")),
    )
    assert [(group.kind, sorted(group.cases.values())) for group in tally.causes()] == [
        ("JudgeError", ["c0", "c1", "c2"]),
        ("MissingRecordingError", ["c3", "c4"]),
        ("BudgetError", ["c5", "c6"]),
        ("JudgeError", ["c7"]),
    ]


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_a_value_that_occurs_and_that_share_lies_at_or_below(
    values: list[float], share: float
):
    found = _percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_no_latencies_have_no_percentile():
    assert _percentile([], 0.5) is None
    assert _percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert _percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0


def test_advisory_checks_of_a_case_are_counted_apart_and_block_nothing(made: Any):
    (row,) = rows_of(made.result([made.trial()], node_id="a"))
    checks = [
        {"check": "tone", "outcome": "fail", "advisory": "not calibrated"},
        {"check": "short", "outcome": "pass", "advisory": "not calibrated"},
        {"check": "max_words", "outcome": "fail"},
    ]
    verdict = row["verdicts"][0] | {
        "judge": "checks",
        "blocking": True,
        "usage": asdict(CallTotals(calls=3, cost_usd=0.5, spent_usd=0.25)),
        "details": {"checks": checks},
    }
    tally = RunTally()
    tally.add({**row, "verdicts": [verdict]})
    other = [{**verdict, "judge": "own"}]
    tally.add({**row, "node": row["node"].replace("[a]", "[b]"), "case": "c1", "verdicts": other})
    (suite,) = tally.evals()
    judges = {judge.name: judge for judge in suite.judges}
    counts = {name: (judge.blocking, judge.passed, judge.failed) for name, judge in judges.items()}
    assert counts == {
        "checks": (True, 1, 0),
        "checks: tone": (False, 0, 1),
        "checks: short": (False, 1, 0),
        "own": (True, 1, 0),
    }
    assert [judges[name].status_reason for name in ("checks: tone", "checks: short")] == [
        "not calibrated"
    ] * 2
    assert suite.judge_usage.cost_usd == pytest.approx(1.0)
    assert suite.judge_usage.spent_usd == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("rows", "models", "options", "compared"),
    [
        ([{"version": "1.0.0"}, {"version": "2.0.0"}], (), {}, False),
        ([{"version": "1.0.0"}, {"version": "2.0.0"}], (), {"across_versions": True}, True),
        ([{"model": "a:x"}, {"model": "b:x"}], ("b:x", "a:x"), {}, True),
        ([{"model": "a:x"}, {"model": "b:x"}], ("b:x",), {}, True),
        ([{"prompt": "one"}, {"prompt": "two"}], (), {"across_versions": True}, False),
        ([{"dataset": "one"}, {"dataset": "two"}], (), {"across_versions": True}, False),
        ([{"side": "base"}, {"side": "candidate"}], (), {"across_versions": True}, False),
    ],
)
def test_models_of_a_version_are_compared_in_their_order_and_versions_only_where_wanted(
    made: Any,
    rows: list[dict[str, str]],
    models: tuple[str, ...],
    options: dict[str, bool],
    *,
    compared: bool,
):
    (row,) = rows_of(made.result([made.trial()]))
    tally = RunTally()
    for more in rows:
        tally.add(row | more)
    summaries = tally.evals(models, **options)
    assert [summary.comparison is not None for summary in summaries] == [compared, compared]
    if models:
        assert [summary.model for summary in summaries] == ["b:x", "a:x"]
