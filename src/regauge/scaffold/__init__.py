"""What `regauge init` and `regauge new` write: files that stand where none stood before."""

from __future__ import annotations

from regauge.scaffold._new_files import new_eval, new_judge, new_prompt
from regauge.scaffold._piece import Piece, Planned, refuse_blocked
from regauge.scaffold._pyproject import merge_pyproject
from regauge.scaffold._workflows import WORKFLOWS, Repository, new_workflow
from regauge.scaffold._working_set import plan_working_set, write_planned

__all__ = [
    "WORKFLOWS",
    "Piece",
    "Planned",
    "Repository",
    "merge_pyproject",
    "new_eval",
    "new_judge",
    "new_prompt",
    "new_workflow",
    "plan_working_set",
    "refuse_blocked",
    "write_planned",
]
