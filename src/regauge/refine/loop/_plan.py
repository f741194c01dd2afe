"""The trials of each phase, their calls, and the budget that is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose
from regauge.refine.edits import EditError, merged
from regauge.refine.loop._state import Action, AskProposer, Draws, Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.refine.analysis import FailureCluster
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import LoopConfig, LoopState, Phase, StopReason


# A rule that is followed in half of the trials is distinguished from one followed in nine of ten;
# a wrong half costs only the calls.
_LACKING_TRIALS = 10


def baseline(setting: LoopConfig, state: LoopState) -> Trials:
    """First some trials of every train case under the prompt as it is; then of unclear ones."""
    test = setting.policy.test
    if not state.look:
        return (draws(setting, state, setting.base, setting.train, test.first_trials),)
    cases = unclear_cases(setting, state)
    return (draws(setting, state, setting.base, cases, test.look_trials),)


def unclear_cases(setting: LoopConfig, state: LoopState) -> tuple[str, ...]:
    """Cases whose failures may be chance, and such as an edit will be compared on.

    The failures that are likeliest to be more than chance come first. All trials together stay
    within `baseline_trials` per train case, however many checks are unclear.
    """
    test = setting.policy.test
    digest = setting.base.digest
    drawn = sum(state.tally.trials(digest, case) for case in setting.train)
    diagnosis = diagnose(
        state.tally,
        lambda _: (digest,),
        setting.train,
        setting.checks,
        test,
        tolerated=setting.tolerated,
    )
    unfinished = (c for c in diagnosis.clusters if c.trials < len(c.cases) * test.baseline_trials)
    unclear = [c for c in diagnosis.flaky if c.p_flaky < test.unclear_p]
    ranked = sorted((*unfinished, *unclear), key=lambda c: (c.p_flaky, c.check))
    # Cases that failed every time so far come first: a few of them soon differ from chance.
    always = (
        case
        for cluster in diagnosis.flaky
        for case in cluster.failing
        if state.tally.check(digest, case, cluster.check).passed == 0
        and state.tally.trials(digest, case) < test.baseline_trials
    )
    cases = dict.fromkeys((*always, *(case for cluster in ranked for case in cluster.cases)))
    room = (test.baseline_trials * len(setting.train) - drawn) // test.look_trials
    return tuple(cases)[: max(0, room)]


def screen(setting: LoopConfig, state: LoopState) -> Trials:
    """A few trials of a few failing cases, for every candidate.

    While a statement is sought that keeps a rule from being followed, only without such ones.
    """
    cases = screen_cases(setting, state.cluster)
    lacking = [candidate for candidate in state.candidates if candidate.suspects]
    count = _LACKING_TRIALS if lacking else setting.policy.test.screen_cases
    trials = dealt(cases, count)
    texts = {candidate.text.digest: candidate.text for candidate in lacking or state.candidates}
    return tuple(
        draws(setting, state, text, cases, trials, check=state.cluster.check)
        for text in texts.values()
    )


def confirm(setting: LoopConfig, state: LoopState) -> Trials:
    """First all train cases; then those in question and a few others, under both texts.

    At the first look the cases in question get all the trials of a look, the others one: what
    else a text breaks is for the gate to find. Where edits were accepted before, the text as it
    is has few trials of its own yet, and gets them too. How much verdicts vary is compared on as
    many new trials of either text. LLM judges of other checks wait for the last verification.
    """
    test, cluster = setting.policy.test, state.cluster
    text, check = state.candidates[0].text, cluster.check
    others = [case for case in setting.train if case not in cluster.cases]
    if cluster.unsteady or state.look == 1:
        each, old = test.look_trials, _lacking(setting, state)
        if cluster.unsteady:
            each, old = test.steady_trials, dict.fromkeys(cluster.cases, test.steady_trials)
        rest = others if state.look == 1 else []
        return (
            draws(setting, state, text, cluster.cases, each, check=check),
            draws(setting, state, text, rest, 1, check=check),
            draws(setting, state, state.text, cluster.cases, old, check=check),
        )
    # Other anchors at every look, and the same ones whenever the run is repeated.
    start = (state.look * test.anchors) % max(1, len(others))
    anchors = [*others[start:], *others[:start]][: test.anchors]
    cases = (*cluster.cases, *anchors)
    return (
        draws(setting, state, text, cases, test.look_trials, check=check),
        draws(setting, state, state.text, cases, 1, check=check),
    )


def _lacking(setting: LoopConfig, state: LoopState) -> dict[str, int]:
    """The further trials that the cases in question need under the present text."""
    enough, check = setting.policy.test.baseline_trials, state.cluster.check
    return {
        case: max(0, enough - state.tally.check(state.text.digest, case, check).trials)
        for case in state.cluster.cases
    }


def simplify(setting: LoopConfig, state: LoopState) -> Trials:
    """The text without one accepted edit, on the cases that edit was for."""
    leaner = without(setting, state)
    assert leaner is not None
    index, text = leaner
    cases = state.accepted[index].cluster.cases
    return (draws(setting, state, text, cases, setting.policy.test.look_trials),)


def without(setting: LoopConfig, state: LoopState) -> tuple[int, PromptText] | None:
    """The first accepted edit that a later one may have made needless, and the text without it.

    An edit is only in question when a later one was for the same check, and was not tried yet.
    """
    tried = {entry.after for entry in state.memory.tried if entry.finding == "confirmed"}
    for index, edit in enumerate(state.accepted[:-1]):
        later = state.accepted[index + 1 :]
        if all(other.cluster.check != edit.cluster.check for other in later):
            continue
        text = state.accepted[index - 1].text if index else setting.base
        try:
            text = merged(edit.text, state.text, text)
        except EditError:
            continue
        if text.shape not in tried and text.shape != state.text.shape:
            return index, text
    return None


def verification_phase(setting: LoopConfig, state: LoopState) -> Phase:
    """Where the verification of accepted edits begins, or continues."""
    if without(setting, state) is not None:
        return "simplify"
    all_measured = all(state.tally.trials(setting.base.digest, case) for case in setting.holdout)
    return "suite" if all_measured else "holdout"


def holdout(setting: LoopConfig, state: LoopState) -> Trials:
    """The trials of the prompt before the run on held-out cases; the gate compares with them."""
    trials = setting.policy.test.baseline_trials
    return (draws(setting, state, setting.base, setting.holdout, trials),)


def fresh(setting: LoopConfig, state: LoopState) -> Trials:
    """More trials, that choose nothing, of the cases on which too little is known yet.

    The prompt as it was is drawn along: the trials that named its failures would make it look
    worse than it is.
    """
    base, now, drawn = setting.base, state.text, state.fresh
    trials = dict.fromkeys(state.waiting, setting.policy.test.look_trials)

    def first(case: str) -> int:
        chose = state.tally.next_trial(base.digest, case)
        return max(chose, drawn.next_trial(base.digest, case))

    revised = numbered(now, trials, lambda case: drawn.next_trial(now.digest, case))
    return revised, numbered(base, trials, first)


def screen_cases(setting: LoopConfig, cluster: FailureCluster) -> tuple[str, ...]:
    """The cases a candidate is first tried on: those that fail most."""
    return cluster.failing[: setting.policy.test.screen_cases]


def draws(
    setting: LoopConfig,
    state: LoopState,
    text: PromptText,
    cases: Iterable[str],
    trials: int | Mapping[str, int],
    *,
    check: str | None = None,
) -> Draws:
    """The next trials of each case, as numbers that were not drawn yet."""
    least = 0 if text.digest == setting.base.digest else setting.first_trial
    each = {case: trials if isinstance(trials, int) else trials[case] for case in cases}

    def first(case: str) -> int:
        return max(least, state.tally.next_trial(text.digest, case))

    return numbered(text, each, first, check)


def numbered(
    text: PromptText,
    trials: Mapping[str, int],
    first: Callable[[str], int],
    check: str | None = None,
) -> Draws:
    """So many trials of each case, from its first number on."""
    numbers = [(case, first(case) + n) for case, count in trials.items() for n in range(count)]
    return Draws(text=text, trials=tuple(numbers), check=check)


def dealt(cases: Sequence[str], trials: int) -> dict[str, int]:
    """So many trials, and at least one of each case, dealt evenly."""
    each, more = divmod(max(len(cases), trials), len(cases))
    return {case: each + (n < more) for n, case in enumerate(cases)}


# The error rate is shared by the looks: more looks settle more edits and need more trials for each.
FRESH_LOOKS = 6
"""The most looks at fresh trials of accepted edits."""

# The gate re-draws what fails first; this is set aside for it.
_REDRAWS = 20
# A critique and four edits; more where replies have to be repeated or edits do not help.
_REFINER_CALLS = 5
# And so much for the fresh trials of every accepted edit.
_FRESH_CALLS = 40
_BEFORE_A_LOOK = frozenset({"release", "critique", "propose", "simplify", "holdout", "suite"})
_BEFORE_VERIFICATION = frozenset({"unsteady", "release", "screen", "confirm", "simplify"})


def calls_max(setting: LoopConfig, state: LoopState) -> int:
    """The most calls, with those that a person gave on top."""
    return setting.policy.limits.calls + state.granted


def calls_left(setting: LoopConfig, state: LoopState) -> int:
    """The number of calls of any model that are left."""
    return calls_max(setting, state) - state.spent.total


def cost_of_trials(setting: LoopConfig, trials: int, check: str | None = None) -> int:
    """About how many calls some trials take, with those of LLM judges."""
    judging = setting.judging
    rate = sum(judging.values()) if check is None else judging.get(check, 0.0)
    return math.ceil(trials * (1 + rate) - 1e-9)


def trials_for(setting: LoopConfig, calls: int) -> int:
    """The number of trials, judged by all, that some calls pay for."""
    return int(calls / (1 + sum(setting.judging.values())))


def floor_calls(setting: LoopConfig) -> int:
    """The fewest calls that can find a fault, repair it and verify the repair."""
    first = setting.policy.test.baseline_trials * len(setting.train)
    return cost_of_trials(setting, first) + repair_calls(setting)


def enough_calls(setting: LoopConfig) -> int:
    """About how many calls one repair takes that its first test shows to help."""
    model = _REFINER_CALLS if setting.proposers[0] in setting.critics else 0
    return (
        floor_calls(setting)
        + _search_calls(setting, _lacking_trials(setting))
        + cost_of_trials(setting, _FRESH_CALLS)
        + model
        + bool(setting.look)
    )


def repair_calls(setting: LoopConfig) -> int:
    """The fewest calls that can repair a fault that is found, and verify the repair."""
    test = setting.policy.test
    look = test.screen_cases + test.look_trials * len(setting.train)
    return _search_calls(setting, look) + _verification_calls(setting)


def calls_wanted(setting: LoopConfig, state: LoopState) -> int:
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


def suite_calls(setting: LoopConfig) -> int:
    """About how many calls the gate takes."""
    return cost_of_trials(setting, len(setting.train) + len(setting.holdout) + _REDRAWS)


def look_at(setting: LoopConfig, state: LoopState) -> str:
    """The text and trials that held-out cases decide about; a repetition adds no evidence."""
    return f"{state.text.digest[:16]}@{setting.first_trial}"


def exceeded(setting: LoopConfig, state: LoopState, action: Action | None) -> StopReason | None:
    """The limit that an action would pass; None when it can be paid.

    What verifies accepted edits is set aside as soon as there may be one, so their verification
    is held to the number of calls alone.
    """
    limits, spent = setting.policy.limits, state.spent
    worn = setting.holdout and len(state.looked) >= limits.holdout_looks
    already_looked = state.phase == "suite" and look_at(setting, state) in state.looked
    if worn and not already_looked and state.phase in _BEFORE_A_LOOK:
        return "holdout-looks"  # nothing is sought that could not be verified
    if calls_needed(setting, state, action) > calls_left(setting, state):
        return "calls"
    if action is None or state.phase in {"holdout", "suite", "fresh"}:
        return None
    asks = isinstance(action, AskProposer) and action.proposer in setting.critics
    reached: dict[StopReason, bool] = {
        "model-calls": asks and spent.model_calls >= limits.model_calls,
        "usd": limits.usd is not None and 0 < spent.usd >= limits.usd,
        "candidates": state.phase in {"screen", "confirm"} and state.tested > limits.candidates,
    }
    return next((reason for reason, is_reached in reached.items() if is_reached), None)


def calls_needed(setting: LoopConfig, state: LoopState, action: Action | None) -> int:
    """The calls of an action, with those that are set aside to verify what comes of it."""
    if not isinstance(action, tuple):
        return 0
    calls = _calls_of(setting, action)
    if state.phase not in _BEFORE_VERIFICATION:
        return calls
    later = cost_of_trials(setting, _FRESH_CALLS) * len(state.accepted)
    return calls + _verification_calls(setting) + later


def _calls_of(setting: LoopConfig, action: Trials) -> int:
    """About how many calls trials take, with those of LLM judges."""
    return sum(
        cost_of_trials(setting, len(requested.trials), requested.check) for requested in action
    )


def _search_calls(setting: LoopConfig, trials: int) -> int:
    """About how many calls trials take that are for one check, whichever it is."""
    share = sum(setting.judging.values()) / max(1, len(setting.checks))
    return math.ceil(trials * (1 + share) - 1e-9)


def _lacking_trials(setting: LoopConfig) -> int:
    """Trials that cases still need under the present text before a first test."""
    test = setting.policy.test
    each = test.baseline_trials - test.first_trials
    again = each * len(setting.train) // test.look_trials
    return max(0, (test.look_trials - each) * again)


def _verification_calls(setting: LoopConfig) -> int:
    holdout = setting.policy.test.baseline_trials * len(setting.holdout)
    return suite_calls(setting) + cost_of_trials(setting, holdout)


def texts_for(setting: LoopConfig, state: LoopState, check: str) -> list[str]:
    """The texts whose trials speak for a check: those since the last edit made for it."""
    made_for = [n for n, edit in enumerate(state.accepted) if edit.cluster.check == check]
    all_texts = [setting.base.digest, *(edit.text.digest for edit in state.accepted)]
    return all_texts[made_for[-1] + 1 if made_for else 0 :]
