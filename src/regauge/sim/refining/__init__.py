"""The simulated model as a refiner: critic, proposer, reflection and verifier."""

from __future__ import annotations

from regauge.sim.refining._refiner import refine

__all__ = [
    "refine",
]
