"""Targets: Python functions, HTTP endpoints, programs and recorded outputs under test.

`_target.py` is a target with its identity; `_lint.py` reads the source of its function.
`_provider.py` calls a target like a model: a Python function in its own process (`_python.py`
starts `_worker.py`), an endpoint or a program (`_external.py` starts `_guard.py`). `_output.py`
converts outputs to completions.
"""

from regauge.targets._lint import inputs_of_target as inputs_of_target, lint_targets as lint_targets
from regauge.targets._provider import TargetProvider as TargetProvider
from regauge.targets._python import document_of as document_of, find_modules as find_modules
from regauge.targets._target import (
    CommitFiles as CommitFiles,
    Files as Files,
    Target as Target,
    WorkingFiles as WorkingFiles,
    load_target as load_target,
    settings_of_target as settings_of_target,
)
