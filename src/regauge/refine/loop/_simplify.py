"""Accepted edits that a later one made needless: left out once, and for good if not missed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.attempts import named
from regauge.refine.loop._course import tried
from regauge.refine.loop._findings import Note
from regauge.refine.loop._plan import verification_phase, without

if TYPE_CHECKING:
    from regauge.refine.loop._actions import TrialsDone
    from regauge.refine.loop._state import Setting, State

__all__ = ["after_simplify"]

# An edit whose removal costs a check this much is needed.
_NEEDED = 0.12


def after_simplify(setting: Setting, state: State, told: TrialsDone) -> State:
    """Take an edit out that a later one has made needless."""
    state = replace(state, tally=state.tally.with_outcomes(told.outcomes))
    leaner = without(setting, state)
    assert leaner is not None
    index, text = leaner
    edit = state.accepted[index]
    check, cases = edit.cluster.check, edit.cluster.cases
    less = state.tally.over(text.digest, cases, check)
    now = state.tally.over(state.text.digest, cases, check)
    needed = less.rate < now.rate - _NEEDED
    note = Note(
        event="kept" if needed else "simplified",
        subject=text.digest,
        text=f"without {edit.edit.strategy} for {check}: passed {less.passed} of {less.trials},"
        f" with it {now.passed} of {now.trials}",
        numbers=named(edit.edit),
    )
    if needed:
        state = tried(state, text, "the edit is needed", "confirmed")
        return _further(setting, state.noting(note))
    rest = (*state.accepted[:index], *state.accepted[index + 1 :])
    last = replace(rest[-1], text=text)
    return _further(setting, state.noting(note, accepted=(*rest[:-1], last), text=text))


def _further(setting: Setting, state: State) -> State:
    return replace(state, phase=verification_phase(setting, state))
