"""deepeval's metrics as judges; `deepeval(...)` is how an eval declares one.

deepeval itself is imported only when a metric has to be measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.judges._asking import Declared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.criteria import Criterion
    from regauge.digests import JSON
    from regauge.judges._asking import JudgeContext
    from regauge.judges._deepeval._fields import Fields
    from regauge.judges._deepeval._judge import DeepevalJudge

__all__ = ["DeepevalDeclaration", "deepeval"]

_COLDEST: Final[Mapping[str, JSON]] = MappingProxyType({"temperature": 0.0})
_CRITERIA: Final[Mapping[str, Criterion]] = MappingProxyType({
    "ArgumentCorrectness": "correctness",
    "ContextualRecall": "completeness",
    "ExactMatch": "correctness",
    "Faithfulness": "correctness",
    "Hallucination": "correctness",
    "JsonCorrectness": "format",
    "PatternMatch": "format",
    "PromptAlignment": "format",
    "Summarization": "completeness",
    "TaskCompletion": "completeness",
    "ToolCorrectness": "correctness",
})  # fmt: skip
"""What metrics are about; all others judge how well an answer serves what was asked."""
_OURS: Final = ("model", "async_mode", "verbose_mode", "eval_mode", "system_one_model")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepevalDeclaration(Declared):
    """A judge that is known, but not its project and model.

    Attributes:
        metric: deepeval's name of it, a class, something that makes one, or a metric to copy.
        options: What its class is called with.
        name: What people read.
        fields: Where the fields of a test case come from.
        model: The judge model, as `provider:model`; None for the one of the project.
        parameters: How it is asked.
        threshold: What the score is held to; None for the metric's own.
        criterion: What it is about.
    """

    metric: Any
    options: Mapping[str, Any]
    fields: Fields
    model: str | None
    parameters: Mapping[str, JSON]
    threshold: float | None
    criterion: Criterion = "relevance"

    def named(self, name: str) -> DeepevalDeclaration:
        """The same judge under a name of your choice."""
        return replace(self, name=name, fields=replace(self.fields, judge=name))

    def bind(self, context: JudgeContext) -> DeepevalJudge:
        """The judge itself; deepeval is not imported for it.

        Raises:
            UsageError: deepeval is not installed, has no such metric, or no model is named.
        """
        from regauge.judges._deepeval._installed import asks_model, kind_of, metric_name
        from regauge.judges._deepeval._judge import DeepevalJudge
        from regauge.model_id import parse_model_id

        metric = metric_name(self.metric) if isinstance(self.metric, str) else self.metric
        options = _read(self.options, context.project.root)
        if not asks_model(metric, options):
            name = None
        elif (name := self.model or context.model) is None:
            raise UsageError(
                f"{self.name}: no judge model is set\n"
                "  fix: set judge_model in [tool.regauge] of pyproject.toml, or write"
                ' deepeval(..., model="provider:model")'
            )
        if kind_of(metric) == "JsonCorrectnessMetric" and isinstance(metric, (str, type)):
            options.setdefault("include_reason", False)
        return DeepevalJudge(
            metric=metric,
            options=options,
            name=self.name,
            criterion=self.criterion,
            fields=self.fields,
            model=parse_model_id(name, at=self.name) if name else None,
            parameters=self.parameters,
            threshold=self.threshold,
        )


def deepeval(
    metric: object,
    *,
    name: str | None = None,
    threshold: float | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
    model: str | None = None,
    parameters: Mapping[str, JSON] = _COLDEST,
    **options: Any,
) -> DeepevalDeclaration:
    """Make a judge of a deepeval metric.

    [Metrics and fields](../how-to/deepeval.md).

    Args:
        metric: A name from `deepeval.metrics`, with or without `Metric`, or a class, a factory, or
            a metric, which is copied for each measurement.
        name: The name in reports.
        threshold: The passing score; by default the metric's own.
        fields: Sources of the test case's fields, as in `{"retrieval_context": "inputs.report"}`.
        model: The judge model, as `provider:model`; by default the project's.
        parameters: Model parameters; models without temperature are called without it.
        options: Arguments of the metric's class.

    Raises:
        UsageError: A parameter makes no sense.

    >>> deepeval("Faithfulness", fields={"retrieval_context": "inputs.report"}).name
    'Faithfulness'
    """
    from regauge.judges._deepeval._fields import Fields
    from regauge.judges._deepeval._installed import UNSUPPORTED, kind_of

    for option in _OURS:
        if option in options:
            raise UsageError(f"deepeval: {option!r} is decided by the run; leave it out")
    label = name or _label(metric)
    if not (isinstance(metric, str) or callable(metric) or hasattr(metric, "measure")):
        raise UsageError(
            f"deepeval: {metric!r} is no metric\n"
            "  fix: give its name, its class, a function that makes one, or a metric"
        )
    for kind in (kind_of(metric), f"{metric}Metric"):
        if kind in UNSUPPORTED:
            raise UsageError(
                f"deepeval: {kind} is not supported: {UNSUPPORTED[kind]}\n  fix: remove it"
            )
    if options and hasattr(metric, "measure") and not isinstance(metric, type):
        raise UsageError(
            f"deepeval: {label} is made already, so it takes no {', '.join(sorted(options))}"
        )
    if threshold is None and hasattr(metric, "measure"):
        own = getattr(metric, "threshold", None)
        threshold = float(own) if isinstance(own, (int, float)) else None
    if options.get("strict_mode"):
        threshold = 1.0
    if threshold is not None and not (math.isfinite(threshold) and 0 <= threshold <= 1):
        raise UsageError(f"{label}: a threshold is from 0 to 1, not {threshold!r}")
    return DeepevalDeclaration(
        metric=metric,
        options=dict(options),
        name=label,
        fields=Fields.read(fields, judge=label),
        model=model,
        parameters=dict(parameters),
        threshold=threshold,
        criterion=_CRITERIA.get(_label(metric), "relevance"),
    )


def _label(metric: object) -> str:
    if isinstance(metric, str):
        return metric.removesuffix("Metric") or metric
    own = getattr(metric, "name", None)
    if isinstance(own, str) and own:
        return own
    called = getattr(metric, "__name__", "")
    if isinstance(metric, type) or (callable(metric) and called not in {"", "<lambda>"}):
        return str(called).removesuffix("Metric")
    return type(metric).__name__.removesuffix("Metric") if not callable(metric) else "deepeval"


def _read(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The options, a graph in a file as its content, so that the digest follows it.

    Raises:
        UsageError: The file cannot be read.
    """
    dag = options.get("dag")
    if not isinstance(dag, (str, Path)):
        return dict(options)
    from regauge.strict_json import read_json

    path = root / dag
    try:
        content = cast("JSON", read_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the graph of a DAG metric cannot be read: {error}") from error
    return {**options, "dag": content}
