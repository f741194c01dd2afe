"""The refinement loop without I/O: `wanted` says what a state asks for, `advance` what follows.

    (look) -> baseline -> (localise) -> (release) -> (critique) -> propose -> screen -> confirm
    confirm -> accepted? next cycle : next cluster
    no cluster is left -> (unsteady -> propose) -> simplify -> holdout -> suite -> fresh
    fresh -> (settle) -> stopped; no goal asks for more -> (settle) -> stopped

What a state asks for is a function of the state alone, so a run that was cut off continues from its
last state and asks for the same again. `drive` performs what a state asks for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from regauge.refine.loop import (
    _goals,
    _localise,
    _plan,
    _release,
    _screening,
    _search,
    _verification,
)
from regauge.refine.loop._search import stop
from regauge.refine.loop._state import (
    Action,
    AskCritique,
    AskProposals,
    Critiqued,
    Interrupted,
    Look,
    Looked,
    MoreCalls,
    Observation,
    Proposed,
    RunSuite,
    RunTrials,
    State,
    SuiteSaid,
    TrialsDone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine.attempts import Memory
    from regauge.refine.loop._state import Draws, Phase, Setting


class IllegalTransitionError(RuntimeError):
    """A state was told something that it did not ask for: a fault of the driver."""


def begin(setting: Setting, memory: Memory | None = None) -> State:
    """The first state of a run; it stops at once where the budget does not pay for a first look."""
    looks = setting.look and setting.policy.limits.model_calls
    state = State(
        phase="look" if looks else "baseline", text=setting.base, looked=setting.looked_before
    )
    if memory is not None:
        state = replace(state, memory=memory)
    state = replace(state, memory=state.memory.with_incumbent(setting.base))
    floor = _plan.floor_calls(setting)
    if setting.policy.limits.calls < floor:
        return stop(
            state,
            "budget-too-small",
            f"{setting.policy.limits.calls} calls do not pay for one repair, which takes {floor}",
        )
    return state


def wanted(setting: Setting, state: State) -> Action | None:
    """The next action of a state; None when the run is over."""
    return None if state.phase == "stopped" else _WANTED[state.phase](setting, state)


def advance(setting: Setting, state: State, observation: Observation) -> State:
    """The state that follows; its `notes` say what was decided.

    Raises:
        IllegalTransitionError: The state did not ask for this.
    """
    state = replace(state, notes=())
    if isinstance(observation, Interrupted):
        if state.phase == "stopped":
            raise IllegalTransitionError("a run that is over cannot be interrupted")
        return _search.interrupted(state, observation)
    if isinstance(observation, MoreCalls):
        return _within_limits(setting, _given(setting, state, observation))
    kind, follow = _FOLLOWING.get(state.phase, (None, None))
    if follow is None or kind is not type(observation):
        raise IllegalTransitionError(
            f"{type(observation).__name__} does not follow the phase {state.phase!r}"
        )
    state = replace(state, spent=state.spent + observation.spent)
    return _within_limits(setting, follow(setting, state, observation))


def _given(setting: Setting, state: State, told: MoreCalls) -> State:
    """Where a run continues that stopped for want of calls, or was cut off."""
    if state.stop is not None and (state.stop.reason != "calls" or state.left is None):
        raise IllegalTransitionError("a run that is over can do nothing with more calls")
    state = state.note("more-calls", f"{told.calls} more calls", numbers={"calls": told.calls})
    granted = state.spent.total + told.calls - setting.policy.limits.calls
    phase = state.left or state.phase
    return replace(state, granted=granted, phase=phase, stop=None, left=None)


def _within_limits(setting: Setting, state: State) -> State:
    """The state, or where it leads when what it asks for cannot be paid."""
    while state.stop is None:
        action = wanted(setting, state)
        exceeded = _plan.exceeded(setting, state, action)
        if exceeded is None:
            return state
        needed = _plan.calls_needed(setting, state, action)
        state = _verification.out_of(setting, state, exceeded, needed)
    return state


def _look(setting: Setting, state: State) -> Action:
    del state
    return Look(proposer=setting.look)


def _ask_critique(setting: Setting, state: State) -> Action:
    return AskCritique(cluster=state.cluster, proposer=setting.proposers[state.tier])


def _ask_proposals(setting: Setting, state: State) -> Action:
    return AskProposals(
        cluster=state.cluster, proposer=setting.proposers[state.tier], critique=state.critique
    )


def _trials_left(setting: Setting, state: State) -> int:
    return _plan.trials_for(setting, _plan.calls_left(setting, state))


def _run_suite(setting: Setting, state: State) -> Action:
    return RunSuite(text=state.text, calls_max=_trials_left(setting, state))


_WANTED: Mapping[Phase, Callable[[Setting, State], Action]] = {
    "look": _look,
    "baseline": _plan.baseline,
    "unsteady": _search.unsteady,
    "localise": _localise.localise,
    "critique": _ask_critique,
    "propose": _ask_proposals,
    "screen": _plan.screen,
    "confirm": _plan.confirm,
    "simplify": _plan.simplify,
    "holdout": _plan.holdout,
    "suite": _run_suite,
    "fresh": _plan.fresh,
    "settle": _goals.settle,
    "release": _release.release,
}

_FOLLOWING: Mapping[Phase, tuple[type[object], Callable[[Setting, State, Any], State]]] = {
    "look": (Looked, _search.after_look),
    "baseline": (TrialsDone, _localise.after_baseline),
    "localise": (TrialsDone, _localise.after_localise),
    "unsteady": (TrialsDone, _search.after_unsteady),
    "critique": (Critiqued, _search.after_critique),
    "propose": (Proposed, _search.after_proposals),
    "screen": (TrialsDone, _screening.after_screen),
    "confirm": (TrialsDone, _screening.after_confirm),
    "simplify": (TrialsDone, _verification.after_simplify),
    "holdout": (TrialsDone, _verification.after_holdout),
    "suite": (SuiteSaid, _verification.after_suite),
    "fresh": (TrialsDone, _verification.after_fresh),
    "settle": (TrialsDone, _verification.after_settle),
    "release": (TrialsDone, _release.after_release),
}


class Workbench(Protocol):
    """The services of a run: the prompt's model and judges, proposers, and the gate.

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
    """Run until the state asks for nothing more."""
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
