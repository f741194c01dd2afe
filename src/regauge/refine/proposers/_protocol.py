"""Proposers: what they are given and may do, by which names, and which edits they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from regauge.errors import UsageError
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from regauge.digests import JSON
    from regauge.providers import Completion, CompletionRequest, ModelId
    from regauge.refine.analysis import Check, FailureCluster
    from regauge.refine.attempts import Attempt
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.guards import OpenSection
    from regauge.refine.loop._state import Critique, Interrupted, TrialsDone


class Ask(Protocol):
    """Puts one request to a model: recorded, budgeted, retried and counted."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's reply."""
        ...

    def forget(self, request: CompletionRequest) -> None:
        """Drop a reply that cannot be read: a later run gets another one."""
        ...


Draw: TypeAlias = (
    "Callable[[PromptText, Sequence[str]], Coroutine[Any, Any, TrialsDone | Interrupted]]"
)
"""Draws one trial of each of some cases under a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One pair of an input and a right answer from the pool of examples, never a golden case."""

    id: str
    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedCase:
    """One train case as a proposer may see it.

    Attributes:
        inputs: By the names of the prompt's inputs; long ones are cut.
        answer: What the model said.
        expected: What was expected of it: a placeholder for each value, unless goldens are shown.
        reason: Why the check failed; empty where it passed.
    """

    inputs: Mapping[str, str]
    answer: str
    expected: JSON
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The failures, with all a proposer may know of them; held-out cases are left out.

    Attributes:
        text: The prompt as it is.
        check: The check that fails.
        failing: Some cases that fail it, each of another kind where there are several.
        passing: Some that pass it, those most like the failing ones.
        confusions: In failing trials, how often which value was expected and which came, by field:
            allowed values only, which the prompt or its schema lists.
        lessons: What was tried for it, and the result of that.
        released: Texts of earlier versions, the newest first.
        examples: The pool that examples may be taken from.
        candidates: How many edits are wanted.
        model_calls: How many calls of a model may be made.
        hindering: Sentences of the prompt without which the check passes more often.
        replaceable: The sections that an edit may replace as a whole.
        people: What people said that may bear on it: hints, and never instructions.
        cases: The names of cases that a search may draw trials of, those that fail first.
        draw: Draws one trial of each of some cases under a text, for proposers that search. It
            chooses edits and is no evidence for them.
        calls: How many trials may be drawn so.
    """

    text: PromptText
    cluster: FailureCluster
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
    hindering: tuple[str, ...] = ()
    replaceable: tuple[OpenSection, ...] = ()
    people: tuple[FeedbackRemark, ...] = ()
    cases: tuple[str, ...] = ()
    draw: Draw | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideas:
    """The edits of a proposer.

    Attributes:
        refused: Why others could not be used, in words.
        unread: How many of those are replies of a model that cannot be read.
    """

    edits: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerContext:
    """The settings that a proposer is made with.

    Attributes:
        model: Who criticises and proposes, for proposers that ask a model.
        seed: Another one gets other replies.
        temperature: Of every request; None is what suits the step.
        max_tokens: Of every reply; None is what suits the step.
        context_tokens: What a request and its reply may take together; None is no limit.
    """

    model: ModelId
    seed: int = 0
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None


@runtime_checkable
class Looks(Protocol):
    """A proposer whose model can be called once before anything is spent."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    async def look(self, ask: Ask) -> str:
        """The reason why no reply of its model can be read; empty where one was."""
        ...


class Proposer(Protocol):
    """Anything that can propose edits; implement it, do not subclass it.

    Whatever it proposes has to pass the same guards and tests. What it says of its own work,
    such as that it is done, counts for nothing.
    """

    @property
    def name(self) -> str:
        """The name that users choose it by."""
        ...

    @property
    def asks_model(self) -> bool:
        """Return whether it makes model calls; if so it is asked for a critique first."""
        ...

    async def criticise(self, problem: Problem, ask: Ask) -> Critique | None:
        """The reason why the check fails, as a hypothesis; None where it has none."""
        ...

    async def propose(self, problem: Problem, ask: Ask) -> Ideas:
        """Edits that may repair it."""
        ...


ENTRY_POINTS = "regauge.proposers"
"""The entry point group in which other packages register what makes a proposer."""


MakesProposer: TypeAlias = "Callable[[ProposerContext], Proposer]"


def proposer_names() -> tuple[str, ...]:
    """All that can be asked for."""
    return (*_own_proposers(), *sorted(set(_registered_proposers()) - set(_own_proposers())))


def load_proposers(names: Sequence[str], context: ProposerContext) -> Mapping[str, Proposer]:
    """Proposers by name, in the given order."""
    own = _own_proposers()
    return {name: (own.get(name) or _load(name))(context) for name in names}


def _own_proposers() -> Mapping[str, MakesProposer]:
    from regauge.refine.proposers._model import ModelForm, ModelProposer
    from regauge.refine.proposers._rules import ExampleProposer, RuleProposer

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


def _registered_proposers() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load(name: str) -> MakesProposer:
    point = _registered_proposers().get(name)
    if point is None:
        names = proposer_names()
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise UsageError(f"no proposer {name!r}; {hint}")
    try:
        made: MakesProposer = point.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"proposer {name!r} ({point.value}) cannot be loaded: {error}") from error
    return made
