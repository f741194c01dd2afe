"""The trials of each phase, their calls, and the remaining budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose
from regauge.refine.edits import EditError, merge_changes
from regauge.refine.loop._state import Action, CallProposer, TrialPlan, Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.refine.analysis import FailureMode
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import LoopConfig, LoopState, Phase, StopReason


# A rule that is followed in half of the trials is distinguished from one followed in nine of ten;
# a wrong half costs only the calls.
_SEARCH_TRIALS = 10


def baseline(state: LoopState) -> Trials:
    """A few trials of every train case with the first prompt; then of unclear ones."""
    test = state.test
    if not state.look_number:
        return (plan_trials(state, state.config.base, state.config.train, test.first_trials),)
    cases = unclear_cases(state)
    return (plan_trials(state, state.config.base, cases, test.look_trials),)


def unclear_cases(state: LoopState) -> tuple[str, ...]:
    """Cases whose failures may be chance, and cases that will be compared.

    The failures that are least likely chance come first. All trials together stay within
    `baseline_trials` per train case, however many checks are unclear.
    """
    test = state.test
    digest = state.config.base.digest
    trials_run = sum(state.tally.trials(digest, case) for case in state.config.train)
    diagnosis = diagnose(
        state.tally,
        lambda _: (digest,),
        state.config.train,
        state.config.checks,
        test,
        tolerated=state.config.tolerated,
    )
    unfinished = (c for c in diagnosis.modes if c.trials < len(c.cases) * test.baseline_trials)
    unclear = [c for c in diagnosis.flaky if c.p_flaky < test.unclear_p]
    modes = sorted((*unfinished, *unclear), key=lambda c: (c.p_flaky, c.check))
    # Cases that failed every time so far come first: a few of them soon differ from chance.
    always = (
        case
        for mode in diagnosis.flaky
        for case in mode.failing
        if state.tally.count(digest, case, mode.check).passed == 0
        and state.tally.trials(digest, case) < test.baseline_trials
    )
    cases = dict.fromkeys((*always, *(case for mode in modes for case in mode.cases)))
    room = (test.baseline_trials * len(state.config.train) - trials_run) // test.look_trials
    return tuple(cases)[: max(0, room)]


def screen(state: LoopState) -> Trials:
    """A few trials of a few failing cases, for every candidate.

    Candidates that search for a hindering statement go first, alone.
    """
    cases = screen_cases(state, state.mode)
    searches = [candidate for candidate in state.candidates if candidate.suspects]
    count = _SEARCH_TRIALS if searches else state.test.screen_cases
    trials = deal_trials(cases, count)
    texts = {candidate.text.digest: candidate.text for candidate in searches or state.candidates}
    return tuple(
        plan_trials(state, text, cases, trials, check=state.mode.check) for text in texts.values()
    )


def confirm(state: LoopState) -> Trials:
    """All train cases at first; then the failure mode's cases and a few others, under both texts.

    At the first look the failure mode's cases get all the trials of a look, others one: the gate
    finds other breakage. After an accepted edit the current text has few trials, and gets them too.
    For a flaky check, both texts get the same number of new trials. LLM judges of other checks
    wait for the last verification.
    """
    test, mode = state.test, state.mode
    text, check = state.candidates[0].text, mode.check
    other_cases = [case for case in state.config.train if case not in mode.cases]
    if mode.unsteady or state.look_number == 1:
        trials, base_trials = test.look_trials, _missing_trials(state)
        if mode.unsteady:
            trials, base_trials = (
                test.steady_trials,
                dict.fromkeys(mode.cases, test.steady_trials),
            )
        rest = other_cases if state.look_number == 1 else []
        return (
            plan_trials(state, text, mode.cases, trials, check=check),
            plan_trials(state, text, rest, 1, check=check),
            plan_trials(state, state.text, mode.cases, base_trials, check=check),
        )
    # Other anchors at every look, and the same ones whenever the run is repeated.
    start = (state.look_number * test.anchors) % max(1, len(other_cases))
    anchors = [*other_cases[start:], *other_cases[:start]][: test.anchors]
    cases = (*mode.cases, *anchors)
    return (
        plan_trials(state, text, cases, test.look_trials, check=check),
        plan_trials(state, state.text, cases, 1, check=check),
    )


def _missing_trials(state: LoopState) -> dict[str, int]:
    """The further trials of the failure mode's cases with the current text."""
    enough, check = state.test.baseline_trials, state.mode.check
    return {
        case: max(0, enough - state.tally.count(state.text.digest, case, check).trials)
        for case in state.mode.cases
    }


def simplify(state: LoopState) -> Trials:
    """The text without one accepted edit, on the cases of that edit."""
    leaner = without(state)
    assert leaner is not None
    index, text = leaner
    cases = state.accepted[index].mode.cases
    return (plan_trials(state, text, cases, state.test.look_trials),)


def without(state: LoopState) -> tuple[int, PromptText] | None:
    """The first accepted edit that a later one may have made needless, and the text without it.

    Only edits with a later one for the same check count, each of them once.
    """
    attempted = {entry.after for entry in state.memory.attempts if entry.result == "confirmed"}
    for index, edit in enumerate(state.accepted[:-1]):
        later = state.accepted[index + 1 :]
        if all(other.mode.check != edit.mode.check for other in later):
            continue
        text = state.accepted[index - 1].text if index else state.config.base
        try:
            text = merge_changes(edit.text, state.text, text)
        except EditError:
            continue
        if text.shape not in attempted and text.shape != state.text.shape:
            return index, text
    return None


def verification_phase(state: LoopState) -> Phase:
    """The phase in which the verification of accepted edits begins, or continues."""
    if without(state) is not None:
        return "simplify"
    all_measured = all(
        state.tally.trials(state.config.base.digest, case) for case in state.config.holdout
    )
    return "suite" if all_measured else "holdout"


def holdout(state: LoopState) -> Trials:
    """The trials of the first prompt on held-out cases; the gate compares with them."""
    trials = state.test.baseline_trials
    return (plan_trials(state, state.config.base, state.config.holdout, trials),)


def fresh(state: LoopState) -> Trials:
    """More independent trials of the doubtful cases, with both texts.

    The first prompt runs again, as the trials that selected its failures make it look too bad.
    """
    base, now, tally = state.config.base, state.text, state.fresh
    trials = dict.fromkeys(state.pending_cases, state.test.look_trials)

    def first(case: str) -> int:
        chose = state.tally.next_trial(base.digest, case)
        return max(chose, tally.next_trial(base.digest, case))

    revision_trials = number_trials(now, trials, lambda case: tally.next_trial(now.digest, case))
    return revision_trials, number_trials(base, trials, first)


def screen_cases(state: LoopState, mode: FailureMode) -> tuple[str, ...]:
    """The cases of a candidate's first trials: those that fail most."""
    return mode.failing[: state.test.screen_cases]


def plan_trials(
    state: LoopState,
    text: PromptText,
    cases: Iterable[str],
    trials: int | Mapping[str, int],
    *,
    check: str | None = None,
) -> TrialPlan:
    """The next trials of each case, by new numbers."""
    least = 0 if text.digest == state.config.base.digest else state.config.first_trial
    counts = {case: trials if isinstance(trials, int) else trials[case] for case in cases}

    def first(case: str) -> int:
        return max(least, state.tally.next_trial(text.digest, case))

    return number_trials(text, counts, first, check)


def number_trials(
    text: PromptText,
    trials: Mapping[str, int],
    first: Callable[[str], int],
    check: str | None = None,
) -> TrialPlan:
    """Trials of each case, numbered from its first number on."""
    numbers = [(case, first(case) + n) for case, count in trials.items() for n in range(count)]
    return TrialPlan(text=text, trials=tuple(numbers), check=check)


def deal_trials(cases: Sequence[str], trials: int) -> dict[str, int]:
    """A number of trials, dealt evenly to the cases; at least one each."""
    per_case, remainder = divmod(max(len(cases), trials), len(cases))
    return {case: per_case + (n < remainder) for n, case in enumerate(cases)}


# The error rate is shared by the looks: more looks settle more edits and need more trials for each.
FRESH_LOOKS = 6
"""The most looks at independent trials of accepted edits."""

# The gate runs failing cases again; these calls are set aside for it.
_RERUNS = 20
# A critique and four edits; more where responses have to be repeated or edits do not help.
_REFINER_CALLS = 5
# And so much for the fresh trials of every accepted edit.
_FRESH_CALLS = 40
_BEFORE_A_LOOK = frozenset({"release", "critique", "propose", "simplify", "holdout", "suite"})
_BEFORE_VERIFICATION = frozenset({"unsteady", "release", "screen", "confirm", "simplify"})


def calls_max(state: LoopState) -> int:
    """The most calls, with those that a user added."""
    return state.config.policy.limits.calls + state.extra_calls


def calls_left(state: LoopState) -> int:
    """The number of remaining calls of any model."""
    return calls_max(state) - state.spending.total


def cost_of_trials(config: LoopConfig, trials: int, check: str | None = None) -> int:
    """The approximate calls of some trials, with those of LLM judges."""
    judging = config.judging
    rate = sum(judging.values()) if check is None else judging.get(check, 0.0)
    return math.ceil(trials * (1 + rate) - 1e-9)


def trials_for(config: LoopConfig, calls: int) -> int:
    """The number of fully judged trials within some calls."""
    return int(calls / (1 + sum(config.judging.values())))


def floor_calls(config: LoopConfig) -> int:
    """The fewest calls that find a failure, fix it and verify the fix."""
    first = config.policy.test.baseline_trials * len(config.train)
    return cost_of_trials(config, first) + fix_calls(config)


def enough_calls(config: LoopConfig) -> int:
    """The approximate calls of one fix whose first test shows a gain."""
    model = _REFINER_CALLS if config.proposers[0] in config.critics else 0
    return (
        floor_calls(config)
        + _search_calls(config, _missing_trials_estimate(config))
        + cost_of_trials(config, _FRESH_CALLS)
        + model
        + bool(config.probe_proposer)
    )


def fix_calls(config: LoopConfig) -> int:
    """The fewest calls that fix a known failure and verify the fix."""
    test = config.policy.test
    test_trials = test.screen_cases + test.look_trials * len(config.train)
    return _search_calls(config, test_trials) + _verification_calls(config)


def calls_wanted(state: LoopState) -> int:
    """The approximate further calls of a run that reached its limit of calls.

    They verify the accepted edits, or finish the current phase.
    """
    cases_done = sum(
        state.fresh.trials(state.text.digest, case) > 0
        for case in (*state.config.train, *state.config.holdout)
    )
    suite = suite_calls(state.config) - cost_of_trials(state.config, cases_done)
    later = cost_of_trials(state.config, _FRESH_CALLS) * max(1, len(state.accepted))
    missing_calls = _search_calls(state.config, _missing_trials_estimate(state.config))
    match state.stopped_phase:
        case "fresh":
            return max(later, _calls_of(state.config, fresh(state)))
        case "suite":
            return suite + later
        case "holdout":
            return _calls_of(state.config, holdout(state)) + suite + later
        case "confirm" if state.candidates:
            test = _calls_of(state.config, confirm(state))
            return test + _verification_calls(state.config) + later
        case "screen" if state.candidates:
            screen_calls = _search_calls(state.config, state.test.screen_cases)
            remaining_calls = fix_calls(state.config) - screen_calls
            return _calls_of(state.config, screen(state)) + remaining_calls + missing_calls + later
        case _:
            return fix_calls(state.config) + missing_calls + later


def suite_calls(config: LoopConfig) -> int:
    """The approximate calls of the gate."""
    return cost_of_trials(config, len(config.train) + len(config.holdout) + _RERUNS)


def holdout_look(state: LoopState) -> str:
    """The text and trials of a decision on held-out cases; a repetition adds no evidence."""
    return f"{state.text.digest[:16]}@{state.config.first_trial}"


def exceeded(state: LoopState, action: Action | None) -> StopReason | None:
    """The limit that an action would exceed; None if it is within all.

    Calls for the verification of accepted edits are set aside, so no other limit applies to it.
    """
    limits, spending = state.config.policy.limits, state.spending
    worn = state.config.holdout and len(state.holdout_looks) >= limits.holdout_looks
    already_looked = state.phase == "suite" and holdout_look(state) in state.holdout_looks
    if worn and not already_looked and state.phase in _BEFORE_A_LOOK:
        return "holdout-looks"  # an edit could not be verified
    if calls_needed(state, action) > calls_left(state):
        return "calls"
    if action is None or state.phase in {"holdout", "suite", "fresh"}:
        return None
    calls_model = isinstance(action, CallProposer) and action.proposer in state.config.critics
    limits_reached: dict[StopReason, bool] = {
        "model-calls": calls_model and spending.model_calls >= limits.model_calls,
        "usd": limits.usd is not None and 0 < spending.usd >= limits.usd,
        "candidates": state.phase in {"screen", "confirm"} and state.tested > limits.candidates,
    }
    return next((reason for reason, is_reached in limits_reached.items() if is_reached), None)


def calls_needed(state: LoopState, action: Action | None) -> int:
    """The calls of an action, with those set aside to verify its result."""
    if not isinstance(action, tuple):
        return 0
    calls = _calls_of(state.config, action)
    if state.phase not in _BEFORE_VERIFICATION:
        return calls
    later = cost_of_trials(state.config, _FRESH_CALLS) * len(state.accepted)
    return calls + _verification_calls(state.config) + later


def _calls_of(config: LoopConfig, action: Trials) -> int:
    """The approximate calls of trials, with those of LLM judges."""
    return sum(
        cost_of_trials(config, len(requested.trials), requested.check) for requested in action
    )


def _search_calls(config: LoopConfig, trials: int) -> int:
    """The approximate calls of trials for one check, whichever it is."""
    share = sum(config.judging.values()) / max(1, len(config.checks))
    return math.ceil(trials * (1 + share) - 1e-9)


def _missing_trials_estimate(config: LoopConfig) -> int:
    """Further trials of cases with the current text before a first test."""
    test = config.policy.test
    extra_trials = test.baseline_trials - test.first_trials
    cases = extra_trials * len(config.train) // test.look_trials
    return max(0, (test.look_trials - extra_trials) * cases)


def _verification_calls(config: LoopConfig) -> int:
    holdout = config.policy.test.baseline_trials * len(config.holdout)
    return suite_calls(config) + cost_of_trials(config, holdout)


def texts_for(state: LoopState, check: str) -> list[str]:
    """The texts whose trials count for a check: those since the last edit for it."""
    positions = [n for n, edit in enumerate(state.accepted) if edit.mode.check == check]
    all_texts = [state.config.base.digest, *(edit.text.digest for edit in state.accepted)]
    return all_texts[positions[-1] + 1 if positions else 0 :]
