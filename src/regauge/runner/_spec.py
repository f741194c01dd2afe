"""`@golden`: what an eval declares about itself; nothing is read or run when it is applied."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.judges import Judge, UnboundJudge, Verdict

__all__ = ["DeclaredEval", "EvalSpec", "JudgeLike", "declared_evals", "golden", "spec_of"]

JudgeLike: TypeAlias = (
    "Judge | UnboundJudge | Callable[..., bool | float | Verdict] | str | Mapping[str, JSON]"
)
EvalFunction = TypeVar("EvalFunction", bound="Callable[..., Any]")

_ATTRIBUTE = "__regauge_eval__"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSpec:
    """The arguments of `@golden`.

    Attributes:
        prompt: The prompt's name: the file `prompts/<prompt>.prompt.yml`.
        judges: What judges every completion, next to the checks of each case.
        dataset: The golden dataset's name; None is the prompt's own name.
        trials: Draws per case; None is the run's default.
        pass_rate: The share of a case's trials that must pass, above 0 and up to 1.
        model: `provider:model` to ask instead of the prompt's; an option of the run overrides it.
        version: A released version of the prompt to evaluate; None is the working file.
        target: What is tested instead of a prompt: its name in the settings, or `module:function`.
    """

    prompt: str
    judges: tuple[JudgeLike, ...]
    dataset: str | None
    trials: int | None
    pass_rate: float
    model: str | None
    version: str | None
    target: str | None = None


def golden(
    prompt: str,
    *,
    judges: Sequence[JudgeLike] = (),
    dataset: str | None = None,
    trials: int | None = None,
    pass_rate: float = 1.0,
    model: str | None = None,
    version: str | None = None,
    target: str | None = None,
) -> Callable[[EvalFunction], EvalFunction]:
    """Make a test function an eval: one pytest item per golden case, judged by `judges`.

    The function takes one argument, `result`, and calls `result.check()`; the judges decide even
    without that call. Its own assertions count too.

    Args:
        prompt: The prompt's name; with `target`, the name of the eval.
        judges: Judges, functions `(output, case) -> bool | float | Verdict`, or names of judges
            with parameters, as in YAML: `{"max_words": 40}`.
        dataset: The golden dataset's name; by default the prompt's.
        trials: Trials per case.
        pass_rate: The share of a case's trials that must pass, above 0 and up to 1.
        model: `provider:model` instead of the prompt's model.
        version: A released version to evaluate instead of the file.
        target: What is tested instead of a prompt: the name of a table
            `[tool.regauge.targets.<name>]`, or a Python function as `module:function`.

    ```python
    @golden("alert-severity", judges=[field_equals("severity")])
    def test_alert_severity(result):
        result.check()
    ```
    """
    spec = EvalSpec(
        prompt=prompt,
        judges=tuple(judges),
        dataset=dataset,
        trials=trials,
        pass_rate=pass_rate,
        model=model,
        version=version,
        target=target,
    )

    def declare(function: EvalFunction) -> EvalFunction:
        setattr(function, _ATTRIBUTE, spec)
        return function

    return declare


def spec_of(function: object) -> EvalSpec | None:
    """The declaration of `@golden` on a function; None if it is no eval."""
    spec = getattr(function, _ATTRIBUTE, None)
    return spec if isinstance(spec, EvalSpec) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEval:
    """A function that `@golden` decorates, as the source of a file has it.

    Attributes:
        line: Of the first decorator.
        function: Its name.
        target: What `target` names, where it is a text; None where it is none.
        texts: The texts among the arguments of `@golden`; the first is the prompt's name.
        judges: The source of each judge; of the whole argument where it is no list.
    """

    line: int
    function: str
    texts: tuple[str, ...]
    judges: tuple[str, ...]
    target: str | None = None


def declared_evals(source: bytes) -> Iterator[DeclaredEval]:
    """The evals of a Python file; none where it cannot be parsed."""
    if b"golden" not in source or b"regauge" not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # pytest says so where it collects the file
    names = {"golden"} | {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regauge")
        for alias in node.names
        if alias.name == "golden" and alias.asname
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _name(decorator.func) in names:
                given = [*decorator.args, *(word.value for word in decorator.keywords)]
                yield DeclaredEval(
                    line=node.decorator_list[0].lineno,
                    function=node.name,
                    texts=tuple(
                        one.value
                        for one in given
                        if isinstance(one, ast.Constant) and isinstance(one.value, str)
                    ),
                    judges=_judges(decorator),
                    target=_target(decorator),
                )


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _target(decorator: ast.Call) -> str | None:
    value = next((word.value for word in decorator.keywords if word.arg == "target"), None)
    text = value.value if isinstance(value, ast.Constant) else None
    return text if isinstance(text, str) else None


def _judges(decorator: ast.Call) -> tuple[str, ...]:
    judges = next((word.value for word in decorator.keywords if word.arg == "judges"), None)
    if judges is None:
        return ()
    listed = judges.elts if isinstance(judges, ast.List | ast.Tuple) else [judges]
    return tuple(map(ast.unparse, listed))
