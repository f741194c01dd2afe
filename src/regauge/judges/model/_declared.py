"""What declarations of judges that ask a model share: parameters, the rubric, who is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from regauge.errors import Fault, PromptError, UsageError
from regauge.judges._answer import parse_path
from regauge.providers import parse_model_id

if TYPE_CHECKING:
    from regauge.judges._asking import JudgeContext
    from regauge.project import Project
    from regauge.prompts import Prompt, RubricSpec
    from regauge.providers import ModelId

__all__ = [
    "another_kind",
    "check_at_least",
    "check_parameters",
    "load_rubric",
    "model_of",
    "shipped_rubric",
]


_SHIPPED: Final = Path(__file__).parent / "rubrics"


def check_parameters(
    judge: str,
    *,
    at_least: float | None,
    field: str,
    model: str | None,
    declared: str,
    parameter: str = "at_least",
) -> None:
    """Refuse what makes no sense for a judge that asks one model.

    Args:
        judge: How an error names the judge.
        at_least: The score that passes; None for the rubric's.
        declared: How the eval declares it, such as `rubric('tone')`.
        parameter: The name of the parameter that holds the score that passes.

    Raises:
        UsageError: A parameter makes no sense.
    """
    if at_least is not None:
        check_at_least(judge, at_least, parameter=parameter)
    parse_path(field)
    if model is not None:
        parse_model_id(model, at=declared)


def check_at_least(judge: str, at_least: object, *, parameter: str = "at_least") -> None:
    """Refuse a score that none can reach, or that all do.

    Raises:
        UsageError: It is not between 0 and 1.
    """
    sound = isinstance(at_least, int | float) and not isinstance(at_least, bool)
    if not sound or not 0 <= cast("float", at_least) <= 1:
        raise UsageError(f"{judge}: {parameter} is a score from 0 to 1, not {at_least!r}")


def load_rubric(
    name: str, context: JudgeContext, *, version: str | None, judge: str
) -> tuple[Prompt, RubricSpec]:
    """A rubric's prompt, and what verdict it asks for.

    A rubric that comes with regauge serves where the project has no prompt of its name.

    Raises:
        PromptError: There is no such prompt, it is faulty, or it is no rubric.
    """
    from regauge.prompts import find_prompt, load_prompt, prompt_name

    prompt = context.loaded.get((name, version))
    if prompt is None:
        path = shipped_rubric(name, context.project) if version is None else None
        if path is None:
            shipped = sorted(prompt_name(file) for file in _SHIPPED.glob("*.prompt.yml"))
            stated = f"rubric(criterion={json.dumps(name, ensure_ascii=False)})"
            fix = f"{stated} judges by a criterion" if len(name.split()) > 1 else ""
            path = find_prompt(name, root=context.project.root, also=shipped, fix=fix)
        prompt = load_prompt(path, version, root=context.project.root)
        context.loaded[name, version] = prompt
    if prompt.rubric is None:
        fault = Fault(
            path=prompt.path,
            line=1,
            message=f"the judge {judge!r} needs a rubric, and this prompt has no `rubric:`",
            fix="add `rubric:` with `kind: graded`, `binary`, `choice` or `pair`",
        )
        raise PromptError([fault])
    return prompt, prompt.rubric


def shipped_rubric(name: str, project: Project) -> Path | None:
    """The file of a rubric that comes with regauge, unless the project has one of its name."""
    from regauge.prompts import prompt_files, prompt_name

    path = _SHIPPED / f"{name}.prompt.yml"
    if not name.replace("-", "").isalnum() or not path.is_file():
        return None
    own = any(prompt_name(file) == name for file in prompt_files(project.prompts_dir))
    return None if own else path


def model_of(
    wanted: str | None, prompt: Prompt | None, context: JudgeContext, *, judge: str
) -> ModelId:
    """Who is asked: what the eval says, else the prompt, else the project.

    Raises:
        UsageError: None of them says, or what it says is no model.
    """
    named = prompt.model if prompt is not None else None
    model = wanted or named or context.model
    if model is None:
        raise UsageError(
            f"nothing says which model the judge {judge!r} asks\n"
            "  fix: set `judge_model` in [tool.regauge] of pyproject.toml, add `model:` to the"
            " rubric, or give the judge model=..."
        )
    said = str(prompt.path) if prompt is not None and not wanted and named else judge
    return parse_model_id(model, at=said)


def another_kind(prompt: Prompt, message: str, *, fix: str) -> PromptError:
    """The error of a rubric that another judge judges by."""
    line = prompt.lines.get("rubric")
    return PromptError([Fault(path=prompt.path, line=line, message=message, fix=fix)])
