"""The search for edits: from one cluster, proposer and cycle to the next, and to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose, tail
from regauge.refine.attempts import Tried
from regauge.refine.goals import tolerated
from regauge.refine.guards import faults_in
from regauge.refine.loop._candidates import candidates_of, second_thoughts
from regauge.refine.loop._goals import (
    all_met,
    can_confirm,
    can_settle,
    counted,
    goals_note,
    out_of_reach,
    spared,
    standings,
    underpowered_text,
)
from regauge.refine.loop._plan import draws, texts_for, unclear_cases, verification_phase
from regauge.refine.loop._state import Accepted, Confirmed, Note, RunTrials, Stop
from regauge.refine.loop._suspects import all_suspects
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.refine.analysis import Cluster
    from regauge.refine.attempts import Finding
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import (
        Critiqued,
        Interrupted,
        Looked,
        Proposed,
        Setting,
        State,
        StopReason,
        TrialsDone,
    )
    from regauge.refine.tally import Tally

# Endings that say of a prompt what only proposals that were read can show.
_AFTER_PROPOSALS = frozenset(
    {"no-acceptable-edit", "only-known-edits", "cycles", "candidates", "model-calls"}
)


def stop(state: State, reason: StopReason, text: str, *, proposal: bool = False) -> State:
    """The end.

    Without one reply of the model that could be read, nothing is said about the prompt.
    """
    if reason in _AFTER_PROPOSALS and state.unread and not state.read and not proposal:
        reason, text = "unreadable", unreadable(state)
    if state.way_back and not proposal:
        text = f"{text}; {state.way_back}"
    note = Note(event="stopped", subject=state.text.digest, text=f"{reason}: {text}")
    ending = Stop(reason=reason, proposal=proposal, text=text)
    return state.noting(note, phase="stopped", left=state.phase, stop=ending)


def unreadable(state: State) -> str:
    """Why a run ends whose proposer was never read."""
    return f"no reply of the model that proposes could be read: {state.unread}"


def tried(state: State, text: PromptText, detail: str, finding: Finding = "refuted") -> State:
    """The state with a text remembered as tried."""
    key = state.open[0].key if state.open else ""
    entry = Tried.of(state.text, text, key, finding, detail=detail, cycle=state.cycle)
    return replace(state, memory=state.memory.with_tried(entry))


def diagnosed(setting: Setting, state: State) -> State:
    """Look for what fails reproducibly."""
    found = diagnose(
        state.tally,
        lambda check: texts_for(setting, state, check),
        setting.train,
        setting.checks,
        setting.policy.test,
        tolerated=tolerated(setting.goals, setting.policy.test.flaky_rate),
    )
    asked = {cluster.key for cluster, _ in state.questions}
    clusters = tuple(
        cluster
        for cluster in found.clusters
        if cluster.key not in asked and not _is_cured(setting, state, cluster)
    )
    left = spared(setting, state, clusters)
    clusters = tuple(cluster for cluster in clusters if cluster not in left)
    nothing = "nothing fails more often than goals allow" if left else "nothing fails reproducibly"
    note = Note(
        event="diagnosed",
        subject=state.text.digest,
        text="; ".join(f"{c.key} failed {c.failures} of {c.trials}" for c in clusters) or nothing,
        numbers={"clusters": len(clusters), "flaky": len(found.flaky)},
    )
    state = state.noting(note, open=clusters, spared=left, flaky=found.flaky, tier=0, novel=False)
    if clusters and not state.accepted and can_settle(setting, state):
        return replace(state, phase="settle")
    if clusters and not (state.accepted or state.tested):
        able = tuple(cluster for cluster in clusters if can_confirm(setting, state, cluster))
        if not able:
            return stop(state, "underpowered", underpowered_text(setting, state, clusters[0]))
        state = replace(state, open=able)
    if clusters:
        return _enter_release(setting, state) or enter_tier(setting, state)
    unsteady = _unsteady(setting, state)
    if unsteady:
        return replace(state, open=unsteady, phase="unsteady")
    return nothing_left(setting, state)


def _enter_release(setting: Setting, state: State) -> State | None:
    """Try what earlier releases said; None where that is settled for this text."""
    if "rules" not in setting.proposers or state.text.digest in state.restored_from:
        return None
    if any(one.edit.strategy != "restore" for one in state.accepted):
        return None  # it would take back what was accepted since
    # Of a release that a person rejected, parts may do; the guard names what is rejected.
    passed = {"accepted", "rejected-by-person"}
    refuted = {one.after for one in state.memory.tried if one.finding not in passed}
    untried = [
        number
        for number, known in enumerate(setting.releases)
        if known.text.shape != state.text.shape and known.text.shape not in refuted
    ]
    if not untried or (setting.strategies and "restore" not in setting.strategies):
        return None
    return replace(state, phase="release", release=untried[0])


def nothing_left(setting: Setting, state: State, *, worked: bool = False) -> State:
    """Nothing fails reproducibly any more: verify what was accepted, or stop.

    Args:
        setting: What the run is about.
        state: Where it stands.
        worked: Whether edits were sought for a flaky check.
    """
    state = replace(state, open=())
    if state.accepted:
        return _verify(setting, state, "goal-met")
    return _as_it_is(setting, state, worked=worked)


def _as_it_is(setting: Setting, state: State, *, worked: bool) -> State:
    """Nothing is left to repair in the prompt as it is; without goals, that is the end."""
    goals = standings(setting, state, revised=False)
    if goals and not all_met(goals) and can_settle(setting, state):
        return replace(state, phase="settle")
    if goals:
        state = state.noting(goals_note(setting, goals))
    if all_met(goals):
        return stop(state, "goal-met", "every goal is met by the prompt as it is")
    if state.questions:
        return stop(state, "questions", "what fails is for a person to answer")
    if state.taken_back:
        return stop(state, "suite-refused", state.taken_back)
    ending: StopReason = "nothing-to-refine"
    text = "no check of a train case fails reproducibly"
    if goals:
        ending, text = "goal-open", f"{counted(goals)}; no train case fails reproducibly"
    elif worked:
        tested = plural(state.tested, "tested edit")
        text = f"nothing fails reproducibly, and none of {tested} makes a flaky check steadier"
        ending = "no-acceptable-edit"
    return stop(state, ending, text)


def search_again(setting: Setting, state: State) -> State:
    """Look for other edits, once an accepted one was taken back."""
    return diagnosed(setting, replace(state, cycle=state.cycle + 1, idle=state.idle + 1))


def next_tier(setting: Setting, state: State) -> State:
    """Ask the next proposer, or go on with what else fails."""
    if state.tier + 1 < len(setting.proposers):
        return enter_tier(setting, replace(state, tier=state.tier + 1))
    return next_cluster(setting, state)


def next_cluster(setting: Setting, state: State) -> State:
    """Go on with what else fails, or begin the next cycle."""
    done = state.cluster
    state = replace(state, open=state.open[1:], tier=0)
    if state.open:
        return enter_tier(setting, state)
    if done.unsteady:
        return nothing_left(setting, state, worked=state.tested > 0)
    return _next_cycle(setting, state)


def _unsteady(setting: Setting, state: State) -> tuple[Cluster, ...]:
    """The flaky checks that were not looked at again yet, with the cases that failed."""
    test = setting.policy.test
    if not setting.variance:
        return ()
    new = [cluster for cluster in state.flaky if cluster.key not in state.steadied]
    new.sort(key=lambda cluster: (-cluster.failures, cluster.check))
    return tuple(
        replace(
            cluster,
            cases=cluster.failing[: test.steady_cases],
            failing=cluster.failing[: test.steady_cases],
            unsteady=True,
        )
        for cluster in new[: test.steady_checks]
    )


def _is_cured(setting: Setting, state: State, cluster: Cluster) -> bool:
    """Whether an edit made for another check ended these failures along with its own."""
    if not state.accepted or any(e.cluster.check == cluster.check for e in state.accepted):
        return False
    now = state.tally.over(state.text.digest, cluster.failing, cluster.check)
    before = state.tally.over(setting.base.digest, cluster.failing, cluster.check)
    # So many passes in a row would be luck if nothing had changed.
    luck = ((before.passed + 1) / (before.trials + 2)) ** now.trials
    return not now.failed and luck <= setting.policy.test.again_p


def _verify(setting: Setting, state: State, ending: StopReason) -> State:
    return replace(state, phase=verification_phase(setting, state), ending=ending)


def enter_tier(setting: Setting, state: State) -> State:
    """Work on a cluster with the proposer whose turn it is."""
    proposer = setting.proposers[state.tier]
    state = replace(state, critique=None, candidates=())
    return replace(state, phase="critique" if proposer in setting.critics else "propose")


def _next_cycle(setting: Setting, state: State) -> State:
    """Nothing was accepted in this cycle."""
    idle = state.idle + 1
    limits = setting.policy.limits
    reason: StopReason | None = None
    if not state.novel:
        reason = "questions" if state.questions else "only-known-edits"
    elif idle >= limits.patience:
        reason = "no-acceptable-edit"
    elif state.cycle >= limits.cycles:
        reason = "cycles"
    if reason is None:
        return diagnosed(setting, replace(state, cycle=state.cycle + 1, idle=idle))
    if state.accepted:
        return _verify(setting, state, reason)
    if state.taken_back:
        return stop(state, "suite-refused", state.taken_back)
    return stop(state, reason, f"after {state.cycle} cycles and {state.tested} tested edits")


def accept(setting: Setting, state: State, best: Confirmed) -> State:
    """Go on with a text that passed its test, and look for what fails under it."""
    candidate, cluster = best.candidate, state.cluster
    # Cases that were chosen because they failed now and then do so less often later on.
    tally = state.paired if cluster.unsteady else state.tally
    before = tally.over(state.text.digest, cluster.cases, cluster.check)
    after = tally.over(candidate.text.digest, cluster.cases, cluster.check)
    accepted = Accepted(
        edit=candidate.edit,
        cluster=cluster,
        text=candidate.text,
        before=before,
        after=after,
        p=best.p,
        effect=best.effect,
    )
    state = tried(state, candidate.text, candidate.edit.strategy, "accepted")
    state = replace(
        state,
        accepted=(*state.accepted, accepted),
        text=candidate.text,
        memory=state.memory.with_incumbent(candidate.text),
        candidates=(),
        confirmed=(),
        idle=0,
    )
    if state.cycle >= setting.policy.limits.cycles:
        return _verify(setting, state, "cycles")
    return diagnosed(setting, replace(state, cycle=state.cycle + 1))


def interrupted(state: State, told: Interrupted) -> State:
    """The end, for now: what was accepted is not verified, so nothing is proposed."""
    return stop(state, told.reason, told.text or "the run was stopped; resume it to go on")


def after_look(setting: Setting, state: State, told: Looked) -> State:
    """Begin; stop where nobody proposes but a model that cannot be read."""
    state = replace(state, phase="baseline")
    if not told.fault:
        return state
    note = Note(event="unreadable", subject=told.proposer, text=told.fault)
    state = state.noting(note, unread=told.fault)
    if all(name in setting.critics for name in setting.proposers):
        return stop(state, "unreadable", unreadable(state))
    return state


def baseline_drawn(setting: Setting, state: State, told: TrialsDone) -> State:
    """See that every train case was measured, and draw unclear ones again."""
    state = replace(state, tally=state.tally.with_outcomes(told.outcomes))
    unmeasured = [
        case for case in setting.train if not state.tally.trials(setting.base.digest, case)
    ]
    if unmeasured:
        return stop(
            state,
            "provider-outage",
            f"{len(unmeasured)} of {len(setting.train)} train cases have no trial, such as"
            f" {unmeasured[0]}",
        )
    again = replace(state, look=state.look + 1)
    if unclear_cases(setting, again):
        return again
    heard = [Note(event="heard", subject=setting.base.digest, text=setting.heard)]
    notes = heard * bool(setting.heard) + [
        Note(event="preflight", subject=setting.base.digest, text=text)
        for text in (
            *setting.errors_in(setting.base),
            *faults_in(setting.base),
            *out_of_reach(setting),
        )
    ]
    return state.noting(*notes, look=0, phase="localise")


def after_critique(setting: Setting, state: State, told: Critiqued) -> State:
    """Ask for edits, or put the question to a person."""
    critique = told.critique
    if told.refused:
        note = Note(event="unreadable", subject=state.cluster.key, text=told.refused)
        state = state.noting(note)
    if critique is None:
        return replace(state, phase="propose", critique=None)
    note = Note(
        event="criticised",
        subject=state.cluster.key,
        text=f"{critique.kind}: {critique.hypothesis}",
    )
    if not critique.is_question:
        return state.noting(note, phase="propose", critique=critique)
    asked = replace(state, questions=(*state.questions, (state.cluster, critique)))
    return next_cluster(setting, asked.noting(note))


def after_proposals(setting: Setting, state: State, told: Proposed) -> State:
    """Keep the candidates that no guard objects to."""
    refused = [
        Note(event="unreadable", subject=state.cluster.key, text=text) for text in told.refused
    ]
    edits = (*told.edits, *second_thoughts(setting, state))
    kept, objections = candidates_of(setting, state, edits)
    state = state.noting(*refused, *(note for note, _ in objections))
    entries = [entry for _, entry in objections if entry is not None]
    by_model = setting.proposers[state.tier] in setting.critics
    lacking = all_suspects(setting, state)
    candidates = (*kept, *([lacking] if lacking else []))
    state = replace(
        state,
        memory=state.memory.with_tried(*entries),
        novel=state.novel or bool(kept or entries or told.refused or lacking),
        unread=told.refused[-1] if told.unread else state.unread,
        read=state.read or (by_model and len(told.edits) + len(told.refused) > told.unread),
    )
    if not candidates:
        return next_tier(setting, state)
    return replace(state, phase="screen", candidates=candidates)


def unsteady(setting: Setting, state: State) -> RunTrials:
    """The cases that failed are drawn again: the trials that named them make them look worse."""
    cases = dict.fromkeys(case for cluster in state.open for case in cluster.cases)
    trials = setting.policy.test.steady_trials
    return RunTrials(draws=(draws(setting, state, state.text, cases, trials),))


def after_unsteady(setting: Setting, state: State, told: TrialsDone) -> State:
    """Work on the checks whose cases failed again, more often than steady ones would."""
    again = type(state.tally)().with_outcomes(told.outcomes)
    state = replace(
        state,
        tally=state.tally.with_outcomes(told.outcomes),
        steadied=state.steadied | {cluster.key for cluster in state.open},
    )
    kept: list[Cluster] = []
    test = setting.policy.test
    for cluster in state.open:
        one = _drawn_again(state, cluster, again)
        p = tail(one.trials, one.failures, test.steady_rate)
        fails = one.failures > 0 and p < test.steady_p
        note = Note(
            event="unsteady",
            subject=cluster.key,
            text=f"{cluster.check}: the cases that failed now and then failed {one.failures} of"
            f" {one.trials} when they were drawn again{'' if fails else ', which may be chance'}",
            numbers={"failures": one.failures, "trials": one.trials, "p": p},
        )
        state = state.noting(note)
        if fails:
            kept.append(replace(one, p_flaky=p))
    if not kept:
        return nothing_left(setting, state)
    return enter_tier(setting, replace(state, open=tuple(kept), tier=0, novel=False))


def _drawn_again(state: State, cluster: Cluster, again: Tally) -> Cluster:
    """A cluster by its new trials alone, with the cases that failed in these."""
    text, check = state.text.digest, cluster.check
    counts = {case: again.check(text, case, check) for case in cluster.cases}
    failing = sorted((c for c in counts if counts[c].failed), key=lambda c: counts[c].rate)
    return replace(
        cluster,
        cases=tuple(failing),
        failing=tuple(failing),
        failures=sum(count.failed for count in counts.values()),
        trials=sum(count.trials for count in counts.values()),
    )
