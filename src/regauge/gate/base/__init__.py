"""A suite beside its base version: what a change touched, and what speaks against comparing it.

What is read from git is in `_commit.py`, which rules a new version keeps in `_version_rules.py`,
what a changelog acknowledges in `_changes.py`, and which evals of main are missing in
`_coverage.py`.
"""

from __future__ import annotations

from regauge.gate.base._base import Base, check_locks, compare_with_base
from regauge.gate.base._commit import BaseCommit, find_base
from regauge.gate.base._coverage import Coverage, coverage_of, lost_cases
from regauge.gate.base._refusal import Refusal
from regauge.gate.base._version_rules import RuleBreach

__all__ = [
    "Base",
    "BaseCommit",
    "Coverage",
    "Refusal",
    "RuleBreach",
    "check_locks",
    "compare_with_base",
    "coverage_of",
    "find_base",
    "lost_cases",
]
