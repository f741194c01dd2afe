"""The drills, each a module; `benchmarks/drills.py` runs them."""

from __future__ import annotations

from ._commands import COMMANDS
from ._gate import GATE
from ._green import GREEN
from ._injections import INJECTIONS
from ._keys import KEYS, LOOKALIKES
from ._replies import LLMBAR, REPLIES
from ._try import Drill, Report, run_drill

__all__ = ["DRILLS", "Drill", "Report", "run_drill"]

DRILLS: tuple[Drill, ...] = (GREEN, GATE, COMMANDS, KEYS, LOOKALIKES, INJECTIONS, REPLIES, LLMBAR)
