"""The files that `regauge init` and `regauge new` create; existing files stay."""

from __future__ import annotations

from regauge.scaffold._cases import (
    append_case as append_case,
    case_from_run as case_from_run,
    redact_case as redact_case,
)
from regauge.scaffold._files import (
    NewFile as NewFile,
    PlannedFile as PlannedFile,
    advise_on_pytest as advise_on_pytest,
    merge_pyproject as merge_pyproject,
    new_eval as new_eval,
    new_prompt as new_prompt,
    new_target_eval as new_target_eval,
    refuse_blocked as refuse_blocked,
)
from regauge.scaffold._workflows import (
    WORKFLOWS as WORKFLOWS,
    Install as Install,
    WorkflowContext as WorkflowContext,
    find_install as find_install,
    find_missing_requirements as find_missing_requirements,
    parse_install as parse_install,
    workflow as workflow,
    workflow_notes as workflow_notes,
)
from regauge.scaffold._working_set import (
    ModelUse as ModelUse,
    find_importable_files as find_importable_files,
    find_models as find_models,
    find_user_prompts as find_user_prompts,
    plan_working_set as plan_working_set,
    write_plans as write_plans,
)
