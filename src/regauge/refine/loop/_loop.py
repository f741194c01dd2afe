"""The refinement loop without I/O: `next_action` returns an action, `advance` the next state.

    baseline -> (screen releases) -> (critique) -> propose -> screen -> confirm
    confirm -> accepted? next cycle : next failure mode
    no open failure mode -> (unsteady -> propose) -> holdout -> suite -> fresh
    fresh -> (settle) -> stopped; all goals met -> (settle) -> stopped

The next action depends on the state alone, so an interrupted run continues from its last state with
the same action. `drive` performs the actions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from regauge.refine.attempts import Memory
from regauge.refine.loop import _plan, _search, _verification
from regauge.refine.loop._search import stop
from regauge.refine.loop._state import (
    Action,
    CallProposer,
    CritiqueResult,
    Interrupted,
    LoopState,
    MoreCalls,
    Observation,
    ProposalResult,
    RevisionDecision,
    RunGate,
    TrialResults,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine.loop._state import LoopConfig, Phase, TrialPlan, Trials


class IllegalTransitionError(RuntimeError):
    """An observation does not fit the action of a state: an error of the driver."""


def begin(config: LoopConfig, memory: Memory | None = None) -> LoopState:
    """The first state of a run."""
    return LoopState(
        config=config,
        phase="baseline",
        text=config.base,
        holdout_looks=config.holdout_looks_before,
        memory=(memory or Memory()).with_incumbent(config.base),
    )


def next_action(state: LoopState) -> Action | None:
    """The next action of a state; None when the run is over."""
    match state.phase:
        case "stopped":
            return None
        case "critique":
            return CallProposer(
                kind="critique", proposer=state.config.proposers[state.proposer_index]
            )
        case "propose":
            return CallProposer(kind="edits", proposer=state.config.proposers[state.proposer_index])
        case "suite":
            remaining = _plan.calls_left(state)
            return RunGate(calls_max=_plan.trials_for(state.config, remaining))
        case phase:
            return _TRIALS[phase][0](state)


def advance(state: LoopState, observation: Observation) -> LoopState:
    """The state that follows an observation; its `notes` are the decisions.

    Raises:
        IllegalTransitionError: The observation does not fit the action of the state.
    """
    state = replace(state, notes=())
    if isinstance(observation, Interrupted):
        if state.phase == "stopped":
            raise IllegalTransitionError("a run that is over cannot be interrupted")
        # No proposal, as accepted edits are unverified.
        text = observation.text or "the run was stopped; resume it to continue"
        return stop(state, observation.reason, text)
    if isinstance(observation, MoreCalls):
        return _within_limits(_add_calls(state, observation))
    state = replace(state, spending=state.spending + observation.spending)
    match state.phase, observation:
        case "critique", CritiqueResult():
            state = _search.after_critique(state, observation)
        case "propose", ProposalResult():
            state = _search.after_proposals(state, observation)
        case "suite", RevisionDecision():
            state = _verification.after_suite(state, observation)
        case phase, TrialResults() if phase in _TRIALS:
            state = _TRIALS[phase][1](_count(state, observation))
        case _:
            raise IllegalTransitionError(
                f"{type(observation).__name__} does not follow the phase {state.phase!r}"
            )
    return _within_limits(state)


def _count(state: LoopState, observation: TrialResults) -> LoopState:
    """Add trials to the tallies of a state, by phase."""
    state = replace(state, problem=observation.problem or state.problem)
    if state.phase == "fresh" or (state.phase == "settle" and state.accepted):
        return replace(state, fresh=state.fresh.with_outcomes(observation.outcomes))
    if state.phase in {"confirm", "unsteady"}:
        state = replace(state, paired=state.paired.with_outcomes(observation.outcomes))
    return replace(state, tally=state.tally.with_outcomes(observation.outcomes))


def _add_calls(state: LoopState, observation: MoreCalls) -> LoopState:
    """Continue a run that was out of calls, or was interrupted."""
    if state.stop is not None and (state.stop.reason != "calls" or state.stopped_phase is None):
        raise IllegalTransitionError("a run that is over can do nothing with more calls")
    state = state.note(
        "more-calls", f"{observation.calls} more calls", numbers={"calls": observation.calls}
    )
    extra_calls = state.spending.total + observation.calls - state.config.policy.limits.calls
    phase = state.stopped_phase or state.phase
    return replace(state, extra_calls=extra_calls, phase=phase, stop=None, stopped_phase=None)


def _within_limits(state: LoopState) -> LoopState:
    """The state, or the one that follows if its action exceeds a limit."""
    while state.stop is None:
        action = next_action(state)
        exceeded = _plan.exceeded(state, action)
        if exceeded is None:
            return state
        calls = _plan.calls_needed(state, action)
        state = _verification.after_limit(state, exceeded, calls)
    return state


_Plans: TypeAlias = "Callable[[LoopState], Trials]"
_Follows: TypeAlias = "Callable[[LoopState], LoopState]"
# The trials of a phase, and what follows them.
_TRIALS: Mapping[Phase, tuple[_Plans, _Follows]] = {
    "baseline": (_plan.baseline, _search.after_baseline),
    "unsteady": (_search.unsteady, _search.after_unsteady),
    "screen": (_plan.screen, _search.after_screen),
    "confirm": (_plan.confirm, _search.after_confirm),
    "holdout": (_plan.holdout, lambda state: replace(state, phase="suite")),
    "fresh": (_plan.fresh, _verification.judge_fresh),
    "settle": (_plan.settling_trials, _verification.after_settle),
}


class Workbench(Protocol):
    """The services of a run: the prompt's model and judges, proposers, and the gate.

    Every method returns `Interrupted` if it cannot go on.
    """

    async def run_trials(self, plans: Sequence[TrialPlan]) -> TrialResults | Interrupted:
        """Run and judge trials; unmeasured ones are left out."""
        ...

    async def call_proposer(
        self, state: LoopState, action: CallProposer
    ) -> CritiqueResult | ProposalResult | Interrupted:
        """Call a proposer."""
        ...

    async def verify(self, state: LoopState, action: RunGate) -> RevisionDecision | Interrupted:
        """Compare the revision with the base by the gate."""
        ...


class Trail(Protocol):
    """The log of every step, written before the next one."""

    def add(self, observation: Observation, state: LoopState) -> None:
        """Append an observation and its state; durable on return."""
        ...


async def drive(
    state: LoopState,
    bench: Workbench,
    trail: Trail,
    listen: Callable[[LoopState], None] = lambda _: None,
) -> LoopState:
    """Run to the end.

    Args:
        state: The state to begin with.
        bench: Performs the actions.
        trail: Gets each observation.
        listen: Called with each state, once it is in the trail.
    """
    observation: Observation
    while (action := next_action(state)) is not None:
        match action:
            case tuple():
                observation = await bench.run_trials(action)
            case CallProposer():
                observation = await bench.call_proposer(state, action)
            case RunGate():
                observation = await bench.verify(state, action)
            case _:
                assert_never(action)
        state = advance(state, observation)
        trail.add(observation, state)
        listen(state)
    return state
