"""A file of labels, to which outputs of a run are added without a label."""

from __future__ import annotations

import json

import pytest

from regauge.errors import UsageError
from regauge.judges.calibration import LabelSheet

LINE = '{"id": "a", "case": "c", "output": "Grüße", "label": "pass"}'


def outputs(*ids: str) -> list[dict[str, str]]:
    return [{"id": name, "case": "c", "output": f"Ärger {name}"} for name in ids]


def test_outputs_are_added_once_below_the_lines_that_stay():
    sheet = LabelSheet.read(f"{LINE}\r\n\n", "x.jsonl")
    assert (sheet.lines, sheet.kind, sheet.key) == ([LINE], "outcomes", "label")
    assert sheet.add(outputs("a", "b", "c"), origin="run 1") == 2
    assert sheet.lines[0] == LINE
    rows = {row["id"]: row for row in map(json.loads, sheet.lines[1:])}
    assert rows["b"] == {
        "id": "b", "case": "c", "output": "Ärger b", "label": "", "author": "", "reason": "",
        "origin": "run 1",
    }  # fmt: skip
    assert all("Ärger" in line for line in sheet.lines[1:])
    before = list(sheet.lines)
    assert sheet.add(outputs("c", "b"), origin="run 2") == 0
    assert sheet.lines == before


def test_the_order_of_new_lines_is_that_of_no_run():
    sheets = [LabelSheet.read("", "x.jsonl") for _ in range(2)]
    sheets[0].add(outputs("a", "b", "c", "d"), origin="r")
    sheets[1].add(outputs("d", "c", "b", "a"), origin="r")
    assert sheets[0].lines == sheets[1].lines


def test_scores_are_added_without_a_value():
    sheet = LabelSheet.read('{"id": "a", "score": 0.5}', "x.jsonl")
    assert (sheet.kind, sheet.key) == ("scores", "score")
    sheet.add(outputs("b"), origin="r")
    assert json.loads(sheet.lines[1])["score"] is None
    assert LabelSheet.read('{"id": "a", "score": 1, "label": "pass"}', "x").kind == "outcomes"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{LINE}\n{{", r"x\.jsonl:2: not a label"),
        ("[]", r"x\.jsonl:1: this file holds pairs"),
        ('{"id": "a", "a": "x"}', "holds pairs"),
        ('{"id": "a", "b": "x"}', "holds pairs"),
    ],
)
def test_other_lines_are_refused(text: str, error: str):
    with pytest.raises(UsageError, match=error):
        LabelSheet.read(text, "x.jsonl")
