"""The files that `regauge init` and `regauge new` create; existing files stay."""

from __future__ import annotations

from regauge.scaffold._files import (
    NewFile,
    Planned,
    advise_on_pytest,
    merge_pyproject,
    new_eval,
    new_judge,
    new_prompt,
    new_target_eval,
    refuse_blocked,
    write_file,
)
from regauge.scaffold._workflows import (
    WORKFLOWS,
    Install,
    WorkflowContext,
    WorkflowHost,
    find_install,
    given_install,
    workflow,
)
from regauge.scaffold._working_set import (
    FoundModel,
    found_models,
    own_prompts,
    plan_working_set,
    suites_to_import,
    write_planned,
)

__all__ = [
    "WORKFLOWS",
    "FoundModel",
    "Install",
    "NewFile",
    "Planned",
    "WorkflowContext",
    "WorkflowHost",
    "advise_on_pytest",
    "find_install",
    "found_models",
    "given_install",
    "merge_pyproject",
    "new_eval",
    "new_judge",
    "new_prompt",
    "new_target_eval",
    "own_prompts",
    "plan_working_set",
    "refuse_blocked",
    "suites_to_import",
    "workflow",
    "write_file",
    "write_planned",
]
