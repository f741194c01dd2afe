"""What follows from what a state was told, while edits are sought."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from regauge.criteria import CRITERIA
from regauge.gate import NONE_DRAWN
from regauge.refine.analysis import better_p, mean_effect, tail, worse_p, worse_together_p
from regauge.refine.attempts import named
from regauge.refine.edits import lost_words
from regauge.refine.guards import faults_in
from regauge.refine.loop._candidates import candidates_of, second_thoughts
from regauge.refine.loop._course import (
    accept,
    next_cluster,
    next_tier,
    stop,
    texts_for,
    tried,
    unreadable,
)
from regauge.refine.loop._findings import Confirmed, Note
from regauge.refine.loop._goals import out_of_reach
from regauge.refine.loop._plan import screen_cases, unclear_cases
from regauge.refine.loop._steadying import paired_steadiness
from regauge.refine.loop._suspects import all_suspects, masked, narrowed
from regauge.refine.tally import Tally

if TYPE_CHECKING:
    from regauge.refine.loop._actions import (
        Critiqued,
        Interrupted,
        Looked,
        Proposed,
        TrialsDone,
    )
    from regauge.refine.loop._findings import Candidate
    from regauge.refine.loop._state import Setting, State

__all__ = [
    "accept_best",
    "after_confirm",
    "after_critique",
    "after_look",
    "after_proposals",
    "after_screen",
    "baseline_drawn",
    "begin_test",
    "interrupted",
]


# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


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


def _narrowed(setting: Setting, state: State) -> State:
    """Look for the statement that keeps a rule from being followed, then screen edits."""
    state, edits = narrowed(setting, state)
    if edits:
        kept, refused = candidates_of(setting, state, edits)
        entries = [entry for _, entry in refused if entry is not None]
        state = state.noting(
            *(note for note, _ in refused),
            memory=state.memory.with_tried(*entries),
            candidates=kept or state.candidates,
        )
    if not state.candidates:
        return next_tier(setting, state)
    cases = screen_cases(setting, state.cluster)
    drawn = (
        state.tally.over(one.text.digest, cases, state.cluster.check).trials
        for one in state.candidates
    )
    searching = any(one.suspects for one in state.candidates)
    return state if searching or not all(drawn) else _ranked(setting, state)


def after_screen(setting: Setting, state: State, told: TrialsDone) -> State:
    """Go on with the candidates that do better than the incumbent on a few failing cases."""
    state = replace(state, tally=state.tally.with_outcomes(told.outcomes))
    if any(candidate.suspects for candidate in state.candidates):
        return _narrowed(setting, state)
    hidden = masked(setting, state)
    if hidden:
        return replace(state, candidates=(*state.candidates, *hidden))
    return _ranked(setting, state)


def _ranked(setting: Setting, state: State) -> State:
    """Test the best of the candidates that were screened."""
    cluster, test = state.cluster, setting.policy.test
    cases = screen_cases(setting, cluster)
    # What the text as it is passes, and what it passed before edits for other checks.
    now = sum(
        (
            state.tally.over(text, cases, cluster.check)
            for text in texts_for(setting, state, cluster.check)
        ),
        NONE_DRAWN,
    )
    ranked: list[tuple[float, int, Candidate]] = []
    for position, candidate in enumerate(state.candidates):
        said = state.tally.over(candidate.text.digest, cases, cluster.check)
        better = said.trials > 0 and said.rate > now.rate
        note = Note(
            event="screened",
            subject=candidate.text.digest,
            text=f"{candidate.edit.strategy}: {cluster.check} passed {said.passed} of"
            f" {said.trials}, before {now.passed} of {now.trials}",
            numbers={
                "passed": said.passed,
                "trials": said.trials,
                "better": int(better),
                **named(candidate.edit),
            },
        )
        state = state.noting(note)
        if better:
            ranked.append((said.rate, position, candidate))
        else:
            state = tried(state, candidate.text, candidate.edit.strategy, "screened-out")
    top = max((rate for rate, *_ in ranked), default=0.0)

    def order(entry: tuple[float, int, Candidate]) -> tuple[bool, int, int, float, int]:
        rate, position, candidate = entry
        behind = rate < top - _AS_GOOD
        lost = lost_words(state.text, candidate.text)
        return behind, lost, candidate.text.size, -rate, position

    best = tuple(candidate for *_, candidate in sorted(ranked, key=order)[: test.screened])
    if not best:
        return next_tier(setting, state)
    return begin_test(replace(state, candidates=best, confirmed=()))


def after_confirm(setting: Setting, state: State, told: TrialsDone) -> State:
    """Look at the evidence for the first candidate: accept it, drop it or draw more."""
    state = replace(state, tally=state.tally.with_outcomes(told.outcomes))
    test, cluster = setting.policy.test, state.cluster
    candidate = state.candidates[0]
    tally, new, old = state.tally, candidate.text.digest, state.text.digest
    state = replace(state, paired=state.paired.with_outcomes(told.outcomes))
    found = paired_steadiness(state) if cluster.unsteady else None
    p = better_p(tally, new, old, cluster.cases, cluster.check)
    if cluster.unsteady:
        p = 1.0 if found is None else found.p
    effect, error = mean_effect(tally, new, old, setting.train)
    bound = test.alpha * 6 / (math.pi * state.tested) ** 2 / test.looks
    if candidate.suspicion:  # words speak against it, so trials have to say more for it
        bound /= test.looks
    harmed, surely = _harmed(setting, state, new)
    numbers: dict[str, float | int | str] = {
        "p": p,
        "bound": bound,
        "effect": effect,
        "look": state.look,
        **({} if found is None else found.numbers()),
        **named(candidate.edit),
    }

    def said(event: Literal["confirmed", "refuted", "undecided"], text: str) -> State:
        named_edit = text if event == "confirmed" else f"{candidate.edit.strategy}: {text}"
        return state.noting(Note(event=event, subject=new, text=named_edit, numbers=numbers))

    if harmed and (surely or state.look >= test.looks):
        worse = f"{harmed} got worse"
        return _drop_first(setting, tried(said("refuted", worse), candidate.text, worse))
    confirmed = Confirmed(candidate=candidate, p=p, effect=effect)
    if p <= bound and not harmed and effect > -error and (found is None or found.gain >= 0):
        gained = "passes more often" if found is None else f"varies less: {found}"
        state = said("confirmed", f"{cluster.check} {gained}")
        return _confirmed(setting, state, confirmed)
    known = state.paired if cluster.unsteady else tally
    drawn = known.over(new, cluster.cases, cluster.check).trials
    if (p > test.hopeless and drawn >= test.hopeless_trials) or effect < -test.margin - error:
        return _drop_first(setting, tried(said("refuted", "no gain"), candidate.text, "no gain"))
    if state.look >= test.looks:
        undecided = said("undecided", "the trials do not settle it")
        return _drop_first(
            setting, tried(undecided, candidate.text, "the trials do not settle it", "undecided")
        )
    return replace(state, look=state.look + 1)


def _harmed(setting: Setting, state: State, new: str) -> tuple[str, bool]:
    """What a text fails more often: a check, or a criterion; empty without one.

    One of many checks is often worse by chance: more trials decide, unless it is worse beyond all
    doubt.

    Returns:
        Its name, and whether no more trials are needed.
    """
    tally, old, test = state.tally, state.text.digest, setting.policy.test
    others = [name for name in tally.checks(old, setting.train) if name != state.cluster.check]
    found = {name: worse_p(tally, new, old, setting.train, name) for name in others}
    for criterion in CRITERIA:
        checks = [
            name
            for name in others
            if name in setting.checks and setting.checks[name].criterion == criterion
        ]
        if len(checks) > 1:
            p = worse_together_p(tally, new, old, setting.train, checks)
            found[f"{criterion} as a whole"] = p
    name = min(found, key=lambda name: found[name], default="")
    bound = test.harm_p / test.looks
    if not name or found[name] > bound:
        return "", False
    return name, found[name] <= bound / len(found)


def begin_test(state: State) -> State:
    return replace(state, phase="confirm", look=1, tested=state.tested + 1, paired=Tally())


def _drop_first(setting: Setting, state: State) -> State:
    state = replace(state, candidates=state.candidates[1:])
    if state.candidates:
        return begin_test(state)
    return accept_best(setting, state) if state.confirmed else next_tier(setting, state)


def _confirmed(setting: Setting, state: State, one: Confirmed) -> State:
    """Accept a candidate that leaves no failures; compare it with the others when it does."""
    state = replace(state, confirmed=(*state.confirmed, one), candidates=state.candidates[1:])
    said = state.tally.over(one.candidate.text.digest, state.cluster.cases, state.cluster.check)
    test = setting.policy.test
    leaves = tail(said.trials, said.failed, test.flaky_rate) < test.flaky_p
    leaves = leaves and not state.cluster.unsteady
    return begin_test(state) if leaves and state.candidates else accept_best(setting, state)


def accept_best(setting: Setting, state: State) -> State:
    """Accept the confirmed candidate that passes most often; of equals the first."""
    cluster = state.cluster

    def rate(one: Confirmed) -> float:
        said = state.tally.over(one.candidate.text.digest, cluster.cases, cluster.check)
        return (said.passed + 1) / (said.trials + 2)

    return accept(setting, state, max(state.confirmed, key=rate))
