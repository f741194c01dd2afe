"""The search for edits: releases, failure modes, proposers, and tests of candidates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from regauge.gate import NO_TRIALS
from regauge.refine.analysis import (
    Tally,
    p_better,
    p_worse,
    tail,
)
from regauge.refine.edits import (
    Delete,
    Edit,
    Insert,
    apply,
    blocks_between,
    count_lost_words,
    rule_edit,
)
from regauge.refine.guards import text_warnings
from regauge.refine.loop._candidates import (
    add_attempt,
    all_suspects,
    candidates_of,
    narrow_suspects,
    refuse,
    smaller_edits,
)
from regauge.refine.loop._plan import (
    all_met,
    can_confirm,
    can_settle,
    current_count,
    deal_trials,
    describe_goals,
    diagnose_train,
    exceeded,
    gate_phase,
    measure_goals,
    note_goals,
    plan_trials,
    screen,
    screen_cases,
    screen_count,
    spared_modes,
    unclear_cases,
    underpowered_text,
)
from regauge.refine.loop._state import Accepted, Candidate, Stop, Trials
from regauge.statements import content_words
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.analysis import FailureMode
    from regauge.refine.edits import Op, PromptText
    from regauge.refine.loop._state import (
        CritiqueResult,
        LoopState,
        Numbers,
        ProposalResult,
        Release,
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
        reason, text = "unreadable", unreadable(state)
    if state.release_hint and not proposal:
        text = f"{text}; {state.release_hint}"
    ending = Stop(reason=reason, proposal=proposal, text=text)
    state = state.note("stopped", f"{reason}: {text}")
    return replace(state, phase="stopped", stopped_phase=state.phase, stop=ending)


def unreadable(state: LoopState) -> str:
    """The message of a run without a readable response of the refiner model."""
    return f"no response of the refiner model could be read: {state.unreadable_reason}"


def after_baseline(state: LoopState) -> LoopState:
    """Run unclear cases again; then diagnose."""
    base = state.config.base
    missing = [case for case in state.config.train if not state.tally.trials(base.digest, case)]
    if missing:
        cases = f"{len(missing)} of {len(state.config.train)} training cases have no trial"
        return stop(state, "provider-outage", f"{cases}, such as {missing[0]}")
    next_state = replace(state, look_number=state.look_number + 1)
    if unclear_cases(next_state):
        return next_state
    if state.config.feedback:
        state = state.note("feedback", state.config.feedback)
    for text in (*state.config.errors_in(base), *text_warnings(base)):
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
        return _enter_release(state) or enter_proposer(state)
    unsteady = _unsteady(state)
    if unsteady:
        return replace(state, open_modes=unsteady, phase="unsteady", paired=Tally())
    return nothing_left(state)


def _remove(state: LoopState) -> LoopState:
    """Begin the verification of text without effect, all of it together first."""
    accepted: list[Accepted] = []
    text = state.config.base
    for removal in state.config.removals:
        after = apply(text, removal.edit.ops)
        objection = state.config.guard.objection(text, after)
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


def _enter_release(state: LoopState) -> LoopState | None:
    """Try earlier releases; None if all were tried on this text."""
    if "rules" not in state.config.proposers or state.text.digest in state.restored_texts:
        return None
    if any(edit.edit.strategy != "restore" for edit in state.accepted):
        return None  # it would undo the accepted edit
    # Parts of a release that a user rejected may be accepted; the memory has the rejected edit.
    passed = {"accepted", "rejected-by-person"}
    done = {attempt.after for attempt in state.memory.attempts if attempt.result not in passed}
    done.add(state.text.shape)
    untried = [
        n for n, release in enumerate(state.config.releases) if release.text.shape not in done
    ]
    return replace(state, phase="release", release=untried[0]) if untried else None


def _unsteady(state: LoopState) -> tuple[FailureMode, ...]:
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
    state = replace(state, open_modes=state.open_modes[1:], proposer_index=0)
    if state.open_modes:
        return enter_proposer(state)
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


# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


def after_screen(state: LoopState) -> LoopState:
    """Continue the search for a hindering statement, make the best edit smaller, or rank edits."""
    if not any(candidate.suspects for candidate in state.candidates):
        return _with_smaller(state) or _rank(state)
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


def _with_smaller(state: LoopState) -> LoopState | None:
    """The state with the best edit without each of its changes, if these texts can be run.

    A change is accepted only if the edit does worse without it.
    """
    best = _best_candidates(state)[:1]
    texts = {candidate.text.shape for candidate in state.candidates}
    smaller = [
        part
        for candidate in best
        for part in smaller_edits(state, candidate)
        if part.text.shape not in texts
    ]
    if not smaller:
        return None
    wider = replace(state, candidates=(*state.candidates, *smaller))
    return None if exceeded(wider, screen(wider)) else wider


def _best_candidates(state: LoopState) -> list[Candidate]:
    """The candidates that do better than the current text, the best first.

    Of those that do about as well, one that loses nothing and restates nothing is better.
    """
    now = current_count(state)
    rates = {
        id(candidate): score.rate
        for candidate in state.candidates
        if (score := screen_count(state, candidate.text, state.mode)).trials
        and score.rate > now.rate
    }
    top = max(rates.values(), default=0.0)

    def order(candidate: Candidate) -> tuple[bool, bool, int, int, float]:
        rate, words = rates[id(candidate)], count_lost_words(state.text, candidate.text)
        is_worse = rate < top - _AS_GOOD
        return is_worse, bool(candidate.suspicion), words, candidate.text.size, -rate

    return sorted((c for c in state.candidates if id(c) in rates), key=order)


def _rank(state: LoopState) -> LoopState:
    """Test the best of the candidates that do better than the current text."""
    check, now, best = state.mode.check, current_count(state), _best_candidates(state)
    for candidate in state.candidates:
        score = screen_count(state, candidate.text, state.mode)
        state = state.note(
            "screened",
            f"{candidate.edit.strategy}: {check} passes {score} (before {now})",
            candidate.text.digest,
            {"passed": score.passed, "trials": score.trials, "better": +(candidate in best)},
        )
        if candidate not in best:
            state = add_attempt(state, candidate, result="screened-out")
    if not best:
        return next_proposer(state)
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
    numbers = {
        "p": p,
        "bound": bound,
        "look": state.look_number,
    }
    last = state.look_number >= test.looks_max
    if harmed and (surely or last):
        return _drop(state, f"{harmed} gets worse", numbers)
    was, now = (tally.count_over(text, mode.cases, check) for text in (old, new))
    if p <= bound and not harmed:
        counts = f"fails {now.failed} of {now.trials} (before {was.failed} of {was.trials})"
        state = state.note("confirmed", f"{check} {counts}, p = {p:.1g}", new, numbers)
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


RESTORE = "restore"
"""The strategy of an edit that restores the text of a release."""

# Each is a few calls; the remaining parts are proposed together.
_HALVINGS_MAX = 12
# A part that loses no more of the pass rate on failing cases is as good as the whole.
_PART_AS_GOOD = 0.17


def release(state: LoopState) -> Trials:
    """The failing cases with the release, or with a part of its differences."""
    modes = state.open_modes[:1] if state.helped_modes else state.open_modes
    text = _fewer(state)[1] if state.helped_modes else _release(state).text
    assert text is not None
    cases = dict.fromkeys(case for mode in modes for case in screen_cases(state, mode))
    trials = deal_trials([*cases], state.test.screen_cases)
    # Rules always judge; an LLM judge only where its check is among those that fail.
    llm_checks = sorted(
        {mode.check for mode in state.open_modes if mode.check in state.config.judging}
    )
    check = None if len(llm_checks) > 1 else (llm_checks or [state.open_modes[0].check])[0]
    return (plan_trials(state, text, cases, trials, check=check),)


def after_release(state: LoopState) -> LoopState:
    """Reduce the release, test the rest of it, or continue without it."""
    if state.helped_modes:
        return _next_part(state)
    release = _release(state)
    counts = {
        mode: [screen_count(state, text, mode) for text in (state.text, release.text)]
        for mode in state.open_modes
    }
    helped = tuple(
        mode for mode, (was, now) in counts.items() if now.trials and now.rate > was.rate
    )
    before, after = counts[state.mode]
    numbers = {"passed": after.passed, "trials": after.trials, "helped": len(helped)}
    state = state.note(
        "released",
        f"restore {release.name}: {state.mode.check} passes {after} (before {before})",
        release.text.digest,
        numbers,
    )
    if not helped:
        edit = Edit(ops=(), strategy=RESTORE, proposer="rules")
        candidate = Candidate(edit=edit, text=release.text)
        state = add_attempt(state, candidate, f"{release.name} is no better", "screened-out")
        return _next_release(state)
    release_hint = f"{release.name} passes more often: {release.command}"
    return _for_one(replace(state, release_hint=release_hint), helped)


def _for_one(state: LoopState, helped: tuple[FailureMode, ...]) -> LoopState:
    """The least part of the release that helps one check; other fixes are other edits."""
    other_modes = (mode for mode in state.open_modes if mode is not helped[0])
    return _next_part(replace(state, open_modes=(helped[0], *other_modes), helped_modes=helped))


def _next_part(state: LoopState) -> LoopState:
    """The trials without the next part; a test of the rest when there is none."""
    units, text = _fewer(state)
    return state if text is not None else _test_release(state, units)


def _fewer(state: LoopState) -> tuple[list[list[Op]], PromptText | None]:
    """The needed parts of a release, and the next text without some of them.

    Half of the parts are left out first, then a quarter, and so on to single ones. A part may do
    as well as the release, without further errors in the text. A text with trials is not run again.
    """
    release, errors_in = _release(state).text, state.config.errors_in
    units = differing_units(state.text, release)
    start, size = 0, (len(units) + 1) // 2
    for _ in range(_HALVINGS_MAX):
        while start >= len(units) and size > 1:
            start, size = 0, size // 2
        if len(units) < 2 or start >= len(units):  # noqa: PLR2004 - two parts
            break
        fewer = units[:start] + units[start + size :]
        text = _with_units(state.text, fewer)
        count, best = (screen_count(state, version, state.mode) for version in (text, release))
        if fewer and not count.trials:
            return units, text
        is_as_good = fewer and count.rate >= best.rate - _PART_AS_GOOD
        if is_as_good and len(errors_in(text)) <= len(errors_in(release)):
            units = fewer
        else:
            start += size
    return units, None


def _with_units(text: PromptText, units: Sequence[Sequence[Op]]) -> PromptText:
    return apply(text, [op for unit in units for op in unit])


def _test_release(state: LoopState, units: Sequence[Sequence[Op]]) -> LoopState:
    """Test the rest of the release as any other edit."""
    release = _release(state)
    text = _with_units(state.text, units)
    reason = f"{release.name} has this text, and {state.mode.check} passes with it"
    edit = rule_edit(state.text, text, RESTORE, reason)
    refused = state.memory.refuses(state.mode.key, state.text, text)
    if refused:
        state = refuse(state, edit, refused)
        other_modes = state.helped_modes[1:]
        return _for_one(state, other_modes) if other_modes else _next_release(state)
    state = _end_release(state)
    candidate = Candidate(edit=edit, text=text)
    # The proposers follow from the first one on if the test fails.
    return begin_test(replace(state, candidates=(candidate,), proposer_index=-1, novel=True))


def _next_release(state: LoopState) -> LoopState:
    """The next release, or the proposers."""
    number = state.release + 1
    if number < len(state.config.releases):
        nxt = replace(state, release=number, helped_modes=())
        if _release(nxt).text.shape != state.text.shape:
            return nxt
        return _next_release(nxt)
    state = _end_release(state)
    return enter_proposer(state) if state.open_modes else next_mode(state)


def _end_release(state: LoopState) -> LoopState:
    restored_texts = state.restored_texts | {state.text.digest}
    return replace(state, restored_texts=restored_texts, release=0, helped_modes=())


def _release(state: LoopState) -> Release:
    return state.config.releases[state.release]


def differing_units(text: PromptText, released: PromptText) -> list[list[Op]]:
    r"""The parts in which a text differs from a release, as operations that restore each.

    Blocks of lines that exchange a word belong together, such as tags.

    >>> from regauge.refine.edits import PromptText
    >>> now = PromptText.from_contents("Be long.\nUse JSON.")
    >>> was = PromptText.from_contents("Be brief.\nUse JSON.")
    >>> apply(now, differing_units(now, was)[0]).full_text
    'Be brief.\nUse JSON.'
    """
    units: list[tuple[frozenset[str], list[Op]]] = []
    for block in blocks_between(text, released):
        old = "\n".join(op.anchor.line for op in block if not isinstance(op, Insert))
        new = "\n".join(op.text for op in block if not isinstance(op, Delete))
        words = content_words(old) ^ content_words(new)
        overlapping = [unit for unit in units if unit[0] & words]
        units = [unit for unit in units if unit not in overlapping]
        ops = [*(op for unit in overlapping for op in unit[1]), *block]
        units.append((words.union(*(unit[0] for unit in overlapping)), ops))
    return [ops for _, ops in units]
