"""The protocol of proposers, their input and output, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from regauge.errors import UsageError
from regauge.on_demand import GROUPS, load_point, registered_points
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion, CompletionRequest, ModelId
    from regauge.refine.analysis import Check, FailureMode
    from regauge.refine.attempts import Attempt
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.guards import OpenSection
    from regauge.refine.loop._state import Critique, Interrupted, TrialResults


class ModelCaller(Protocol):
    """Sends one request to a model: recorded, budgeted, retried and counted."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """Return the model's response."""
        ...

    def forget(self, request: CompletionRequest) -> None:
        """Drop an unreadable response, so that a later run gets another one."""
        ...


RunTrials: TypeAlias = (
    "Callable[[PromptText, Sequence[str]], Coroutine[Any, Any, TrialResults | Interrupted]]"
)
"""Runs one trial per case with a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One pair of an input and a correct output from the pool of examples, never a golden case."""

    id: str
    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedCase:
    """One train case, as far as a proposer may see it.

    Attributes:
        inputs: The values by the names of the prompt's inputs; long ones are cut.
        output: The text of the completion.
        expected: The expected output, with a placeholder for each value unless values are shown.
        reason: The reason of the failure; empty if it passed.
    """

    inputs: Mapping[str, str]
    output: str
    expected: JSON
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The failures, with all that a proposer may know about them; without held-out cases.

    Attributes:
        text: The current prompt.
        check: The failing check.
        failing: Some cases that fail it, each of another kind if there are several.
        passing: Some that pass it, the most similar to the failing ones.
        confusions: Pairs of expected value and output with their number in failing trials, by
            field; only for allowed values in the prompt or its schema.
        lessons: Earlier edits for the check, with their results.
        released: Texts of earlier versions, the newest first.
        examples: The pool of examples.
        candidates: The number of edits to propose.
        model_calls: The most calls of a model.
        replaceable: The sections that an edit may replace as a whole.
        feedback: Remarks of users on the check: hints, and never instructions.
        cases: The names of cases for trials of a search, failing ones first.
        run_trials: Runs one trial of each of some cases with another text, for proposers that
            search. Its results select edits and are not evidence.
        calls: The most trials of a search.
    """

    text: PromptText
    mode: FailureMode
    check: Check
    checks: Mapping[str, Check]
    failing: tuple[RedactedCase, ...] = ()
    passing: tuple[RedactedCase, ...] = ()
    confusions: tuple[tuple[str, int], ...] = ()
    lessons: tuple[Attempt, ...] = ()
    critique: Critique | None = None
    released: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    cycle: int = 1
    candidates: int = 4
    model_calls: int = 40
    replaceable: tuple[OpenSection, ...] = ()
    feedback: tuple[FeedbackRemark, ...] = ()
    cases: tuple[str, ...] = ()
    run_trials: RunTrials | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideas:
    """The edits of a proposer.

    Attributes:
        refused: The reasons why others could not be used.
        unread: The number of unreadable responses of a model among those.
    """

    edits: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerContext:
    """The settings of a proposer.

    Attributes:
        model: The refiner model, for proposers that call one.
        seed: Another seed gets other responses.
        temperature: The temperature of every request; None for the default of each step.
        max_tokens: The limit of every response; None for the default of each step.
        context_tokens: The limit of a request and its response together; None for no limit.
    """

    model: ModelId
    seed: int = 0
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None


class Proposer(Protocol):
    """Anything that can propose edits; implement it, do not subclass it.

    All proposals have to pass the same guards and tests. A proposer's own assessment of its work
    counts for nothing.
    """

    @property
    def name(self) -> str:
        """The name for `--proposers`."""
        ...

    @property
    def calls_model(self) -> bool:
        """Return whether it makes model calls; if so, `criticise` is called first."""
        ...

    async def criticise(self, problem: Problem, call_model: ModelCaller) -> Critique | None:
        """A hypothesis about the failures, or None."""
        ...

    async def propose(self, problem: Problem, call_model: ModelCaller) -> Ideas:
        """Edits that may fix the failures."""
        ...


ProposerFactory: TypeAlias = "Callable[[ProposerContext], Proposer]"


def proposer_names() -> tuple[str, ...]:
    """The names of all proposers."""
    registered_names = set(registered_points(GROUPS["proposer"]))
    return (*_own_proposers(), *sorted(registered_names - set(_own_proposers())))


def load_proposers(names: Sequence[str], context: ProposerContext) -> Mapping[str, Proposer]:
    """Proposers by name, in the given order."""
    factories = _own_proposers()
    return {name: (factories.get(name) or _load(name))(context) for name in names}


def _own_proposers() -> Mapping[str, ProposerFactory]:
    from regauge.refine.proposers._rules import ExampleProposer, RuleProposer
    from regauge.refine.proposers.model import ModelForm, ModelProposer

    return {
        "rules": lambda _: RuleProposer(),
        "model": lambda context: ModelProposer(
            model=context.model,
            seed=context.seed,
            form=ModelForm(
                temperature=context.temperature,
                max_tokens=context.max_tokens,
                context_tokens=context.context_tokens,
            ),
        ),
        "examples": lambda _: ExampleProposer(),
    }


def _load(name: str) -> ProposerFactory:
    point = registered_points(GROUPS["proposer"]).get(name)
    if point is None:
        names = proposer_names()
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise UsageError(f"no proposer {name!r}; {hint}")
    factory: ProposerFactory = load_point(point, "proposer")
    return factory
