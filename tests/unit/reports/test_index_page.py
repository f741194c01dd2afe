"""The index of a report of several files: which cases its tables list."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from regauge.reports.html._page import _LISTED_MAX, _IndexCases


def case(number: int, verdict: str = "passed") -> dict[str, Any]:
    return {"id": f"case-{number}", "status": verdict, "trials": []}


def test_an_index_of_few_cases_lists_them_all():
    index = _IndexCases()
    index.add({"triage": [case(0), case(1, "failed")], "spam": [case(2)]}, 1)
    index.add({"triage": [case(3)]}, 2)
    assert (index.count, index.left_out) == (4, 0)
    assert index.words == {"triage": Counter(passed=2, failed=1), "spam": Counter(passed=1)}
    listed = {name: [json.loads(row) for row in rows] for name, rows in index.cases().items()}
    assert {name: [(row["id"], row["page"]) for row in rows] for name, rows in listed.items()} == {
        "triage": [("case-1", 1), ("case-0", 1), ("case-3", 2)],
        "spam": [("case-2", 1)],
    }


def test_an_index_of_many_cases_lists_those_that_did_not_pass_and_counts_the_rest():
    index = _IndexCases()
    index.add({"triage": (case(number) for number in range(_LISTED_MAX + 3))}, 1)
    index.add({"triage": [case(-1, "failed")], "spam": [case(-2, "unmeasured")]}, 2)
    assert (index.count, index.left_out) == (_LISTED_MAX + 5, 5)
    listed = index.cases()
    assert json.loads(listed["triage"][0])["id"] == "case--1"
    assert [len(listed[name]) for name in ("triage", "spam")] == [_LISTED_MAX - 1, 1]
