"""The loop without I/O: `wanted` says what a state asks for, `advance` what follows.

`_state.py` says where a run stands, `_findings.py` holds what it found, and `_actions.py` what a
state asks for and is told. `_steps.py` is what follows while edits are sought, `_course.py` what
comes next when one is found or given up, `_verification.py` what follows once they were accepted
and `_stack.py` which of several the gate refuses. `_simplify.py` takes out what is needless, and
`_steadying.py` is about flaky checks. `_plan.py` says which trials are asked for, `_budget.py`
whether they can be paid. `_candidates.py` takes proposals apart and ranks them, `_localise.py`
finds out which sentence carries which check.
"""

from __future__ import annotations

from regauge.refine.loop._actions import (
    Action,
    AskCritique,
    AskProposals,
    Critiqued,
    Draws,
    Interrupted,
    Look,
    Looked,
    MoreCalls,
    Observation,
    Proposed,
    RunSuite,
    RunTrials,
    SuiteSaid,
    TrialsDone,
)
from regauge.refine.loop._budget import (
    calls_max,
    calls_wanted,
    cost_of_trials,
    enough_calls,
    floor_calls,
    trials_for,
)
from regauge.refine.loop._candidates import REWRITE
from regauge.refine.loop._findings import Accepted, Critique, CritiqueKind, Note, Spent
from regauge.refine.loop._goals import goals_digest, out_of_reach, standings
from regauge.refine.loop._loop import advance, begin, wanted
from regauge.refine.loop._state import Release, Setting, State
from regauge.refine.loop._steadying import fresh_steadiness

__all__ = [
    "REWRITE",
    "Accepted",
    "Action",
    "AskCritique",
    "AskProposals",
    "Critique",
    "CritiqueKind",
    "Critiqued",
    "Draws",
    "Interrupted",
    "Look",
    "Looked",
    "MoreCalls",
    "Note",
    "Observation",
    "Proposed",
    "Release",
    "RunSuite",
    "RunTrials",
    "Setting",
    "Spent",
    "State",
    "SuiteSaid",
    "TrialsDone",
    "advance",
    "begin",
    "calls_max",
    "calls_wanted",
    "cost_of_trials",
    "enough_calls",
    "floor_calls",
    "fresh_steadiness",
    "goals_digest",
    "out_of_reach",
    "standings",
    "trials_for",
    "wanted",
]
