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
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from regauge.refine.loop import _goals, _plan, _search, _verification
from regauge.refine.loop._search import stop
from regauge.refine.loop._state import (
    Action,
    AskProposer,
    Critiqued,
    Interrupted,
    Looked,
    LoopState,
    MoreCalls,
    Observation,
    Proposed,
    RunSuite,
    SuiteSaid,
    TrialsDone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine.attempts import Memory
    from regauge.refine.loop._state import Draws, LoopConfig, Phase, Trials


class IllegalTransitionError(RuntimeError):
    """A state received an observation that it did not ask for: an error of the driver."""


def begin(setting: LoopConfig, memory: Memory | None = None) -> LoopState:
    """The first state of a run; it stops at once where the budget does not pay for a first look."""
    looks = setting.look and setting.policy.limits.model_calls
    state = LoopState(
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
            f"{setting.policy.limits.calls} calls do not pay for one fix, which takes {floor}",
        )
    return state


def next_action(setting: LoopConfig, state: LoopState) -> Action | None:
    """The next action of a state; None when the run is over."""
    match state.phase:
        case "stopped":
            return None
        case "look":
            return AskProposer(what="look", proposer=setting.look)
        case "critique":
            return AskProposer(what="critique", proposer=setting.proposers[state.tier])
        case "propose":
            return AskProposer(what="edits", proposer=setting.proposers[state.tier])
        case "suite":
            remaining = _plan.calls_left(setting, state)
            return RunSuite(calls_max=_plan.trials_for(setting, remaining))
        case phase:
            return _TRIALS[phase][0](setting, state)


def advance(setting: LoopConfig, state: LoopState, observation: Observation) -> LoopState:
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
        return _within_limits(setting, _add_calls(setting, state, observation))
    state = replace(state, spent=state.spent + observation.spent)
    match state.phase, observation:
        case "look", Looked():
            state = _search.after_look(setting, state, observation)
        case "critique", Critiqued():
            state = _search.after_critique(setting, state, observation)
        case "propose", Proposed():
            state = _search.after_proposals(setting, state, observation)
        case "suite", SuiteSaid():
            state = _verification.after_suite(setting, state, observation)
        case phase, TrialsDone() if phase in _TRIALS:
            state = _TRIALS[phase][1](setting, _count(state, observation))
        case _:
            raise IllegalTransitionError(
                f"{type(observation).__name__} does not follow the phase {state.phase!r}"
            )
    return _within_limits(setting, state)


def _count(state: LoopState, observed: TrialsDone) -> LoopState:
    """The state with further trials, as what they are evidence for."""
    if state.phase == "fresh" or (state.phase == "settle" and state.accepted):
        return replace(state, fresh=state.fresh.with_outcomes(observed.outcomes))
    if state.phase in {"confirm", "unsteady"}:
        state = replace(state, paired=state.paired.with_outcomes(observed.outcomes))
    return replace(state, tally=state.tally.with_outcomes(observed.outcomes))


def _add_calls(setting: LoopConfig, state: LoopState, observed: MoreCalls) -> LoopState:
    """Where a run continues that stopped for want of calls, or was cut off."""
    if state.stop is not None and (state.stop.reason != "calls" or state.left is None):
        raise IllegalTransitionError("a run that is over can do nothing with more calls")
    state = state.note(
        "more-calls", f"{observed.calls} more calls", numbers={"calls": observed.calls}
    )
    granted = state.spent.total + observed.calls - setting.policy.limits.calls
    phase = state.left or state.phase
    return replace(state, granted=granted, phase=phase, stop=None, left=None)


def _within_limits(setting: LoopConfig, state: LoopState) -> LoopState:
    """The state, or where it leads when what it asks for cannot be paid."""
    while state.stop is None:
        action = next_action(setting, state)
        exceeded = _plan.exceeded(setting, state, action)
        if exceeded is None:
            return state
        needed = _plan.calls_needed(setting, state, action)
        state = _verification.out_of(setting, state, exceeded, needed)
    return state


_Plans: TypeAlias = "Callable[[LoopConfig, LoopState], Trials]"
_Follows: TypeAlias = "Callable[[LoopConfig, LoopState], LoopState]"
# The trials of a phase, and what follows them.
_TRIALS: Mapping[Phase, tuple[_Plans, _Follows]] = {
    "baseline": (_plan.baseline, _search.after_baseline),
    "localise": (lambda _, state: (state.left_out[state.sentence][1],), _search.next_sentence),
    "release": (_search.release, _search.after_release),
    "unsteady": (_search.unsteady, _search.after_unsteady),
    "screen": (_plan.screen, _search.after_screen),
    "confirm": (_plan.confirm, _search.after_confirm),
    "simplify": (_plan.simplify, _verification.after_simplify),
    "holdout": (_plan.holdout, lambda _, state: replace(state, phase="suite")),
    "fresh": (_plan.fresh, _verification.judge_fresh),
    "settle": (_goals.settle, _verification.settled),
}


class Workbench(Protocol):
    """The services of a run: the prompt's model and judges, proposers, and the gate.

    Every method may return `Interrupted` where nothing more can be drawn.
    """

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone | Interrupted:
        """Draw and judge trials; what could not be measured is missing from the answer."""
        ...

    async def ask(
        self, state: LoopState, action: AskProposer
    ) -> Looked | Critiqued | Proposed | Interrupted:
        """Ask a proposer."""
        ...

    async def verify(self, state: LoopState, action: RunSuite) -> SuiteSaid | Interrupted:
        """Let the gate compare the revision with the base."""
        ...


class Trail(Protocol):
    """Where every step is written down, before the next one is taken."""

    def add(self, observation: Observation, state: LoopState) -> None:
        """Keep what was observed and the state it led to; durable once it returns."""
        ...


async def drive(setting: LoopConfig, state: LoopState, bench: Workbench, trail: Trail) -> LoopState:
    """Run until the state asks for nothing more."""
    observation: Observation
    while (action := next_action(setting, state)) is not None:
        match action:
            case tuple():
                observation = await bench.draw(action)
            case AskProposer():
                observation = await bench.ask(state, action)
            case RunSuite():
                observation = await bench.verify(state, action)
            case _:
                assert_never(action)
        state = advance(setting, state, observation)
        trail.add(observation, state)
    return state
