"""The judges that ask a model and are used in the evals of a project, bound as they are there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from regauge.cli._evals.collected import NoEvalsError, with_evals
from regauge.errors import UsageError
from regauge.judges import (
    JudgeContext,
    ModelJudge,
    calibrated_judges,
    pairwise,
    rubric,
    shipped_rubric,
)
from regauge.judges.calibration import file_stem
from regauge.prompts import load_prompt
from regauge.providers import parse_model_id
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.project import Project
    from regauge.runner import EvalSession

__all__ = ["UsedJudge", "find_judge", "judges_in", "judges_of_evals"]


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
            for one in calibrated_judges(judge) if isinstance(judge, ModelJudge) else ():
                known = used.setdefault(one.name, UsedJudge(judge=one))
                if one.digest not in {other.digest for other in (known.judge, *known.rivals)}:
                    known.rivals.append(one)
                known.prompts.append(suite.prompt.name)
                for case in suite.dataset:
                    known.cases.setdefault(case.id, case)
    return used


def _refuse_rivals(used: UsedJudge) -> None:
    """Refuse to calibrate a judge that is not the same in all evals.

    Raises:
        UsageError: Evals declare two judges of its name.
    """
    if used.rivals:
        prompts: Sequence[str] = sorted(set(used.prompts))
        raise UsageError(
            f"evals of {' and '.join(prompts)} declare two different judges that are called"
            f" {used.judge.name!r}\n  fix: give one a name of its own with .named(...)"
        )


def find_judge(name: str, project: Project, evals: Path, model: str | None) -> UsedJudge:
    """The judge of this name: as an eval declares it, else the rubric itself.

    Raises:
        UsageError: There is none, or it names its model itself and another one is wanted.
    """
    used = judges_of_evals(project, evals, judge_model=model)
    found = used.get(name) or next(
        (judge for known, judge in used.items() if file_stem(known) == name), None
    )
    if found is None:
        found = _unused_rubric(name, project, model, known=sorted(used))
    _refuse_rivals(found)
    asked = ", ".join(found.judge.models)
    if model is not None and asked != str(parse_model_id(model, at="--model")):
        raise UsageError(
            f"judge {found.judge.name!r} names its model itself: {asked}\n"
            "  fix: change it where the judge is declared, or leave --model out"
        )
    return found


def _unused_rubric(
    name: str, project: Project, model: str | None, *, known: Sequence[str]
) -> UsedJudge:
    context = JudgeContext(project=project, model=project.settings.judge_model)
    if name in {"criterion", "criteria"}:
        stated = "is polite" if name == "criterion" else ["is polite", "is brief"]
        [judge] = rubric(criterion=stated, model=model).bind(context).calibrated
        return UsedJudge(judge=judge)
    file = project.prompts_dir / "judges" / f"{name}.prompt.yml"
    shipped = shipped_rubric(name, project)
    if not file.is_file() and shipped is None:
        names = ", ".join(known) or "none"
        fix = did_you_mean(name, known) or f"write {project.relative(file)}"
        raise UsageError(
            f"there is no judge {name!r}; evals have these that ask a model: {names}\n  fix: {fix}"
        )
    spec = load_prompt(shipped or file, root=project.root).rubric
    pairs = spec is not None and spec.kind == "pair"
    declared = pairwise(name, model=model) if pairs else rubric(name, model=model)
    return UsedJudge(judge=cast("ModelJudge", declared.bind(context)))
