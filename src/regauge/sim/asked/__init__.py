"""What a request asks for: where it instructs, and what it wants.

`_layout.py` tells instructions, document and examples apart; `_instructions.py` brings together the
keys, labels and limits that they ask for.
"""

from __future__ import annotations

from regauge.sim.asked._instructions import Instructions, read_instructions
from regauge.sim.asked._keys import Key, schema_of
from regauge.sim.asked._labels import Clause, Label, read_labels
from regauge.sim.asked._layout import Layout, Shot, lay_out
from regauge.sim.asked._limits import Limits, Section, read_limits
from regauge.sim.asked._parameters import BadParameterError, Sampling, read_parameters
from regauge.sim.asked._refusal import REFUSAL, asks_for_harm

__all__ = [
    "REFUSAL",
    "BadParameterError",
    "Clause",
    "Instructions",
    "Key",
    "Label",
    "Layout",
    "Limits",
    "Sampling",
    "Section",
    "Shot",
    "asks_for_harm",
    "lay_out",
    "read_instructions",
    "read_labels",
    "read_limits",
    "read_parameters",
    "schema_of",
]
