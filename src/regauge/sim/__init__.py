"""The simulated model `sim:clerk-1`: it follows the prompt by published rules. It is no LLM.

See docs/simulated-model.md for the rules. `regauge.sim.server` serves it over HTTP.
"""

from __future__ import annotations

from regauge.sim._answer import answer
from regauge.sim._provider import SimulatedProvider
from regauge.sim._rules import CLERK_1, Rules

__all__ = ["CLERK_1", "Rules", "SimulatedProvider", "answer"]
