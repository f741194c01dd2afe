"""The judges that ask a model and are used in the evals of a project, bound as they are there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.cli._evals import NoEvalsError, with_evals
from regauge.errors import UsageError
from regauge.judges import ModelJudge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.project import Project
    from regauge.runner import EvalSession

__all__ = ["UsedJudge", "judges_in", "judges_of_evals", "refuse_rivals"]


@dataclass(slots=True, kw_only=True)
class UsedJudge:
    """A judge, and where it judges.

    Attributes:
        prompts: The prompts whose answers it judges.
        cases: The golden cases of their datasets, by id.
        rivals: Judges of the same name that are not the same.
    """

    judge: ModelJudge
    prompts: list[str] = field(default_factory=list[str])
    cases: dict[str, GoldenCase] = field(default_factory=dict[str, "GoldenCase"])
    rivals: list[ModelJudge] = field(default_factory=list[ModelJudge])


def judges_of_evals(
    project: Project, path: Path, *, judge_model: str | None = None
) -> dict[str, UsedJudge]:
    """Every judge of the evals that asks a model, by name; none where there are no evals.

    Raises:
        UsageError: The evals cannot be collected.
        RegaugeError: A judge cannot be bound.
    """
    used: dict[str, UsedJudge] = {}
    if not path.exists():
        return used
    options = ["--record=none"]
    if judge_model is not None:
        options.append(f"--judge-model={judge_model}")
    with suppress(NoEvalsError):
        with_evals(project, path, lambda evals: used.update(judges_in(evals)), options=options)
    return used


def judges_in(evals: EvalSession) -> dict[str, UsedJudge]:
    """Every judge of a planned run that asks a model, by name."""
    used: dict[str, UsedJudge] = {}
    suites = {id(case.suite): case.suite for case in evals.plan.cases}
    for suite in suites.values():
        for judge in suite.judges:
            if not isinstance(judge, ModelJudge):
                continue
            known = used.setdefault(judge.name, UsedJudge(judge=judge))
            if known.judge.digest != judge.digest:
                known.rivals.append(judge)
            known.prompts.append(suite.prompt.name)
            for case in suite.dataset:
                known.cases.setdefault(case.id, case)
    return used


def refuse_rivals(used: UsedJudge) -> None:
    """Refuse to calibrate a judge that is not the same in all evals.

    Raises:
        UsageError: Evals declare two judges of its name.
    """
    if used.rivals:
        prompts: Sequence[str] = sorted(set(used.prompts))
        raise UsageError(
            f"evals of {' and '.join(prompts)} declare two different judges that are called"
            f" {used.judge.name!r}\n  fix: give one a name of its own"
        )
