"""What a proposer is told and what it may do: `Problem`, `Proposer`, `Ask`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from regauge.providers import Completion, CompletionRequest

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.providers import ModelId
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.evidence import Check, Cluster
    from regauge.refine.guards import OpenSection
    from regauge.refine.loop import Critique, Interrupted, TrialsDone
    from regauge.refine.memory import Tried
    from regauge.refine.people import Evidence

__all__ = ["Ask", "Draw", "Example", "Ideas", "Problem", "Proposer", "ProposerContext", "Shown"]

Ask: TypeAlias = Callable[[CompletionRequest], Awaitable[Completion]]
"""Puts one request to a model; recorded, budgeted and retried by whoever gives it."""

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
class Shown:
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
    """What fails, with everything a proposer may know of it. Nothing of it is of the holdout.

    Attributes:
        text: The prompt as it is.
        check: The check that fails.
        failing: Some cases that fail it.
        passing: Some that pass it.
        lessons: What was tried for it, and what became of that.
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
    cluster: Cluster
    check: Check
    checks: Mapping[str, Check]
    failing: tuple[Shown, ...] = ()
    passing: tuple[Shown, ...] = ()
    lessons: tuple[Tried, ...] = ()
    critique: Critique | None = None
    released: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    cycle: int = 1
    candidates: int = 4
    model_calls: int = 40
    hindering: tuple[str, ...] = ()
    replaceable: tuple[OpenSection, ...] = ()
    people: tuple[Evidence, ...] = ()
    cases: tuple[str, ...] = ()
    draw: Draw | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideas:
    """What a proposer came with; `refused` says in words what of it could not be read."""

    edits: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerContext:
    """What a proposer is made with.

    Attributes:
        model: Who criticises and proposes, for proposers that ask a model.
        verify: Let the model answer independent questions on each edit before it is tried.
    """

    model: ModelId
    seed: int = 0
    verify: bool = False


class Proposer(Protocol):
    """Anything that can propose edits; implement it, do not subclass it.

    Whatever it proposes has to pass the same guards and tests. What it says of its own work,
    such as that it is done, counts for nothing.
    """

    @property
    def name(self) -> str:
        """What people choose it by."""
        ...

    @property
    def asks_model(self) -> bool:
        """Whether it makes model calls; if so it is asked for a critique first."""
        ...

    async def criticise(self, problem: Problem, ask: Ask) -> Critique | None:
        """Why the check fails, as a hypothesis; None where it has none."""
        ...

    async def propose(self, problem: Problem, ask: Ask) -> Ideas:
        """Edits that may repair it."""
        ...
