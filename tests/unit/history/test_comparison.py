"""Two runs case by case."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, strategies as st

from regauge.history import RunOutline, SuiteComparison, compare_runs

_MIRROR = {
    "worse": "better",
    "better": "worse",
    "added": "removed",
    "removed": "added",
    "unmeasured": "measured",
    "measured": "unmeasured",
    "answer": "answer",
}


def _row(case: str, outcome: str, trial: int = 0, **more: Any) -> dict[str, Any]:
    failed = [{"judge": "agrees", "outcome": "fail", "reason": "no"}]
    given: dict[str, Any] = {
        "prompt": "triage",
        "dataset": "triage",
        "version": "1.0.0",
        "prompt_digest": "d",
        "model": "local:clerk",
        "case": case,
        "trial": trial,
        "outcome": outcome,
        "answer": None if outcome == "unmeasured" else "yes",
        "refusal": None,
        "verdicts": failed if outcome == "failed" else [],
        "cause": {"kind": "timeout", "message": "late"} if outcome == "unmeasured" else None,
    }
    return given | more


def compare_rows(
    before: list[dict[str, Any]], after: list[dict[str, Any]], *, answers: bool = True
) -> list[SuiteComparison]:
    outlines = RunOutline(), RunOutline()
    for outline, rows in zip(outlines, (before, after), strict=True):
        for row in rows:
            outline.add(row)
    first, second = outlines
    return compare_runs((first, lambda: before), (second, lambda: after), answers=answers)


_RUNS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 2),
        st.sampled_from(["passed", "failed", "unmeasured"]),
        st.sampled_from(["yes", "no"]),
    ),
    unique_by=lambda drawn: drawn[:2],
).map(
    lambda rows: [
        _row(case, outcome, trial, **({} if outcome == "unmeasured" else {"answer": answer}))
        for case, trial, outcome, answer in rows
    ]
)


@given(_RUNS)
def test_a_run_is_the_same_as_itself(rows: list[dict[str, Any]]):
    for suite in compare_rows(rows, list(reversed(rows))):
        assert suite.changes == []
        assert suite.same == len({row["case"] for row in rows})


@given(_RUNS, _RUNS)
def test_the_other_way_round_everything_is_mirrored(
    one: list[dict[str, Any]], other: list[dict[str, Any]]
):
    there = {(s.prompt, c.case): c.change for s in compare_rows(one, other) for c in s.changes}
    back = {(s.prompt, c.case): c.change for s in compare_rows(other, one) for c in s.changes}
    assert {key: _MIRROR[change] for key, change in there.items()} == back
    cases = {row["case"] for row in (*one, *other)}
    assert sum(s.same + len(s.changes) for s in compare_rows(one, other)) == len(cases)


def test_the_answers_shown_are_those_that_show_the_change():
    before = [_row("a", "failed", 0, answer="bad"), _row("a", "passed", 1, answer="good")]
    after = [_row("a", "failed", 1, answer="worst"), _row("a", "failed", 0, answer="bad")]
    ((change,),) = [suite.changes for suite in compare_rows(before, after)]
    assert change.change == "worse"
    assert change.before is not None
    assert change.after is not None
    assert (change.before.passed, change.before.measured, change.before.answer) == (1, 2, "good")
    assert (change.after.answer, change.after.judge, change.after.reason) == ("bad", "agrees", "no")


def test_shares_are_compared_not_counts():
    before = [_row("a", "passed", 0), _row("a", "failed", 1)]
    after = [*before, _row("a", "passed", 2), _row("a", "failed", 3)]
    (suite,) = compare_rows(before, after)
    assert (suite.changes, suite.same) == ([], 1)


def test_two_models_are_compared_and_several_in_one_run_kept_apart():
    (suite,) = compare_rows([_row("a", "passed")], [_row("a", "failed", model="other:model")])
    assert suite.before is not None
    assert suite.after is not None
    assert (suite.before["model"], suite.after["model"]) == ("local:clerk", "other:model")
    both = [_row("a", "passed"), _row("a", "failed", model="other:model")]
    suites = compare_rows(both, [_row("a", "passed")])
    assert Counter(one.same for one in suites) == {1: 1, 0: 1}


def test_what_a_gate_drew_of_main_is_left_out():
    rows = [_row("a", "failed", side="base"), _row("a", "passed", side="candidate")]
    (suite,) = compare_rows(rows, [_row("a", "passed")])
    assert (suite.changes, suite.same) == ([], 1)


def test_texts_of_which_only_the_number_is_shown_are_not_kept():
    before = [_row("a", "passed"), _row("b", "passed")]
    after = [_row("a", "passed", answer="no"), _row("b", "failed", answer="no")]
    (suite,) = compare_rows(before, after, answers=False)
    assert [(one.case, one.change, one.before is None) for one in suite.changes] == [
        ("b", "worse", False),
        ("a", "answer", True),
    ]
