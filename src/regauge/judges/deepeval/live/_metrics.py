"""deepeval's metrics and test cases, made for one measurement, and run. Imports deepeval."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, cast

import deepeval.metrics as exported
from deepeval.config.eval_mode import EvalMode
from deepeval.errors import MissingTestCaseParamsError
from deepeval.metrics import BaseArenaMetric, BaseConversationalMetric, BaseMetric
from deepeval.metrics.dag.utils import copy_graph, suppress_bottom_up_deprecation
from deepeval.metrics.g_eval import Rubric
from deepeval.test_case import (
    ArenaTestCase,
    Contestant,
    ConversationalTestCase,
    LLMTestCase,
    MCPServer,
    MultiTurnParams,
    SingleTurnParams,
    ToolCall,
    Turn,
)

from regauge.errors import JudgeError, UsageError
from regauge.judges.deepeval._ask import SyncInLoopError
from regauge.judges.deepeval._guard import moved
from regauge.judges.deepeval.live._model import RunModel, install
from regauge.judges.rules._text import compiled_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON

__all__ = [
    "LOADED",
    "MissingTestCaseParamsError",
    "higher_is_better",
    "is_arena",
    "make",
    "run",
    "test_case",
]

_KINDS: Final = (BaseMetric, BaseConversationalMetric, BaseArenaMetric)
_ALWAYS: Final = {"async_mode": True, "verbose_mode": False, "eval_mode": "llm"}
_PATTERN_S: Final = 1.0
_ABOUT: Final = ("input", "actual_output")
_ABOUT_TURNS: Final = ("role", "content")
_ANSWER: Final = "answer"
_RIVAL: Final = "against"

_SINGLE: Final = (
    "input",
    "actual_output",
    "expected_output",
    "context",
    "retrieval_context",
    "metadata",
)
_CONVERSATION: Final = ("scenario", "context", "user_description", "expected_outcome", "metadata")
_OF_THE_ANSWER: Final = ("retrieval_context", "provider_transcript")
_TRACE: Final = "metrics of agents read the trace there"

_model: Final = RunModel()
install(_model)


def make(metric: Any, options: Mapping[str, Any], *, name: str, fields: Sequence[str]) -> Any:
    """A metric for one measurement, which nothing else uses.

    Args:
        metric: deepeval's name of it, its class, something that makes one, or one to copy.
        options: What its class is called with.
        name: The name of the judge, for metrics that want one.
        fields: The fields that the eval declares.

    Raises:
        UsageError: It is no metric, or it cannot be made with these options.
    """
    if isinstance(metric, str):
        metric = getattr(exported, metric)
    if isinstance(metric, type):
        return _private(_constructed(metric, options, name=name, fields=fields))
    if isinstance(metric, _KINDS):
        return _private(metric)
    made = cast("Callable[..., object]", metric)(**options)
    if not isinstance(made, _KINDS):
        raise UsageError(f"{name}: what makes the metric returned {made!r}, which is none")
    return _private(made)


def test_case(metric: Any, fields: Mapping[str, JSON]) -> Any:
    """The test case that this kind of metric wants."""
    if isinstance(metric, BaseConversationalMetric):
        return _conversation(fields)
    if _wants_trace(metric) and "trace" not in fields:
        raise MissingTestCaseParamsError(f"'trace' cannot be None for {metric.__name__!r}")
    required: object = getattr(metric, "_required_params", None)
    if isinstance(required, list) and SingleTurnParams.TOOLS_CALLED in required:
        # A model that calls no tool is wrong, not unmeasured.
        fields = {"tools_called": [], **fields}
    return _arena_case(fields) if is_arena(metric) else _single_turn(fields)


def _wants_trace(metric: Any) -> bool:
    """Whether a metric says nothing without a trace, though deepeval would let it."""
    if isinstance(metric, exported.TaskCompletionMetric):
        return False  # it takes the case itself where there is no trace
    return getattr(metric, "requires_trace", False) is True


def is_arena(metric: Any) -> bool:
    """Whether a metric names a winner instead of giving a score."""
    return isinstance(metric, BaseArenaMetric)


def higher_is_better(metric: Any) -> bool:
    """Which way the score goes, by what the metric itself calls a success."""
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
        except Exception:  # noqa: BLE001 - a metric may want to have measured first
            return True
    return outcomes != [True, False]


async def run(metric: Any, case: Any, remake: Callable[[], Any]) -> Any:
    """Measure, and return the metric that did.

    deepeval's own metrics await, but for a few that block in one place; a metric of somebody else
    may block anywhere. What blocks in the loop of the run starts anew in a thread with a loop of
    its own, and what starts a loop in there starts anew in a thread without one. Whatever was
    asked until then is asked again, and answered by what was answered then.
    """
    if type(metric).__module__.partition(".")[0] == "deepeval":
        try:
            await _call(metric.a_measure, case)
        except SyncInLoopError:
            metric = remake()
        else:
            return metric
    if _awaits(metric):
        waiting = metric.a_measure
        try:
            await _in_thread(lambda: asyncio.run(_call(waiting, case)))
        except SyncInLoopError:
            metric = remake()
        else:
            return metric
    if hasattr(metric, "async_mode"):
        metric.async_mode = False
    blocking = metric.measure
    await _in_thread(lambda: _with_idle_loop(lambda: _call(blocking, case)))
    return metric


def _awaits(metric: Any) -> bool:
    kind = cast("Any", type(metric))
    base: Any = next(base for base in _KINDS if isinstance(metric, base))
    return kind.a_measure is not base.a_measure


def _call(measure: Callable[..., Any], case: Any) -> Any:
    named = inspect.signature(measure).parameters
    quiet = "_show_indicator" in named or any(
        part.kind is part.VAR_KEYWORD for part in named.values()
    )
    return measure(case, _show_indicator=False) if quiet else measure(case)


def _with_idle_loop(work: Callable[[], Any]) -> None:
    """Do blocking work where deepeval finds a loop to run, and nobody else has to close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        work()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _in_thread(work: Callable[[], Any]) -> None:
    """Run blocking work; the thread pool of the loop would let only a few metrics run at once."""
    context = contextvars.copy_context()
    with_own_thread = ThreadPoolExecutor(1, thread_name_prefix="deepeval-metric")
    try:
        await asyncio.get_running_loop().run_in_executor(with_own_thread, context.run, work)
    finally:
        with_own_thread.shutdown(wait=False)


def _constructed(kind: Any, options: Mapping[str, Any], *, name: str, fields: Sequence[str]) -> Any:
    if not issubclass(kind, _KINDS):
        raise UsageError(f"{name}: {kind.__name__} is no metric of deepeval")
    named = inspect.signature(kind).parameters
    given = {key: _option(kind, key, value) for key, value in options.items()}
    for key, value in (*_ALWAYS.items(), ("model", _model), ("name", name)):
        if key in named:
            given.setdefault(key, value)
    if "evaluation_params" in named and "name" in named and "evaluation_params" not in given:
        given["evaluation_params"] = _about(kind, fields)
    try:
        with suppress_bottom_up_deprecation():
            return kind(**given)
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(f"{name}: {kind.__name__} cannot be made: {error}") from error


def _about(kind: Any, fields: Sequence[str]) -> list[Any]:
    if _is_of_turns(kind):
        known = {part.value for part in MultiTurnParams}
        first = _ABOUT_TURNS
    else:
        known = {part.value for part in SingleTurnParams}
        first = _ABOUT
    names = dict.fromkeys((*first, *(name for name in fields if name in known)))
    return _params(kind, list(names))


def _is_of_turns(kind: Any) -> bool:
    return issubclass(kind, BaseConversationalMetric)


def _params(kind: Any, names: Sequence[Any]) -> list[Any]:
    values: Any = MultiTurnParams if _is_of_turns(kind) else SingleTurnParams
    return [values(name) if isinstance(name, str) else name for name in names]


def _option(kind: type, name: str, value: Any) -> Any:
    """An option as the metric wants it, where an eval may write it as plain JSON."""
    match name:
        case "evaluation_params" if kind.__name__ != "ToolCorrectnessMetric":
            return _params(kind, value)
        case "rubric" if value:
            return [
                _rubric(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else part
                for part in cast("list[object]", value)
            ]
        case "available_tools" if value:
            return _tool_calls(value)
        case "dag":
            return _graph(value, multiturn=_is_of_turns(kind))
        case _:
            return value


def _rubric(part: Mapping[str, Any]) -> Rubric:
    low, high = part["score_range"]
    return Rubric(score_range=(low, high), expected_outcome=part["expected_outcome"])


def _graph(value: Any, *, multiturn: bool) -> Any:
    if not isinstance(value, Mapping):
        return value
    graphs: Any = exported.DeepAcyclicGraph
    return graphs.from_dict(dict(cast("Mapping[str, Any]", value)), multiturn=multiturn)


def _private(metric: Any) -> Any:
    """A copy that shares no state with its original, quiet, and asking the model of the run."""
    own: Any = copy.copy(metric)
    own.model = _model
    own.using_native_model = False
    own.evaluation_model = _model.get_model_name()
    own.eval_mode = EvalMode.LLM
    own.verbose_mode = False
    own.score = own.reason = own.success = own.error = None
    kept: dict[str, object] = dict(own.__dict__)
    for name, value in kept.items():
        if isinstance(value, _KINDS):
            setattr(own, name, _private(value))
        elif isinstance(value, list):
            parts = cast("list[object]", value)
            setattr(own, name, [_private_if_metric(part) for part in parts])
    with_pattern: Any = exported.PatternMatchMetric
    if isinstance(own, with_pattern):
        if not hasattr(own, "_compiled_pattern"):
            raise moved("PatternMatchMetric._compiled_pattern", "a pattern has a time limit")
        own._compiled_pattern = _LimitedPattern(own.pattern, ignore_case=own.ignore_case)  # noqa: SLF001 - the only way to stop it
    if isinstance(getattr(own, "dag", None), exported.DeepAcyclicGraph):
        own.dag = copy_graph(own.dag)
    return own


class _LimitedPattern:
    """A pattern for `PatternMatch` that takes a second at most."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._pattern = pattern
        self._compiled = compiled_pattern(pattern, ignore_case=ignore_case, kind="PatternMatch")

    def fullmatch(self, text: str) -> Any:
        """The match of a whole text.

        Raises:
            JudgeError: It takes too long.
        """
        try:
            return self._compiled.fullmatch(text, timeout=_PATTERN_S)
        except TimeoutError:
            raise JudgeError(
                f"PatternMatch: the pattern {self._pattern!r} took more than {_PATTERN_S:g} s on an"
                f" output of {len(text)} characters\n  fix: write it without nested repetition",
                judge="PatternMatch",
            ) from None


def _private_if_metric(value: object) -> object:
    return _private(value) if isinstance(value, _KINDS) else value


def _single_turn(fields: Mapping[str, JSON]) -> LLMTestCase:
    """A test case of one question and one answer."""
    given: dict[str, Any] = {name: fields[name] for name in _SINGLE if name in fields}
    given.setdefault("input", "")
    for name in ("tools_called", "expected_tools"):
        if name in fields:
            given[name] = _tool_calls(fields[name])
    if "mcp_servers" in fields:
        given["mcp_servers"] = _servers(fields["mcp_servers"])
    made: Any = LLMTestCase(**given)
    made.multimodal = False  # a text may spell deepeval's mark of an image; it stays a text
    trace = fields.get("trace")
    if isinstance(trace, Mapping):
        if "_trace_dict" not in LLMTestCase.__private_attributes__:
            raise moved("deepeval.test_case.LLMTestCase._trace_dict", _TRACE)
        made._trace_dict = dict(trace)  # noqa: SLF001 - where metrics of agents look for it
    return cast("LLMTestCase", made)


def _conversation(fields: Mapping[str, JSON]) -> ConversationalTestCase:
    """A conversation whose last turn is the answer."""
    given_turns = _many(fields.get("turns"))
    answer = str(fields.get("actual_output", ""))
    last: dict[str, Any] = {name: fields[name] for name in _OF_THE_ANSWER if name in fields}
    called: object = fields.get("tools_called")
    if given_turns and (given_turns[-1].get("role"), given_turns[-1].get("content")) == (
        "assistant",
        answer,
    ):
        # A whole conversation, whose turns have calls of their own.
        called = given_turns.pop().get("tools_called")
    if called is not None:
        last["tools_called"] = _tool_calls(called)
    turns = [_turn(turn) for turn in given_turns]
    if not turns:
        turns = [Turn(role="user", content=str(fields.get("input", "")))]
    turns.append(Turn(role="assistant", content=answer, **last))
    given: dict[str, Any] = {name: fields[name] for name in _CONVERSATION if name in fields}
    if "chatbot_role" in fields:
        given["chatbot_role"] = fields["chatbot_role"]
    if "mcp_servers" in fields:
        given["mcp_servers"] = _servers(fields["mcp_servers"])
    made = ConversationalTestCase(turns=turns, **given)
    made.multimodal = False  # as above
    return made


def _arena_case(fields: Mapping[str, JSON]) -> ArenaTestCase:
    """The answer and the text it competes with, on the same input."""
    rival = {**fields, "actual_output": fields.get("against")}
    return ArenaTestCase(
        contestants=[
            Contestant(name=_ANSWER, test_case=_single_turn(fields)),
            Contestant(name=_RIVAL, test_case=_single_turn(rival)),
        ]
    )


def _tool_calls(value: object) -> list[ToolCall]:
    """Tool calls, written as names or as objects with deepeval's keys."""
    return [_tool_call(tool) for tool in _many(value)]


def _tool_call(tool: Any) -> ToolCall:
    if isinstance(tool, ToolCall):
        return tool
    given: dict[str, Any] = {"name": tool} if isinstance(tool, str) else dict(tool)
    return ToolCall(**given)


def _turn(value: object) -> Turn:
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", value))
    if given.get("tools_called") is not None:
        given["tools_called"] = _tool_calls(given["tools_called"])
    return Turn(**given)


def _servers(value: object) -> list[MCPServer]:
    return [MCPServer(**cast("dict[str, Any]", entry)) for entry in _many(value)]


def _many(value: object) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(cast("Sequence[object]", value))
    return [value]


LOADED: Final = True
"""The last name of this module, so that whoever sees it can use all the others."""
