"""The gate as a state machine: it says which trials it wants, is told how they went, and decides.

`_gate.py` drives the stages. Single cases are tested in `_case_test.py` and whole suites in
`_suite_test.py`, each with the stage that feeds it; `_findings.py` and `_decision.py` put into
values what came of them. Nothing here asks a model, reads a file or knows what a prompt is.
"""

from __future__ import annotations

from regauge.gate.engine._case_stage import CaseStage
from regauge.gate.engine._case_test import BoolArray, CellTest, End, IntArray, Tallies
from regauge.gate.engine._drawn import Drawn, Request
from regauge.gate.engine._gate import Gate
from regauge.gate.engine._suite_stage import SuiteStage
from regauge.gate.engine._suite_test import goes_on, main_drifted, round_bound

__all__ = [
    "BoolArray",
    "CaseStage",
    "CellTest",
    "Drawn",
    "End",
    "Gate",
    "IntArray",
    "Request",
    "SuiteStage",
    "Tallies",
    "goes_on",
    "main_drifted",
    "round_bound",
]
