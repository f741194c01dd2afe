"""The test of candidates: a few failing cases first, then evidence, look by look."""

from __future__ import annotations

import math
from dataclasses import replace

from regauge.criteria import CRITERIA
from regauge.gate import NONE_DRAWN
from regauge.refine.analysis import better_p, mean_effect, steadiness_of, tail, worse_p
from regauge.refine.attempts import named
from regauge.refine.changes import lost_words
from regauge.refine.loop._candidates import candidates_of, masked, narrowed
from regauge.refine.loop._plan import screen_cases, texts_for
from regauge.refine.loop._search import accept, next_tier, tried
from regauge.refine.loop._state import Candidate, Confirmed, Setting, State
from regauge.refine.tally import Tally

# A few trials do not tell candidates apart whose pass rates differ by less.
_AS_GOOD = 0.25


def after_screen(setting: Setting, state: State) -> State:
    """Go on with the candidates that do better than the incumbent on a few failing cases."""
    if any(candidate.suspects for candidate in state.candidates):
        return _narrowed(setting, state)
    hidden = masked(setting, state)
    if hidden:
        return replace(state, candidates=(*state.candidates, *hidden))
    return _ranked(setting, state)


def _narrowed(setting: Setting, state: State) -> State:
    """Look for the statement that keeps a rule from being followed, then screen edits."""
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
    return state if searching or not all(drawn) else _ranked(setting, state)


def _ranked(setting: Setting, state: State) -> State:
    """Test the best of the candidates that were screened."""
    check, cases = state.cluster.check, screen_cases(setting, state.cluster)
    # What the text as it is passes, and what it passed before edits for other checks.
    texts = texts_for(setting, state, check)
    now = sum((state.tally.over(text, cases, check) for text in texts), NONE_DRAWN)
    ranked: list[tuple[float, int, Candidate]] = []
    for position, one in enumerate(state.candidates):
        said = state.tally.over(one.text.digest, cases, check)
        better = said.trials > 0 and said.rate > now.rate
        state = state.note(
            "screened",
            f"{one.edit.strategy}: {check} passes {said.passed} of {said.trials} (before"
            f" {now.passed} of {now.trials})",
            one.text.digest,
            {**named(one.edit), "passed": said.passed, "trials": said.trials, "better": +better},
        )
        if better:
            ranked.append((said.rate, position, one))
        else:
            state = tried(state, one.text, one.edit.strategy, "screened-out")
    top = max((rate for rate, *_ in ranked), default=0.0)

    def order(entry: tuple[float, int, Candidate]) -> tuple[bool, int, int, float, int]:
        rate, position, candidate = entry
        lost = lost_words(state.text, candidate.text)
        return rate < top - _AS_GOOD, lost, candidate.text.size, -rate, position

    best = [one for *_, one in sorted(ranked, key=order)[: setting.policy.test.screened]]
    if not best:
        return next_tier(setting, state)
    return begin_test(replace(state, candidates=tuple(best), confirmed=()))


def begin_test(state: State) -> State:
    """Begin the test of the first candidate."""
    return replace(state, phase="confirm", look=1, tested=state.tested + 1, paired=Tally())


def after_confirm(setting: Setting, state: State) -> State:
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
    harmed, surely = _harmed(setting, state, new)
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
        return _confirmed(setting, state, Confirmed(candidate=candidate, p=p, effect=effect))
    known = paired if cluster.unsteady else tally
    drawn = known.over(new, cluster.cases, check).trials
    if (p > test.hopeless and drawn >= test.hopeless_trials) or effect < -test.margin - error:
        state = state.note("refuted", f"{how}: no gain", new, numbers)
        return _drop_first(setting, tried(state, candidate.text, "no gain"))
    if last:
        state = state.note("undecided", f"{how}: too little evidence", new, numbers)
        state = tried(state, candidate.text, "too little evidence", "undecided")
        return _drop_first(setting, state)
    return replace(state, look=state.look + 1)


def _harmed(setting: Setting, state: State, new: str) -> tuple[str, bool]:
    """The check or criterion that a text fails more often, and whether more trials are needless.

    One of many checks is often worse by chance: more trials decide, unless it is worse beyond all
    doubt.
    """
    tally, old, test = state.tally, state.text.digest, setting.policy.test
    others = [name for name in tally.checks(old, setting.train) if name != state.cluster.check]
    groups = {name: [name] for name in others}
    known = {name: setting.checks[name].criterion for name in others if name in setting.checks}
    for criterion in CRITERIA:
        checks = [name for name, its in known.items() if its == criterion]
        if len(checks) > 1:
            groups[f"{criterion} as a whole"] = checks
    found = {
        name: worse_p(tally, new, old, setting.train, *checks) for name, checks in groups.items()
    }
    name = min(found, key=lambda name: found[name], default="")
    bound = test.harm_p / test.looks
    if not name or found[name] > bound:
        return "", False
    return name, found[name] <= bound / len(found)


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
