"""Judges that ask a model by a prompt of their own: rubrics, verified claims, panels, pairs.

Each kind is a file: `_rubric.py`, `_claims.py`, `_panel.py`. `_ask.py` holds
what they share: how evals declare them, how the question is made, and how a model is called.
`_reply.py` reads what comes back.
"""
