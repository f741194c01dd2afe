"""What a run may still spend, and what the next steps take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regauge.refine.loop._actions import Action, AskCritique, AskProposals, Look, RunTrials
from regauge.refine.loop._plan import confirm, fresh, holdout, screen

if TYPE_CHECKING:
    from regauge.refine.loop._findings import StopReason
    from regauge.refine.loop._state import Setting, State

__all__ = [
    "FRESH_LOOKS",
    "calls_left",
    "calls_max",
    "calls_needed",
    "calls_wanted",
    "cost_of_trials",
    "enough_calls",
    "exceeded",
    "floor_calls",
    "look_at",
    "repair_calls",
    "suite_calls",
    "trials_for",
]

FRESH_LOOKS = 6
"""How often fresh trials of accepted edits are looked at, at the most."""

# The gate re-draws what fails first; this is set aside for it.
_REDRAWS = 20
# A critique and four edits; more where replies have to be repeated or edits do not help.
_REFINER_CALLS = 5
# And so much for the fresh trials of every accepted edit.
_FRESH_CALLS = 40
_BEFORE_A_LOOK = frozenset({"release", "critique", "propose", "simplify", "holdout", "suite"})
_BEFORE_VERIFICATION = frozenset({"unsteady", "release", "screen", "confirm", "simplify"})


def calls_max(setting: Setting, state: State) -> int:
    """The most calls, with those that a person gave on top."""
    return setting.policy.limits.calls + state.granted


def calls_left(setting: Setting, state: State) -> int:
    """How many calls of any model may still be made."""
    return calls_max(setting, state) - state.spent.total


def cost_of_trials(setting: Setting, trials: int, check: str | None = None) -> int:
    """About how many calls some trials take, with those of LLM judges.

    Args:
        check: The only check whose LLM judge is asked; None asks all of them.
    """
    judging = setting.judging
    rate = sum(judging.values()) if check is None else judging.get(check, 0.0)
    return math.ceil(trials * (1 + rate) - 1e-9)


def trials_for(setting: Setting, calls: int) -> int:
    """How many trials, judged by all, some calls pay."""
    return int(calls / (1 + sum(setting.judging.values())))


def floor_calls(setting: Setting) -> int:
    """The fewest calls that can find a fault, repair it and verify the repair."""
    first = setting.policy.test.baseline_trials * len(setting.train)
    return cost_of_trials(setting, first) + repair_calls(setting)


def enough_calls(setting: Setting) -> int:
    """About how many calls one repair takes that its first test shows to help."""
    model = _REFINER_CALLS if setting.proposers[0] in setting.critics else 0
    return (
        floor_calls(setting)
        + _search_calls(setting, _lacking_trials(setting))
        + cost_of_trials(setting, _FRESH_CALLS)
        + model
        + bool(setting.look)
    )


def repair_calls(setting: Setting) -> int:
    """The fewest calls that can repair a fault that is found, and verify the repair."""
    test = setting.policy.test
    look = test.screen_cases + test.look_trials * len(setting.train)
    return _search_calls(setting, look) + _verification_calls(setting)


def calls_wanted(setting: Setting, state: State) -> int:
    """About how many calls more a run would take that stopped for want of them.

    That is to verify what it accepted, or to finish what it was about.
    """
    drawn = sum(
        state.fresh.trials(state.text.digest, case) > 0
        for case in (*setting.train, *setting.holdout)
    )
    suite = suite_calls(setting) - cost_of_trials(setting, drawn)
    later = cost_of_trials(setting, _FRESH_CALLS) * max(1, len(state.accepted))
    lacking = _search_calls(setting, _lacking_trials(setting))
    match state.left:
        case "fresh":
            return max(later, _calls_of(setting, fresh(setting, state)))
        case "suite":
            return suite + later
        case "holdout":
            return _calls_of(setting, holdout(setting, state)) + suite + later
        case "confirm" if state.candidates:
            test = _calls_of(setting, confirm(setting, state))
            return test + _verification_calls(setting) + later
        case "screen" if state.candidates:
            screened = _search_calls(setting, setting.policy.test.screen_cases)
            more = repair_calls(setting) - screened
            return _calls_of(setting, screen(setting, state)) + more + lacking + later
        case _:
            return repair_calls(setting) + lacking + later


def suite_calls(setting: Setting) -> int:
    """About how many calls the gate takes."""
    return cost_of_trials(setting, len(setting.train) + len(setting.holdout) + _REDRAWS)


def look_at(setting: Setting, state: State) -> str:
    """What the held-out cases decide about: the same trials of the same text tell nothing new."""
    return f"{state.text.digest[:16]}@{setting.first_trial}"


def exceeded(setting: Setting, state: State, action: Action | None) -> StopReason | None:
    """The limit that an action would pass; None when it can be paid.

    What verifies accepted edits is set aside as soon as there may be one, so their verification
    is held to the number of calls alone.
    """
    limits, spent = setting.policy.limits, state.spent
    worn = setting.holdout and len(state.looked) >= limits.holdout_looks
    known = state.phase == "suite" and look_at(setting, state) in state.looked
    if worn and not known and state.phase in _BEFORE_A_LOOK:
        return "holdout-looks"  # nothing is sought that could not be verified
    if calls_needed(setting, state, action) > calls_left(setting, state):
        return "calls"
    if action is None or state.phase in {"holdout", "suite", "fresh"}:
        return None
    asks = (
        isinstance(action, (Look, AskCritique, AskProposals)) and action.proposer in setting.critics
    )
    reached: dict[StopReason, bool] = {
        "model-calls": asks and spent.model_calls >= limits.model_calls,
        "usd": limits.usd is not None and 0 < spent.usd >= limits.usd,
        "seconds": limits.seconds is not None and spent.seconds >= limits.seconds,
        "candidates": state.phase in {"screen", "confirm"} and state.tested > limits.candidates,
    }
    return next((reason for reason, is_reached in reached.items() if is_reached), None)


def calls_needed(setting: Setting, state: State, action: Action | None) -> int:
    """The calls of an action, with those that are set aside to verify what comes of it."""
    if not isinstance(action, RunTrials):
        return 0
    calls = _calls_of(setting, action)
    if state.phase not in _BEFORE_VERIFICATION:
        return calls
    later = cost_of_trials(setting, _FRESH_CALLS) * len(state.accepted)
    return calls + _verification_calls(setting) + later


def _calls_of(setting: Setting, action: RunTrials) -> int:
    """About how many calls trials take, with those of LLM judges."""
    return sum(cost_of_trials(setting, len(one.trials), one.check) for one in action.draws)


def _search_calls(setting: Setting, trials: int) -> int:
    """About how many calls trials take that are for one check, whichever it is."""
    share = sum(setting.judging.values()) / max(1, len(setting.checks))
    return math.ceil(trials * (1 + share) - 1e-9)


def _lacking_trials(setting: Setting) -> int:
    """What a first test may take besides: trials that cases lack under the text as it is."""
    test = setting.policy.test
    each = test.baseline_trials - test.first_trials
    again = each * len(setting.train) // test.look_trials
    return max(0, (test.look_trials - each) * again)


def _verification_calls(setting: Setting) -> int:
    holdout = setting.policy.test.baseline_trials * len(setting.holdout)
    return suite_calls(setting) + cost_of_trials(setting, holdout)
