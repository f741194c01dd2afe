"""deepeval's metrics and test cases, made for one measurement, and run. Imports deepeval."""

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
    Turn,
)

from regauge.errors import JudgeError, UsageError
from regauge.judges._deepeval._ask import Asking, SyncInLoopError
from regauge.judges._deepeval._judge import in_own_thread, moved, part
from regauge.judges.rules._text import compiled_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from regauge.digests import JSON
    from regauge.providers import Completion


_current: Final[ContextVar[Asking | None]] = ContextVar("regauge_asking", default=None)

_FLIPPED: Final = ("HallucinationMetric", "BiasMetric", "ToxicityMetric", "MisuseMetric")


@contextmanager
def asking_through(asking: Asking) -> Generator[None]:
    """Let every metric of this context ask through `asking`, and draw lots by its seed."""
    token = _current.set(asking)
    try:
        yield
    finally:
        _current.reset(token)


class RunModel(DeepEvalBaseLLM):  # type: ignore[no-untyped-call]  # its base hooks into subclassing
    """A judge model without a state of its own, so one of it serves every metric at once.

    It overrides more than the contract wants: deepeval's own `a_generate_with_schema` asks a
    second time, without the schema, after any TypeError.
    """

    def load_model(self, *_: Any, **__: Any) -> Any:
        """Nothing: the run knows the model."""
        return None

    def get_model_name(self, *_: Any, **__: Any) -> str:
        """The model of the judge that measures now."""
        asking = _current.get()
        return asking.model_name if asking else "regauge"

    async def a_generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask."""
        return await _asking().ask(args[0], schema)

    def generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask, from a thread that may wait."""
        return _asking().ask_sync(args[0], schema)

    a_generate_with_schema = a_generate
    generate_with_schema = generate

    async def a_generate_raw_response(self, *args: Any, **_: Any) -> Any:
        """Ask for a grade and its tokens; or say, as deepeval expects, that there are none."""
        asking = _asking()
        if not asking.weighs:
            raise AttributeError("no log-probabilities")
        return _as_response(await asking.ask_grade(args[0])), None

    def generate_raw_response(self, *_: Any, **__: Any) -> Any:
        """Say, in the way deepeval expects, that there are no token log-probabilities."""
        raise AttributeError("no log-probabilities")


def _as_response(reply: Completion) -> Any:
    """A reply in the shape in which deepeval reads tokens."""
    tokens = [
        SimpleNamespace(
            token=token.token,
            logprob=token.logprob,
            top_logprobs=[SimpleNamespace(token=text, logprob=p) for text, p in token.top],
        )
        for token in reply.logprobs
    ]
    choice = SimpleNamespace(
        message=SimpleNamespace(content=reply.text), logprobs=SimpleNamespace(content=tokens)
    )
    return SimpleNamespace(choices=[choice])


def _asking() -> Asking:
    asking = _current.get()
    if asking is None:
        raise JudgeError("a metric asked its model outside a measurement", judge="deepeval")
    return asking


TEMPLATES: Final = "deepeval.metrics.base_metric.PromptMixin._get_prompt"

FENCES: Final = "what a case and a model wrote stands in fences where templates are filled"

_JUDGE_MODEL: Final = "metrics call the judge model of the run"

_ORDER: Final = "prompts are the same in every process"


def install(model: RunModel) -> None:
    """Make metrics ask `model` whatever they were given, and prompts follow from the case alone.

    Raises:
        JudgeError: The installed version of deepeval has moved what this replaces.
    """
    models = _module("metrics.utils.models")
    build = part(models, "_build_model", _JUDGE_MODEL)

    def _build_model(ignored: Any = None) -> Any:
        return (model, False) if _current.get() is not None else build(ignored)

    base = _module("metrics.base_metric")
    for name in ("model", "using_native_model", "evaluation_model", "eval_mode"):
        part(part(base, "BaseMetric", _JUDGE_MODEL), name, _JUDGE_MODEL)
    mixin = part(base, "PromptMixin", FENCES)
    fill = part(mixin, "_get_prompt", FENCES)
    if not {"method", "template_class", "multimodal", "strict"} <= set(signature(fill).parameters):
        raise moved(TEMPLATES, FENCES)
    flipped = part(
        _module("metrics.utils.metrics"),
        "_score_direction_warned",
        "its warnings would fail runs that turn warnings into errors",
    )
    arena = _module("metrics.arena_g_eval.utils")
    part(arena, "random", _ORDER)
    loops = _module("utils")
    nesting = part(loops, "nest_asyncio", "event loops of the process are not patched")
    nodes = (
        part(_module("metrics.dag.nodes"), "NonBinaryJudgementNode", _ORDER),
        part(
            _module("metrics.conversational_dag.nodes"),
            "ConversationalNonBinaryJudgementNode",
            _ORDER,
        ),
    )
    validations = [part(node, "_validate", _ORDER) for node in nodes]
    # All of it is there; from here on it is replaced.
    models._build_model = _build_model  # noqa: SLF001 - the one place where models are made
    mixin._get_prompt = _fencing(fill)  # noqa: SLF001 - the one place where templates are filled
    # These warn once per process, and projects turn warnings into errors.
    flipped.update(_FLIPPED)
    arena.random = _Draws()
    loops.nest_asyncio = _NoNesting(nesting)
    for node, validate in zip(nodes, validations, strict=True):
        node._validate = _in_order(validate)  # noqa: SLF001 - its order follows hashes
    _check_model(model)


def _check_model(model: RunModel) -> None:
    """Make a metric as metrics make others, and look at its model."""
    probe: Any = object()
    token = _current.set(probe)
    try:
        asked = _module("metrics.utils.models").initialize_model()[0]
    except Exception as error:
        raise moved("deepeval.metrics.utils.models._build_model", _JUDGE_MODEL) from error
    finally:
        _current.reset(token)
    if asked is not model:
        raise moved("deepeval.metrics.utils.models._build_model", _JUDGE_MODEL)


def _module(name: str) -> Any:
    """A module of deepeval that is changed here, which its types do not foresee."""
    try:
        return importlib.import_module(f"deepeval.{name}")
    except ModuleNotFoundError as error:
        raise moved(f"deepeval.{name}", "it replaces parts of this module") from error


def _fencing(get_prompt: Callable[..., str]) -> Callable[..., str]:
    """The way metrics fill their templates, with fences around texts of cases and models."""

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

        asking = _current.get()
        return fill(values) if asking is None else asking.fill(fill, values)

    return _get_prompt


def _in_order(validate: Callable[[Any], None]) -> Callable[[Any], None]:
    """The options of a judgement in the order its verdicts were added."""
    from pydantic import create_model

    def _validate(node: Any) -> None:
        validate(node)
        if not (hasattr(node, "_verdict_options") and hasattr(node, "_verdict_schema")):
            raise moved(f"{type(node).__name__}._verdict_options", _ORDER)
        options = [child.verdict for child in node.children]
        one_of: Any = Literal[tuple(options)]
        fields: Any = {"verdict": (one_of, ...), "reason": (str, ...)}
        node._verdict_options = options  # noqa: SLF001
        node._verdict_schema = create_model("NonBinaryJudgementVerdict", **fields)  # noqa: SLF001

    return _validate


class _Draws:
    """Stands in for the module `random` where deepeval shuffles contestants."""

    def __getattr__(self, name: str) -> Any:
        asking = _current.get()
        return getattr(asking.draws if asking else random, name)


class _NoNesting:
    """Stands in for `nest_asyncio`, which would patch the event loops of the whole process."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def apply(self, *arguments: Any) -> None:
        """Refuse within a measurement; elsewhere it is the project's own business."""
        if _current.get() is not None:
            raise SyncInLoopError
        self._inner.apply(*arguments)


_KINDS: Final = (BaseMetric, BaseConversationalMetric, BaseArenaMetric)

_ALWAYS: Final = {"async_mode": True, "verbose_mode": False, "eval_mode": "llm"}

# A pattern that needs longer backtracks without end.
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
    "tools_called",
    "expected_tools",
    "mcp_servers",
)

_CONVERSATION: Final = (
    "scenario",
    "context",
    "user_description",
    "expected_outcome",
    "metadata",
    "chatbot_role",
    "mcp_servers",
)

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
        return _private(_construct(metric, options, name=name, fields=fields))
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
    """Return whether a metric says nothing without a trace, though deepeval would let it."""
    if isinstance(metric, exported.TaskCompletionMetric):
        return False  # it takes the case itself where there is no trace
    return getattr(metric, "requires_trace", False) is True


def is_arena(metric: Any) -> bool:
    """Return whether a metric names a winner instead of giving a score."""
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
        except Exception:  # noqa: BLE001 - a metric may want to have measured first
            return True
    return outcomes != [True, False]


async def run(metric: Any, case: Any, remake: Callable[[], Any]) -> Any:
    """Measure, and return the metric that did.

    deepeval's own metrics await, but for a few that block in one place; a metric from another
    package may block anywhere. What blocks in the loop of the run starts again in a thread with a
    loop of its own, and what starts a loop in there starts again in a thread without one. What was
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
    """Do blocking work where deepeval finds a loop to run, and no other code has to close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        work()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _construct(kind: Any, options: Mapping[str, Any], *, name: str, fields: Sequence[str]) -> Any:
    if not issubclass(kind, _KINDS):
        raise UsageError(f"{name}: {kind.__name__} is no metric of deepeval")
    named = inspect.signature(kind).parameters
    arguments = {key: _option(kind, key, value) for key, value in options.items()}
    for key, value in (*_ALWAYS.items(), ("model", _model), ("name", name)):
        if key in named:
            arguments.setdefault(key, value)
    if "evaluation_params" in named and "name" in named and "evaluation_params" not in arguments:
        arguments["evaluation_params"] = _about(kind, fields)
    try:
        with suppress_bottom_up_deprecation():
            return kind(**arguments)
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(f"{name}: {kind.__name__} cannot be made: {error}") from error


def _about(kind: Any, fields: Sequence[str]) -> list[Any]:
    of_turns = _is_of_turns(kind)
    first = _ABOUT_TURNS if of_turns else _ABOUT
    parameters = {part.value for part in (MultiTurnParams if of_turns else SingleTurnParams)}
    return _params(kind, [*dict.fromkeys((*first, *(n for n in fields if n in parameters)))])


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
            parts = cast("list[dict[str, Any] | Rubric]", value)
            return [Rubric(**part) if isinstance(part, dict) else part for part in parts]
        case "available_tools" if value:
            return _tool_calls(value)
        case "dag" if isinstance(value, Mapping):
            graphs: Any = exported.DeepAcyclicGraph
            graph = dict(cast("Mapping[str, Any]", value))
            return graphs.from_dict(graph, multiturn=_is_of_turns(kind))
        case _:
            return value


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
            private = [_private(part) if isinstance(part, _KINDS) else part for part in parts]
            setattr(own, name, private)
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


def _single_turn(fields: Mapping[str, JSON]) -> LLMTestCase:
    """A test case of one question and one answer."""
    case_fields: dict[str, Any] = {"input": "", **_convert(fields, _SINGLE)}
    made: Any = LLMTestCase(**case_fields)
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
    last = _convert(fields, _OF_THE_ANSWER)
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
    made = ConversationalTestCase(turns=turns, **_convert(fields, _CONVERSATION))
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
    tools: list[Any] = [{"name": tool} if isinstance(tool, str) else tool for tool in _many(value)]
    return [tool if isinstance(tool, ToolCall) else ToolCall(**tool) for tool in tools]


def _turn(value: object) -> Turn:
    parts: dict[str, Any] = dict(cast("Mapping[str, Any]", value))
    if parts.get("tools_called") is not None:
        parts["tools_called"] = _tool_calls(parts["tools_called"])
    return Turn(**parts)


def _convert(fields: Mapping[str, JSON], names: Sequence[str]) -> dict[str, Any]:
    """Fields of a case as deepeval takes them."""
    case_fields: dict[str, Any] = {name: fields[name] for name in names if name in fields}
    for name in {"tools_called", "expected_tools"} & case_fields.keys():
        case_fields[name] = _tool_calls(case_fields[name])
    if "mcp_servers" in case_fields:
        case_fields["mcp_servers"] = [
            MCPServer(**entry) for entry in _many(case_fields["mcp_servers"])
        ]
    return case_fields


def _many(value: object) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(cast("Sequence[object]", value))
    return [value]


LOADED: Final = True
"""The last name of this module, so that a thread that sees it can use all the others."""
