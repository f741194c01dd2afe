"""The gate as a state machine: it requests trials, receives their outcomes, and decides.

`_gate.py` drives the stages. Single cases are tested in `_case_test.py` and whole suites in
`_suite_test.py`, each with the stage that feeds it; `_decision.py` turns the results into values.
It calls no model, reads no file and does not know what a prompt is.
"""

from __future__ import annotations

from regauge.gate.engine._case_test import (
    BoolArray,
    CellTest,
    End,
    IntArray,
    Observed,
    Tallies,
)
from regauge.gate.engine._gate import Gate
from regauge.gate.engine._suite_test import (
    Pairs,
    day_bound,
    day_goes_on,
    net_bound,
    pair_weights,
    pairs_p_value,
    passes_ahead,
    rest_better,
    screen,
    screen_bound,
    screen_extends,
)

__all__ = [
    "BoolArray",
    "CellTest",
    "End",
    "Gate",
    "IntArray",
    "Observed",
    "Pairs",
    "Tallies",
    "day_bound",
    "day_goes_on",
    "net_bound",
    "pair_weights",
    "pairs_p_value",
    "passes_ahead",
    "rest_better",
    "screen",
    "screen_bound",
    "screen_extends",
]
