"""The confusion matrix of judges that compare labels."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from regauge.reports._documents import JudgeName
from regauge.reports._tally import LabelCounts, label_table

LABELS = ["critical", "info", "warning"]


def counted(pairs: list[tuple[Any, Any]]) -> LabelCounts:
    counts = LabelCounts()
    for expected, output in pairs:
        right = expected == output
        counts.add(
            {
                "labels": True,
                "outcome": "pass" if right else "fail",
                "expected": expected,
                "actual": None if right else output,
            }
        )
    return counts


def test_precision_and_recall_are_by_label():
    pairs = [("critical", "critical")] * 3 + [("critical", "info")] + [("info", "info")] * 4
    critical, info = counted(pairs).rows()
    assert (critical.count, critical.precision, critical.recall) == (4, 1.0, 0.75)
    assert (info.count, info.precision, info.recall) == (4, 0.8, 1.0)
    assert critical.outputs == {"critical": 3, "info": 1}


def test_outputs_that_no_case_expects_are_one_column():
    pairs = [("a", "x"), ("a", "y"), ("a", None), ("b", "b"), ("b", "z" * 99)]
    rows = counted(pairs).rows()
    judge = JudgeName(name="field_equals(s)", digest="d", labels=rows)
    assert label_table(judge) == [
        ["expected", "a", "b", "(other)", "(no label)", "precision", "recall"],
        ["a", "0", "0", "2", "1", "-", "0.00"],
        ["b", "0", "1", "1", "0", "1.00", "0.50"],
    ]


def test_values_that_are_no_labels_have_no_matrix():
    assert counted([(f"text {n}", f"text {n}") for n in range(40)]).rows() == []
    assert counted([("a" * 41, "b")] * 9 + [("c", "c")] * 9).rows() == []
    assert counted([({"a": 1}, {"a": 1})] * 9).rows() == []
    assert counted([("one", "one")] * 9).rows() == []
    assert counted([("a", "a"), ("b", "b")]).rows() == []


def test_numbers_and_single_choices_are_labels():
    rows = counted([(1, 1), (1, 2), (2, 2), (2, 2)]).rows()
    assert [row.label for row in rows] == ["1", "2"]
    rows = counted([(["A"], ["A"]), (["A"], ["A", "B"]), (["B"], ["B"]), (["B"], ["A"])]).rows()
    assert rows[0].outputs == {"A": 1, "(other)": 1}


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from([*LABELS, "odd", None]))))
def test_the_matrix_counts_every_output_once(pairs: list[tuple[str, str | None]]):
    rows = counted(list(pairs)).rows()
    if rows:
        assert sum(row.count for row in rows) == len(pairs)
        assert all(sum(row.outputs.values()) == row.count for row in rows)
        right = sum(row.outputs.get(row.label, 0) for row in rows)
        assert right == sum(expected == output for expected, output in pairs)
