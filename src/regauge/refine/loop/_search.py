"""The search for edits: releases, failure modes, proposers, and tests of candidates."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from regauge.gate import NO_TRIALS
from regauge.refine.analysis import Tally, p_better, p_worse, tail
from regauge.refine.edits import apply, count_lost_words
from regauge.refine.guards import text_warnings
from regauge.refine.loop._candidates import (
    add_attempt,
    all_suspects,
    candidates_of,
    narrow_suspects,
    refuse,
    releases_to_try,
    smaller_edits,
)
from regauge.refine.loop._plan import (
    all_met,
    can_confirm,
    can_settle,
    current_count,
    describe_goals,
    diagnose_train,
    exceeded,
    gate_phase,
    measure_goals,
    note_goals,
    plan_trials,
    screen,
    screen_count,
    spared_modes,
    unclear_cases,
    underpowered_text,
)
from regauge.refine.loop._state import Accepted, Candidate, Stop, Trials
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.refine.analysis import FailureMode
    from regauge.refine.loop._state import (
        CritiqueResult,
        LoopState,
        Numbers,
        ProposalResult,
        StopReason,
    )

# Reasons to stop that need a readable proposal.
_AFTER_PROPOSALS = frozenset(
    {"no-acceptable-edit", "no-new-edit", "cycles", "candidates", "model-calls"}
)


def stop(state: LoopState, reason: StopReason, text: str, *, proposal: bool = False) -> LoopState:
    """End the run; without a readable response of the refiner model, as unreadable."""
    if (
        reason in _AFTER_PROPOSALS
        and state.unreadable_reason
        and not state.has_readable_response
        and not proposal
    ):
        reason = "unreadable"
        text = f"no response of the refiner model could be read: {state.unreadable_reason}"
    if state.better_release and not proposal:
        text = (
            f"{text}; {state.better_release.name} passes more often: {state.better_release.command}"
        )
    ending = Stop(reason=reason, proposal=proposal, text=text)
    state = state.note("stopped", f"{reason}: {text}")
    return replace(state, phase="stopped", stopped_phase=state.phase, stop=ending)


def after_baseline(state: LoopState) -> LoopState:
    """Run unclear cases again; then diagnose."""
    base, train = state.config.base, state.config.train
    missing = [case for case in train if not state.tally.trials(base.digest, case)]
    if missing:
        text = f"{len(missing)} of {len(train)} training cases have no trial, such as {missing[0]}"
        return stop(state, "unmeasured", f"{text}: {state.problem}" if state.problem else text)
    next_state = replace(state, look_number=state.look_number + 1)
    if unclear_cases(next_state):
        return next_state
    if state.config.feedback:
        state = state.note("feedback", state.config.feedback)
    limits = Counter(o.limit for case in train for o in state.tally.outcomes(base.digest, case))
    cut_off = [
        f"{count} of {limits.total()} outputs are cut off at {limit}: change it"
        for limit, count in limits.items()
        if limit
    ]
    for text in (*state.config.errors_in(base), *text_warnings(base), *cut_off):
        state = state.note("preflight", text)
    return diagnosed(replace(state, look_number=0))


def diagnosed(state: LoopState) -> LoopState:
    """Find reproducible failures; a run that removes text skips this."""
    if state.config.removals:
        return _remove(state)
    diagnosis = diagnose_train(state, state.config.tolerated)
    questioned = {mode.key for mode, _ in state.questions}
    unresolved = [c for c in diagnosis.modes if c.key not in questioned and not _is_cured(state, c)]
    tolerated = spared_modes(state, unresolved)
    modes = tuple(mode for mode in unresolved if mode not in tolerated)
    no_modes = "nothing fails more often than goals allow" if tolerated else "none reproducible"
    text = "; ".join(f"{c.key} in {c.failures} of {c.trials} trials" for c in modes)
    numbers = {"failure_modes": len(modes), "flaky": len(diagnosis.flaky)}
    state = state.note("diagnosed", text or no_modes, numbers=numbers)
    state = replace(
        state,
        open_modes=modes,
        spared_modes=tolerated,
        flaky=diagnosis.flaky,
        proposer_index=0,
        novel=False,
    )
    if modes and not state.accepted and can_settle(state):
        return replace(state, phase="settle")
    if modes and not (state.accepted or state.tested):
        able = tuple(mode for mode in modes if can_confirm(state, mode))
        if not able:
            return stop(state, "underpowered", underpowered_text(state, modes[0]))
        state = replace(state, open_modes=able)
    if modes:
        return enter_mode(state)
    unsteady = _flaky_modes(state)
    if unsteady:
        return replace(state, open_modes=unsteady, phase="unsteady", paired=Tally())
    return nothing_left(state)


def _remove(state: LoopState) -> LoopState:
    """Begin the verification of text without effect, all of it together first."""
    accepted: list[Accepted] = []
    text = state.config.base
    for removal in state.config.removals:
        after = apply(text, removal.edit.ops)
        objection = state.config.guard.objection(removal.edit, text, after)
        if objection:
            state = refuse(state, removal.edit, objection)
            continue
        accepted.append(replace(removal, text=after))
        text = after
    if not accepted:
        return stop(state, "no-acceptable-edit", "no text without effect may be removed")
    state = state.note("diagnosed", "not searched for: this run removes text and fixes nothing")
    state = replace(state, accepted=tuple(accepted), text=text)
    return verify(state, "improved")


def _is_cured(state: LoopState, mode: FailureMode) -> bool:
    """Return whether an edit for another check ended these failures, too."""
    if not state.accepted or any(e.mode.check == mode.check for e in state.accepted):
        return False
    now = state.tally.count_over(state.text.digest, mode.failing, mode.check)
    before = state.tally.count_over(state.config.base.digest, mode.failing, mode.check)
    # `texts_for` counts trials of the base for a check without an edit of its own, so `diagnose`
    # still reports failures that have ended. So many passes in a row would be luck otherwise.
    luck = ((before.passed + 1) / (before.trials + 2)) ** now.trials
    return not now.failed and luck <= state.test.again_p


def _flaky_modes(state: LoopState) -> tuple[FailureMode, ...]:
    """The flaky checks that have not run again yet, with the failing cases."""
    test = state.test
    if not state.config.fix_flaky:
        return ()
    new = [mode for mode in state.flaky if mode.key not in state.steadied]
    new.sort(key=lambda mode: (-mode.failures, mode.check))
    count = test.steady_cases
    return tuple(
        replace(mode, cases=mode.failing[:count], failing=mode.failing[:count], unsteady=True)
        for mode in new[: test.steady_checks]
    )


def nothing_left(state: LoopState, *, worked: bool = False) -> LoopState:
    """Verify the accepted edits, or stop, without a further reproducible failure.

    Args:
        worked: Whether edits were tested for a flaky check.
    """
    state = replace(state, open_modes=())
    if state.accepted:
        return verify(state, "goal-met")
    goals = measure_goals(state, with_revision=False)
    if goals and not all_met(goals) and can_settle(state):
        return replace(state, phase="settle")
    if goals:
        state = note_goals(state, goals)
    none_helps = f"none of {plural(state.tested, 'tested edit')} makes a flaky check steadier"
    goals_text = f"{describe_goals(goals)}; no training case fails reproducibly"
    endings: list[tuple[bool, StopReason, str]] = [
        (all_met(goals), "goal-met", "the prompt as it is meets every goal"),
        (bool(state.questions), "questions", "the failures are questions for you"),
        (bool(state.rollback_reason), "suite-refused", state.rollback_reason),
        (bool(goals), "goal-open", goals_text),
        (worked, "no-acceptable-edit", f"nothing fails reproducibly; {none_helps}"),
        (True, "nothing-to-refine", "no check of a training case fails reproducibly"),
    ]
    _, reason, text = next(ending for ending in endings if ending[0])
    return stop(state, reason, text)


def verify(state: LoopState, ending: StopReason | None = None) -> LoopState:
    """Begin or continue the verification of accepted edits; the search is over."""
    return replace(state, phase=gate_phase(state), ending=ending or state.ending)


def enter_mode(state: LoopState) -> LoopState:
    """Work on the current failure mode: with releases first, then with the proposers."""
    candidates = releases_to_try(state)
    if not candidates:
        return enter_proposer(replace(state, proposer_index=0))
    return replace(
        state, phase="screen", candidates=candidates, critique=None, proposer_index=-1, novel=True
    )


def enter_proposer(state: LoopState) -> LoopState:
    """Work on a failure mode with the current proposer."""
    critic = state.config.proposers[state.proposer_index] in state.config.critics
    state = replace(state, critique=None, candidates=())
    return replace(state, phase="critique" if critic else "propose")


def next_proposer(state: LoopState) -> LoopState:
    """Call the next proposer, or continue with the next failure mode."""
    if state.proposer_index + 1 < len(state.config.proposers):
        return enter_proposer(replace(state, proposer_index=state.proposer_index + 1))
    return next_mode(state)


def next_mode(state: LoopState) -> LoopState:
    """Continue with the next failure mode, or begin the next cycle."""
    done = state.mode
    state = replace(state, open_modes=state.open_modes[1:])
    if state.open_modes:
        return enter_mode(state)
    if done.unsteady:
        return nothing_left(state, worked=state.tested > 0)
    limits, idle = state.config.policy.limits, state.idle + 1
    reason: StopReason | None = None
    if not state.novel:
        reason = "questions" if state.questions else "no-new-edit"
    elif idle >= limits.failed_cycles:
        reason = "no-acceptable-edit"
    elif state.cycle >= limits.cycles:
        reason = "cycles"
    if reason is None:
        return diagnosed(replace(state, cycle=state.cycle + 1, idle=idle))
    if state.accepted:
        return verify(state, reason)
    if state.rollback_reason:
        return stop(state, "suite-refused", state.rollback_reason)
    tested = plural(state.tested, "tested edit")
    return stop(state, reason, f"after {plural(state.cycle, 'cycle')} and {tested}")


def after_critique(state: LoopState, observation: CritiqueResult) -> LoopState:
    """Request edits, or record a question to the user."""
    critique, key = observation.critique, state.mode.key
    if observation.refused:
        state = state.note("unreadable", observation.refused, key)
    if critique is None:
        return replace(state, phase="propose", critique=None)
    state = state.note("criticised", f"{critique.kind}: {critique.hypothesis}", key)
    if not critique.is_question:
        return replace(state, phase="propose", critique=critique)
    next_state = replace(state, questions=(*state.questions, (state.mode, critique)))
    return next_mode(next_state)


def after_proposals(state: LoopState, observation: ProposalResult) -> LoopState:
    """Keep the candidates that no guard rejects."""
    key = state.mode.key
    for text in observation.refused:
        state = state.note("unreadable", text, key)
    search = all_suspects(state)
    candidates, state = candidates_of(state, observation.edits)
    by_model = state.config.proposers[state.proposer_index] in state.config.critics
    candidates = (*candidates, *([search] if search else []))
    state = replace(
        state,
        candidates=candidates,
        novel=state.novel or bool(observation.refused or search),
        unreadable_reason=observation.refused[-1]
        if observation.unread
        else state.unreadable_reason,
        has_readable_response=state.has_readable_response
        or (by_model and len(observation.edits) + len(observation.refused) > observation.unread),
    )
    return replace(state, phase="screen") if candidates else next_proposer(state)


# Each is a few calls.
_REDUCTIONS_MAX = 12
# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


def after_screen(state: LoopState) -> LoopState:
    """Continue the search for a hindering statement, make the best edit smaller, or rank edits."""
    if not any(candidate.suspects for candidate in state.candidates):
        return _reduce(state) or _rank(state)
    state, edits = narrow_suspects(state)
    if edits:
        candidates, state = candidates_of(state, edits)
        state = replace(state, candidates=candidates or state.candidates)
    if not state.candidates:
        return next_proposer(state)
    searching = any(candidate.suspects for candidate in state.candidates)
    counts = [screen_count(state, candidate.text, state.mode) for candidate in state.candidates]
    has_all = all(count.trials for count in counts)
    return _rank(state) if has_all and not searching else state


def _reduce(state: LoopState) -> LoopState | None:
    """The state with the best edit without some of its changes; None if none is left to try.

    A change is accepted only if the edit does worse without it.
    """
    reductions = sum(candidate.is_smaller for candidate in state.candidates)
    best = _best_candidates(state)[:1] if reductions < _REDUCTIONS_MAX else []
    smaller = next((part for candidate in best for part in smaller_edits(state, candidate)), None)
    if smaller is None:
        return None
    wider = replace(state, candidates=(*state.candidates, smaller))
    return None if exceeded(wider, screen(wider)) else wider


def _best_candidates(state: LoopState) -> list[Candidate]:
    """The candidates that do better than the current text, the best first.

    Of those that do about as well, one that restates nothing and loses nothing is better: a
    statement that another one may contradict is replaced only where that is needed.
    """
    now = current_count(state)
    rates = {
        id(candidate): score.rate
        for candidate in state.candidates
        if (score := screen_count(state, candidate.text, state.mode)).trials
        and score.rate > now.rate
    }
    top = max(rates.values(), default=0.0)

    def order(candidate: Candidate) -> tuple[bool, bool, int, bool, int, float]:
        rate, words = rates[id(candidate)], count_lost_words(state.text, candidate.text)
        is_worse, suspicion = rate < top - _AS_GOOD, bool(candidate.suspicion)
        restated = suspicion and bool(state.config.guard.restated(state.text, candidate.text))
        return is_worse, restated, words, suspicion, candidate.text.size, -rate

    return sorted((c for c in state.candidates if id(c) in rates), key=order)


def _rank(state: LoopState) -> LoopState:
    """Test the best of the candidates that do better than the current text."""
    check, now, best = state.mode.check, current_count(state), _best_candidates(state)
    for candidate in state.candidates:
        score = screen_count(state, candidate.text, state.mode)
        state = state.note(
            "screened",
            f"{candidate.name}: {check} passes {score} (before {now})",
            candidate.text.digest,
            {"passed": score.passed, "trials": score.trials, "better": +(candidate in best)},
        )
        if candidate not in best:
            state = add_attempt(state, candidate, result="screened-out")
    if best and best[0].release:
        # The least part of a release that helps; a user may have rejected it.
        reason, attempt = state.memory.refusal(state.mode.key, state.text, best[0].text)
        if reason:
            state, best = refuse(state, best[0].edit, reason, attempt), []
    if not best:
        return next_proposer(state)
    state = replace(state, better_release=best[0].release or state.better_release)
    return begin_test(replace(state, candidates=tuple(best[: state.test.tested_max])))


def begin_test(state: LoopState) -> LoopState:
    """Begin the test of the first candidate."""
    return replace(state, phase="confirm", look_number=1, tested=state.tested + 1, paired=Tally())


def after_confirm(state: LoopState) -> LoopState:
    """Accept the first candidate, drop it, or run more trials."""
    test, mode, candidate = state.test, state.mode, state.candidates[0]
    check, new, old = mode.check, candidate.text.digest, state.text.digest
    tally = _evidence(state)
    p = p_better(tally, new, old, mode.cases, check)
    bound = test.alpha * 6 / (math.pi * state.tested) ** 2 / test.looks_max
    if candidate.suspicion:  # it needs more evidence
        bound /= test.looks_max
    harmed, surely = _find_harm(state, new)
    numbers = {"p": p, "bound": bound, "look": state.look_number}
    last = state.look_number >= test.looks_max
    if harmed and (surely or last):
        return _drop(state, f"{harmed} gets worse", numbers)
    was, now = (tally.count_over(text, mode.cases, check) for text in (old, new))
    if p <= bound and not harmed:
        counts = f"fails {now.failed} of {now.trials} (before {was.failed} of {was.trials})"
        text = "; ".join(filter(None, [f"{check} {counts}, p = {p:.1g}", candidate.suspicion]))
        state = state.note("confirmed", text, new, numbers)
        return accept_edit(state, candidate, p=p)
    if p > test.hopeless and now.trials >= test.hopeless_trials:
        return _drop(state, "no gain", numbers)
    if last:
        return _drop(state, "too little evidence", numbers, "undecided")
    return replace(state, look_number=state.look_number + 1)


def _evidence(state: LoopState) -> Tally:
    """The trials that test an edit.

    Flaky cases were selected because they failed now and then, and do so less often later on; only
    trials of the test count for them.
    """
    return state.paired if state.mode.unsteady else state.tally


def _find_harm(state: LoopState, new: str) -> tuple[str, bool]:
    """The check that a text fails more often, and whether that is certain.

    One of many checks is often worse by chance: more trials decide, unless it is much worse.
    """
    tally, old, test, train = state.tally, state.text.digest, state.test, state.config.train
    p_values = {
        name: p_worse(tally, new, old, train, name)
        for name in tally.checks(old, train)
        if name != state.mode.check
    }
    name = min(p_values, key=p_values.__getitem__, default="")
    bound = test.harm_p / test.looks_max
    if not name or p_values[name] > bound:
        return "", False
    return name, p_values[name] <= bound / len(p_values)


def _drop(
    state: LoopState,
    detail: str,
    numbers: Numbers,
    result: Literal["refuted", "undecided"] = "refuted",
) -> LoopState:
    """Continue without the first candidate."""
    candidate = state.candidates[0]
    text = f"{candidate.edit.strategy}: {detail}"
    state = state.note(result, text, candidate.text.digest, numbers)
    state = add_attempt(state, candidate, detail, result)
    state = replace(state, candidates=state.candidates[1:])
    return begin_test(state) if state.candidates else next_proposer(state)


def accept_edit(state: LoopState, candidate: Candidate, *, p: float) -> LoopState:
    """Accept an edit that passed its test, and diagnose the text with it."""
    mode, tally = state.mode, _evidence(state)
    accepted = Accepted(
        edit=candidate.edit,
        mode=mode,
        text=candidate.text,
        before=tally.count_over(state.text.digest, mode.cases, mode.check),
        after=tally.count_over(candidate.text.digest, mode.cases, mode.check),
        p=p,
    )
    state = add_attempt(state, candidate, result="accepted")
    state = replace(
        state,
        accepted=(*state.accepted, accepted),
        text=candidate.text,
        memory=state.memory.with_incumbent(candidate.text),
        candidates=(),
        idle=0,
    )
    if state.cycle >= state.config.policy.limits.cycles:
        return verify(state, "cycles")
    return diagnosed(replace(state, cycle=state.cycle + 1))


def unsteady(state: LoopState) -> Trials:
    """The cases that failed run again: the trials that selected them make them look worse."""
    cases = dict.fromkeys(case for mode in state.open_modes for case in mode.cases)
    trials = state.test.steady_trials
    return (plan_trials(state, state.text, cases, trials),)


def after_unsteady(state: LoopState) -> LoopState:
    """Work on the checks whose cases failed again, more often than steady ones would."""
    test = state.test
    state = replace(state, steadied=state.steadied | {mode.key for mode in state.open_modes})
    failing: list[FailureMode] = []
    for mode in state.open_modes:
        counts = {
            case: state.paired.count(state.text.digest, case, mode.check) for case in mode.cases
        }
        failed = [case for case, count in counts.items() if count.failed]
        cases = tuple(sorted(failed, key=lambda case: counts[case].rate))
        new = sum(counts.values(), NO_TRIALS)
        p = tail(new.trials, new.failed, test.steady_rate)
        fails = new.failed > 0 and p < test.steady_p
        text = f"{mode.check}: flaky cases fail {new.failed} of {new.trials} further trials"
        numbers = {"failures": new.failed, "trials": new.trials, "p": p}
        text += "" if fails else ", which may be chance"
        state = state.note("unsteady", text, mode.key, numbers)
        if fails:
            latest = replace(mode, cases=cases, failing=cases, p_flaky=p)
            failing.append(replace(latest, failures=new.failed, trials=new.trials))
    if not failing:
        return nothing_left(state)
    return enter_proposer(replace(state, open_modes=tuple(failing), proposer_index=0, novel=False))
