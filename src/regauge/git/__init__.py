"""Runs the program git; programs that a repository names are never started."""

from __future__ import annotations

from regauge.git._branches import (
    Branch,
    check_branch,
    commit_files,
    current_branch,
    differing,
    has_unpushed,
    is_proposal,
    push,
    remote_address,
    remote_tip,
)
from regauge.git._run import failure_of, git, run_git, work_tree

__all__ = [
    "Branch",
    "check_branch",
    "commit_files",
    "current_branch",
    "differing",
    "failure_of",
    "git",
    "has_unpushed",
    "is_proposal",
    "push",
    "remote_address",
    "remote_tip",
    "run_git",
    "work_tree",
]
