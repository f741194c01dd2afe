"""The refinement loop: finds what fails, proposes small edits, verifies each.

`loop` is the state machine, without I/O. `refinement.py` runs it on a real prompt, from the first
trial to the last file; `trials.py` performs its actions, and `runs.py` writes every step down.
`analysis.py` groups failures and weighs trials. Edits come from `proposers`; `guards.py` refuses
some of them without a call, `attempts.py` those that were refuted. `delivery.py` states
the result and writes it. All limits and error rates are in `_policy.py`.
"""
