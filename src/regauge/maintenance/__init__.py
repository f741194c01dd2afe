"""Project-wide work of commands, in terms of values: no output, no prompts.

`collection.py` collects evals through pytest. `stale.py` finds recordings and judgements that no
eval uses, `calibrations.py` lists blocking judges, `doctor.py` checks a project.
`baselines.py` runs one session of `regauge baseline update`, `baseline_views.py` shows baselines
as text and JSON. `mutation.py` runs `regauge mutate`. `batches.py` requests and
collects calls by batch (`batch_files.py`, `batch_sync.py`),
`shards.py` merges shards, `spans.py` makes cases of traces.
"""
