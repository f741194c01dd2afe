"""The refinement loop: finds what fails, proposes small revisions, proves each.

`_loop.py` is the state machine: `_state.py` holds its values, `_steps.py` what follows while edits
are sought, `_course.py` what comes next when one is found or given up, `_verification.py` what
follows once they were accepted, `_plan.py` which trials are asked for. `_driver.py` performs what
it asks for, `_workbench.py` with a real prompt and `_conduct.py` from the first trial to the last
file; `_trail.py` writes all of it down.

What fails is grouped in `_clusters.py`. Proposals come from `proposers`; `_candidates.py` takes
them apart, `_guards.py` and `_leaks.py` refuse some, `_evidence.py` tests the rest, and
`_suite.py` has the gate say the last word. `_result.py` and `_report.py` say what came of a run;
`_apply.py`, `_branch.py` and `_remote.py` take it.
"""

from __future__ import annotations

from regauge.refine._apply import Revision, apply_run, revised, roll_back
from regauge.refine._branch import (
    Branch,
    check_not_committed,
    commit_on_branch,
    current_branch,
    uncommitted,
)
from regauge.refine._conduct import Estimate, Refinement
from regauge.refine._evidence_report import evidence_lines
from regauge.refine._fates import FATES, FateTable, Grouping
from regauge.refine._remote import has_unpushed, push, remote_address, remote_tip
from regauge.refine._report import headline, markdown_of
from regauge.refine._result import result_of
from regauge.refine._runs import (
    CUT_OFF,
    BusyError,
    Run,
    begin_run,
    edits_of_runs,
    find_refinement,
    list_refinements,
    only_one,
    recall,
    reject,
    remember,
    remember_status,
)
from regauge.refine._setting import RunOptions
from regauge.refine._state import Note, State
from regauge.refine._trail import TrailError, read_trail
from regauge.refine._variance import Variance, shown, variance_of
from regauge.refine._workbench import outcomes_of

__all__ = [
    "CUT_OFF",
    "FATES",
    "Branch",
    "BusyError",
    "Estimate",
    "FateTable",
    "Grouping",
    "Note",
    "Refinement",
    "Revision",
    "Run",
    "RunOptions",
    "State",
    "TrailError",
    "Variance",
    "apply_run",
    "begin_run",
    "check_not_committed",
    "commit_on_branch",
    "current_branch",
    "edits_of_runs",
    "evidence_lines",
    "find_refinement",
    "has_unpushed",
    "headline",
    "list_refinements",
    "markdown_of",
    "only_one",
    "outcomes_of",
    "push",
    "read_trail",
    "recall",
    "reject",
    "remember",
    "remember_status",
    "remote_address",
    "remote_tip",
    "result_of",
    "revised",
    "roll_back",
    "shown",
    "uncommitted",
    "variance_of",
]
