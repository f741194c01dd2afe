"""What trials say: counted, grouped by what fails, and weighed for and against an edit."""

from __future__ import annotations

from regauge.refine.evidence._clusters import Check, Cluster, diagnose, tail
from regauge.refine.evidence._evidence import (
    better_p,
    mean_effect,
    worse_p,
    worse_together_p,
)
from regauge.refine.evidence._gain import gain_of
from regauge.refine.evidence._goals import (
    Goal,
    Reached,
    Standing,
    least_trials,
    passed_all,
    reached,
    tolerated,
    trials_to_settle,
)
from regauge.refine.evidence._steadiness import Steadiness, steadiness_of
from regauge.refine.evidence._tally import CheckOutcome, Outcome, Tally
from regauge.refine.evidence._variance import Variance, shown, variance_of

__all__ = [
    "Check",
    "CheckOutcome",
    "Cluster",
    "Goal",
    "Outcome",
    "Reached",
    "Standing",
    "Steadiness",
    "Tally",
    "Variance",
    "better_p",
    "diagnose",
    "gain_of",
    "least_trials",
    "mean_effect",
    "passed_all",
    "reached",
    "shown",
    "steadiness_of",
    "tail",
    "tolerated",
    "trials_to_settle",
    "variance_of",
    "worse_p",
    "worse_together_p",
]
