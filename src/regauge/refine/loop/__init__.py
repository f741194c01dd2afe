"""The loop without I/O: `wanted` says what a state asks for, `advance` what follows.

`_state.py` holds all values, `_loop.py` leads from phase to phase. `_plan.py` says which trials a
phase asks for and whether they can be paid, `_search.py` what follows while edits are sought and
`_verification.py` once some were accepted. `_candidates.py` takes proposals apart and ranks them,
`_screening.py` tests them; `_release.py`, `_localise.py` and `_goals.py` are one phase each.
"""

from __future__ import annotations

from regauge.refine.loop._candidates import REWRITE
from regauge.refine.loop._goals import goals_digest, out_of_reach, standings
from regauge.refine.loop._loop import advance, begin, wanted
from regauge.refine.loop._plan import (
    calls_max,
    calls_wanted,
    cost_of_trials,
    enough_calls,
    floor_calls,
    trials_for,
)
from regauge.refine.loop._state import (
    Accepted,
    Action,
    AskCritique,
    AskProposals,
    Critique,
    Critiqued,
    CritiqueKind,
    Draws,
    Interrupted,
    Look,
    Looked,
    MoreCalls,
    Note,
    Observation,
    Proposed,
    Release,
    RunSuite,
    RunTrials,
    Setting,
    Spent,
    State,
    SuiteSaid,
    TrialsDone,
)
from regauge.refine.loop._verification import fresh_steadiness

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
