"""The cases that can ask a prompt: those of its evals, and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from regauge.project import Project
    from regauge.runner import EvalSession

__all__ = ["cases_of_prompt"]


def cases_of_prompt(evals: EvalSession, project: Project, name: str) -> list[PlannedCase]:
    """The planned cases of a prompt, and the rows of its file's own `testData`.

    pytest collects those rows when the file is named.
    """
    cases = [planned for planned in evals.plan.cases if planned.suite.prompt.name == name]
    file = project.prompts_dir / f"{name}.prompt.yml"
    try:
        suites = evals.bind_prompt_file(file)
    except RegaugeError:  # no such file, or no data of its own
        return cases
    return [*cases, *(PlannedCase(suite, case) for suite in suites for case in suite.dataset)]
