"""Targets: what golden cases are put to besides prompts.

`_target.py` is a target with its identity; `_files.py` reads what the identity depends on. A target
is called through `_provider.py`, like a model: a Python function in a process of its own
(`_python.py`, which starts `_worker.py`), an endpoint (`_http.py`), a program (`_command.py`, which
starts `_guard.py`). `_recorded.py` has outputs that exist already. `_output.py` makes a completion
of any output.
"""

from regauge.targets._files import CommitFiles, Files, WorkingFiles
from regauge.targets._lint import lint_targets
from regauge.targets._provider import TargetProvider
from regauge.targets._python import document_of, find_modules
from regauge.targets._target import Target, load_target, settings_of_target

__all__ = [
    "CommitFiles",
    "Files",
    "Target",
    "TargetProvider",
    "WorkingFiles",
    "document_of",
    "find_modules",
    "lint_targets",
    "load_target",
    "settings_of_target",
]
