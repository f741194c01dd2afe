"""The loop without I/O: `wanted` says what a state asks for, `advance` what follows.

`_state.py` holds all values, `_loop.py` leads from phase to phase. `_plan.py` says which trials a
phase asks for and whether they can be paid, `_search.py` what follows while edits are sought and
tested, and `_verification.py` once some were accepted. `_candidates.py` takes proposals apart and
ranks them; `_goals.py` is one phase.
"""
