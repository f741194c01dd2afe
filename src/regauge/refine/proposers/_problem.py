"""What a proposer is told and what it may do: `Problem`, `Proposer`, `Ask`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from regauge.providers import Completion, CompletionRequest
from regauge.refine._plan import floor_calls
from regauge.refine._state import Critiqued, Draws, Proposed, Spent, TrialsDone
from regauge.refine.proposers._masked import masked

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.refine._clusters import Check, Cluster
    from regauge.refine._edits import Edit
    from regauge.refine._memory import Tried
    from regauge.refine._state import (
        AskCritique,
        AskProposals,
        Critique,
        Interrupted,
        Setting,
        State,
    )
    from regauge.refine._text import PromptText

__all__ = [
    "Ask",
    "Asking",
    "Draw",
    "Example",
    "Ideas",
    "NoCallsLeftError",
    "Problem",
    "Proposer",
    "Shown",
    "criticised",
    "problem_of",
    "proposed",
]

Ask: TypeAlias = Callable[[CompletionRequest], Awaitable[Completion]]
"""Puts one request to a model; recorded, budgeted and retried by whoever gives it."""

Draw: TypeAlias = (
    "Callable[[PromptText, Sequence[str]], Coroutine[Any, Any, TrialsDone | Interrupted]]"
)
"""Draws one trial of each of some cases under a text."""

_FAILING_SHOWN = 3
_PASSING_SHOWN = 2
# Trials that a search draws have numbers of their own: they choose, so they prove nothing.
_SEARCH_FROM = 500
_SEARCHED_MAX = 12
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


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
    cases: tuple[str, ...] = ()
    draw: Draw | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideas:
    """What a proposer came with; `refused` says in words what of it could not be read."""

    edits: tuple[Edit, ...] = ()
    refused: tuple[str, ...] = ()


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


class NoCallsLeftError(Exception):
    """The model calls of a run are used up."""


class Asking:
    """Asks, counts, and stops at the limit."""

    def __init__(self, ask: Ask, calls_max: int) -> None:
        self._ask = ask
        self._calls_max = calls_max
        self.calls = 0
        self.usd = 0.0

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's reply.

        Raises:
            NoCallsLeftError: The limit is reached.
        """
        if self.calls >= self._calls_max:
            raise NoCallsLeftError
        self.calls += 1
        completion = await self._ask(request)
        self.usd += completion.cost_usd or 0.0
        return completion

    @property
    def spent(self) -> Spent:
        """What the calls took."""
        return Spent(model_calls=self.calls, usd=self.usd)


async def criticised(proposer: Proposer, problem: Problem, ask: Ask) -> Critiqued:
    """A proposer's critique, with what it took."""
    asking = Asking(ask, problem.model_calls)
    critique = await proposer.criticise(problem, asking)
    return Critiqued(critique=critique, spent=asking.spent)


async def proposed(proposer: Proposer, problem: Problem, ask: Ask) -> Proposed:
    """A proposer's edits, with what they took."""
    asking = Asking(ask, problem.model_calls)
    drawing = None if problem.draw is None else _Drawing(problem.draw)
    ideas = await proposer.propose(replace(problem, draw=drawing), asking)
    drawn = drawing.spent if drawing is not None else Spent()
    return Proposed(edits=ideas.edits, refused=ideas.refused, spent=asking.spent + drawn)


class _Drawing:
    """Draws and counts."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.spent = Spent()

    async def __call__(self, text: PromptText, cases: Sequence[str]) -> TrialsDone | Interrupted:
        done = await self._draw(text, cases)
        if isinstance(done, TrialsDone):
            self.spent += done.spent
        return done


def problem_of(
    setting: Setting,
    state: State,
    action: AskCritique | AskProposals,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    show_goldens: bool = False,
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]] | None = None,
) -> Problem:
    """What a proposer is told when a state asks for edits.

    Args:
        setting: What the run is about; of its cases only those to train on are shown.
        state: Where the run stands.
        action: What it asks for.
        cases: By the names that the run knows them by.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool.
        show_goldens: Show what is expected as it is.
        draw: Draws trials, for proposers that search with some of their own.
    """
    from regauge.refine._clusters import Check
    from regauge.refine._state import AskProposals

    cluster = action.cluster
    failing = [case for case in cluster.failing if case in setting.train and case in cases]
    passing = [
        case
        for case in cluster.cases
        if case in setting.train and case in cases and case not in failing
    ]

    def shown(case: str) -> Shown:
        return _shown(state, cluster.check, case, cases[case], show_goldens=show_goldens)

    left = setting.policy.limits.model_calls - state.spent.model_calls
    drawn: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, wanted: Sequence[str]) -> TrialsDone | Interrupted:
        assert draw is not None
        trials: list[tuple[str, int]] = []
        for case in wanted:
            key = (text.digest, case)
            trials.append((case, setting.first_trial + _SEARCH_FROM + drawn[key]))
            drawn[key] += 1
        return await draw((Draws(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        cluster=cluster,
        check=setting.checks.get(cluster.check, Check(name=cluster.check)),
        checks=setting.checks,
        failing=tuple(shown(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(shown(case) for case in passing[:_PASSING_SHOWN]),
        lessons=state.memory.lessons(cluster.key),
        critique=action.critique if isinstance(action, AskProposals) else None,
        released=tuple(released),
        examples=tuple(examples),
        hindering=tuple(b.text for b in state.bearings if cluster.check in b.hinders),
        cycle=state.cycle,
        model_calls=max(0, left),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        draw=None if draw is None else search,
        calls=max(0, setting.policy.limits.calls - state.spent.calls - floor_calls(setting)),
    )


def _shown(state: State, check: str, name: str, case: GoldenCase, *, show_goldens: bool) -> Shown:
    from regauge.prompts import input_text

    failures = state.tally.failures(state.text.digest, name, check)
    outcomes = failures or state.tally.since(state.text.digest, name, 0)
    answer = outcomes[0].answer if outcomes else ""
    reasons = [said.reason for o in failures[:1] for said in o.checks if said.check == check]
    hide = masked(case.expected)
    if show_goldens:
        hide = masked(None)
    return Shown(
        inputs={key: _cut(input_text(value), _INPUT_CHARS) for key, value in case.inputs.items()},
        answer=_cut(hide.text(answer), _ANSWER_CHARS),
        expected=case.expected if show_goldens else hide.shape,
        reason=hide.text("; ".join(reasons)),
    )


def _cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-most // 2 :]}"
