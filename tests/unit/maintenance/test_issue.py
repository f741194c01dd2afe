"""The issue on a default branch that passes less often: each cause and each lost case."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.maintenance.baseline_views import issue_text

HEAD = "Fresh trials of the default branch fail where earlier ones passed."
MORE_PASSED = (
    "Recorded ones pass &#42;more&#42;. A user may have recorded failing cases until they passed, or"
    " edited recordings. Record all of them again: `regauge record --refresh triage`."
)
DRIFTED = (
    "The prompt is the same, so the model or a judge changed: fresh trials passed 9 of 10, 60 of 60"
    " when the baseline was made. A new baseline begins."
)
TABLE = ["", "| case | check | passed before | passes now |", "|---|---|--:|--:|"]


def change(case: str, direction: str) -> dict[str, Any]:
    counts = {"before": {"passed": 12, "trials": 12}, "now": {"passed": 1, "trials": 7}}
    return {"case": case, "check": "contains(*)", "direction": direction, **counts}


def result(**more: Any) -> dict[str, Any]:
    known = {"prompt": "triage", "version": "1.0.0", "model": "local:clerk"}
    empty = {"changes": [], "drift": None, "audit": None, "anchor_lost": False, "anchor": None}
    return known | empty | more


CHANGES = [change("a", "worse"), change("b", "better"), change("c", "worse")]
ROWS = [f"| `{case}` | contains(&#42;) | 12 of 12 | 1 of 7 |" for case in "ac"]


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, []),
        ({"changes": CHANGES[1:2], "audit": {"result": "agree", "message": "x"}}, []),
        (
            {"changes": CHANGES},
            ["It passes less often than the version before.", *TABLE, *ROWS],
        ),
        (
            {"audit": {"result": "better", "message": "Recorded ones pass *more*"}},
            [MORE_PASSED],
        ),
        ({"anchor": {"message": "since 1.0.0"}}, []),
        ({"anchor_lost": True, "anchor": {"message": "since 1.0.0"}}, ["since 1.0.0."]),
        ({"drift": {"worse": False, "changes": CHANGES}}, []),
        (
            {
                "drift": {
                    "worse": True,
                    "now": {"passed": 9, "trials": 10},
                    "before": {"passed": 60, "trials": 60},
                    "changes": CHANGES,
                }
            },
            [
                DRIFTED,
                *TABLE,
                *ROWS,
            ],
        ),
        (
            {
                "drift": {
                    "worse": True,
                    "now": {"passed": 9, "trials": 10},
                    "before": {"passed": 60, "trials": 60},
                    "changes": CHANGES[1:2],
                }
            },
            [DRIFTED],
        ),
    ],
)
def test_an_issue_has_the_losses_of_each_eval(more: dict[str, Any], lines: list[str]):
    text = issue_text([result(**more), result()])
    head, _, body = text.partition("\n")
    losses, fix = body.rsplit("\n\n", 1) if "\n\n" in body else ("", body)
    assert head == HEAD
    assert fix.strip().startswith("Revert the change, propose another (`regauge refine`)")
    expected = ["**triage 1.0.0 (local:clerk)**", "", *lines] if lines else []
    assert losses.strip().splitlines() == expected
