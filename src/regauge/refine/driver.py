"""Performs what a state asks for, and writes down every step before the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

from regauge.refine.loop import (
    AskCritique,
    AskProposals,
    Look,
    RunSuite,
    RunTrials,
    advance,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.loop import (
        Action,
        Critiqued,
        Draws,
        Interrupted,
        Looked,
        Observation,
        Proposed,
        Setting,
        State,
        SuiteSaid,
        TrialsDone,
    )


class Workbench(Protocol):
    """What a run works with: a prompt's model and judges, proposers, and the gate.

    Every method may return `Interrupted` where nothing more can be drawn.
    """

    async def look(self, action: Look) -> Looked | Interrupted:
        """See whether the model that proposes can be read."""
        ...

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone | Interrupted:
        """Draw and judge trials; what could not be measured is missing from the answer."""
        ...

    async def criticise(self, state: State, action: AskCritique) -> Critiqued | Interrupted:
        """Ask why a cluster fails."""
        ...

    async def propose(self, state: State, action: AskProposals) -> Proposed | Interrupted:
        """Ask for edits."""
        ...

    async def verify(self, state: State, action: RunSuite) -> SuiteSaid | Interrupted:
        """Let the gate compare the revision with the base."""
        ...


class Trail(Protocol):
    """Where every step is written down, before the next one is taken."""

    def add(self, observation: Observation, state: State) -> None:
        """Keep what was observed and the state it led to; durable once it returns."""
        ...


async def drive(setting: Setting, state: State, bench: Workbench, trail: Trail) -> State:
    """Run until the state asks for nothing more.

    Args:
        setting: What the run is about.
        state: Where it begins, or where it was cut off.
        bench: Performs actions.
        trail: Written after each of them.

    Returns:
        The last state; its `stop` says why it is the last.
    """
    while (action := wanted(setting, state)) is not None:
        observation = await _performed(bench, state, action)
        state = advance(setting, state, observation)
        trail.add(observation, state)
    return state


async def _performed(bench: Workbench, state: State, action: Action) -> Observation:
    match action:
        case Look():
            return await bench.look(action)
        case RunTrials():
            return await bench.draw(action.draws)
        case AskCritique():
            return await bench.criticise(state, action)
        case AskProposals():
            return await bench.propose(state, action)
        case RunSuite():
            return await bench.verify(state, action)
        case _:
            assert_never(action)
