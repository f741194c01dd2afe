"""The `@golden` decorator, which declares an eval without running anything; options of a run."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from regauge.errors import UsageError
from regauge.model_id import parse_model_id
from regauge.project import TRIALS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.datasets import Shard
    from regauge.digests import JSON
    from regauge.judges import Judge, UnboundJudge, Verdict
    from regauge.project import RecordMode, Settings


# Trials ahead of the current test with `-x`: fewer are slower, more pay for completions after the
# first failure.
_FAIL_FAST_AHEAD = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All options of a run.

    Attributes:
        record: The record mode: `none` never calls models, `missing` calls them for missing
            recordings, `all` for every trial.
        trials: Trials per case, if the eval sets none.
        concurrency: Requests in flight at once; `auto` adapts to rate limits.
        models: The models to run every case with, as `provider:model`; empty for the prompts' own.
        judge_model: The model of judges that name none, as `provider:model`; None for the setting.
        rejudge: Whether to compute measurements again from recorded calls.
        budget_usd: The limit on cost in US dollars; None for no limit.
        budget_tokens: The limit on tokens of prompts and judges; None for no limit.
        budget_calls: The limit on calls of prompts and judges; None for no limit.
        ahead: The most trials ahead of the judged case; None for twice the concurrency.
        shard: The shard to run; None for all cases.
        cluster: The scheduler whose workers call models, or `local`; None for calls from this
            process.
    """

    record: RecordMode
    trials: int = 1
    concurrency: int | Literal["auto"] = "auto"
    models: tuple[str, ...] = ()
    budget_usd: float | None = None
    ahead: int | None = None
    judge_model: str | None = None
    rejudge: bool = False
    budget_tokens: int | None = None
    budget_calls: int | None = None
    shard: Shard | None = None
    cluster: str | None = None


def resolve_options(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    record: RecordMode | None,
    trials: int | None,
    concurrency: str | None,
    budget_usd: float | None,
    fail_fast: bool = False,
    models: Sequence[str] = (),
    judge_model: str | None = None,
    rejudge: bool = False,
    budget_tokens: int | None = None,
    budget_calls: int | None = None,
    shard: Shard | None = None,
    cluster: str | None = None,
) -> RunOptions:
    """Merge the options of the command line, the settings and the defaults.

    Args:
        settings: `[tool.regauge]`.
        environ: The environment; `CI` decides the default record mode.
        record: `--record`.
        trials: `--trials`.
        concurrency: `--concurrency`, a number or `auto`.
        models: `--model`, in the order of the reports.
        budget_usd: `--budget-usd`.
        budget_tokens: `--budget-tokens`.
        budget_calls: `--budget-calls`.
        judge_model: `--judge-model`.
        rejudge: `--rejudge`.
        shard: `--shard` and `--shard-by`.
        cluster: `--cluster`.
        fail_fast: Whether the run stops at its first failures (`-x`), so that few trials may run
            ahead.

    Raises:
        UsageError: A number is out of range, a model is named twice or names no provider.
    """
    if judge_model is not None:
        parse_model_id(judge_model, location="--judge-model")
    for number, model in enumerate(models):
        parse_model_id(model, location="--model")
        if model in models[:number]:
            raise UsageError(f"--model names {model} twice\n  fix: name each model once")
    if trials is not None and not 1 <= trials <= TRIALS_MAX:
        raise UsageError(f"--trials must be from 1 to {TRIALS_MAX}, not {trials}")
    if budget_usd is not None and not 0 <= budget_usd < math.inf:
        raise UsageError(f"--budget-usd must be a number of dollars from 0 up, not {budget_usd}")
    for name, limit in (("tokens", budget_tokens), ("calls", budget_calls)):
        if limit is not None and limit < 0:
            raise UsageError(f"--budget-{name} must be a number from 0 up, not {limit}")
    if cluster is not None:
        from regauge.cluster import parse_address

        cluster = parse_address(cluster)
    in_ci = environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"}
    return RunOptions(
        record=record or settings.record or ("none" if in_ci else "missing"),
        trials=trials or settings.trials,
        concurrency=_concurrency(concurrency) if concurrency else settings.concurrency,
        models=tuple(models),
        budget_usd=settings.budget_usd if budget_usd is None else budget_usd,
        ahead=_FAIL_FAST_AHEAD if fail_fast else None,
        judge_model=judge_model or settings.judge_model,
        rejudge=rejudge,
        budget_tokens=budget_tokens,
        budget_calls=budget_calls,
        shard=shard,
        cluster=cluster,
    )


def _concurrency(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:  # noqa: PLR2004 - the range stands in the message
        raise UsageError(f"--concurrency takes a number from 1 to 1024, or auto, not {text!r}")
    return int(text)


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
        judges: The judges of every case, next to its `checks`.
        dataset: The golden dataset's name; None for the prompt's name.
        trials: Trials per case; None for the run's default.
        pass_rate: The share of a case's trials that must pass, above 0 and up to 1.
        model: The model instead of the prompt's, as `provider:model`; None for the prompt's. An
            option of the run overrides it.
        version: The released version of the prompt to evaluate; None for the working file.
        target: The target to test instead of a prompt: its name in the settings, or
            `module:function`; None for a prompt.
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
        target: The target to test instead of a prompt: the name of a table
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
    """The declaration of `@golden` on a function; None if it is not an eval."""
    spec = getattr(function, _ATTRIBUTE, None)
    return spec if isinstance(spec, EvalSpec) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEval:
    """A function with `@golden` in the source of a file.

    Attributes:
        line: The line of the first decorator.
        function: The function's name.
        target: The argument `target`; None if it is missing or not a string literal.
        texts: The strings among the arguments of `@golden`; the first is the prompt's name.
        judges: The source of each judge, or of the whole argument if it is not a list.
        has_own_code: Whether its body has assertions, or it takes more than `result`.

    Constants of the file stand for their values.
    """

    line: int
    function: str
    texts: tuple[str, ...]
    judges: tuple[str, ...]
    target: str | None = None
    has_own_code: bool = False


@lru_cache(maxsize=1024)  # a run needs them several times
def declared_evals(source: bytes) -> tuple[DeclaredEval, ...]:
    """The evals of a Python file; none if it cannot be parsed."""
    if b"golden" not in source or b"regauge" not in source:
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()  # pytest reports it at collection
    names = {"golden"} | {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regauge")
        for alias in node.names
        if alias.name == "golden" and alias.asname
    }
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def value_of(node: ast.expr) -> ast.expr:
        return constants.get(node.id, node) if isinstance(node, ast.Name) else node

    evals: list[DeclaredEval] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _name(decorator.func) in names:
                keywords = {word.arg: value_of(word.value) for word in decorator.keywords}
                texts = map(_text, [*map(value_of, decorator.args), *keywords.values()])
                declared_eval = DeclaredEval(
                    line=node.decorator_list[0].lineno,
                    function=node.name,
                    texts=tuple(text for text in texts if text is not None),
                    judges=_judges(keywords.get("judges"), value_of),
                    target=_text(keywords.get("target")),
                    has_own_code=len(node.args.args) > 1
                    or any(isinstance(part, ast.Assert) for part in ast.walk(node)),
                )
                evals.append(declared_eval)
    return tuple(evals)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text(node: ast.expr | None) -> str | None:
    text = node.value if isinstance(node, ast.Constant) else None
    return text if isinstance(text, str) else None


def _judges(judges: ast.expr | None, value_of: Callable[[ast.expr], ast.expr]) -> tuple[str, ...]:
    if judges is None:
        return ()
    nodes = judges.elts if isinstance(judges, ast.List | ast.Tuple) else [judges]
    return tuple(ast.unparse(value_of(node)) for node in nodes)
