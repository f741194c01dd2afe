"""What commands do for a project as a whole, in terms of values; nothing here prints or asks.

`collection.py` collects evals through pytest. `stale.py` finds recordings and judgements that no
eval uses, `calibrations.py` which judges gate, `doctor.py` what a project lacks. `baselines.py` is
one session of `regauge baseline update`.
"""
