"""Runs the program git; programs that a repository names are never started."""

from __future__ import annotations

from regauge.git._run import failure_of, git, run_git, work_tree

__all__ = ["failure_of", "git", "run_git", "work_tree"]
