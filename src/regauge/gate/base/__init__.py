"""A suite next to its base version: what a change touched, and what speaks against comparing it.

`_base.py` brings it together, with the baselines of main and the state of every case. What is read
from git is in `_commit.py`. `_bar.py` finds what a change lowers of its own bar, and `_edited.py`
names other files that it edits. `_refusal.py` has the reasons why nothing is
compared, `_version_rules.py` which rules a new version keeps and what its changelog acknowledges,
and `_coverage.py` what main or the change has and the run does not measure.
"""

from __future__ import annotations

from regauge.gate.base._anchor import BaseAnchor
from regauge.gate.base._bar import MovedBar, moved_files, moved_judging, moved_settings
from regauge.gate.base._base import Base, check_locks, compare_with_base
from regauge.gate.base._commit import BaseCommit, base_branch, find_base, target_of_base
from regauge.gate.base._coverage import Coverage, coverage_of
from regauge.gate.base._edited import edited_code, edited_notes
from regauge.gate.base._refusal import Refusal, refusal_of_bars, refusal_of_trials
from regauge.gate.base._version_rules import RuleBreach

__all__ = [
    "Base",
    "BaseAnchor",
    "BaseCommit",
    "Coverage",
    "MovedBar",
    "Refusal",
    "RuleBreach",
    "base_branch",
    "check_locks",
    "compare_with_base",
    "coverage_of",
    "edited_code",
    "edited_notes",
    "find_base",
    "moved_files",
    "moved_judging",
    "moved_settings",
    "refusal_of_bars",
    "refusal_of_trials",
    "target_of_base",
]
