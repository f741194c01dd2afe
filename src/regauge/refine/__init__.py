"""The refinement loop: finds failures, proposes small edits and verifies each.

`loop` is the state machine, without I/O. `refinement.py` runs it on a real prompt, from the first
trial to the last file; `trials.py` performs its actions, and `runs.py` logs every step.
`analysis.py` groups failures and compares trials. Edits come from `proposers`; `guards.py` rejects
some of them without a call, `attempts.py` those that were refuted. `delivery.py` writes the result.
All limits and error rates are in `_policy.py`.
"""
