"""Targets: what golden cases are put to besides prompts.

`_target.py` is a target with its identity, and reads what that depends on. A target is called
through `_provider.py`, like a model: a Python function in a process of its own (`_python.py`, which
starts `_worker.py`), an endpoint or a program (`_external.py`, which starts `_guard.py`).
`_output.py` makes a completion of any output, also of those that exist already.
"""

from regauge.targets._lint import lint_targets as lint_targets
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
