"""What an edit may not do, and whether it gives away a case; no model is asked."""

from __future__ import annotations

from regauge.refine.guards._guards import Guard, faults_in
from regauge.refine.guards._leaks import CaseText
from regauge.refine.guards._replaced import OpenSection

__all__ = ["CaseText", "Guard", "OpenSection", "faults_in"]
