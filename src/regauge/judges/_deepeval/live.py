"""Creates and runs deepeval's metrics and test cases; imports deepeval."""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import random
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import deepeval.metrics as exported
from deepeval.config.eval_mode import EvalMode
from deepeval.errors import MissingTestCaseParamsError
from deepeval.metrics import BaseArenaMetric, BaseConversationalMetric, BaseMetric
from deepeval.metrics.dag.utils import copy_graph, suppress_bottom_up_deprecation
from deepeval.metrics.g_eval import Rubric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import (
    ArenaTestCase,
    Contestant,
    ConversationalTestCase,
    LLMTestCase,
    MCPServer,
    MultiTurnParams,
    SingleTurnParams,
    ToolCall,
    ToolCallParams,
    Turn,
)

from regauge.errors import JudgeError, UsageError
from regauge.judges._deepeval import METRICS
from regauge.judges._deepeval._judge import in_own_thread, moved_error, require_part
from regauge.judges._deepeval._requests import MetricCalls, SyncInLoopError
from regauge.judges.rules._text import compiled_pattern, within_time
from regauge.strict_json import as_list

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from regauge.digests import JSON
    from regauge.providers import Completion


_current: Final[ContextVar[MetricCalls | None]] = ContextVar("regauge_metric_calls", default=None)


@contextmanager
def route_calls(metric_calls: MetricCalls) -> Generator[None]:
    """Route the model calls and random numbers of all metrics in this context to `metric_calls`."""
    token = _current.set(metric_calls)
    try:
        yield
    finally:
        _current.reset(token)


class RunModel(DeepEvalBaseLLM):  # type: ignore[no-untyped-call]  # its base hooks into subclassing
    """A judge model without state, shared by all metrics.

    It overrides more than required: deepeval's own `a_generate_with_schema` repeats a call without
    the schema after any TypeError.
    """

    def load_model(self, *_: Any, **__: Any) -> Any:
        """Do nothing: the run has the model."""
        return None

    def get_model_name(self, *_: Any, **__: Any) -> str:
        """The model of the current measurement."""
        metric_calls = _current.get()
        return metric_calls.model_name if metric_calls else "regauge"

    async def a_generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Call the model."""
        return await _current_calls().complete(args[0], schema)

    def generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Call the model, from a thread that may block."""
        return _current_calls().complete_sync(args[0], schema)

    a_generate_with_schema = a_generate
    generate_with_schema = generate

    async def a_generate_raw_response(self, *args: Any, **_: Any) -> Any:
        """Call the model for a grade with its tokens; raise deepeval's error without them."""
        metric_calls = _current_calls()
        if not metric_calls.uses_logprobs:
            raise AttributeError("no log-probabilities")
        return _as_response(await metric_calls.complete_grade(args[0])), None

    def generate_raw_response(self, *_: Any, **__: Any) -> Any:
        """Raise deepeval's error for missing log-probabilities."""
        raise AttributeError("no log-probabilities")


def _as_response(response: Completion) -> Any:
    """A completion as the object from which deepeval reads tokens."""
    tokens = [
        SimpleNamespace(
            token=token.token,
            logprob=token.logprob,
            top_logprobs=[SimpleNamespace(token=text, logprob=p) for text, p in token.top],
        )
        for token in response.logprobs
    ]
    choice = SimpleNamespace(
        message=SimpleNamespace(content=response.text), logprobs=SimpleNamespace(content=tokens)
    )
    return SimpleNamespace(choices=[choice])


def _current_calls() -> MetricCalls:
    metric_calls = _current.get()
    if metric_calls is None:
        raise JudgeError("a metric called its model outside a measurement", judge="deepeval")
    return metric_calls


TEMPLATES: Final = "deepeval.metrics.base_metric.PromptMixin._get_prompt"

FENCES: Final = "templates put fences around texts of cases and models"

_JUDGE_MODEL: Final = "metrics call the judge model of the run"

_ORDER: Final = "prompts are the same in every process"

_NO_WARNINGS: Final = "its warnings would fail runs that turn warnings into errors"

_NODES: Final = (
    ("metrics.dag.nodes", "NonBinaryJudgementNode"),
    ("metrics.conversational_dag.nodes", "ConversationalNonBinaryJudgementNode"),
)


def install(model: RunModel) -> None:
    """Make all metrics call `model`, and make prompts depend on the case alone.

    Raises:
        JudgeError: The installed version of deepeval has moved a replaced part.
    """
    build = _require("metrics.utils.models", "_build_model", _JUDGE_MODEL)

    def _build_model(ignored: Any = None) -> Any:
        return (model, False) if _current.get() is not None else build(ignored)

    for name in ("model", "using_native_model", "evaluation_model", "eval_mode"):
        _require("metrics.base_metric", f"BaseMetric.{name}", _JUDGE_MODEL)
    fill = _require("metrics.base_metric", "PromptMixin._get_prompt", FENCES)
    if not {"method", "template_class", "multimodal", "strict"} <= set(signature(fill).parameters):
        raise moved_error(TEMPLATES, FENCES)
    flipped = _require("metrics.utils.metrics", "_score_direction_warned", _NO_WARNINGS)
    _require("metrics.arena_g_eval.utils", "random", _ORDER)
    nesting = _require("utils", "nest_asyncio", "event loops of the process are not patched")
    nodes = [_require(*place, _ORDER) for place in _NODES]
    validations = [require_part(node, "_validate", _ORDER) for node in nodes]
    # All parts exist; now they are replaced.
    _module("metrics.utils.models")._build_model = _build_model  # noqa: SLF001 - the one place where models are made
    mixin = _module("metrics.base_metric").PromptMixin
    mixin._get_prompt = _fence_template(fill)  # noqa: SLF001 - the one place where templates are filled
    # These warn once per process, and projects turn warnings into errors.
    flipped.update(("HallucinationMetric", "BiasMetric", "ToxicityMetric", "MisuseMetric"))
    _module("metrics.arena_g_eval.utils").random = _SeededRandom()
    _module("utils").nest_asyncio = _NoNesting(nesting)
    for node, validate in zip(nodes, validations, strict=True):
        node._validate = _order_options(validate)  # noqa: SLF001 - its order follows hashes
    _check_model(model)


def _check_model(model: RunModel) -> None:
    """Check that a metric created by another metric has the model."""
    probe: Any = object()
    token = _current.set(probe)
    try:
        metric_model = _module("metrics.utils.models").initialize_model()[0]
    except Exception as error:
        raise moved_error("deepeval.metrics.utils.models._build_model", _JUDGE_MODEL) from error
    finally:
        _current.reset(token)
    if metric_model is not model:
        raise moved_error("deepeval.metrics.utils.models._build_model", _JUDGE_MODEL)


def _module(name: str) -> Any:
    """Import a module of deepeval, untyped so that its parts can be replaced."""
    try:
        return importlib.import_module(f"deepeval.{name}")
    except ModuleNotFoundError as error:
        raise moved_error(f"deepeval.{name}", "it replaces parts of this module") from error


def _require(module: str, path: str, purpose: str) -> Any:
    """Return an undocumented part of a module of deepeval, by its path.

    Raises:
        JudgeError: The installed version does not have it there.
    """
    part = _module(module)
    for name in path.split("."):
        part = require_part(part, name, purpose)
    return part


def _fence_template(get_prompt: Callable[..., str]) -> Callable[..., str]:
    """Wrap the function that fills templates, to fence untrusted texts."""

    def _get_prompt(
        metric: Any,
        method: str,
        *,
        template_class: str | None = None,
        multimodal: bool = False,
        strict: bool = True,
        **values: Any,
    ) -> str:
        def fill(arguments: Mapping[str, Any]) -> str:
            return get_prompt(
                metric,
                method,
                template_class=template_class,
                multimodal=multimodal,
                strict=strict,
                **arguments,
            )

        metric_calls = _current.get()
        return fill(values) if metric_calls is None else metric_calls.fill(fill, values)

    return _get_prompt


def _order_options(validate: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a node's validation, to keep its options in the order of its verdicts."""
    from pydantic import create_model

    def _validate(node: Any) -> None:
        validate(node)
        if not (hasattr(node, "_verdict_options") and hasattr(node, "_verdict_schema")):
            raise moved_error(f"{type(node).__name__}._verdict_options", _ORDER)
        options = [child.verdict for child in node.children]
        one_of: Any = Literal[tuple(options)]
        fields: Any = {"verdict": (one_of, ...), "reason": (str, ...)}
        node._verdict_options = options  # noqa: SLF001
        node._verdict_schema = create_model("NonBinaryJudgementVerdict", **fields)  # noqa: SLF001

    return _validate


class _SeededRandom:
    """Replaces the module `random` where deepeval shuffles contestants."""

    def __getattr__(self, name: str) -> Any:
        metric_calls = _current.get()
        return getattr(metric_calls.rng if metric_calls else random, name)


class _NoNesting:
    """Replaces `nest_asyncio`, which would patch the event loops of the whole process."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def apply(self, *arguments: Any) -> None:
        """Raise an error within a measurement; otherwise apply the patch."""
        if _current.get() is not None:
            raise SyncInLoopError
        self._inner.apply(*arguments)


_KINDS: Final = (BaseMetric, BaseConversationalMetric, BaseArenaMetric)

_ALWAYS: Final = {"async_mode": True, "verbose_mode": False, "eval_mode": "llm"}

# A pattern that needs longer backtracks without end.
_PATTERN_S: Final = 1.0

_ABOUT: Final = ("input", "actual_output")


_TRACE: Final = "metrics of agents read the trace there"

_model: Final = RunModel()

install(_model)


def make_metric(
    metric: Any, options: Mapping[str, Any], *, name: str, fields: Sequence[str]
) -> Any:
    """Create a metric for one measurement.

    Args:
        metric: deepeval's name for it, its class, a factory, or a metric to copy.
        options: The arguments of its class.
        name: The name of the judge, for metrics that require one.
        fields: The fields that the eval declares.

    Raises:
        UsageError: It is not a metric, or cannot be created with these options.
    """
    if isinstance(metric, str):
        metric = getattr(exported, metric)
    if isinstance(metric, type):
        return _copy_metric(_construct(metric, options, name=name, fields=fields))
    if isinstance(metric, _KINDS):
        return _copy_metric(metric)
    instance = cast("Callable[..., object]", metric)(**options)
    if not isinstance(instance, _KINDS):
        message = f"the metric's factory returned {instance!r}, which is not a metric"
        raise UsageError(f"{name}: {message}")
    return _copy_metric(instance)


def make_test_case(metric: Any, fields: Mapping[str, JSON]) -> Any:
    """Create the test case for a kind of metric."""
    if isinstance(metric, BaseConversationalMetric):
        return _conversation(fields)
    # Task completion uses the case itself without a trace.
    wants_trace = getattr(metric, "requires_trace", False) is True
    wants_trace = wants_trace and not isinstance(metric, exported.TaskCompletionMetric)
    if wants_trace and "trace" not in fields:
        raise MissingTestCaseParamsError(f"'trace' cannot be None for {metric.__name__!r}")
    required: object = getattr(metric, "_required_params", None)
    if isinstance(required, list) and SingleTurnParams.TOOLS_CALLED in required:
        # A model that calls no tool is wrong, not unmeasured.
        fields = {"tools_called": [], **fields}
    return _arena_case(fields) if is_arena(metric) else _single_turn(fields)


def is_arena(metric: Any) -> bool:
    """Return whether a metric selects a winner instead of a score."""
    return isinstance(metric, BaseArenaMetric)


def higher_is_better(metric: Any) -> bool:
    """The direction of the score, from the metric's own definition of success."""
    if is_arena(metric):
        return True
    probe = copy.copy(metric)
    probe.error = None
    probe.threshold = 0.5
    outcomes: list[bool] = []
    for score in (0.0, 1.0):
        probe.score = score
        try:
            outcomes.append(bool(probe.is_successful()))
        except Exception:  # noqa: BLE001 - a metric may require a measurement first
            return True
    return outcomes != [True, False]


async def run_metric(metric: Any, case: Any, remake: Callable[[], Any]) -> Any:
    """Measure, and return the metric that was used.

    Most of deepeval's metrics await; some of them, and metrics from other packages, may block. A
    metric that blocks the run's loop is restarted in a thread with its own loop. If it starts
    another loop there, it is restarted in a thread without one. Repeated calls get the same
    completions.
    """
    if type(metric).__module__.partition(".")[0] == "deepeval":
        try:
            await _call(metric.a_measure, case)
        except SyncInLoopError:
            metric = remake()
        else:
            return metric
    if _is_async(metric):
        waiting = metric.a_measure
        try:
            await in_own_thread(lambda: asyncio.run(_call(waiting, case)))
        except SyncInLoopError:
            metric = remake()
        else:
            return metric
    if hasattr(metric, "async_mode"):
        metric.async_mode = False
    blocking = metric.measure
    await in_own_thread(lambda: _with_idle_loop(lambda: _call(blocking, case)))
    return metric


def _is_async(metric: Any) -> bool:
    kind = cast("Any", type(metric))
    base: Any = next(base for base in _KINDS if isinstance(metric, base))
    return kind.a_measure is not base.a_measure


def _call(measure: Callable[..., Any], case: Any) -> Any:
    parameters = inspect.signature(measure).parameters
    quiet = "_show_indicator" in parameters or any(
        part.kind is part.VAR_KEYWORD for part in parameters.values()
    )
    return measure(case, _show_indicator=False) if quiet else measure(case)


def _with_idle_loop(work: Callable[[], Any]) -> None:
    """Do blocking work in a thread with an idle loop for deepeval, and close that."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        work()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _construct(kind: Any, options: Mapping[str, Any], *, name: str, fields: Sequence[str]) -> Any:
    if not issubclass(kind, _KINDS):
        raise UsageError(f"{name}: {kind.__name__} is not a metric of deepeval")
    parameters = inspect.signature(kind).parameters
    arguments = {key: _option(kind, key, value) for key, value in options.items()}
    for key, value in (*_ALWAYS.items(), ("model", _model), ("name", name)):
        if key in parameters:
            arguments.setdefault(key, value)
    if {"evaluation_params", "name"} <= {*parameters} and "evaluation_params" not in arguments:
        supported = {part.value for part in _params_of(kind)}
        about = ("role", "content") if issubclass(kind, BaseConversationalMetric) else _ABOUT
        names = (*about, *(n for n in fields if n in supported))
        arguments["evaluation_params"] = _params(kind, [*dict.fromkeys(names)])
    try:
        with suppress_bottom_up_deprecation():
            return kind(**arguments)
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(f"{name}: {kind.__name__} cannot be made: {error}") from error


def _params_of(kind: Any) -> Any:
    """The enum of the fields that a kind of metric reads, or of the parts of tool calls."""
    if kind.__name__ == "ToolCorrectnessMetric":
        return ToolCallParams
    return MultiTurnParams if issubclass(kind, BaseConversationalMetric) else SingleTurnParams


def _params(kind: Any, names: Sequence[Any]) -> list[Any]:
    values = _params_of(kind)
    return [values(name) if isinstance(name, str) else name for name in names]


def _option(kind: type, name: str, value: Any) -> Any:
    """An option of a metric, converted from plain JSON if necessary."""
    match name:
        case "evaluation_params":
            return _params(kind, value)
        case "rubric" if value:
            parts = cast("list[dict[str, Any] | Rubric]", value)
            return [Rubric(**part) if isinstance(part, dict) else part for part in parts]
        case "available_tools" if value:
            return _tool_calls(value)
        case "dag" if isinstance(value, Mapping):
            graphs: Any = exported.DeepAcyclicGraph
            graph = dict(cast("Mapping[str, Any]", value))
            return graphs.from_dict(graph, multiturn=issubclass(kind, BaseConversationalMetric))
        case _:
            return value


def _copy_metric(metric: Any) -> Any:
    """A quiet copy without shared state that calls the model of the run."""
    instance: Any = copy.copy(metric)
    instance.model = _model
    instance.using_native_model = False
    instance.evaluation_model = _model.get_model_name()
    instance.eval_mode = EvalMode.LLM
    instance.verbose_mode = False
    instance.score = instance.reason = instance.success = instance.error = None
    attributes: dict[str, object] = dict(instance.__dict__)
    for name, value in attributes.items():
        if isinstance(value, _KINDS):
            setattr(instance, name, _copy_metric(value))
        elif isinstance(value, list):
            parts = cast("list[object]", value)
            private = [_copy_metric(part) if isinstance(part, _KINDS) else part for part in parts]
            setattr(instance, name, private)
    with_pattern: Any = exported.PatternMatchMetric
    if isinstance(instance, with_pattern):
        if not hasattr(instance, "_compiled_pattern"):
            raise moved_error("PatternMatchMetric._compiled_pattern", "a pattern has a time limit")
        kind, pattern = "PatternMatch", instance.pattern
        compiled = compiled_pattern(pattern, ignore_case=instance.ignore_case, kind=kind)
        fullmatch = within_time(
            compiled.fullmatch, kind=kind, pattern=pattern, timeout_s=_PATTERN_S
        )
        # The only way to limit its time.
        instance._compiled_pattern = SimpleNamespace(fullmatch=fullmatch)  # noqa: SLF001
    if isinstance(getattr(instance, "dag", None), exported.DeepAcyclicGraph):
        instance.dag = copy_graph(instance.dag)
    return instance


def _single_turn(fields: Mapping[str, JSON]) -> LLMTestCase:
    """A test case with one input and one output."""
    case_fields: dict[str, Any] = {
        "input": "",
        **_convert(fields, "single_turn"),
    }
    test_case: Any = LLMTestCase(**case_fields)
    test_case.multimodal = False  # a text with deepeval's mark of an image is still a text
    trace = fields.get("trace")
    if isinstance(trace, Mapping):
        if "_trace_dict" not in LLMTestCase.__private_attributes__:
            raise moved_error("deepeval.test_case.LLMTestCase._trace_dict", _TRACE)
        test_case._trace_dict = dict(trace)  # noqa: SLF001 - where metrics of agents look for it
    return cast("LLMTestCase", test_case)


def _conversation(fields: Mapping[str, JSON]) -> ConversationalTestCase:
    """A conversation with the output as its last turn."""
    given_turns = _as_list(fields.get("turns"))
    answer = str(fields.get("actual_output", ""))
    last = _convert(fields, "last_turn")
    tool_calls: object = fields.get("tools_called")
    if given_turns and (given_turns[-1].get("role"), given_turns[-1].get("content")) == (
        "assistant",
        answer,
    ):
        # A complete conversation, whose turns have their own calls.
        tool_calls = given_turns.pop().get("tools_called")
    if tool_calls is not None:
        last["tools_called"] = _tool_calls(tool_calls)
    turns = [_turn(turn) for turn in given_turns]
    if not turns:
        turns = [Turn(role="user", content=str(fields.get("input", "")))]
    turns.append(Turn(role="assistant", content=answer, **last))
    test_case = ConversationalTestCase(turns=turns, **_convert(fields, "conversation"))
    test_case.multimodal = False  # as above
    return test_case


def _arena_case(fields: Mapping[str, JSON]) -> ArenaTestCase:
    """The output and the competing text, for the same input."""
    rival = {**fields, "actual_output": fields.get("against")}
    return ArenaTestCase(
        contestants=[
            Contestant(name="answer", test_case=_single_turn(fields)),
            Contestant(name="against", test_case=_single_turn(rival)),
        ]
    )


def _tool_calls(value: object) -> list[ToolCall]:
    """Tool calls from names, or from objects with deepeval's keys."""
    tools: list[Any] = [
        {"name": tool} if isinstance(tool, str) else tool for tool in _as_list(value)
    ]
    return [tool if isinstance(tool, ToolCall) else ToolCall(**tool) for tool in tools]


def _turn(value: object) -> Turn:
    parts: dict[str, Any] = dict(cast("Mapping[str, Any]", value))
    if parts.get("tools_called") is not None:
        parts["tools_called"] = _tool_calls(parts["tools_called"])
    return Turn(**parts)


def _convert(fields: Mapping[str, JSON], part: str) -> dict[str, Any]:
    """Fields of a case as arguments for a part of deepeval's test cases, such as `single_turn`."""
    names: list[str] = METRICS.entry(part).split()
    case_fields: dict[str, Any] = {name: fields[name] for name in names if name in fields}
    for name in {"tools_called", "expected_tools"} & case_fields.keys():
        case_fields[name] = _tool_calls(case_fields[name])
    if "mcp_servers" in case_fields:
        case_fields["mcp_servers"] = [
            MCPServer(**entry) for entry in _as_list(case_fields["mcp_servers"])
        ]
    return case_fields


def _as_list(value: object) -> list[Any]:
    return [] if value is None else as_list(value)


LOADED: Final = True
"""The last name of this module: if it exists, all others do."""
