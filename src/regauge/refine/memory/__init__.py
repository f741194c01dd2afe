"""What earlier cycles and runs taught: edits tried, their fates, and looks at the holdout."""

from __future__ import annotations

from regauge.refine.memory._fates import (
    FATES,
    NO_PRIOR,
    FateTable,
    Grouping,
    fates_of,
    named,
    strategy_prior,
)
from regauge.refine.memory._looks import LookLedger
from regauge.refine.memory._memory import (
    Finding,
    Memory,
    Tried,
)

__all__ = [
    "FATES",
    "NO_PRIOR",
    "FateTable",
    "Finding",
    "Grouping",
    "LookLedger",
    "Memory",
    "Tried",
    "fates_of",
    "named",
    "strategy_prior",
]
