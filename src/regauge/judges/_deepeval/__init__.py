"""deepeval's metrics as judges; `deepeval(...)` is how an eval declares one.

deepeval itself is imported only when a metric has to be measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import canonical_json
from regauge.errors import JudgeError, UsageError
from regauge.judges._output import (
    MISSING,
    JsonFault,
    JudgedOutput,
    MissingValue,
    Steps,
    parse_json,
    parse_path,
    value_at,
)
from regauge.judges._types import DeclaredJudge, JudgeDeclaration
from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._deepeval._judge import DeepevalJudge
    from regauge.judges._types import JudgeContext
    from regauge.providers import Completion

__all__ = ["FIELDS", "Fields", "deepeval"]

_COLDEST: Final[Mapping[str, JSON]] = MappingProxyType({"temperature": 0.0})
METRICS: Final = Lexicon("regauge.judges", file="data/deepeval.toml")
"""The known parts of deepeval's metrics."""
_OURS: Final = ("model", "async_mode", "verbose_mode", "eval_mode", "system_one_model")


def deepeval(
    metric: object,
    *,
    name: str | None = None,
    threshold: float | None = None,
    fields: Mapping[str, str | Sequence[str]] | None = None,
    model: str | None = None,
    parameters: Mapping[str, JSON] = _COLDEST,
    **options: Any,
) -> DeclaredJudge[DeepevalJudge]:
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
    label = name or _label(metric)
    _check(metric, options, label)
    if threshold is None and hasattr(metric, "measure"):
        own = getattr(metric, "threshold", None)
        threshold = float(own) if isinstance(own, (int, float)) else None
    if options.get("strict_mode"):
        threshold = 1.0
    if threshold is not None and not (math.isfinite(threshold) and 0 <= threshold <= 1):
        raise UsageError(f"{label}: a threshold is from 0 to 1, not {threshold!r}")
    sources = Fields.read(fields, judge=label)

    def bind(declared: JudgeDeclaration, context: JudgeContext) -> DeepevalJudge:
        from regauge.judges._deepeval._judge import DeepevalJudge, asks_model, kind_of, metric_name
        from regauge.model_id import parse_model_id

        full_metric = metric_name(metric) if isinstance(metric, str) else metric
        made_with = _read(options, context.project.root)
        if not asks_model(full_metric, made_with):
            asked = None
        elif (asked := model or context.model) is None:
            raise UsageError(
                f"{declared.name}: no judge model is set\n"
                "  fix: set judge_model in [tool.regauge] of pyproject.toml, or write"
                ' deepeval(..., model="provider:model")'
            )
        if kind_of(full_metric) == "JsonCorrectnessMetric" and isinstance(full_metric, (str, type)):
            made_with.setdefault("include_reason", False)
        return DeepevalJudge(
            metric=full_metric,
            options=made_with,
            name=declared.name,
            criterion=declared.criterion or "relevance",
            fields=replace(sources, judge=declared.name),
            model=parse_model_id(asked, location=declared.name) if asked else None,
            parameters=dict(parameters),
            threshold=threshold,
        )

    criterion = METRICS.entry("criteria").get(_label(metric), "relevance")
    return DeclaredJudge(name=label, criterion=criterion, make=bind)


def _check(metric: object, options: Mapping[str, Any], label: str) -> None:
    """Refuse what is no metric, cannot be one here, or takes no options.

    Raises:
        UsageError: It is that.
    """
    from regauge.judges._deepeval._judge import kind_of

    for option in _OURS:
        if option in options:
            raise UsageError(f"deepeval: {option!r} is decided by the run; leave it out")
    if not (isinstance(metric, str) or callable(metric) or hasattr(metric, "measure")):
        fix = "give its name, its class, a function that makes one, or a metric"
        raise UsageError(f"deepeval: {metric!r} is no metric", fix=fix)
    for kind in (kind_of(metric), f"{metric}Metric"):
        if why := METRICS.entry("unsupported").get(kind):
            raise UsageError(f"deepeval: {kind} is not supported: {why}\n  fix: remove it")
    if options and hasattr(metric, "measure") and not isinstance(metric, type):
        raise UsageError(
            f"deepeval: {label} is made already, so it takes no {', '.join(sorted(options))}"
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


_FIELD_NAMES: Final = """
input actual_output expected_output context retrieval_context tools_called expected_tools
mcp_servers metadata trace turns scenario expected_outcome user_description chatbot_role
provider_transcript against
"""
FIELDS: Final = tuple(_FIELD_NAMES.split())
"""deepeval's names for the parts of a test case; `against` is what an answer competes with."""

_ROOTS: Final = ("inputs", "expected", "answer")
_LISTS: Final = frozenset({"context", "retrieval_context"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where the fields of a test case come from.

    Attributes:
        declared: Paths by field: `inputs.report`, `expected.answer`, `answer`, or several.
        judge: The name of the judge, for error messages.
    """

    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    judge: str

    @classmethod
    def read(cls, declared: Mapping[str, str | Sequence[str]] | None, *, judge: str) -> Fields:
        """Fields as an eval declares them.

        Raises:
            UsageError: There is no such field, or no such path.
        """
        made: dict[str, tuple[str, ...]] = {}
        for name, paths in (declared or {}).items():
            if name not in FIELDS:
                raise UsageError(f"{judge}: no field {name!r}; there are {', '.join(FIELDS)}")
            made[name] = (paths,) if isinstance(paths, str) else tuple(paths)
            for path in made[name]:
                _steps(path, judge=judge)
        return cls(declared=made, judge=judge)

    def to_json(self) -> JSON:
        """The declared paths, for a digest."""
        return {name: list(paths) for name, paths in self.declared.items()}

    def values(self, completion: Completion, case: GoldenCase) -> dict[str, JSON]:
        """The fields that this case has, by name.

        A field that is not declared is what a case calls by its name among its inputs or in its
        `expected`. Without that, `input` is the inputs that are no other field, the only one as
        it is and several as JSON; `expected_output` is `expected`; `tools_called` is what the
        model called, `retrieval_context` what its target retrieved, and `turns` the messages of
        a conversation.

        Raises:
            JudgeError: A declared path leads nowhere in this case.
        """
        answer = JudgedOutput.from_completion(completion, case)
        fields: dict[str, JSON] = {}
        for name in FIELDS:
            if name in self.declared:
                value = self._declared_value(name, answer, case)
            else:
                value = self._by_default(name, completion, case)
            if value is not None:
                fields[name] = _shape(name, value)
        return fields

    def _by_default(self, name: str, completion: Completion, case: GoldenCase) -> JSON:
        by_name = _of_that_name(name, completion, case)
        if by_name is not None or name != "input":
            return by_name
        users = [turn for turn in _turns_of(completion) if turn["role"] == "user"]
        return users[-1]["content"] if users and not case.inputs else self._input(case)

    def _input(self, case: GoldenCase) -> JSON:
        taken = {path for paths in self.declared.values() for path in paths}
        free = {name: value for name, value in case.inputs.items() if name not in FIELDS}
        rest = {name: value for name, value in free.items() if f"inputs.{name}" not in taken}
        asked = rest or free or dict(case.inputs)
        return next(iter(asked.values())) if len(asked) == 1 else asked

    def _declared_value(self, name: str, answer: JudgedOutput, case: GoldenCase) -> JSON:
        values: list[JSON] = []
        for path in self.declared[name]:
            root, *rest = _steps(path, judge=self.judge)
            value = _at(str(root), tuple(rest), answer, case)
            if isinstance(value, MissingValue):
                raise JudgeError(
                    f"{self.judge}: case {case.id!r} has no {path!r} for the field {name!r}"
                    f" ({case.location})\n"
                    "  fix: add it to the case, or name another path in `fields`",
                    judge=self.judge,
                )
            values.append(value)
        return values[0] if len(values) == 1 else values


def _steps(path: str, *, judge: str) -> Steps:
    steps = parse_path(path)
    if not steps or steps[0] not in _ROOTS:
        fix = "write inputs.NAME, expected, expected.NAME, answer or answer.NAME"
        raise UsageError(f"{judge}: {path!r} does not say where a field comes from", fix=fix)
    return steps


def _at(root: str, rest: Steps, answer: JudgedOutput, case: GoldenCase) -> JSON | MissingValue:
    match root:
        case "inputs":
            return value_at(case.inputs, rest)
        case "expected":
            part = value_at(case.expected, rest)
            return MISSING if part is None else part
        case _:
            if not rest:
                return answer.text if answer.text is not None else MISSING
            whole = answer.json
            return MISSING if isinstance(whole, JsonFault) else value_at(whole, rest)


def _of_that_name(name: str, completion: Completion, case: GoldenCase) -> JSON:  # noqa: PLR0911
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
    """The messages of users and of the model that have text, with the calls made for each."""
    from regauge.providers import Conversation, text_of

    turns: list[dict[str, JSON]] = []
    for turn in Conversation(completion).turns:
        users = [message for message in turn.messages if message.get("role") == "user"]
        asked: list[dict[str, JSON]] = [
            {"role": "user", "content": text} for message in users if (text := text_of(message))
        ]
        turns += asked
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
    if isinstance(value, JsonFault):
        return {"arguments": text}
    return value if isinstance(value, Mapping) else {"arguments": value}


def _shape(name: str, value: JSON) -> JSON:
    """A text where deepeval wants one, a list of texts where it wants that."""
    if name in METRICS.words("text_fields"):
        return _text(value)
    if name in _LISTS:
        many = isinstance(value, Sequence) and not isinstance(value, str)
        parts = cast("Sequence[JSON]", value) if many else [value]
        return [_text(part) for part in parts]
    return value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else canonical_json(value)
