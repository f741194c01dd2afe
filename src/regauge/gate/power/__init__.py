"""The power of a gate: error rates and price, simulated from a suite's own history.

`_simulation.py` simulates many runs of the gate at once with the rules of `regauge.gate.engine`.
"""

from __future__ import annotations

from regauge.gate.power._power import (
    Needed,
    OperatingLine,
    Rate,
    Target,
    cases_needed,
    first_draws_needed,
    operating_line,
    operating_line_of,
    unchanged_calls,
)
from regauge.gate.power._simulation import Chances, Played, play

__all__ = [
    "Chances",
    "Needed",
    "OperatingLine",
    "Played",
    "Rate",
    "Target",
    "cases_needed",
    "first_draws_needed",
    "operating_line",
    "operating_line_of",
    "play",
    "unchanged_calls",
]
