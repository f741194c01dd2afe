"""The refinement loop: finds what fails, proposes small revisions, proves each.

`loop` is the state machine, without I/O; `conduct` performs what it asks for, from the first trial
to the last file, with what `workbench` makes of a real prompt, and `trail` writes all of it down.

What fails is grouped in `evidence`, where trials are weighed too. Proposals come from `proposers`
and are `edits`; `people` is what was said of answers, for whoever proposes. `guards` refuse some
edits without asking a model, `memory` those that were refuted. `outcome` says what came of a run,
and takes it. `_policy.py` is what they all keep to.
"""

from __future__ import annotations

from regauge.refine.attempts import FATES, FateTable, Grouping
from regauge.refine.delivery import (
    Branch,
    Revision,
    apply_run,
    check_branch,
    check_not_committed,
    commit_on_branch,
    current_branch,
    has_unpushed,
    push,
    remote_address,
    remote_tip,
    revised,
    roll_back,
    uncommitted,
)
from regauge.refine.feedback import Heard, heard_in_words, heard_on_pull, noted_in
from regauge.refine.loop._state import Note, State
from regauge.refine.proposers._protocol import check_strategies
from regauge.refine.refinement import BY_SIGNAL, Refinement
from regauge.refine.report import evidence_lines, headline, markdown_of
from regauge.refine.result import result_of
from regauge.refine.runs import (
    CUT_OFF,
    BusyError,
    Run,
    begin_run,
    cut_off,
    edits_of_runs,
    find_refinement,
    list_refinements,
    only_one,
    read_whole,
    recall,
    reject,
    remember,
    remember_status,
)
from regauge.refine.setting import Estimate, RunOptions
from regauge.refine.subject import declared_goals, goal_faults
from regauge.refine.tally import Variance, shown, variance_of
from regauge.refine.trail import TrailError, read_trail
from regauge.refine.trials import outcomes_of

__all__ = [
    "BY_SIGNAL",
    "CUT_OFF",
    "FATES",
    "Branch",
    "BusyError",
    "Estimate",
    "FateTable",
    "Grouping",
    "Heard",
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
    "check_branch",
    "check_not_committed",
    "check_strategies",
    "commit_on_branch",
    "current_branch",
    "cut_off",
    "declared_goals",
    "edits_of_runs",
    "evidence_lines",
    "find_refinement",
    "goal_faults",
    "has_unpushed",
    "headline",
    "heard_in_words",
    "heard_on_pull",
    "list_refinements",
    "markdown_of",
    "noted_in",
    "only_one",
    "outcomes_of",
    "push",
    "read_trail",
    "read_whole",
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
