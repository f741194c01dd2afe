"""The simulated model `sim:clerk-1`: it follows the prompt by published rules. It is no LLM.

See docs/simulated-model.md for the rules. `regauge.sim.server` serves it over HTTP.

`_answer.py` is the model as a pure function: `_layout.py` separates instructions from the
document, `_instructions.py` reads what they ask for, `_document.py` reads the document, and
`_reply.py` writes the answer. `_judge.py` and `_refiner.py` reply to requests of judges and of the
refiner.
"""

from __future__ import annotations

from regauge.sim._answer import SimulatedProvider, answer
from regauge.sim._rules import CLERK_1, Rules

__all__ = ["CLERK_1", "Rules", "SimulatedProvider", "answer"]
