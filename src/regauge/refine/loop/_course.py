"""The course of the search: from one cluster, proposer and cycle to the next, and to its end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import diagnose
from regauge.refine.attempts import Tried
from regauge.refine.edits import changed_places, changed_statements
from regauge.refine.goals import tolerated
from regauge.refine.loop._findings import Accepted, Note, Stop
from regauge.refine.loop._goals import all_met, can_settle, counted, goals_note, spared, standings
from regauge.refine.loop._plan import verification_phase
from regauge.refine.loop._power import can_confirm, underpowered_text
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.refine.analysis import Cluster
    from regauge.refine.attempts import Finding
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._findings import Confirmed, StopReason
    from regauge.refine.loop._state import Setting, State

__all__ = [
    "accept",
    "diagnosed",
    "enter_tier",
    "next_cluster",
    "next_tier",
    "nothing_left",
    "search_again",
    "stop",
    "texts_for",
    "tried",
    "unreadable",
]

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
    added, removed = changed_statements(state.text, text)
    entry = Tried(
        before=state.text.shape,
        after=text.shape,
        cluster=state.open[0].key if state.open else "",
        added=added,
        removed=removed,
        finding=finding,
        detail=detail,
        cycle=state.cycle,
        places=changed_places(state.text, text),
    )
    return replace(state, memory=state.memory.with_tried(entry))


def texts_for(setting: Setting, state: State, check: str) -> list[str]:
    """The texts whose trials speak for a check: those since the last edit made for it."""
    made_for = [n for n, edit in enumerate(state.accepted) if edit.cluster.check == check]
    all_texts = [setting.base.digest, *(edit.text.digest for edit in state.accepted)]
    return all_texts[made_for[-1] + 1 if made_for else 0 :]


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
    refuted = {one.after for one in state.memory.tried if one.finding != "accepted"}
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
    return not now.failed and luck <= setting.policy.test.cured_p


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
