"""The merge gate: is a prompt, on the evidence of its trials, as good as it was on main?"""

from __future__ import annotations

from regauge.gate._engine import Gate
from regauge.gate._policy import GatePolicy
from regauge.gate._types import (
    CaseReport,
    CheckReport,
    Count,
    GateCase,
    GateOutcome,
    History,
    Reason,
    SuiteReport,
    TrialFacts,
    Wanted,
)

__all__ = [
    "CaseReport",
    "CheckReport",
    "Count",
    "Gate",
    "GateCase",
    "GateOutcome",
    "GatePolicy",
    "History",
    "Reason",
    "SuiteReport",
    "TrialFacts",
    "Wanted",
]
