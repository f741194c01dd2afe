"""Flaky checks, once nothing else fails: which cases are unsteady, and whether an edit steadies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.analysis import steadiness_of, tail
from regauge.refine.loop._actions import RunTrials
from regauge.refine.loop._budget import FRESH_LOOKS
from regauge.refine.loop._course import enter_tier, nothing_left
from regauge.refine.loop._findings import Note
from regauge.refine.loop._generality import FRESH_CASES, either_side
from regauge.refine.loop._plan import draws

if TYPE_CHECKING:
    from regauge.refine.analysis import Cluster, Steadiness
    from regauge.refine.loop._actions import TrialsDone
    from regauge.refine.loop._findings import Accepted
    from regauge.refine.loop._state import Setting, State
    from regauge.refine.tally import Tally

__all__ = [
    "after_unsteady",
    "fresh_cases",
    "fresh_steadiness",
    "is_steadier",
    "paired_steadiness",
    "steadier",
    "unsteady",
]


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


def paired_steadiness(state: State) -> Steadiness | None:
    """What the trials of a test say, which chose neither its cases nor its candidate."""
    cluster, new = state.cluster, state.candidates[0].text.digest
    return steadiness_of(state.paired, new, state.text.digest, cluster.cases, cluster.check)


def fresh_cases(setting: Setting, state: State, edit: Accepted) -> tuple[str, ...]:
    """The cases an edit is to make steady, and held-out ones in which its check failed."""
    unseen = either_side(setting, state, edit)[1]
    return tuple(dict.fromkeys((*edit.cluster.cases, *unseen[:FRESH_CASES])))


def fresh_steadiness(
    setting: Setting, state: State, edit: Accepted, *, confidence: float = 0.95
) -> Steadiness | None:
    """What trials that chose nothing say, on the cases of an edit and on held-out ones."""
    return steadiness_of(
        state.fresh,
        state.text.digest,
        setting.base.digest,
        fresh_cases(setting, state, edit),
        edit.cluster.check,
        confidence=confidence,
    )


def is_steadier(setting: Setting, state: State, edit: Accepted) -> bool:
    """Whether fresh trials prove that verdicts vary less, and pass no less often.

    The interval of the fall has to leave out 0, and its p-value to be small, at every look's share
    of what all looks may err.
    """
    share = setting.policy.test.fresh_p / FRESH_LOOKS
    found = fresh_steadiness(setting, state, edit, confidence=1 - share)
    return found is not None and found.low > 0 and found.p <= share and found.gain >= 0


def steadier(setting: Setting, state: State, edit: Accepted) -> Note:
    """Say how much steadier an edit made its check."""
    found = fresh_steadiness(setting, state, edit)
    return Note(
        event="steadier",
        subject=edit.text.digest,
        text=f"{edit.cluster.check}: {found}",
        numbers={} if found is None else found.numbers(),
    )
