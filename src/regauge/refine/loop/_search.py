"""The search for edits: releases, clusters, proposers, tests of candidates, and its end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.criteria import CRITERIA
from regauge.gate import NO_TRIALS
from regauge.refine.analysis import (
    Tally,
    better_p,
    diagnose,
    mean_effect,
    steadiness_of,
    tail,
    worse_p,
)
from regauge.refine.attempts import Attempt, named
from regauge.refine.edits import (
    Delete,
    Insert,
    apply,
    blocks_between,
    lost_words,
    rule_edit,
)
from regauge.refine.guards import faults_in
from regauge.refine.loop._candidates import (
    all_suspects,
    candidates_of,
    narrowed,
    second_thoughts,
)
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
from regauge.refine.loop._plan import (
    calls_left,
    dealt,
    draws,
    floor_calls,
    repair_calls,
    screen_cases,
    texts_for,
    trials_for,
    unclear_cases,
    verification_phase,
)
from regauge.refine.loop._state import Ablation, Accepted, Candidate, Note, Stop, Trials
from regauge.statements import content_words, delete
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.gate import Count
    from regauge.refine.analysis import Check, FailureCluster
    from regauge.refine.attempts import Finding
    from regauge.refine.edits import Op, PromptText
    from regauge.refine.loop._state import (
        Critiqued,
        Draws,
        Interrupted,
        Looked,
        LoopConfig,
        LoopState,
        Proposed,
        Release,
        StopReason,
    )

# Endings that say of a prompt what only proposals that were read can show.
_AFTER_PROPOSALS = frozenset(
    {"no-acceptable-edit", "only-known-edits", "cycles", "candidates", "model-calls"}
)


def stop(state: LoopState, reason: StopReason, text: str, *, proposal: bool = False) -> LoopState:
    """The end; unless a reply of the model was read, it says nothing about the prompt."""
    if reason in _AFTER_PROPOSALS and state.unread and not state.read and not proposal:
        reason, text = "unreadable", unreadable(state)
    if state.way_back and not proposal:
        text = f"{text}; {state.way_back}"
    ending = Stop(reason=reason, proposal=proposal, text=text)
    state = state.note("stopped", f"{reason}: {text}")
    return replace(state, phase="stopped", left=state.phase, stop=ending)


def unreadable(state: LoopState) -> str:
    """The reason why a run ends whose proposer was never read."""
    return f"no response of the refiner model could be read: {state.unread}"


def tried(
    state: LoopState, text: PromptText, detail: str, finding: Finding = "refuted"
) -> LoopState:
    """The state with a text remembered as tried."""
    key = state.open[0].key if state.open else ""
    entry = Attempt.from_texts(state.text, text, key, finding, detail=detail, cycle=state.cycle)
    return replace(state, memory=state.memory.with_tried(entry))


def after_look(setting: LoopConfig, state: LoopState, observed: Looked) -> LoopState:
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


def after_baseline(setting: LoopConfig, state: LoopState) -> LoopState:
    """Run unclear cases again, leave sentences out where a budget says so; then diagnose."""
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
    state = replace(state, look=0, phase="localise")
    return next_sentence(setting, replace(state, left_out=_planned(setting, state), sentence=-1))


def diagnosed(setting: LoopConfig, state: LoopState) -> LoopState:
    """Look for what fails reproducibly; a run that removes text fixes nothing."""
    if setting.removals:
        return _remove(setting, state)
    diagnosis = diagnose(
        state.tally,
        lambda check: texts_for(setting, state, check),
        setting.train,
        setting.checks,
        setting.policy.test,
        tolerated=setting.tolerated,
    )
    asked = {cluster.key for cluster, _ in state.questions}
    every = [
        c for c in diagnosis.clusters if c.key not in asked and not _is_cured(setting, state, c)
    ]
    tolerated = spared(setting, state, every)
    clusters = tuple(cluster for cluster in every if cluster not in tolerated)
    nothing = "nothing fails more often than goals allow" if tolerated else "none reproducible"
    text = "; ".join(f"{c.key} in {c.failures} of {c.trials} trials" for c in clusters)
    numbers = {"clusters": len(clusters), "flaky": len(diagnosis.flaky)}
    state = state.note("diagnosed", text or nothing, numbers=numbers)
    state = replace(
        state, open=clusters, spared=tolerated, flaky=diagnosis.flaky, tier=0, novel=False
    )
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


def _remove(setting: LoopConfig, state: LoopState) -> LoopState:
    """Let the gate decide about text without effect, all of it together first."""
    accepted: list[Accepted] = []
    text = setting.base
    for removal in setting.removals:
        after = apply(text, removal.edit.ops)
        objection = setting.guard.objection(removal.edit, text, after)
        if objection:
            detail = f"{removal.edit.strategy}: {objection}"
            state = state.note("guarded", detail, removal.edit.digest, named(removal.edit))
            continue
        accepted.append(replace(removal, text=after))
        text = after
    if not accepted:
        return stop(state, "no-acceptable-edit", "no text without effect may be removed")
    state = state.note("diagnosed", "not searched for: this run removes text and fixes nothing")
    state = replace(state, accepted=tuple(accepted), text=text)
    return verify(setting, state, "improved")


def _is_cured(setting: LoopConfig, state: LoopState, cluster: FailureCluster) -> bool:
    """Return whether an edit made for another check ended these failures along with its own."""
    if not state.accepted or any(e.cluster.check == cluster.check for e in state.accepted):
        return False
    now = state.tally.over(state.text.digest, cluster.failing, cluster.check)
    before = state.tally.over(setting.base.digest, cluster.failing, cluster.check)
    # `texts_for` counts trials of the base for a check without an edit of its own, so `diagnose`
    # still reports failures that have ended. So many passes in a row would be luck otherwise.
    luck = ((before.passed + 1) / (before.trials + 2)) ** now.trials
    return not now.failed and luck <= setting.policy.test.again_p


def _enter_release(setting: LoopConfig, state: LoopState) -> LoopState | None:
    """Try what earlier releases said; None where that is settled for this text."""
    if "rules" not in setting.proposers or state.text.digest in state.restored_from:
        return None
    if any(edit.edit.strategy != "restore" for edit in state.accepted):
        return None  # it would roll back what was accepted since
    # Of a release that a person rejected, parts may do; the guard names what is rejected.
    passed = {"accepted", "rejected-by-person"}
    done = {attempt.after for attempt in state.memory.tried if attempt.finding not in passed}
    done.add(state.text.shape)
    untried = [n for n, release in enumerate(setting.releases) if release.text.shape not in done]
    return replace(state, phase="release", release=untried[0]) if untried else None


def _unsteady(setting: LoopConfig, state: LoopState) -> tuple[FailureCluster, ...]:
    """The flaky checks that were not looked at again yet, with the cases that failed."""
    test = setting.policy.test
    if not setting.variance:
        return ()
    new = [cluster for cluster in state.flaky if cluster.key not in state.steadied]
    new.sort(key=lambda cluster: (-cluster.failures, cluster.check))
    cut = {cluster.key: cluster.failing[: test.steady_cases] for cluster in new}
    return tuple(
        replace(cluster, cases=cut[cluster.key], failing=cut[cluster.key], unsteady=True)
        for cluster in new[: test.steady_checks]
    )


def nothing_left(  # noqa: PLR0911 - one per ending
    setting: LoopConfig, state: LoopState, *, worked: bool = False
) -> LoopState:
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


def verify(setting: LoopConfig, state: LoopState, ending: StopReason | None = None) -> LoopState:
    """Begin the verification of accepted edits, or continue it; no further one is sought."""
    phase = verification_phase(setting, state)
    return replace(state, phase=phase, ending=ending or state.ending)


def enter_tier(setting: LoopConfig, state: LoopState) -> LoopState:
    """Work on a cluster with the proposer whose turn it is."""
    critic = setting.proposers[state.tier] in setting.critics
    state = replace(state, critique=None, candidates=())
    return replace(state, phase="critique" if critic else "propose")


def next_tier(setting: LoopConfig, state: LoopState) -> LoopState:
    """Call the next proposer, or go on with what else fails."""
    if state.tier + 1 < len(setting.proposers):
        return enter_tier(setting, replace(state, tier=state.tier + 1))
    return next_cluster(setting, state)


def next_cluster(setting: LoopConfig, state: LoopState) -> LoopState:
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
    elif idle >= limits.failed_cycles:
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


def after_critique(setting: LoopConfig, state: LoopState, observed: Critiqued) -> LoopState:
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


def after_proposals(setting: LoopConfig, state: LoopState, observed: Proposed) -> LoopState:
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


# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


def after_screen(setting: LoopConfig, state: LoopState) -> LoopState:
    """Look for the statement that keeps a rule from being followed, then rank edits."""
    if not any(candidate.suspects for candidate in state.candidates):
        return _rank(setting, state)
    state, edits = narrowed(setting, state)
    if edits:
        kept, state = candidates_of(setting, state, edits)
        state = replace(state, candidates=kept or state.candidates)
    if not state.candidates:
        return next_tier(setting, state)
    cases, check = screen_cases(setting, state.cluster), state.cluster.check
    drawn = (
        state.tally.over(candidate.text.digest, cases, check).trials
        for candidate in state.candidates
    )
    searching = any(candidate.suspects for candidate in state.candidates)
    return state if searching or not all(drawn) else _rank(setting, state)


def _rank(setting: LoopConfig, state: LoopState) -> LoopState:
    """Test the best of the candidates that do better than the text as it is."""
    check, cases = state.cluster.check, screen_cases(setting, state.cluster)
    # What the text as it is passes, and what it passed before edits for other checks.
    texts = texts_for(setting, state, check)
    now = sum((state.tally.over(text, cases, check) for text in texts), NO_TRIALS)
    ranked: list[tuple[float, Candidate]] = []
    for candidate in state.candidates:
        score = state.tally.over(candidate.text.digest, cases, check)
        better = score.trials > 0 and score.rate > now.rate
        state = state.note(
            "screened",
            f"{candidate.edit.strategy}: {check} passes {score.passed} of {score.trials} (before"
            f" {now.passed} of {now.trials})",
            candidate.text.digest,
            {
                **named(candidate.edit),
                "passed": score.passed,
                "trials": score.trials,
                "better": +better,
            },
        )
        if better:
            ranked.append((score.rate, candidate))
        else:
            state = tried(state, candidate.text, candidate.edit.strategy, "screened-out")
    if not ranked:
        return next_tier(setting, state)
    top = max(rate for rate, _ in ranked)

    def order(entry: tuple[float, Candidate]) -> tuple[bool, int, int, float]:
        rate, candidate = entry
        words = lost_words(state.text, candidate.text)
        return rate < top - _AS_GOOD, words, candidate.text.size, -rate

    best = sorted(ranked, key=order)[: setting.policy.test.screened]
    candidates = tuple(candidate for _, candidate in best)
    return begin_test(replace(state, candidates=candidates, confirmed=()))


def begin_test(state: LoopState) -> LoopState:
    """Begin the test of the first candidate."""
    return replace(state, phase="confirm", look=1, tested=state.tested + 1, paired=Tally())


def after_confirm(setting: LoopConfig, state: LoopState) -> LoopState:
    """Look at the evidence for the first candidate: accept it, drop it or draw more."""
    tally, paired = state.tally, state.paired
    test, cluster, candidate = setting.policy.test, state.cluster, state.candidates[0]
    check, new, old = cluster.check, candidate.text.digest, state.text.digest
    # Trials of a test choose neither its cases nor its candidate.
    steady = steadiness_of(paired, new, old, cluster.cases, check) if cluster.unsteady else None
    p = better_p(tally, new, old, cluster.cases, check)
    if cluster.unsteady:
        p = 1.0 if steady is None else steady.steadier_p
    effect, error = mean_effect(tally, new, old, setting.train)
    bound = test.alpha * 6 / (math.pi * state.tested) ** 2 / test.looks
    if candidate.suspicion:  # words speak against it, so trials have to say more for it
        bound /= test.looks
    harmed, surely = _find_harm(setting, state, new)
    numbers = {
        "p": p,
        "bound": bound,
        "effect": effect,
        "look": state.look,
        **({} if steady is None else steady.numbers()),
        **named(candidate.edit),
    }
    how = candidate.edit.strategy
    last = state.look >= test.looks
    if harmed and (surely or last):
        state = state.note("refuted", f"{how}: {harmed} gets worse", new, numbers)
        return _drop_first(setting, tried(state, candidate.text, f"{harmed} gets worse"))
    if p <= bound and not harmed and effect > -error and (steady is None or steady.gain >= 0):
        was, now = (tally.over(text, cluster.cases, check) for text in (old, new))
        gained = f"fails {now.failed} of {now.trials} (before {was.failed} of {was.trials})"
        gained = gained if steady is None else f"varies less: {steady}"
        state = state.note("confirmed", f"{check} {gained}, p = {p:.1g}", new, numbers)
        return _confirm(setting, state, replace(candidate, p=p, effect=effect))
    measured = paired if cluster.unsteady else tally
    drawn = measured.over(new, cluster.cases, check).trials
    if (p > test.hopeless and drawn >= test.hopeless_trials) or effect < -test.margin - error:
        state = state.note("refuted", f"{how}: no gain", new, numbers)
        return _drop_first(setting, tried(state, candidate.text, "no gain"))
    if last:
        state = state.note("undecided", f"{how}: too little evidence", new, numbers)
        state = tried(state, candidate.text, "too little evidence", "undecided")
        return _drop_first(setting, state)
    return replace(state, look=state.look + 1)


def _find_harm(setting: LoopConfig, state: LoopState, new: str) -> tuple[str, bool]:
    """The check or criterion that a text fails more often, and whether more trials are needless.

    One of many checks is often worse by chance: more trials decide, unless it is worse beyond all
    doubt.
    """
    tally, old, test = state.tally, state.text.digest, setting.policy.test
    others = [name for name in tally.checks(old, setting.train) if name != state.cluster.check]
    groups = {name: [name] for name in others}
    criteria = {name: setting.checks[name].criterion for name in others if name in setting.checks}
    for criterion in CRITERIA:
        checks = [name for name, its in criteria.items() if its == criterion]
        if len(checks) > 1:
            groups[f"{criterion} as a whole"] = checks
    candidates = {
        name: worse_p(tally, new, old, setting.train, *checks) for name, checks in groups.items()
    }
    name = min(candidates, key=lambda name: candidates[name], default="")
    bound = test.harm_p / test.looks
    if not name or candidates[name] > bound:
        return "", False
    return name, candidates[name] <= bound / len(candidates)


def _drop_first(setting: LoopConfig, state: LoopState) -> LoopState:
    state = replace(state, candidates=state.candidates[1:])
    if state.candidates:
        return begin_test(state)
    return accept_best(setting, state) if state.confirmed else next_tier(setting, state)


def _confirm(setting: LoopConfig, state: LoopState, candidate: Candidate) -> LoopState:
    """Accept a candidate that leaves no failures; compare it with the others when it does."""
    state = replace(state, confirmed=(*state.confirmed, candidate), candidates=state.candidates[1:])
    score = state.tally.over(candidate.text.digest, state.cluster.cases, state.cluster.check)
    test = setting.policy.test
    leaves = tail(score.trials, score.failed, test.flaky_rate) < test.flaky_p
    leaves = leaves and not state.cluster.unsteady
    return begin_test(state) if leaves and state.candidates else accept_best(setting, state)


def accept_best(setting: LoopConfig, state: LoopState) -> LoopState:
    """Accept the confirmed candidate that passes most often, and look for what fails under it."""
    cluster = state.cluster

    def rate(candidate: Candidate) -> float:
        score = state.tally.over(candidate.text.digest, cluster.cases, cluster.check)
        return (score.passed + 1) / (score.trials + 2)

    best = max(state.confirmed, key=rate)
    # Cases that were chosen because they failed now and then do so less often later on.
    tally = state.paired if cluster.unsteady else state.tally
    accepted = Accepted(
        edit=best.edit,
        cluster=cluster,
        text=best.text,
        before=tally.over(state.text.digest, cluster.cases, cluster.check),
        after=tally.over(best.text.digest, cluster.cases, cluster.check),
        p=best.p,
        effect=best.effect,
    )
    state = tried(state, best.text, best.edit.strategy, "accepted")
    state = replace(
        state,
        accepted=(*state.accepted, accepted),
        text=best.text,
        memory=state.memory.with_incumbent(best.text),
        candidates=(),
        confirmed=(),
        idle=0,
    )
    if state.cycle >= setting.policy.limits.cycles:
        return verify(setting, state, "cycles")
    return diagnosed(setting, replace(state, cycle=state.cycle + 1))


def unsteady(setting: LoopConfig, state: LoopState) -> Trials:
    """The cases that failed run again: the trials that named them make them look worse."""
    cases = dict.fromkeys(case for cluster in state.open for case in cluster.cases)
    trials = setting.policy.test.steady_trials
    return (draws(setting, state, state.text, cases, trials),)


def after_unsteady(setting: LoopConfig, state: LoopState) -> LoopState:
    """Work on the checks whose cases failed again, more often than steady ones would."""
    test = setting.policy.test
    state = replace(state, steadied=state.steadied | {cluster.key for cluster in state.open})
    failing: list[FailureCluster] = []
    for cluster in state.open:
        again = _drawn_again(state, cluster)
        p = tail(again.trials, again.failures, test.steady_rate)
        fails = again.failures > 0 and p < test.steady_p
        trials = f"{again.failures} of {again.trials} further trials"
        text = f"{cluster.check}: flaky cases fail {trials}"
        numbers = {"failures": again.failures, "trials": again.trials, "p": p}
        text += "" if fails else ", which may be chance"
        state = state.note("unsteady", text, cluster.key, numbers)
        if fails:
            failing.append(replace(again, p_flaky=p))
    if not failing:
        return nothing_left(setting, state)
    return enter_tier(setting, replace(state, open=tuple(failing), tier=0, novel=False))


def _drawn_again(state: LoopState, cluster: FailureCluster) -> FailureCluster:
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


def interrupted(state: LoopState, observed: Interrupted) -> LoopState:
    """The end, for now: what was accepted is not verified, so nothing is proposed."""
    return stop(
        state, observed.reason, observed.text or "the run was stopped; resume it to continue"
    )


# With 8 cases and 4 trials of each, a sentence that all of them need shows at p < 0.05 after the
# correction for 20 sentences. Between both p-values a sentence is named as doubtful.
_CASES_MIN = 8
_TRIALS_MAX = 4
_DOUBTFUL = 0.2
_P_MAX = 0.05
# A line of the trail.
_SHOWN = 80


def next_sentence(setting: LoopConfig, state: LoopState) -> LoopState:
    """The trials of the next sentence; after the last that can be paid, what each carries."""
    state = replace(state, sentence=state.sentence + 1)
    if state.sentence < len(state.left_out):
        affordable = trials_for(setting, calls_left(setting, state) - repair_calls(setting))
        if len(state.left_out[state.sentence][1].trials) <= affordable:
            return state
    bearings = tuple(_bearings(setting, state))
    for bearing in bearings:
        effects = {**bearing.carries, **bearing.may_carry, **bearing.hinders}
        numbers = {"cases": bearing.cases, **effects}
        state = state.note("localised", _bearing_text(bearing), setting.base.digest, numbers)
    return diagnosed(setting, replace(state, bearings=bearings))


def pieces(text: PromptText) -> list[tuple[str, PromptText]]:
    """The statements that say something by themselves, each with the text without it.

    Statements with an input, examples and data are left out.
    """
    return [
        (" ".join(tree.text_of(node).split()), text.with_content(index, delete(tree, node)))
        for index, tree in enumerate(text.trees)
        for node in tree.statements
        if "{{" not in tree.text_of(node) and content_words(tree.text_of(node))
    ]


def _planned(setting: LoopConfig, state: LoopState) -> tuple[tuple[str, Draws], ...]:
    """Trials that the budget pays for without each sentence, those on a failing check first.

    They are of so many train cases that every sentence has its turn, those that fail most first.
    """
    limits = setting.policy.limits
    # The calls of a repair are set aside.
    room = limits.calls - floor_calls(setting)
    budget = trials_for(setting, min(limits.localise_calls, room))
    parts = pieces(setting.base)
    if budget <= 0 or not parts:
        return ()
    base, test = setting.base.digest, setting.policy.test
    diagnosis = diagnose(state.tally, lambda _: (base,), setting.train, setting.checks, test)
    failing_of = {cluster.check: cluster.failing for cluster in diagnosis.clusters}
    each = max(_CASES_MIN, budget // len(parts))
    failing = [case for cases in failing_of.values() for case in cases]
    others = [case for case in setting.train if case not in failing]
    # Half of them pass: a sentence is missed where it works.
    cases = tuple(dict.fromkeys([*failing[: each // 2], *others, *failing]))[:each]
    about = [_check_words(setting.checks, check) for check in failing_of]

    def relevance(statement: str) -> int:
        return max((len(content_words(statement) & words) for words in about), default=0)

    chosen = sorted(parts, key=lambda part: -relevance(part[0]))[: budget // len(cases)]
    trials = min(_TRIALS_MAX, max(1, budget // max(1, len(chosen) * len(cases))))
    return tuple(
        (statement, draws(setting, state, leaner, cases, trials)) for statement, leaner in chosen
    )


def _bearings(setting: LoopConfig, state: LoopState) -> Iterator[Ablation]:
    base, tally = setting.base.digest, state.tally
    tried = state.left_out[: state.sentence]
    bound = _P_MAX / max(1, len(tried))
    for statement, without in tried:
        leaner = without.text.digest
        cases = [case for case in setting.train if tally.trials(leaner, case)]
        checks = tally.checks(leaner, cases)
        worse = {check: worse_p(tally, leaner, base, cases, check) for check in checks}
        better = {check: better_p(tally, leaner, base, cases, check) for check in checks}
        yield Ablation(
            text=statement,
            carries={check: p for check, p in worse.items() if p <= bound},
            may_carry={check: p for check, p in worse.items() if bound < p <= _DOUBTFUL},
            hinders={check: p for check, p in better.items() if p <= bound},
            cases=len(cases),
        )


def _bearing_text(bearing: Ablation) -> str:
    short = bearing.text if len(bearing.text) <= _SHOWN else f"{bearing.text[: _SHOWN - 1]}…"
    if not bearing.cases:
        return f"{short!r} was not measured"
    effects = [f"carries {check}" for check in bearing.carries]
    effects += [f"may carry {check}" for check in bearing.may_carry]
    effects += [f"stands in the way of {check}" for check in bearing.hinders]
    return f"{short!r} {' and '.join(effects) or f'changes nothing in {bearing.cases} cases'}"


def _check_words(checks: Mapping[str, Check], name: str) -> frozenset[str]:
    check = checks.get(name)
    return content_words(f"{name} {check.advice} {check.description}" if check else name)


RESTORE = "restore"
"""The strategy of an edit that puts back what a release said."""

# Each is a few calls; what is left then is proposed as it is.
_HALVINGS_MAX = 12
# Of the pass rate on the failing cases: a part that does not lose more is as good as the whole.
_PART_AS_GOOD = 0.17


def release(setting: LoopConfig, state: LoopState) -> Trials:
    """The failing cases under the release, or under a part of what differs from it."""
    clusters = state.open[:1] if state.helped else state.open
    text = _fewer(setting, state)[1] if state.helped else _release(setting, state).text
    assert text is not None
    cases = dict.fromkeys(case for cluster in clusters for case in screen_cases(setting, cluster))
    trials = dealt([*cases], setting.policy.test.screen_cases)
    # Rules always judge; an LLM judge only where its check is among those that fail.
    judged = sorted({cluster.check for cluster in state.open if cluster.check in setting.judging})
    check = None if len(judged) > 1 else (judged or [state.open[0].check])[0]
    return (draws(setting, state, text, cases, trials, check=check),)


def after_release(setting: LoopConfig, state: LoopState) -> LoopState:
    """Take less of the release, test what is left of it, or go on without it."""
    return _next_part(setting, state) if state.helped else _after_whole(setting, state)


def _after_whole(setting: LoopConfig, state: LoopState) -> LoopState:
    release = _release(setting, state)
    counts = [_counts(setting, state, release.text, cluster) for cluster in state.open]
    helped = tuple(
        cluster
        for cluster, (was, now) in zip(state.open, counts, strict=True)
        if now.trials and now.rate > was.rate
    )
    before, after = counts[0]
    numbers = {"passed": after.passed, "trials": after.trials, "helped": len(helped)}
    state = state.note(
        "released",
        f"restore {release.name}: {state.open[0].check} passes {after.passed} of {after.trials}"
        f" (before {before.passed} of {before.trials})",
        release.text.digest,
        numbers,
    )
    if not helped:
        state = tried(state, release.text, f"{release.name} is no better", "screened-out")
        return _go_on(setting, state)
    way_back = f"{release.name} passes more often: {release.command}"
    return _for_one(setting, replace(state, way_back=way_back), helped)


def _for_one(
    setting: LoopConfig, state: LoopState, helped: tuple[FailureCluster, ...]
) -> LoopState:
    """As little of the release as helps one check; what else it repairs is another edit."""
    others = (cluster for cluster in state.open if cluster is not helped[0])
    return _next_part(setting, replace(state, open=(helped[0], *others), helped=helped))


def _next_part(setting: LoopConfig, state: LoopState) -> LoopState:
    """Go on to the next part to leave out; test what is left when there is none."""
    units, text = _fewer(setting, state)
    return state if text is not None else _test_release(setting, state, units)


def _fewer(setting: LoopConfig, state: LoopState) -> tuple[tuple[int, ...], PromptText | None]:
    """The parts of a release that are still needed, and the text without more of them to run next.

    Half of the parts are left out first, then a quarter, and so on to single ones. A text that has
    trials is not run again.
    """
    release = _release(setting, state).text
    units = tuple(range(unit_count(state.text, release)))
    start, size = 0, (len(units) + 1) // 2
    for _ in range(_HALVINGS_MAX):
        while start >= len(units) and size > 1:
            start, size = 0, size // 2
        if len(units) < 2 or start >= len(units):  # noqa: PLR2004 - two parts
            break
        fewer = units[:start] + units[start + size :]
        text = with_units(state.text, release, fewer)
        if fewer and not _counts(setting, state, text, state.cluster)[1].trials:
            return units, text
        if fewer and _is_as_good(setting, state, text):
            units = fewer
        else:
            start += size
    return units, None


def _test_release(setting: LoopConfig, state: LoopState, units: Sequence[int]) -> LoopState:
    """Test what is left of the release as any other edit."""
    release = _release(setting, state)
    text = with_units(state.text, release.text, units)
    why = f"{release.name} has this text, and {state.cluster.check} passes with it"
    edit = rule_edit(state.text, text, RESTORE, why)
    refused = state.memory.refuses(state.cluster.key, state.text, text)
    if refused:
        state = state.note("guarded", f"{RESTORE}: {refused}", edit.digest, named(edit))
        more = state.helped[1:]
        return _for_one(setting, state, more) if more else _go_on(setting, state)
    state = _done(state)
    candidate = Candidate(edit=edit, text=text)
    # The proposers follow from the first one on if the test refuses it.
    return begin_test(replace(state, candidates=(candidate,), confirmed=(), tier=-1, novel=True))


def _go_on(setting: LoopConfig, state: LoopState) -> LoopState:
    """The next release, or the proposers."""
    number = state.release + 1
    if number < len(setting.releases):
        nxt = replace(state, release=number, helped=())
        if _release(setting, nxt).text.shape != state.text.shape:
            return nxt
        return _go_on(setting, nxt)
    state = _done(state)
    return enter_tier(setting, state) if state.open else next_cluster(setting, state)


def _done(state: LoopState) -> LoopState:
    restored_from = state.restored_from | {state.text.digest}
    return replace(state, restored_from=restored_from, release=0, helped=())


def _release(setting: LoopConfig, state: LoopState) -> Release:
    return setting.releases[state.release]


def _counts(
    setting: LoopConfig, state: LoopState, text: PromptText, cluster: FailureCluster
) -> tuple[Count, Count]:
    """The passed trials of a cluster's check before the edit, and under a text."""
    cases = screen_cases(setting, cluster)
    return (
        state.tally.over(state.text.digest, cases, cluster.check),
        state.tally.over(text.digest, cases, cluster.check),
    )


def _is_as_good(setting: LoopConfig, state: LoopState, text: PromptText) -> bool:
    """Return whether a part does as well as the whole, and leaves no more errors in the prompt."""
    whole = _release(setting, state).text
    if len(setting.errors_in(text)) > len(setting.errors_in(whole)):
        return False
    part, best = (
        _counts(setting, state, version, state.cluster)[1].rate for version in (text, whole)
    )
    return part >= best - _PART_AS_GOOD


def unit_count(text: PromptText, released: PromptText) -> int:
    """In how many parts a text differs from a release that are put back each as a whole."""
    return len(_units(text, released))


def with_units(text: PromptText, released: PromptText, units: Sequence[int]) -> PromptText:
    r"""A text with some of the parts that differ as a release has them.

    >>> from regauge.refine.edits import PromptText
    >>> now = PromptText.from_contents("Be long.\nUse JSON.")
    >>> was = PromptText.from_contents("Be brief.\nUse JSON.")
    >>> with_units(now, was, [0]).whole
    'Be brief.\nUse JSON.'
    """
    every = _units(text, released)
    return apply(text, [op for unit in units for op in every[unit]])


def _units(text: PromptText, released: PromptText) -> list[list[Op]]:
    """Blocks of lines that differ; those that exchange a word belong together, such as tags."""
    units: list[tuple[frozenset[str], list[Op]]] = []
    for block in blocks_between(text, released):
        old = "\n".join(op.anchor.line for op in block if not isinstance(op, Insert))
        new = "\n".join(op.text for op in block if not isinstance(op, Delete))
        words = content_words(old) ^ content_words(new)
        joined = [unit for unit in units if unit[0] & words]
        units = [unit for unit in units if unit not in joined]
        ops = [*(op for unit in joined for op in unit[1]), *block]
        units.append((words.union(*(unit[0] for unit in joined)), ops))
    return [ops for _, ops in units]
