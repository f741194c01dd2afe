"""What a run works with on a real prompt: its setting, its trials, its proposers, the gate."""

from __future__ import annotations

from regauge.refine.workbench._goals import (
    DeclaredGoal,
    bound_goals,
    declared_goals,
    goal_faults,
)
from regauge.refine.workbench._outcomes import deciding_judges, outcomes_of
from regauge.refine.workbench._people import labels_for
from regauge.refine.workbench._setting import RunOptions, setting_of
from regauge.refine.workbench._subject import Subject, subject_of
from regauge.refine.workbench._workbench import SuiteBench

__all__ = [
    "DeclaredGoal",
    "RunOptions",
    "Subject",
    "SuiteBench",
    "bound_goals",
    "deciding_judges",
    "declared_goals",
    "goal_faults",
    "labels_for",
    "outcomes_of",
    "setting_of",
    "subject_of",
]
