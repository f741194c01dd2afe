"""What came of a run: its result and its report, and the ways to take the revision."""

from __future__ import annotations

from regauge.refine.outcome._apply import Revision, apply_run, revised, roll_back
from regauge.refine.outcome._branch import (
    Branch,
    check_branch,
    check_not_committed,
    commit_on_branch,
    current_branch,
    uncommitted,
)
from regauge.refine.outcome._evidence_report import evidence_lines
from regauge.refine.outcome._remote import has_unpushed, push, remote_address, remote_tip
from regauge.refine.outcome._report import headline, markdown_of
from regauge.refine.outcome._result import diff_of, result_of

__all__ = [
    "Branch",
    "Revision",
    "apply_run",
    "check_branch",
    "check_not_committed",
    "commit_on_branch",
    "current_branch",
    "diff_of",
    "evidence_lines",
    "has_unpushed",
    "headline",
    "markdown_of",
    "push",
    "remote_address",
    "remote_tip",
    "result_of",
    "revised",
    "roll_back",
    "uncommitted",
]
