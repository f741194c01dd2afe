"""The model that deepeval's metrics ask: whoever measures right now. Imports deepeval."""

from __future__ import annotations

import importlib
import random
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from deepeval.models import DeepEvalBaseLLM

from regauge.errors import JudgeError
from regauge.judges.deepeval._ask import Asking, SyncInLoopError
from regauge.judges.deepeval._guard import moved, part

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from regauge.providers import Completion

__all__ = ["FENCES", "TEMPLATES", "RunModel", "asking_through", "install"]

_current: Final[ContextVar[Asking | None]] = ContextVar("regauge_asking", default=None)
_draws: Final[ContextVar[random.Random | None]] = ContextVar("regauge_draws", default=None)
_FLIPPED: Final = ("HallucinationMetric", "BiasMetric", "ToxicityMetric", "MisuseMetric")


@contextmanager
def asking_through(asking: Asking, *, seed: str) -> Generator[None]:
    """Let every metric of this context ask through `asking`, and draw lots by `seed`."""
    one = _current.set(asking)
    other = _draws.set(random.Random(seed))  # noqa: S311 - an order, not a secret
    try:
        yield
    finally:
        _current.reset(one)
        _draws.reset(other)


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

    async def a_generate_with_schema(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask."""
        return await _asking().ask(args[0], schema)

    async def a_generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask."""
        return await _asking().ask(args[0], schema)

    def generate_with_schema(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask, from a thread that may wait."""
        return _asking().ask_sync(args[0], schema)

    def generate(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        """Ask, from a thread that may wait."""
        return _asking().ask_sync(args[0], schema)

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

    def _build_model(given: Any = None) -> Any:
        return (model, False) if _current.get() is not None else build(given)

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
    """How metrics fill their templates, with fences around what comes from cases and models."""

    def _get_prompt(
        metric: Any,
        method: str,
        *,
        template_class: str | None = None,
        multimodal: bool = False,
        strict: bool = True,
        **given: Any,
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
        return fill(given) if asking is None else asking.fill(fill, given)

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
        return getattr(_draws.get() or random, name)


class _NoNesting:
    """Stands in for `nest_asyncio`, which would patch the event loops of the whole process."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def apply(self, *arguments: Any) -> None:
        """Refuse within a measurement; elsewhere it is the project's own business."""
        if _current.get() is not None:
            raise SyncInLoopError
        self._inner.apply(*arguments)
