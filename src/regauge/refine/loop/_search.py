"""The search for edits: from one cluster, proposer and cycle to the next, and to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose, tail
from regauge.refine.attempts import Tried, named
from regauge.refine.edits import apply
from regauge.refine.guards import faults_in
from regauge.refine.loop._candidates import all_suspects, candidates_of, second_thoughts
from regauge.refine.loop._goals import (
    all_met,
    can_confirm,
    can_settle,
    counted,
    goals_note,
    spared,
    standings,
    underpowered_text,
)
from regauge.refine.loop._plan import draws, texts_for, unclear_cases, verification_phase
from regauge.refine.loop._state import Accepted, Confirmed, Note, Stop, Trials
from regauge.refine.tally import Tally
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
    )

# Endings that say of a prompt what only proposals that were read can show.
_AFTER_PROPOSALS = frozenset(
    {"no-acceptable-edit", "only-known-edits", "cycles", "candidates", "model-calls"}
)


def stop(state: State, reason: StopReason, text: str, *, proposal: bool = False) -> State:
    """The end; unless a reply of the model was read, it says nothing about the prompt."""
    if reason in _AFTER_PROPOSALS and state.unread and not state.read and not proposal:
        reason, text = "unreadable", unreadable(state)
    if state.way_back and not proposal:
        text = f"{text}; {state.way_back}"
    ending = Stop(reason=reason, proposal=proposal, text=text)
    state = state.note("stopped", f"{reason}: {text}")
    return replace(state, phase="stopped", left=state.phase, stop=ending)


def unreadable(state: State) -> str:
    """The reason why a run ends whose proposer was never read."""
    return f"no response of the refiner model could be read: {state.unread}"


def tried(state: State, text: PromptText, detail: str, finding: Finding = "refuted") -> State:
    """The state with a text remembered as tried."""
    key = state.open[0].key if state.open else ""
    entry = Tried.of(state.text, text, key, finding, detail=detail, cycle=state.cycle)
    return replace(state, memory=state.memory.with_tried(entry))


def after_look(setting: Setting, state: State, observed: Looked) -> State:
    """Begin; stop where the only proposer is a model that cannot be read."""
    state = replace(state, phase="baseline")
    if not observed.fault:
        return state
    state = replace(state, unread=observed.fault).note(
        "unreadable", observed.fault, observed.proposer
    )
    if all(name in setting.critics for name in setting.proposers):
        return stop(state, "unreadable", unreadable(state))
    return state


def baseline_drawn(setting: Setting, state: State) -> State:
    """See that every train case was measured, and run unclear ones again."""
    base = setting.base
    missing = [case for case in setting.train if not state.tally.trials(base.digest, case)]
    if missing:
        some = f"{len(missing)} of {len(setting.train)} training cases have no trial"
        return stop(state, "provider-outage", f"{some}, such as {missing[0]}")
    again = replace(state, look=state.look + 1)
    if unclear_cases(setting, again):
        return again
    if setting.feedback:
        state = state.note("feedback", setting.feedback)
    for text in (*setting.errors_in(base), *faults_in(base)):
        state = state.note("preflight", text)
    return replace(state, look=0, phase="localise")


def diagnosed(setting: Setting, state: State) -> State:
    """Look for what fails reproducibly; a run that removes text fixes nothing."""
    if setting.removals:
        return _removing(setting, state)
    found = diagnose(
        state.tally,
        lambda check: texts_for(setting, state, check),
        setting.train,
        setting.checks,
        setting.policy.test,
        tolerated=setting.tolerated,
    )
    asked = {cluster.key for cluster, _ in state.questions}
    every = [c for c in found.clusters if c.key not in asked and not _is_cured(setting, state, c)]
    left = spared(setting, state, every)
    clusters = tuple(cluster for cluster in every if cluster not in left)
    nothing = "nothing fails more often than goals allow" if left else "none reproducible"
    text = "; ".join(f"{c.key} in {c.failures} of {c.trials} trials" for c in clusters)
    numbers = {"clusters": len(clusters), "flaky": len(found.flaky)}
    state = state.note("diagnosed", text or nothing, numbers=numbers)
    state = replace(state, open=clusters, spared=left, flaky=found.flaky, tier=0, novel=False)
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
        return replace(state, open=unsteady, phase="unsteady", paired=Tally())
    return nothing_left(setting, state)


def _removing(setting: Setting, state: State) -> State:
    """Let the gate decide about text without effect, all of it together first."""
    kept: list[Accepted] = []
    text = setting.base
    for removal in setting.removals:
        after = apply(text, removal.edit.ops)
        objection = setting.guard.objection(removal.edit, text, after)
        if objection:
            detail = f"{removal.edit.strategy}: {objection}"
            state = state.note("guarded", detail, removal.edit.digest, named(removal.edit))
            continue
        kept.append(replace(removal, text=after))
        text = after
    if not kept:
        return stop(state, "no-acceptable-edit", "no text without effect may be removed")
    state = state.note("diagnosed", "not searched for: this run removes text and fixes nothing")
    state = replace(state, accepted=tuple(kept), text=text)
    return verify(setting, state, "improved")


def _is_cured(setting: Setting, state: State, cluster: Cluster) -> bool:
    """Return whether an edit made for another check ended these failures along with its own."""
    if not state.accepted or any(e.cluster.check == cluster.check for e in state.accepted):
        return False
    now = state.tally.over(state.text.digest, cluster.failing, cluster.check)
    before = state.tally.over(setting.base.digest, cluster.failing, cluster.check)
    # So many passes in a row would be luck if nothing had changed.
    luck = ((before.passed + 1) / (before.trials + 2)) ** now.trials
    return not now.failed and luck <= setting.policy.test.again_p


def _enter_release(setting: Setting, state: State) -> State | None:
    """Try what earlier releases said; None where that is settled for this text."""
    if "rules" not in setting.proposers or state.text.digest in state.restored_from:
        return None
    if any(one.edit.strategy != "restore" for one in state.accepted):
        return None  # it would roll back what was accepted since
    # Of a release that a person rejected, parts may do; the guard names what is rejected.
    passed = {"accepted", "rejected-by-person"}
    done = {one.after for one in state.memory.tried if one.finding not in passed}
    done.add(state.text.shape)
    untried = [n for n, known in enumerate(setting.releases) if known.text.shape not in done]
    return replace(state, phase="release", release=untried[0]) if untried else None


def _unsteady(setting: Setting, state: State) -> tuple[Cluster, ...]:
    """The flaky checks that were not looked at again yet, with the cases that failed."""
    test = setting.policy.test
    if not setting.variance:
        return ()
    new = [cluster for cluster in state.flaky if cluster.key not in state.steadied]
    new.sort(key=lambda cluster: (-cluster.failures, cluster.check))
    cut = {one.key: one.failing[: test.steady_cases] for one in new}
    return tuple(
        replace(one, cases=cut[one.key], failing=cut[one.key], unsteady=True)
        for one in new[: test.steady_checks]
    )


def nothing_left(  # noqa: PLR0911 - one per ending
    setting: Setting, state: State, *, worked: bool = False
) -> State:
    """Nothing fails reproducibly any more: verify what was accepted, or stop.

    Args:
        worked: Whether edits were sought for a flaky check.
    """
    state = replace(state, open=())
    if state.accepted:
        return verify(setting, state, "goal-met")
    goals = standings(setting, state, revised=False)
    if goals and not all_met(goals) and can_settle(setting, state):
        return replace(state, phase="settle")
    if goals:
        state = state.noting(goals_note(setting, goals))
    if all_met(goals):
        return stop(state, "goal-met", "the prompt as it is meets every goal")
    if state.questions:
        return stop(state, "questions", "what fails is for a person to answer")
    if state.taken_back:
        return stop(state, "suite-refused", state.taken_back)
    if goals:
        return stop(state, "goal-open", f"{counted(goals)}; no training case fails reproducibly")
    if worked:
        text = f"nothing fails reproducibly; none of {plural(state.tested, 'tested edit')} makes a"
        return stop(state, "no-acceptable-edit", f"{text} flaky check steadier")
    return stop(state, "nothing-to-refine", "no check of a training case fails reproducibly")


def verify(setting: Setting, state: State, ending: StopReason | None = None) -> State:
    """Begin the verification of accepted edits, or continue it; no further one is sought."""
    phase = verification_phase(setting, state)
    return replace(state, phase=phase, ending=ending or state.ending)


def search_again(setting: Setting, state: State) -> State:
    """Look for other edits, once an accepted one was rolled back."""
    return diagnosed(setting, replace(state, cycle=state.cycle + 1, idle=state.idle + 1))


def enter_tier(setting: Setting, state: State) -> State:
    """Work on a cluster with the proposer whose turn it is."""
    critic = setting.proposers[state.tier] in setting.critics
    state = replace(state, critique=None, candidates=())
    return replace(state, phase="critique" if critic else "propose")


def next_tier(setting: Setting, state: State) -> State:
    """Call the next proposer, or go on with what else fails."""
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
    limits, idle = setting.policy.limits, state.idle + 1
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
        return verify(setting, state, reason)
    if state.taken_back:
        return stop(state, "suite-refused", state.taken_back)
    tested = plural(state.tested, "tested edit")
    return stop(state, reason, f"after {plural(state.cycle, 'cycle')} and {tested}")


def after_critique(setting: Setting, state: State, observed: Critiqued) -> State:
    """Call for edits, or put the question to a person."""
    critique, key = observed.critique, state.cluster.key
    if observed.refused:
        state = state.note("unreadable", observed.refused, key)
    if critique is None:
        return replace(state, phase="propose", critique=None)
    state = state.note("criticised", f"{critique.kind}: {critique.hypothesis}", key)
    if not critique.is_question:
        return replace(state, phase="propose", critique=critique)
    asked = replace(state, questions=(*state.questions, (state.cluster, critique)))
    return next_cluster(setting, asked)


def after_proposals(setting: Setting, state: State, observed: Proposed) -> State:
    """Keep the candidates that no guard refuses."""
    key = state.cluster.key
    state = state.noting(*(Note(event="unreadable", subject=key, text=t) for t in observed.refused))
    lacking = all_suspects(setting, state)
    edits = (*observed.edits, *second_thoughts(setting, state))
    kept, state = candidates_of(setting, state, edits)
    by_model = setting.proposers[state.tier] in setting.critics
    candidates = (*kept, *([lacking] if lacking else []))
    state = replace(
        state,
        candidates=candidates,
        novel=state.novel or bool(observed.refused or lacking),
        unread=observed.refused[-1] if observed.unread else state.unread,
        read=state.read
        or (by_model and len(observed.edits) + len(observed.refused) > observed.unread),
    )
    return replace(state, phase="screen") if candidates else next_tier(setting, state)


def accept(setting: Setting, state: State, best: Confirmed) -> State:
    """Go on with a text that passed its test, and look for what fails under it."""
    candidate, cluster = best.candidate, state.cluster
    # Cases that were chosen because they failed now and then do so less often later on.
    tally = state.paired if cluster.unsteady else state.tally
    accepted = Accepted(
        edit=candidate.edit,
        cluster=cluster,
        text=candidate.text,
        before=tally.over(state.text.digest, cluster.cases, cluster.check),
        after=tally.over(candidate.text.digest, cluster.cases, cluster.check),
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
        return verify(setting, state, "cycles")
    return diagnosed(setting, replace(state, cycle=state.cycle + 1))


def unsteady(setting: Setting, state: State) -> Trials:
    """The cases that failed run again: the trials that named them make them look worse."""
    cases = dict.fromkeys(case for cluster in state.open for case in cluster.cases)
    trials = setting.policy.test.steady_trials
    return (draws(setting, state, state.text, cases, trials),)


def after_unsteady(setting: Setting, state: State) -> State:
    """Work on the checks whose cases failed again, more often than steady ones would."""
    test = setting.policy.test
    state = replace(state, steadied=state.steadied | {cluster.key for cluster in state.open})
    kept: list[Cluster] = []
    for cluster in state.open:
        one = _drawn_again(state, cluster)
        p = tail(one.trials, one.failures, test.steady_rate)
        fails = one.failures > 0 and p < test.steady_p
        text = f"{cluster.check}: flaky cases fail {one.failures} of {one.trials} further trials"
        numbers = {"failures": one.failures, "trials": one.trials, "p": p}
        text += "" if fails else ", which may be chance"
        state = state.note("unsteady", text, cluster.key, numbers)
        if fails:
            kept.append(replace(one, p_flaky=p))
    if not kept:
        return nothing_left(setting, state)
    return enter_tier(setting, replace(state, open=tuple(kept), tier=0, novel=False))


def _drawn_again(state: State, cluster: Cluster) -> Cluster:
    """A cluster by its new trials alone, with the cases that failed in these."""
    text, check = state.text.digest, cluster.check
    counts = {case: state.paired.check(text, case, check) for case in cluster.cases}
    failing = tuple(sorted((c for c in counts if counts[c].failed), key=lambda c: counts[c].rate))
    return replace(
        cluster,
        cases=failing,
        failing=failing,
        failures=sum(count.failed for count in counts.values()),
        trials=sum(count.trials for count in counts.values()),
    )


def interrupted(state: State, observed: Interrupted) -> State:
    """The end, for now: what was accepted is not verified, so nothing is proposed."""
    return stop(
        state, observed.reason, observed.text or "the run was stopped; resume it to continue"
    )
