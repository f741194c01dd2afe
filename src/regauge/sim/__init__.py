"""The simulated model `sim:clerk-1`: it follows the prompt by published rules. It is no LLM.

See docs/simulated-model.md for the rules. `regauge.sim.server` serves it over HTTP. Runs open it
through the entry point `sim` of the group `regauge.providers`.

`_answer.py` is the model as a pure function. `_instructions.py` separates instructions from the
document and reads them, and `_text.py` reads the document. `_reply.py` writes the output. All use
the patterns of `lexicon.toml`. `_judge.py` and `_refiner.py` reply to requests of judges and of the
refiner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.sim._answer import SimulatedProvider as SimulatedProvider, complete as complete
    from regauge.sim._rules import CLERK_1 as CLERK_1, Rules as Rules
else:
    __getattr__, __dir__ = lazy_names(__name__)
