"""Runs the loop from the first trial to the last file."""

from __future__ import annotations

from regauge.refine.conduct._conduct import BY_SIGNAL, Refinement
from regauge.refine.conduct._estimate import Estimate

__all__ = ["BY_SIGNAL", "Estimate", "Refinement"]
