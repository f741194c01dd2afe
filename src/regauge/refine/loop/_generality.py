"""Whether an edit helps on trials that chose nothing, and cases it was not made for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from regauge.refine.analysis import better_p
from regauge.refine.loop._plan import holdout_cases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.loop._state import Accepted, Setting, State

FRESH_CASES = 6
"""More cases than these, seen or unseen, are not drawn for one edit at one look."""

# One lucky pass of a case that hardly ever passes proves nothing.
_IDLE_MIN = 0.15
# How many trials of a case count as much as what all cases say together.
_PRIOR = 2


def either_side(
    setting: Setting, state: State, edit: Accepted
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The cases an edit was made for, and failing ones of which it must be shown that it helps.

    These are held-out cases. Of an edit that names what some cases are about, they are cases that
    it does not name: on the holdout, or else among the train cases. Where it names all that fail
    there is nothing narrow in it.
    """
    check, cases = edit.cluster.check, edit.cluster.cases
    unseen = holdout_cases_of(setting, state, check)
    named = setting.guard.named_in(edit.edit.added)
    seen = tuple(case for case in cases if case in named)
    for others in (unseen, edit.cluster.failing):
        rest = tuple(case for case in others if case not in named)
        if seen and rest:
            return seen, rest
    return cases, unseen


def generalises(
    setting: Setting,
    state: State,
    edit: Accepted,
    seen: Sequence[str],
    unseen: Sequence[str],
) -> float:
    """How many times likelier the trials of unseen cases are if the edit helps as on seen ones.

    The other explanation is that it does nothing there. Without a holdout case nothing is known.
    An edit that helps seen cases half of the time is not expected to do better on others.
    """
    check, base = edit.cluster.check, setting.base.digest
    before = _rate(state.tally.over(base, (*seen, *unseen), check))
    helped = _passed_on(state, edit, seen)
    gain = _log_odds(_rate(helped)) - _log_odds(before)
    odds = 0.0 if unseen else math.inf
    for case in unseen:
        # An easy case passes without any help, so each has its own rate; few trials tell it.
        known, said = (
            state.tally.check(base, case, check),
            state.fresh.check(state.text.digest, case, check),
        )
        idle = max(_IDLE_MIN, (known.passed + _PRIOR * before) / (known.trials + _PRIOR))
        busy = 1 / (1 + math.exp(-_log_odds(idle) - max(0.0, gain)))
        busy = max(idle, min(busy, helped.rate))
        odds += said.passed * math.log(busy / idle)
        odds += said.failed * math.log((1 - busy) / (1 - idle))
    return math.exp(min(odds, 700.0))


def fresh_p(setting: Setting, state: State, edit: Accepted, unseen: Sequence[str]) -> float:
    """How likely the fresh trials of both texts come out so when the revision is no better."""
    # Where nothing failed there is nothing to gain. Both texts are drawn anew, so that the choice
    # of these cases favours neither.
    cases = (*edit.cluster.failing, *unseen)
    base = setting.base.digest
    return better_p(state.fresh, state.text.digest, base, cases, edit.cluster.check)


def compared(state: State, edit: Accepted, seen: Sequence[str], unseen: Sequence[str]) -> str:
    """How an edit did on either side, in words."""
    check, text = edit.cluster.check, state.text.digest
    known = _passed_on(state, edit, seen)
    others = state.fresh.over(text, unseen, check)
    return (
        f"{check} passes {known.passed} of {known.trials} trials of cases it was made for, and only"
        f" {others.passed} of {others.trials} of the others"
    )


def _passed_on(state: State, edit: Accepted, seen: Sequence[str]) -> Count:
    """What cases that an edit was made for passed with it, on all trials that are known."""
    check = edit.cluster.check
    chosen = edit.after
    if seen != edit.cluster.cases:
        chosen = state.tally.over(edit.text.digest, seen, check)
    return state.fresh.over(state.text.digest, seen, check) + chosen


def _rate(count: Count) -> float:
    """A share that is never 0 or 1."""
    return (count.passed + 1) / (count.trials + 2)


def _log_odds(rate: float) -> float:
    return math.log(rate / (1 - rate))
