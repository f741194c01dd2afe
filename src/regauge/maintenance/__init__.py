"""Project-wide work of commands, in terms of values: no output, no prompts.

`collection.py` collects evals through pytest. `lint.py` and `doctor.py` check a project, with
`stale.py`, which finds recordings and judgements that no eval uses. `calibrations.py` compares
judges with labels. `baselines.py` runs one session of `regauge baseline update`, with the old
version of `anchors.py`; `baseline_views.py` shows baselines and reports losses, `gate_power.py`
simulates the gate. `mutation.py` runs `regauge mutate`. `batches.py` requests and collects calls by
batch (`batch_files.py`, `batch_sync.py`). `shards.py` merges shards. `spans.py` makes cases of
traces.
"""
