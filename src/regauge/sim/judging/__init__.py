"""The simulated model as a judge: it looks for evidence in words and figures, and has weaknesses.

`_reading.py` takes a judging prompt apart, `_score.py` grades a text and `_pairs.py` compares
several; `_lists.py` extracts statements and rules on each. `_judge.py` puts the reply together in
the shape that `_schema.py` finds in the schema.
"""

from __future__ import annotations

from regauge.sim.judging._judge import judge

__all__ = ["judge"]
