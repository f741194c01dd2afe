"""deepeval's metrics as judges, declared with `deepeval(...)`.

deepeval itself is imported only for measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import canonical_json
from regauge.errors import JudgeError, UsageError
from regauge.judges._types import DeclaredJudge, is_number
from regauge.judges.output import (
    MISSING,
    JsonProblem,
    JudgedOutput,
    MissingValue,
    Steps,
    parse_json,
    parse_path,
    value_at,
)
from regauge.lexicon import Lexicon
from regauge.strict_json import as_list

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._deepeval._judge import DeepevalJudge
    from regauge.judges._types import JudgeContext
    from regauge.providers import Completion

__all__ = ["FIELDS", "Fields", "deepeval"]

_DEFAULT_PARAMETERS: Final[Mapping[str, JSON]] = MappingProxyType({"temperature": 0.0})
METRICS: Final = Lexicon("regauge.judges", file="data/deepeval.toml")
"""The known parts of deepeval's metrics."""


def deepeval(
    metric: object,
    *,
    name: str | None = None,
    threshold: float | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
    model: str | None = None,
    parameters: Mapping[str, JSON] = _DEFAULT_PARAMETERS,
    **options: Any,
) -> DeclaredJudge[DeepevalJudge]:
    """Judge by a deepeval metric.

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
        UsageError: A parameter is invalid.

    >>> deepeval("Faithfulness", fields={"retrieval_context": "inputs.report"}).name
    'Faithfulness'
    """
    label = name or _label(metric)
    full_metric = _check(metric, options, label)
    if threshold is None and hasattr(metric, "measure"):
        metric_threshold = getattr(metric, "threshold", None)
        threshold = float(metric_threshold) if isinstance(metric_threshold, (int, float)) else None
    if options.get("strict_mode"):
        threshold = 1.0
    if threshold is not None and not (is_number(threshold) and 0 <= threshold <= 1):
        raise UsageError(f"{label}: a threshold is from 0 to 1, not {threshold!r}")
    sources = Fields.read(fields, judge=label)

    def make(judge_name: str, context: JudgeContext) -> DeepevalJudge:
        from regauge.judges._deepeval._judge import DeepevalJudge, calls_model, kind_of
        from regauge.model_id import parse_model_id

        metric_options = _read_options(options, context.project.root)
        if not calls_model(full_metric, metric_options):
            model_name = None
        elif (model_name := model or context.model) is None:
            raise UsageError(
                f"{judge_name}: no judge model is set\n"
                "  fix: set judge_model in [tool.regauge] of pyproject.toml, or write"
                ' deepeval(..., model="provider:model")'
            )
        if kind_of(full_metric) == "JsonCorrectnessMetric" and isinstance(full_metric, (str, type)):
            metric_options.setdefault("include_reason", False)
        return DeepevalJudge(
            metric=full_metric,
            options=metric_options,
            name=judge_name,
            fields=replace(sources, judge=judge_name),
            model=parse_model_id(model_name, location=judge_name) if model_name else None,
            parameters=dict(parameters),
            threshold=threshold,
        )

    criterion = METRICS.entry("criteria").get(_label(metric), "relevance")
    return DeclaredJudge(name=label, criterion=criterion, make=make)


def _check(metric: object, options: Mapping[str, Any], label: str) -> object:
    """A metric, or its full name, once it is supported and takes these options.

    Raises:
        UsageError: It is not, or does not.
    """
    from regauge.judges._deepeval._judge import check_options, kind_of, metric_name

    for option in ("model", "async_mode", "verbose_mode", "eval_mode", "system_one_model"):
        if option in options:
            raise UsageError(f"deepeval: {option!r} is set by the run; remove it")
    if not (isinstance(metric, str) or callable(metric) or hasattr(metric, "measure")):
        fix = "give its name, its class, a function that makes one, or a metric"
        raise UsageError(f"deepeval: {metric!r} is not a metric", fix=fix)
    for kind in (kind_of(metric), f"{metric}Metric"):
        if reason := METRICS.entry("unsupported").get(kind):
            raise UsageError(f"deepeval: {kind} is not supported: {reason}\n  fix: remove it")
    if options and hasattr(metric, "measure") and not isinstance(metric, type):
        raise UsageError(
            f"deepeval: {label} is an instance, so it takes no {', '.join(sorted(options))}"
        )
    metric = metric_name(metric) if isinstance(metric, str) else metric
    check_options(metric, options, label=label)
    return metric


def _label(metric: object) -> str:
    if isinstance(metric, str):
        return metric.removesuffix("Metric") or metric
    metric_label = getattr(metric, "name", None)
    if isinstance(metric_label, str) and metric_label:
        return metric_label
    function_name = getattr(metric, "__name__", "")
    if isinstance(metric, type) or (callable(metric) and function_name not in {"", "<lambda>"}):
        return str(function_name).removesuffix("Metric")
    return type(metric).__name__.removesuffix("Metric") if not callable(metric) else "deepeval"


def _read_options(options: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The options, with a graph's file replaced by its content, so that the digest covers it.

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


_FIELD_NAMES: Final = """
input actual_output expected_output context retrieval_context tools_called expected_tools
mcp_servers metadata trace turns scenario expected_outcome user_description chatbot_role
provider_transcript against
"""
FIELDS: Final = tuple(_FIELD_NAMES.split())
"""deepeval's names for the parts of a test case; `against` is the competing output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The sources of a test case's fields.

    Attributes:
        paths: Declared paths by field: `inputs.report`, `expected.answer`, `answer`, or several.
        judge: The name of the judge, for errors.
    """

    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    judge: str

    @classmethod
    def read(cls, declaration: Mapping[str, str | Sequence[str]] | None, *, judge: str) -> Fields:
        """Read the fields that an eval declares.

        Raises:
            UsageError: A field or path is unknown.
        """
        paths_by_field: dict[str, tuple[str, ...]] = {}
        for name, paths in (declaration or {}).items():
            if name not in FIELDS:
                raise UsageError(f"{judge}: no field {name!r}; there are {', '.join(FIELDS)}")
            paths_by_field[name] = (paths,) if isinstance(paths, str) else tuple(paths)
            for path in paths_by_field[name]:
                _steps(path, judge=judge)
        return cls(paths=paths_by_field, judge=judge)

    def to_json(self) -> JSON:
        """The declared paths, for digests."""
        return {name: list(paths) for name, paths in self.paths.items()}

    def values(self, completion: Completion, case: GoldenCase) -> dict[str, JSON]:
        """The fields of a case, by name.

        By default a field is the input, or the part of `expected`, of its name. Otherwise `input`
        is the remaining input, or several as JSON; `expected_output` is `expected`; `tools_called`,
        `retrieval_context` and `turns` come from the completion.

        Raises:
            JudgeError: The case has no value at a declared path.
        """
        output = JudgedOutput.from_completion(completion, case)
        fields: dict[str, JSON] = {}
        for name in FIELDS:
            if name in self.paths:
                value = self._declared_value(name, output, case)
            else:
                value = self._by_default(name, completion, case)
            if value is not None:
                fields[name] = _shape(name, value)
        return fields

    def _by_default(self, name: str, completion: Completion, case: GoldenCase) -> JSON:
        by_name = _value_by_name(name, completion, case)
        if by_name is not None or name != "input":
            return by_name
        users = [turn for turn in _turns_of(completion) if turn["role"] == "user"]
        return users[-1]["content"] if users and not case.inputs else self._input(case)

    def _input(self, case: GoldenCase) -> JSON:
        used_paths = {path for paths in self.paths.values() for path in paths}
        free = {name: value for name, value in case.inputs.items() if name not in FIELDS}
        rest = {name: value for name, value in free.items() if f"inputs.{name}" not in used_paths}
        inputs = rest or free or dict(case.inputs)
        return next(iter(inputs.values())) if len(inputs) == 1 else inputs

    def _declared_value(self, name: str, output: JudgedOutput, case: GoldenCase) -> JSON:
        parts: list[JSON] = []
        for path in self.paths[name]:
            root, *rest = _steps(path, judge=self.judge)
            value = _find_value(str(root), tuple(rest), output, case)
            if isinstance(value, MissingValue):
                raise JudgeError(
                    f"{self.judge}: case {case.id!r} has no {path!r} for the field {name!r}"
                    f" ({case.location})\n"
                    "  fix: add it to the case, or name another path in `fields`",
                    judge=self.judge,
                )
            parts.append(value)
        return parts[0] if len(parts) == 1 else parts


def _steps(path: str, *, judge: str) -> Steps:
    steps = parse_path(path)
    if not steps or steps[0] not in {"inputs", "expected", "answer"}:
        fix = "write inputs.NAME, expected, expected.NAME, answer or answer.NAME"
        raise UsageError(f"{judge}: {path!r} is not a source of a field", fix=fix)
    return steps


def _find_value(
    root: str, steps: Steps, output: JudgedOutput, case: GoldenCase
) -> JSON | MissingValue:
    match root:
        case "inputs":
            return value_at(case.inputs, steps)
        case "expected":
            part = value_at(case.expected, steps)
            return MISSING if part is None else part
        case _:
            if not steps:
                return output.text if output.text is not None else MISSING
            document = output.json
            return MISSING if isinstance(document, JsonProblem) else value_at(document, steps)


def _value_by_name(name: str, completion: Completion, case: GoldenCase) -> JSON:  # noqa: PLR0911
    expected = case.expected
    if name == "actual_output":
        return completion.text
    if name == "tools_called" and completion.tool_calls:
        return _list_calls(completion)
    if name in case.inputs:
        return case.inputs[name]
    if isinstance(expected, Mapping) and name in expected:
        return expected[name]
    if name in {"expected_output", "against"}:
        return expected
    if name == "expected_outcome" and isinstance(expected, str):
        return expected
    if name == "retrieval_context" and completion.context:
        return list(completion.context)
    if name == "turns" and completion.messages:
        return cast("JSON", _turns_of(completion))
    return None


def _turns_of(completion: Completion) -> list[dict[str, JSON]]:
    """The messages of users and model with text, each with its tool calls."""
    from regauge.providers import Conversation, text_of

    turns: list[dict[str, JSON]] = []
    for turn in Conversation(completion).turns:
        users = [message for message in turn.messages if message.get("role") == "user"]
        user_turns: list[dict[str, JSON]] = [
            {"role": "user", "content": text} for message in users if (text := text_of(message))
        ]
        turns += user_turns
        if turn.text is not None:
            last: dict[str, JSON] = {"role": "assistant", "content": turn.text}
            if turn.tool_calls:
                last["tools_called"] = _list_calls(turn)
            turns.append(last)
    return turns


def _list_calls(completion: Completion) -> JSON:
    return [
        {"name": call.name, "input_parameters": _arguments(call.arguments)}
        for call in completion.tool_calls
    ]


def _arguments(text: str) -> JSON:
    value = parse_json(text)
    if isinstance(value, JsonProblem):
        return {"arguments": text}
    return value if isinstance(value, Mapping) else {"arguments": value}


def _shape(name: str, value: JSON) -> JSON:
    """The value as a text, or as a list of texts, for the fields that require it."""
    if name in METRICS.words("text_fields"):
        return _text(value)
    return [*map(_text, as_list(value))] if name in {"context", "retrieval_context"} else value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else canonical_json(value)
