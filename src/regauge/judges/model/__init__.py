"""Judges that ask a model by a prompt of their own: rubrics, verified claims, panels, pairs.

Each kind is a file: `_rubric.py`, `_claims.py`, `_panel.py`, `_pairwise.py`. What they share is in
`_declared.py` (as evals declare them) and `_model_judge.py` (ready to judge). `_delimited.py`
makes the question, `_ask.py` puts it, and `_reply.py` reads what comes back.
"""
