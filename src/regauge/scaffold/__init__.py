"""What `regauge init` and `regauge new` write: files that stand where none stood before."""

from __future__ import annotations

from regauge.scaffold._install import Install, find_install, given_install
from regauge.scaffold._new_files import new_eval, new_judge, new_prompt
from regauge.scaffold._piece import Piece, Planned, refuse_blocked
from regauge.scaffold._pyproject import advise_on_pytest, merge_pyproject
from regauge.scaffold._workflows import WORKFLOWS, Repository, WorkflowContext, workflow
from regauge.scaffold._working_set import plan_working_set, write_planned

__all__ = [
    "WORKFLOWS",
    "Install",
    "Piece",
    "Planned",
    "Repository",
    "WorkflowContext",
    "advise_on_pytest",
    "find_install",
    "given_install",
    "merge_pyproject",
    "new_eval",
    "new_judge",
    "new_prompt",
    "plan_working_set",
    "refuse_blocked",
    "workflow",
    "write_planned",
]
