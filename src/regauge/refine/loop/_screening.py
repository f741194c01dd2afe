"""The test of candidates: a few failing cases first, then evidence, look by look."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from regauge.criteria import CRITERIA
from regauge.gate import NONE_DRAWN
from regauge.refine.analysis import (
    Steadiness,
    better_p,
    mean_effect,
    steadiness_of,
    tail,
    worse_p,
)
from regauge.refine.attempts import named
from regauge.refine.changes import lost_words
from regauge.refine.loop._candidates import candidates_of
from regauge.refine.loop._plan import screen_cases, texts_for
from regauge.refine.loop._search import accept, next_tier, tried
from regauge.refine.loop._state import Candidate, Confirmed, Note, Setting, State, TrialsDone
from regauge.refine.loop._suspects import masked, narrowed
from regauge.refine.tally import Tally

# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


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
            p = worse_p(tally, new, old, setting.train, *checks)
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


def paired_steadiness(state: State) -> Steadiness | None:
    """What the trials of a test say, which chose neither its cases nor its candidate."""
    cluster, new = state.cluster, state.candidates[0].text.digest
    return steadiness_of(state.paired, new, state.text.digest, cluster.cases, cluster.check)
