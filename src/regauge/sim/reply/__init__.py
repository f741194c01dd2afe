"""The answer: labels, values, summaries and runbooks, put together in `_compose.py`."""

from __future__ import annotations

from regauge.sim.reply._compose import compose

__all__ = [
    "compose",
]
