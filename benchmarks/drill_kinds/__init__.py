"""The drills, each a module; `benchmarks/drills.py` runs them."""

from __future__ import annotations

from ._commands import COMMANDS
from ._files import FILES
from ._gate import GATE
from ._git import GIT
from ._green import GREEN
from ._injections import INJECTIONS
from ._keys import KEYS, LOOKALIKES
from ._kills import KILLS
from ._machine import MACHINE
from ._places import PLACES
from ._providers import PROVIDERS
from ._replies import LLMBAR, REPLIES
from ._try import Drill, Report, run_drill

__all__ = ["DRILLS", "Drill", "Report", "run_drill"]

DRILLS: tuple[Drill, ...] = (
    KILLS,
    GREEN,
    GATE,
    COMMANDS,
    GIT,
    KEYS,
    LOOKALIKES,
    INJECTIONS,
    REPLIES,
    LLMBAR,
    PROVIDERS,
    MACHINE,
    FILES,
    PLACES,
)
