"""The loop without I/O: `next_action` returns an action, `advance` the next state.

`_state.py` holds all values, `_loop.py` leads from phase to phase. `_plan.py` plans the trials of a
phase within the budget and measures goals, `_search.py` searches and tests edits, and
`_verification.py` verifies the accepted ones. `_candidates.py` splits and ranks proposals.
"""

from regauge.refine.loop._state import LoopState as LoopState, Note as Note
