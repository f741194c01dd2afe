"""The verification of accepted edits: on the holdout, by the gate, on fresh trials."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.gate import NO_TRIALS
from regauge.refine.analysis import Steadiness, Tally, better_p, steadiness_of, worse_p
from regauge.refine.attempts import named
from regauge.refine.edits import EditError, merged
from regauge.refine.loop._goals import all_met, can_settle, counted, goals_note, settling, standings
from regauge.refine.loop._plan import (
    FRESH_LOOKS,
    calls_left,
    calls_wanted,
    look_at,
    suite_calls,
    without,
)
from regauge.refine.loop._search import accept_best, diagnosed, stop, tried, verify
from regauge.refine.loop._state import EditBisection
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.attempts import Finding
    from regauge.refine.loop._state import (
        Accepted,
        LoopConfig,
        LoopState,
        NoteEvent,
        StopReason,
        SuiteSaid,
    )

FRESH_CASES = 6
"""More cases than these, seen or unseen, are not drawn for one edit at one look."""

# One lucky pass of a case that hardly ever passes proves nothing.
_IDLE_MIN = 0.15
# How many trials of a case count as much as what all cases say together.
_PRIOR = 2


def either_side(
    setting: LoopConfig, state: LoopState, edit: Accepted
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The cases an edit was made for, and failing ones of which it must be shown that it helps.

    These are held-out cases. Of an edit that names what some cases are about, they are cases that
    it does not name: on the holdout, or else among the train cases. Where it names all that fail
    there is nothing narrow in it.
    """
    check, cases = edit.cluster.check, edit.cluster.cases
    base = setting.base.digest
    # Where nothing failed nothing can be gained.
    unseen = tuple(c for c in setting.holdout if state.tally.check(base, c, check).failed)
    named = setting.guard.named_in(edit.edit.added)
    seen = tuple(case for case in cases if case in named)
    for others in (unseen, edit.cluster.failing):
        rest = tuple(case for case in others if case not in named)
        if seen and rest:
            return seen, rest
    return cases, unseen


def generalises(
    setting: LoopConfig,
    state: LoopState,
    edit: Accepted,
    seen: Sequence[str],
    unseen: Sequence[str],
) -> float:
    """The likelihood ratio of unseen cases: the edit helps there as on seen ones, or not.

    The other explanation is that it does nothing there. Without a holdout case nothing is known.
    An edit that helps seen cases half of the time is not expected to do better on others.
    """
    check, base = edit.cluster.check, setting.base.digest
    before = _rate(state.tally.over(base, (*seen, *unseen), check))
    helped = _passed_on(state, edit, seen)
    gain = _log_odds(_rate(helped)) - _log_odds(before)
    odds = 0.0 if unseen else math.inf
    for case in unseen:
        # An easy case passes without any help, so each has its own rate; few trials tell it.
        earlier, note = (
            state.tally.check(base, case, check),
            state.fresh.check(state.text.digest, case, check),
        )
        idle = max(_IDLE_MIN, (earlier.passed + _PRIOR * before) / (earlier.trials + _PRIOR))
        busy = 1 / (1 + math.exp(-_log_odds(idle) - max(0.0, gain)))
        busy = max(idle, min(busy, helped.rate))
        odds += note.passed * math.log(busy / idle)
        odds += note.failed * math.log((1 - busy) / (1 - idle))
    return math.exp(min(odds, 700.0))


def compared(state: LoopState, edit: Accepted, seen: Sequence[str], unseen: Sequence[str]) -> str:
    """The results of an edit on either side, in words."""
    check, text = edit.cluster.check, state.text.digest
    own = _passed_on(state, edit, seen)
    others = state.fresh.over(text, unseen, check)
    return (
        f"{check} passes {own.passed} of {own.trials} trials of cases it was made for, and only"
        f" {others.passed} of {others.trials} of the others"
    )


def _passed_on(state: LoopState, edit: Accepted, seen: Sequence[str]) -> Count:
    """The passed trials with an edit on the cases it was made for, over all known trials."""
    check = edit.cluster.check
    chosen = edit.after
    if seen != edit.cluster.cases:
        chosen = state.tally.over(edit.text.digest, seen, check)
    return state.fresh.over(state.text.digest, seen, check) + chosen


def _rate(count: Count) -> float:
    """A share that is never 0 or 1."""
    return (count.passed + 1) / (count.trials + 2)


def _log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


# An edit whose removal costs a check this much is needed.
_NEEDED = 0.12


def after_simplify(setting: LoopConfig, state: LoopState) -> LoopState:
    """Take an edit out that a later one has made needless."""
    leaner = without(setting, state)
    assert leaner is not None
    index, text = leaner
    edit = state.accepted[index]
    check, cases = edit.cluster.check, edit.cluster.cases
    less = state.tally.over(text.digest, cases, check)
    now = state.tally.over(state.text.digest, cases, check)
    needed = less.rate < now.rate - _NEEDED
    state = state.note(
        "kept" if needed else "simplified",
        f"without {edit.edit.strategy}: {check} passes {less.passed} of {less.trials} (with it"
        f" {now.passed} of {now.trials})",
        text.digest,
        named(edit.edit),
    )
    if needed:
        return verify(setting, tried(state, text, "the edit is needed", "confirmed"))
    rest = (*state.accepted[:index], *state.accepted[index + 1 :])
    rest = (*rest[:-1], replace(rest[-1], text=text))
    return verify(setting, replace(state, accepted=rest, text=text))


def passed_part(state: LoopState, reason: StopReason) -> LoopState:
    """Go on with the most edits that the gate is known to accept; a limit forbids to ask on."""
    stack = state.stack
    assert stack is not None
    for edit in stack.edits[stack.passed :]:
        text = f"{edit.edit.strategy} for {edit.cluster.key}: not verified"
        state = state.note("set-aside", text, edit.text.digest, named(edit.edit))
    first = stack.edits[: stack.passed]
    return replace(
        state,
        stack=None,
        accepted=first,
        text=first[-1].text,
        taken_back=stack.detail,
        ending=reason,
    )


_VERIFYING = frozenset({"holdout", "suite", "fresh"})
# Fewer trials of the holdout say nothing for an edit or against it.
_HOLDOUT_TRIALS = 4


def out_of(setting: LoopConfig, state: LoopState, reason: StopReason, needed: int = 0) -> LoopState:
    """A limit is reached: verify what is accepted, or stop."""
    text, remaining = _LIMITS[reason], calls_left(setting, state)
    if reason == "calls" and 0 < remaining < needed:
        text = f"{plural(remaining, 'call')} left, and the next step needs {needed}"
    state = state.note("limit", text)
    if state.stack is not None and state.stack.passed:
        return judge_fresh(setting, replace(passed_part(state, reason), look=0))
    if state.phase == "settle":
        return settled(setting, state)
    return _out_of(setting, state, reason, text)


def _out_of(setting: LoopConfig, state: LoopState, reason: StopReason, text: str) -> LoopState:
    match state.phase:
        case "simplify" if reason != "holdout-looks":
            all_measured = all(
                state.tally.trials(setting.base.digest, case) for case in setting.holdout
            )
            return replace(state, phase="suite" if all_measured else "holdout")
        case "fresh" if _can_do_without(setting, state):
            why = "too few trials are left"
            return _roll_back(setting, state, "undecided", why, state.doubtful)
        case "confirm" if state.confirmed:
            state = accept_best(setting, replace(state, candidates=()))
            return state if state.stop else verify(setting, state, reason)
        case phase if state.accepted and reason != "holdout-looks" and phase not in _VERIFYING:
            return verify(setting, state, reason)
        case _:
            return _not_settled(setting, state, reason, text)


def _can_do_without(setting: LoopConfig, state: LoopState) -> bool:
    """Return whether edits are left that nothing speaks against, and calls to verify them."""
    others = any(edit.text.digest not in state.doubtful for edit in state.accepted)
    return others and calls_left(setting, state) >= suite_calls(setting)


def _not_settled(setting: LoopConfig, state: LoopState, reason: StopReason, text: str) -> LoopState:
    """Stop; what was accepted and not verified is kept, so that a person may let it go on."""
    edits = state.accepted if state.stack is None else state.stack.edits
    if edits and reason == "calls":
        calls = calls_wanted(setting, replace(state, left=state.phase))
        text += (
            f" before {plural(len(edits), 'accepted edit')} could be verified;"
            f" about {calls} more calls would verify it"
        )
    return stop(state, reason, text)


def after_suite(setting: LoopConfig, state: LoopState, observed: SuiteSaid) -> LoopState:
    """Go on with the gate's acceptance; find the edit that it refuses, and take that back."""
    look = {look_at(setting, state)} if setting.holdout and not observed.short else set[str]()
    state = replace(
        state, fresh=state.fresh.with_outcomes(observed.outcomes), looked=state.looked | look
    )
    observed = _unless_worse(setting, state, observed)
    numbers = {
        "holdout_looks": len(state.looked),
        "holdout_looks_max": setting.policy.limits.holdout_looks,
    }
    text = "; ".join(observed.reasons) or observed.decision
    state = state.note(_SUITE_SAID[observed.decision], text, numbers=numbers)
    match observed.decision:
        case "accept":
            if state.stack is not None:
                return _of_stack(setting, state, replace(state.stack, passed=len(state.accepted)))
            return judge_fresh(setting, replace(state, look=0))
        case "undecided" if observed.short:
            return out_of(setting, state, "calls")
        case "unmeasured":
            return stop(state, "provider-outage", "the gate could not measure the revision")
        case "reject" | "undecided":
            reason = observed.reasons[0] if observed.reasons else observed.decision
            finding: Finding = "suite-refused" if observed.decision == "reject" else "undecided"
            if state.stack is None and len(state.accepted) == 1:
                return _roll_back(setting, state, finding, reason)
            stack = state.stack or EditBisection(
                edits=state.accepted,
                refused=len(state.accepted),
                finding=finding,
                detail=reason,
            )
            return _of_stack(setting, state, replace(stack, refused=len(state.accepted)))


def _unless_worse(setting: LoopConfig, state: LoopState, observed: SuiteSaid) -> SuiteSaid:
    """The gate's decision; a refusal if an LLM judge's check got worse over all cases.

    The test of an edit asks no LLM judge but its own, so this is where the others are compared.
    """
    cases, test = (*setting.train, *setting.holdout), setting.policy.test
    both = Tally({**state.tally.seen, **state.fresh.seen})
    for check in setting.judging if observed.decision == "accept" else ():
        p = worse_p(both, state.text.digest, setting.base.digest, cases, check)
        if p <= test.harm_p / test.looks:
            return replace(observed, decision="reject", reasons=(f"{check} got worse",))
    return observed


def _of_stack(setting: LoopConfig, state: LoopState, stack: EditBisection) -> LoopState:
    """Ask the gate about fewer edits, or take the one back that it refuses."""
    count, refused, passed = len(stack.edits), stack.refused, stack.passed
    if stack.settled:
        culprit = stack.edits[refused - 1]
        whole = replace(state, accepted=stack.edits, text=stack.edits[-1].text, stack=None)
        return _roll_back(setting, whole, stack.finding, stack.detail, (culprit.text.digest,))
    first = stack.edits[: stack.tried]
    text = first[-1].text
    state = state.note(
        "bisected",
        f"the gate rejects the first {refused} of {count} edits together, accepts the first"
        f" {passed}; next, the first {len(first)}",
        text.digest,
        {"edits": count, "refused": refused, "passed": passed, "tried": len(first)},
    )
    return replace(state, stack=stack, accepted=first, text=text, phase="suite")


def settled(setting: LoopConfig, state: LoopState) -> LoopState:
    """Say again how far goals are reached; of the prompt as it was, look again what fails."""
    state = replace(state, settled=state.settled | {settling(state)})
    return _accept(setting, state) if state.accepted else diagnosed(setting, state)


def judge_fresh(setting: LoopConfig, state: LoopState) -> LoopState:
    """Return whether each accepted edit helps on trials that chose nothing, also held out."""
    state = replace(state, look=state.look + 1)
    test = setting.policy.test
    waiting: list[str] = []
    doubtful: dict[str, str] = {}
    # Text without effect is removed for no case, so it promises no gain.
    for edit in (accepted for accepted in reversed(state.accepted) if accepted.cluster.cases):
        check = edit.cluster.check
        seen, unseen = either_side(setting, state, edit)
        odds = generalises(setting, state, edit, seen, unseen)
        drawn = state.fresh.over(state.text.digest, unseen, check).trials
        if odds <= 1 / test.generalises and drawn >= _HOLDOUT_TRIALS:
            detail = compared(state, edit, seen, unseen)
            return _roll_back(setting, state, "overfit", detail, (edit.text.digest,))
        if edit.cluster.unsteady:
            # What fails only now and then cannot show the same gain in a few trials.
            if not is_steadier(setting, state, edit):
                waiting += fresh_cases(setting, state, edit)
                doubtful[edit.text.digest] = f"{check} is not proved steadier on fresh trials"
            continue
        if unseen and (odds < test.generalises or drawn < _HOLDOUT_TRIALS):
            waiting += unseen[:FRESH_CASES]
            doubtful[edit.text.digest] = compared(state, edit, seen, unseen)
        # Where nothing failed there is nothing to gain. Both texts are drawn again, so that the
        # choice of these cases favours neither.
        failed = (*edit.cluster.failing, *unseen)
        p = better_p(state.fresh, state.text.digest, setting.base.digest, failed, check)
        if p > test.fresh_p / FRESH_LOOKS:
            waiting += (*edit.cluster.failing[:FRESH_CASES], *unseen[:FRESH_CASES])
            doubtful[edit.text.digest] = f"the gain in {check} does not show on fresh trials"
    if not waiting:
        for edit in (accepted for accepted in state.accepted if accepted.cluster.unsteady):
            steadiness = fresh_steadiness(setting, state, edit)
            text, numbers = (
                f"{edit.cluster.check}: {steadiness}",
                steadiness.numbers() if steadiness else {},
            )
            state = state.note("steadier", text, edit.text.digest, numbers)
        return _accept(setting, state)
    if state.look < FRESH_LOOKS:
        return replace(
            state,
            phase="fresh",
            waiting=tuple(dict.fromkeys(waiting)),
            doubtful=tuple(doubtful),
        )
    detail = "; ".join(doubtful.values())
    return _roll_back(setting, state, "undecided", detail, tuple(doubtful))


def _accept(setting: LoopConfig, state: LoopState) -> LoopState:
    ending = state.ending or "improved"
    reason: StopReason = "goal-met" if ending == "goal-met" else "improved"
    text = f"the gate accepts all {len(setting.train) + len(setting.holdout)} cases"
    if setting.holdout:
        before, after = (
            sum((tally.whole(text.digest, case) for case in setting.holdout), NO_TRIALS)
            for tally, text in ((state.tally, setting.base), (state.fresh, state.text))
        )
        text += f"; held-out failures {before.failed} of {before.trials}"
        text += f" -> {after.failed} of {after.trials}"
    goals = standings(setting, state, revised=True)
    if goals:
        if not all_met(goals) and can_settle(setting, state):
            return replace(state, phase="settle")
        state = state.noting(goals_note(setting, goals))
        reason = "goal-met" if all_met(goals) else "improved"
        text += f"; {counted(goals)}"
    if reason == "improved" and ending not in {"improved", "goal-met"}:
        text += f"; search ended: {_LIMITS.get(ending, ending)}"
    return stop(state.note("accepted", text), reason, text, proposal=True)


def _roll_back(
    setting: LoopConfig, state: LoopState, finding: Finding, detail: str, texts: Sequence[str] = ()
) -> LoopState:
    """Take edits back, the newest one unless it is said which; go on with what is left.

    What is left is verified again, after other edits were sought where that can still be paid.
    """
    texts = texts or (state.accepted[-1].text.digest,)
    open_before, text = state.open, setting.base
    rest: list[Accepted] = []
    before = setting.base
    for edit in state.accepted:
        if edit.text.digest in texts:
            text_of = f"{edit.edit.strategy} for {edit.cluster.key}: {detail}"
            state = replace(state, text=before, open=(edit.cluster,))
            state = tried(state, edit.text, detail, finding)
            state = state.note("rolled-back", text_of, edit.text.digest, named(edit.edit))
        else:
            with suppress(EditError):  # it changes what was taken back: it goes as well
                text = merged(before, edit.text, text)
                rest.append(replace(edit, text=text))
        before = edit.text
    state = replace(
        state,
        text=text,
        accepted=tuple(rest),
        open=open_before,
        look=0,
        waiting=(),
        doubtful=(),
        taken_back=detail,
    )
    if state.ending == "goal-met" and state.cycle < setting.policy.limits.cycles:
        again = replace(state, ending=None, cycle=state.cycle + 1, idle=state.idle + 1)
        return diagnosed(setting, again)
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
    "holdout-looks": "the held-out cases decided too often to show what generalises",
    "candidates": "the limit of tested edits is reached",
    "no-acceptable-edit": "no further edit was acceptable",
    "only-known-edits": "the proposers have no new edit",
    "questions": "what still fails is a question for a person",
}


def fresh_cases(setting: LoopConfig, state: LoopState, edit: Accepted) -> tuple[str, ...]:
    """The cases an edit is to make steady, and held-out ones in which its check failed."""
    unseen = either_side(setting, state, edit)[1]
    return tuple(dict.fromkeys((*edit.cluster.cases, *unseen[:FRESH_CASES])))


def fresh_steadiness(
    setting: LoopConfig, state: LoopState, edit: Accepted, *, confidence: float = 0.95
) -> Steadiness | None:
    """The variance in trials that chose nothing, on the cases of an edit and held-out ones."""
    return steadiness_of(
        state.fresh,
        state.text.digest,
        setting.base.digest,
        fresh_cases(setting, state, edit),
        edit.cluster.check,
        confidence=confidence,
    )


def is_steadier(setting: LoopConfig, state: LoopState, edit: Accepted) -> bool:
    """Return whether fresh trials prove that verdicts vary less, and pass no less often.

    The interval of the fall has to leave out 0, and its p-value to be small, at every look's share
    of what all looks may err.
    """
    share = setting.policy.test.fresh_p / FRESH_LOOKS
    steadiness = fresh_steadiness(setting, state, edit, confidence=1 - share)
    return (
        steadiness is not None
        and steadiness.low > 0
        and steadiness.steadier_p <= share
        and steadiness.gain >= 0
    )
