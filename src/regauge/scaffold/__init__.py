"""The files that `regauge init` and `regauge new` create; existing files stay."""

from __future__ import annotations

from regauge.scaffold._files import (
    NewFile as NewFile,
    Planned as Planned,
    advise_on_pytest as advise_on_pytest,
    merge_pyproject as merge_pyproject,
    new_eval as new_eval,
    new_judge as new_judge,
    new_prompt as new_prompt,
    new_target_eval as new_target_eval,
    refuse_blocked as refuse_blocked,
    write_file as write_file,
)
from regauge.scaffold._workflows import (
    WORKFLOWS as WORKFLOWS,
    Install as Install,
    WorkflowContext as WorkflowContext,
    WorkflowHost as WorkflowHost,
    find_install as find_install,
    given_install as given_install,
    workflow as workflow,
)
from regauge.scaffold._working_set import (
    FoundModel as FoundModel,
    found_models as found_models,
    own_prompts as own_prompts,
    plan_working_set as plan_working_set,
    suites_to_import as suites_to_import,
    write_planned as write_planned,
)
