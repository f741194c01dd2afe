"""Asks a proposer, counts what that takes, and stops at the limit of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.loop import Critiqued, Proposed, Spent, TrialsDone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.providers import Completion, CompletionRequest
    from regauge.refine.edits import PromptText
    from regauge.refine.loop import Interrupted
    from regauge.refine.proposers._problem import Ask, Draw, Problem, Proposer

__all__ = ["Asking", "NoCallsLeftError", "criticised", "proposed"]


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
