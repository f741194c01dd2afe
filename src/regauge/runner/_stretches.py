"""Judges replayed cases a stretch at a time, which takes Python less than one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.runner._plan import PlannedCase
    from regauge.runner._result import EvalResult

__all__ = ["Stretches"]

# pytest does so much between two cases that nothing of ours is left in the processor's caches. A
# stretch is over soon, so that slow rules judge in their turn and little is judged in vain.
_STRETCH_S = 0.002
_STRETCH_MAX = 64


class Stretches:
    """Results of cases that were made before their turn.

    Args:
        cases: In the order of their turns.
        make: Judges one case.
        ready: Whether nothing has to be waited for to judge a case.
        clock: In seconds.
    """

    def __init__(
        self,
        cases: Sequence[PlannedCase],
        *,
        make: Callable[[PlannedCase], EvalResult],
        ready: Callable[[PlannedCase], bool],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._cases = cases
        self._make = make
        self._ready = ready
        self._clock = clock
        self._next = 0
        self._made: dict[int, EvalResult] = {}

    def take(self, planned: PlannedCase) -> EvalResult | None:
        """The result of a case whose turn it is, if it was made; whoever asks again has none."""
        return self._made.pop(id(planned), None)

    def go_on_from(self, planned: PlannedCase) -> None:
        """Judge those cases of the same eval that come next."""
        self._made.clear()  # what is left was skipped
        suite = planned.suite
        if not suite.judged_by_own_rules:
            return  # others may print or wait, which belongs to the turn of a case
        try:
            self._next = self._cases.index(planned, self._next) + 1
        except ValueError:
            return  # it had its turn before
        end = self._clock() + _STRETCH_S
        for case in self._cases[self._next : self._next + _STRETCH_MAX]:
            if case.suite is not suite or self._clock() > end or not self._ready(case):
                return
            self._made[id(case)] = self._make(case)
