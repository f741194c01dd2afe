"""The verification of accepted edits: on held-out cases, by the gate, on independent trials."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.gate import NO_TRIALS
from regauge.refine.analysis import Tally, p_better, p_worse
from regauge.refine.edits import merge_changes
from regauge.refine.loop._candidates import add_attempt
from regauge.refine.loop._plan import (
    FRESH_LOOKS,
    all_met,
    calls_left,
    calls_wanted,
    can_settle,
    describe_goals,
    holdout_look,
    measure_goals,
    note_goals,
    suite_calls,
)
from regauge.refine.loop._search import diagnosed, stop, verify
from regauge.refine.loop._state import RejectedEdits
from regauge.statements import MergeError
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.attempts import AttemptResult
    from regauge.refine.loop._state import (
        Accepted,
        LoopState,
        NoteEvent,
        RevisionDecision,
        StopReason,
    )

FRESH_CASES = 6
"""The most cases, seen or unseen, that run for one edit at one look."""

# One lucky pass of a case that hardly ever passes proves nothing.
_IDLE_MIN = 0.15
# The weight of all cases together, as a number of trials of one case.
_PRIOR = 2


def split_cases(state: LoopState, edit: Accepted) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The cases of an edit, and further failing cases that it has to help.

    These are held-out cases. An edit that names words of some cases has to help other ones:
    held-out cases, or else train cases. An edit that names all failing cases is not narrow.
    """
    check, cases = edit.mode.check, edit.mode.cases
    base = state.config.base.digest
    # A case without failures shows no gain.
    unseen = tuple(c for c in state.config.holdout if state.tally.count(base, c, check).failed)
    named_cases = state.config.guard.cases_named_in(edit.edit.added_text)
    seen = tuple(case for case in cases if case in named_cases)
    for cases_of_side in (unseen, edit.mode.failing):
        rest = tuple(case for case in cases_of_side if case not in named_cases)
        if seen and rest:
            return seen, rest
    return cases, unseen


def generalisation_ratio(
    state: LoopState, edit: Accepted, seen: Sequence[str], unseen: Sequence[str]
) -> float:
    """The likelihood ratio of unseen cases: the edit helps them as it does seen ones, or not.

    The other explanation: the edit has no effect. The ratio is infinite without unseen cases. An
    edit that helps half of the seen cases is not expected to do better on others.
    """
    check, base = edit.mode.check, state.config.base.digest
    before = _rate(state.tally.count_over(base, (*seen, *unseen), check))
    helped = _passed_on(state, edit, seen)
    gain = _log_odds(_rate(helped)) - _log_odds(before)
    odds = 0.0 if unseen else math.inf
    for case in unseen:
        # An easy case passes without any help, so each has its own rate; few trials tell it.
        earlier = state.tally.count(base, case, check)
        note = state.fresh.count(state.text.digest, case, check)
        idle = max(_IDLE_MIN, (earlier.passed + _PRIOR * before) / (earlier.trials + _PRIOR))
        busy = 1 / (1 + math.exp(-_log_odds(idle) - max(0.0, gain)))
        busy = max(idle, min(busy, helped.rate))
        odds += note.passed * math.log(busy / idle)
        odds += note.failed * math.log((1 - busy) / (1 - idle))
    return math.exp(min(odds, 700.0))


def describe_sides(
    state: LoopState, edit: Accepted, seen: Sequence[str], unseen: Sequence[str]
) -> str:
    """The results of an edit on both groups of cases, in words."""
    check, text = edit.mode.check, state.text.digest
    seen_count = _passed_on(state, edit, seen)
    unseen_count = state.fresh.count_over(text, unseen, check)
    return (
        f"{check} passes {seen_count} trials of cases it was made for,"
        f" and only {unseen_count} of the others"
    )


def _passed_on(state: LoopState, edit: Accepted, seen: Sequence[str]) -> Count:
    """The passed trials with an edit on its cases, over all known trials."""
    check = edit.mode.check
    selection_count = edit.after
    if seen != edit.mode.cases:
        selection_count = state.tally.count_over(edit.text.digest, seen, check)
    return state.fresh.count_over(state.text.digest, seen, check) + selection_count


def _rate(count: Count) -> float:
    """A share between 0 and 1, exclusive."""
    return (count.passed + 1) / (count.trials + 2)


def _log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


_VERIFYING = frozenset({"holdout", "suite", "fresh"})
# Fewer trials of held-out cases are not evidence.
_HOLDOUT_TRIALS = 4


def after_limit(state: LoopState, reason: StopReason, calls: int = 0) -> LoopState:
    """Verify the accepted edits, or stop, at a limit."""
    text, remaining = _LIMITS[reason], calls_left(state)
    if reason == "calls" and 0 < remaining < calls:
        text = f"{plural(remaining, 'call')} left, and the next step needs {calls}"
    state = state.note("limit", text)
    if state.phase == "settle":
        return after_settle(state)
    has_sure_edits = any(edit.text.digest not in state.doubtful_texts for edit in state.accepted)
    if state.phase == "fresh" and has_sure_edits and remaining >= suite_calls(state.config):
        return _roll_back(state, "undecided", "too few trials are left", state.doubtful_texts)
    if state.accepted and reason != "holdout-looks" and state.phase not in _VERIFYING:
        return verify(state, reason)
    # The accepted edits are kept, so that a user can continue the run.
    if state.accepted_edits and reason == "calls":
        calls = calls_wanted(state)
        count = plural(len(state.accepted_edits), "accepted edit")
        text += f" before {count} could be verified; about {calls} more calls would verify it"
    return stop(state, reason, text)


def after_suite(state: LoopState, observation: RevisionDecision) -> LoopState:
    """Continue after an acceptance; else find the rejected edit, and roll it back."""
    state = replace(state, fresh=state.fresh.with_outcomes(observation.outcomes))
    if state.config.holdout and not observation.short:
        state = replace(state, holdout_looks=state.holdout_looks | {holdout_look(state)})
    observation = _unless_worse(state, observation)
    numbers = {
        "holdout_looks": len(state.holdout_looks),
        "holdout_looks_max": state.config.policy.limits.holdout_looks,
    }
    text = "; ".join(observation.reasons) or observation.decision
    state = state.note(_SUITE_SAID[observation.decision], text, numbers=numbers)
    match observation.decision:
        case "accept":
            if state.rejected is not None:
                return _roll_back_rejected(state, state.rejected, len(state.accepted))
            return judge_fresh(replace(state, look_number=0))
        case "undecided" if observation.short:
            return after_limit(state, "calls")
        case "unmeasured":
            return stop(state, "unmeasured", f"the gate could not measure the revision: {text}")
        case "reject" | "undecided":
            reason = observation.reasons[0] if observation.reasons else observation.decision
            is_refused = observation.decision == "reject"
            result: AttemptResult = "suite-refused" if is_refused else "undecided"
            rejected = state.rejected or RejectedEdits(
                edits=state.accepted, result=result, detail=reason
            )
            fewer = state.accepted[:-1]
            if not fewer:
                return _roll_back_rejected(state, rejected, 0)
            revision = fewer[-1].text
            counts = f"the first {len(fewer)} of {len(rejected.edits)} accepted edits"
            state = state.note("fewer", f"the gate rejects them; next, {counts}", revision.digest)
            return replace(state, rejected=rejected, accepted=fewer, text=revision, phase="suite")


def _roll_back_rejected(state: LoopState, rejected: RejectedEdits, number: int) -> LoopState:
    """Roll back one of the edits that the gate rejects together: the first one that it rejects."""
    edits = rejected.edits
    state = replace(state, accepted=edits, text=edits[-1].text, rejected=None)
    return _roll_back(state, rejected.result, rejected.detail, (edits[number].text.digest,))


def _unless_worse(state: LoopState, observation: RevisionDecision) -> RevisionDecision:
    """The gate's decision; a rejection if the outputs or an LLM judge's check got worse.

    The test of an edit calls only the LLM judge of its own check, so the others are compared here.
    """
    if observation.decision == "accept" and (reason := _lost_outputs(state)):
        return replace(observation, decision="reject", reasons=(reason,))
    cases, test = state.config.cases, state.test
    tally = Tally({**state.tally.counted_outcomes, **state.fresh.counted_outcomes})
    for check in state.config.judging if observation.decision == "accept" else ():
        p = p_worse(tally, state.text.digest, state.config.base.digest, cases, check)
        if p <= test.harm_p / test.looks_max:
            return replace(observation, decision="reject", reasons=(f"{check} got worse",))
    return observation


def _lost_outputs(state: LoopState) -> str:
    """The reason to reject a revision whose outputs are mostly empty or cut off, else empty.

    Checks that forbid something pass on them. Outputs of some cases may be empty on purpose.
    """
    tallies, cases = (state.tally, state.fresh), state.config.cases
    if any(
        outcome.is_cut_off
        for tally in tallies
        for case in cases
        for outcome in tally.outcomes(state.config.base.digest, case)
    ):
        return ""
    fresh_outcomes = [state.fresh.outcomes(state.text.digest, case) for case in cases]
    cut_count = sum(
        bool(outcomes) and all(outcome.is_cut_off for outcome in outcomes)
        for outcomes in fresh_outcomes
    )
    if cut_count * 2 <= len(cases):
        return ""
    return f"outputs of {cut_count} of {len(cases)} cases are empty or cut off, and none before"


def after_settle(state: LoopState) -> LoopState:
    """Measure the goals again; of the first prompt, diagnose again."""
    state = replace(state, settled_texts=state.settled_texts | {state.text.digest})
    return _accept(state) if state.accepted else diagnosed(state)


def judge_fresh(state: LoopState) -> LoopState:
    """Check that each accepted edit helps on independent trials, also of held-out cases."""
    state = replace(state, look_number=state.look_number + 1)
    test = state.test
    waiting: list[str] = []
    doubtful: dict[str, str] = {}
    # A removal of text without effect promises no gain.
    for edit in (accepted for accepted in reversed(state.accepted) if accepted.mode.cases):
        check = edit.mode.check
        seen, unseen = split_cases(state, edit)
        odds = generalisation_ratio(state, edit, seen, unseen)
        trials = state.fresh.count_over(state.text.digest, unseen, check).trials
        if odds <= 1 / test.generalises and trials >= _HOLDOUT_TRIALS:
            detail = describe_sides(state, edit, seen, unseen)
            return _roll_back(state, "overfit", detail, (edit.text.digest,))
        if unseen and (odds < test.generalises or trials < _HOLDOUT_TRIALS):
            waiting += unseen[:FRESH_CASES]
            doubtful[edit.text.digest] = describe_sides(state, edit, seen, unseen)
        # Only failing cases can show a gain. Both texts run again, so that the selection of these
        # cases favours neither.
        failed = (*edit.mode.failing, *unseen)
        p = p_better(state.fresh, state.text.digest, state.config.base.digest, failed, check)
        if p > test.fresh_p / FRESH_LOOKS:
            waiting += (*edit.mode.failing[:FRESH_CASES], *unseen[:FRESH_CASES])
            doubtful[edit.text.digest] = f"the gain in {check} does not show on fresh trials"
    if not waiting:
        return _accept(state)
    if state.look_number < FRESH_LOOKS:
        return replace(
            state,
            phase="fresh",
            pending_cases=tuple(dict.fromkeys(waiting)),
            doubtful_texts=tuple(doubtful),
        )
    detail = "; ".join(doubtful.values())
    return _roll_back(state, "undecided", detail, tuple(doubtful))


def _accept(state: LoopState) -> LoopState:
    ending = state.ending or "improved"
    reason: StopReason = "goal-met" if ending == "goal-met" else "improved"
    text = f"the gate accepts all {len(state.config.cases)} cases"
    if state.config.holdout:
        before, after = (
            sum((tally.case_count(text.digest, case) for case in state.config.holdout), NO_TRIALS)
            for tally, text in ((state.tally, state.config.base), (state.fresh, state.text))
        )
        failures = [f"{count.failed} of {count.trials}" for count in (before, after)]
        text += f"; held-out failures {' -> '.join(failures)}"
    goals = measure_goals(state, with_revision=True)
    if goals:
        if not all_met(goals) and can_settle(state):
            return replace(state, phase="settle")
        state = note_goals(state, goals)
        reason = "goal-met" if all_met(goals) else "improved"
        text += f"; {describe_goals(goals)}"
    if reason == "improved" and ending not in {"improved", "goal-met"}:
        text += f"; search ended: {_LIMITS.get(ending, ending)}"
    return stop(state.note("accepted", text), reason, text, proposal=True)


def _roll_back(
    state: LoopState, result: AttemptResult, detail: str, texts: Sequence[str]
) -> LoopState:
    """Roll back the edits with these texts, and continue with the rest.

    The rest is verified again, after a search for other edits if the budget allows it.
    """
    open_before, text = state.open_modes, state.config.base
    rest: list[Accepted] = []
    before = state.config.base
    for edit in state.accepted:
        if edit.text.digest in texts:
            text_of = f"{edit.edit.strategy} for {edit.mode.key}: {detail}"
            state = replace(state, text=before, open_modes=(edit.mode,))
            state = add_attempt(state, edit, detail, result)
            state = state.note("rolled-back", text_of, edit.text.digest)
        else:
            with suppress(MergeError):  # it changes a rolled-back edit, so it is dropped, too
                text = merge_changes(before, edit.text, text)
                rest.append(replace(edit, text=text))
        before = edit.text
    state = replace(
        state,
        text=text,
        accepted=tuple(rest),
        open_modes=open_before,
        look_number=0,
        pending_cases=(),
        doubtful_texts=(),
        rollback_reason=detail,
    )
    if state.ending == "goal-met" and state.cycle < state.config.policy.limits.cycles:
        next_state = replace(state, ending=None, cycle=state.cycle + 1, idle=state.idle + 1)
        return diagnosed(next_state)
    if not rest:
        return stop(state, "suite-refused", detail)
    return replace(state, phase="suite")


_SUITE_SAID: dict[str, NoteEvent] = {
    "accept": "suite-accept",
    "reject": "suite-reject",
    "undecided": "suite-undecided",
    "unmeasured": "suite-unmeasured",
}

_LIMITS: dict[StopReason, str] = {
    "calls": "the budget of calls is used up",
    "model-calls": "the budget of refiner calls is used up",
    "usd": "the budget in dollars is used up",
    "cycles": "the limit of cycles is reached",
    "holdout-looks": "too many decisions on the held-out cases",
    "candidates": "the limit of tested edits is reached",
    "no-acceptable-edit": "no further edit was acceptable",
    "no-new-edit": "the proposers have no new edit",
    "questions": "the remaining failures are questions for you",
}
