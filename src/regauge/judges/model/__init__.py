"""LLM judges with their own prompts: rubrics, verified claims, panels, pairs.

Each kind is a file: `_rubric.py` (also of pairs), `_claims.py`, `_panel.py`. `requests.py` checks
declarations, builds requests and calls models. `response.py` reads responses.
"""
