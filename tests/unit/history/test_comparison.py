"""Two runs case by case."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.history import EvalComparison, RunOutline, compare_runs

_MIRROR = {
    "worse": "better",
    "better": "worse",
    "added": "removed",
    "removed": "added",
    "unmeasured": "measured",
    "measured": "unmeasured",
    "output": "output",
}


def _row(case: str, outcome: str, trial: int = 0, **more: Any) -> dict[str, Any]:
    failed = [{"judge": "agrees", "judge_digest": "j", "outcome": "fail", "reason": "no"}]
    given: dict[str, Any] = {
        "prompt": "triage",
        "dataset": "triage",
        "version": "1.0.0",
        "prompt_digest": "d",
        "model": "local:clerk",
        "node": f"evals/test_triage.py::test_triage[{case}]",
        "case": case,
        "case_digest": "c",
        "case_outcome": outcome,
        "trial": trial,
        "request_digest": "r",
        "outcome": outcome,
        "output": None if outcome == "unmeasured" else "yes",
        "refusal": None,
        "verdicts": failed if outcome == "failed" else [],
        "cause": {"kind": "timeout", "message": "late"} if outcome == "unmeasured" else None,
    }
    return given | more


def compare_rows(
    before: list[dict[str, Any]], after: list[dict[str, Any]], *, answers: bool = True
) -> list[EvalComparison]:
    outlines = RunOutline(), RunOutline()
    for outline, rows in zip(outlines, (before, after), strict=True):
        for row in rows:
            outline.add(row)
    first, second = outlines
    return compare_runs((first, lambda: before), (second, lambda: after), with_outputs=answers)


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
        _row(case, outcome, trial, **({} if outcome == "unmeasured" else {"output": answer}))
        for case, trial, outcome, answer in rows
    ]
)


@given(_RUNS)
def test_a_run_is_the_same_as_itself(rows: list[dict[str, Any]]):
    for suite in compare_rows(rows, list(reversed(rows))):
        assert suite.changes == []
        assert suite.unchanged == len({row["case"] for row in rows})


@given(_RUNS, _RUNS)
def test_the_other_way_round_everything_is_mirrored(
    one: list[dict[str, Any]], other: list[dict[str, Any]]
):
    there = {(s.prompt, c.case): c.change for s in compare_rows(one, other) for c in s.changes}
    back = {(s.prompt, c.case): c.change for s in compare_rows(other, one) for c in s.changes}
    assert {key: _MIRROR[change] for key, change in there.items()} == back
    cases = {row["case"] for row in (*one, *other)}
    assert sum(s.unchanged + len(s.changes) for s in compare_rows(one, other)) == len(cases)


def test_the_answers_shown_are_those_that_show_the_change():
    before = [_row("a", "failed", 0, output="bad"), _row("a", "passed", 1, output="good")]
    after = [_row("a", "failed", 1, output="worst"), _row("a", "failed", 0, output="bad")]
    ((change,),) = [suite.changes for suite in compare_rows(before, after)]
    assert change.change == "worse"
    assert change.before is not None
    assert change.after is not None
    assert (change.before.passed, change.before.measured, change.before.output) == (1, 2, "good")
    assert (change.after.output, change.after.judge, change.after.reason) == ("bad", "agrees", "no")


def test_shares_are_compared_not_counts():
    before = [_row("a", "passed", 0), _row("a", "failed", 1)]
    after = [*before, _row("a", "passed", 2), _row("a", "failed", 3)]
    (suite,) = compare_rows(before, after)
    assert (suite.changes, suite.unchanged) == ([], 1)


def test_two_models_are_compared_and_several_in_one_run_kept_apart():
    (suite,) = compare_rows([_row("a", "passed")], [_row("a", "failed", model="other:model")])
    assert suite.before is not None
    assert suite.after is not None
    assert (suite.before["model"], suite.after["model"]) == ("local:clerk", "other:model")
    both = [_row("a", "passed"), _row("a", "failed", model="other:model")]
    suites = compare_rows(both, [_row("a", "passed")])
    assert Counter(one.unchanged for one in suites) == {1: 1, 0: 1}


def test_what_a_gate_drew_of_main_is_left_out():
    rows = [_row("a", "failed", side="base"), _row("a", "passed", side="candidate")]
    (suite,) = compare_rows(rows, [_row("a", "passed")])
    assert (suite.changes, suite.unchanged) == ([], 1)


def test_texts_of_which_only_the_number_is_shown_are_not_kept():
    before = [_row("a", "passed"), _row("b", "passed")]
    after = [_row("a", "passed", output="no"), _row("b", "failed", output="no")]
    (suite,) = compare_rows(before, after, answers=False)
    assert [(one.case, one.change, one.before is None) for one in suite.changes] == [
        ("b", "worse", False),
        ("a", "output", True),
    ]


def _rows_of(outcomes: str, **more: Any) -> list[dict[str, Any]]:
    words = {"p": "passed", "f": "failed", "u": "unmeasured"}
    return [_row("a", words[letter], n, **more) for n, letter in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("before", "after", "change", "sides"),
    [
        ("p", "f", "worse", ((1, 1, 1, "yes", "", ""), (0, 1, 1, "yes", "agrees", "no"))),
        ("f", "p", "better", ((0, 1, 1, "yes", "agrees", "no"), (1, 1, 1, "yes", "", ""))),
        ("pf", "pp", "better", ((1, 2, 2, "yes", "agrees", "no"), (2, 2, 2, "yes", "", ""))),
        ("pu", "pf", "worse", ((1, 1, 2, "yes", "", ""), (1, 2, 2, "yes", "agrees", "no"))),
        ("pp", "pu", "output", ((2, 2, 2, "yes", "", ""), (1, 1, 2, None, "timeout", "late"))),
        ("pff", "pffpff", None, ()),
        ("p", "u", "unmeasured", ((1, 1, 1, "yes", "", ""), (0, 0, 1, None, "timeout", "late"))),
        ("u", "f", "measured", ((0, 0, 1, None, "timeout", "late"), (0, 1, 1, "yes", "agrees", "no"))),
        ("u", "u", None, ()),
        ("", "p", "added", (None, (1, 1, 1, "yes", "", ""))),
        ("p", "", "removed", ((1, 1, 1, "yes", "", ""), None)),
    ],
)  # fmt: skip
def test_a_case_changes_by_its_share_of_passed_trials(
    before: str, after: str, change: str | None, sides: tuple[Any, ...]
):
    (suite,) = compare_rows(_rows_of(before), _rows_of(after))
    assert [one.change for one in suite.changes] == ([change] if change else [])
    assert suite.unchanged == (0 if change else 1)
    for case in suite.changes:
        shown = [
            side and (side.passed, side.measured, side.trials, side.output, side.judge, side.reason)
            for side in (case.before, case.after)
        ]
        assert tuple(shown) == sides
        assert [suite.count(one) for one in ("worse", "better", case.change)][-1] == 1


def test_the_worst_changes_come_first():
    one = [_row(case, "passed") for case in "abc"] + [_row("d", "failed"), _row("e", "unmeasured")]
    other = [_row("a", "passed", output="no"), _row("b", "failed"), _row("c", "unmeasured")]
    other += [_row("d", "passed"), _row("e", "passed"), _row("f", "passed")]
    (suite,) = compare_rows([*one, _row("g", "passed")], other)
    assert [(change.case, change.change) for change in suite.changes] == [
        ("b", "worse"),
        ("c", "unmeasured"),
        ("d", "better"),
        ("e", "measured"),
        ("g", "removed"),
        ("f", "added"),
        ("a", "output"),
    ]


def test_a_refusal_is_an_answer_and_judges_that_only_inform_fail_nothing():
    refused = {"output": None, "refusal": "No."}
    (suite,) = compare_rows([_row("a", "passed")], [_row("a", "passed", **refused)])
    ((change,), same) = (suite.changes, suite.unchanged)
    assert change.after is not None
    assert (change.change, change.after.output, same) == ("output", "No.", 0)
    verdicts = [
        {
            "judge_digest": "j",
            "judge": "tone",
            "outcome": "fail",
            "reason": "rude",
            "blocking": False,
        },
        {"judge_digest": "j", "judge": "facts", "outcome": "pass", "reason": "ok"},
        {
            "judge_digest": "j",
            "judge": "words",
            "outcome": "fail",
            "reason": "long",
            "blocking": True,
        },
    ]
    (suite,) = compare_rows([_row("a", "passed")], [_row("a", "failed", verdicts=verdicts)])
    assert suite.changes[0].after is not None
    assert (suite.changes[0].after.judge, suite.changes[0].after.reason) == ("words", "long")


def test_trials_of_all_models_are_counted_by_case():
    outline = RunOutline()
    for row in (*_rows_of("pfu"), *_rows_of("pp", model="other:model"), _row("b", "failed")):
        outline.add(row)
    outline.add(_row("b", "passed", side="base"))
    assert outline.count_cases(set()) == {
        ("triage", "triage", "", "a"): (3, 4),
        ("triage", "triage", "", "b"): (0, 1),
    }
