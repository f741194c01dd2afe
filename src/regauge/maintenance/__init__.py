"""Project-wide work of commands, in terms of values: no output, no questions.

`collection.py` collects evals through pytest. `stale.py` finds recordings and judgements that no
eval uses, `calibrations.py` which judges gate, `doctor.py` what is missing in a project.
`baselines.py` is one session of `regauge baseline update`.
"""
