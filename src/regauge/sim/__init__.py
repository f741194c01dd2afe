"""The simulated model `sim:clerk-1`: it follows the prompt by published rules. It is no LLM.

See docs/simulated-model.md for the rules. `regauge.sim.server` serves it over HTTP.

`_answer.py` is the model as a pure function: `asked` finds instructions in a prompt and what they
ask for, `document` reads what they are about, and `reply` writes the answer. Judges and refiners
are parts it plays, in `judging` and `refining`.
"""

from __future__ import annotations

from regauge.sim._answer import answer
from regauge.sim._provider import SimulatedProvider
from regauge.sim._rules import CLERK_1, Rules

__all__ = ["CLERK_1", "Rules", "SimulatedProvider", "answer"]
