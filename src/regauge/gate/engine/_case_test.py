"""The sequential test of cells: at each look a cell is named, drifted, cleared, or drawn on.

The arrays have one row per run, so the gate (one row) and the simulation of its error rates (many
rows) are decided by the same lines.
"""

from __future__ import annotations

from enum import IntEnum
from math import log
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from regauge.stats import e_bh, log_drift_ratio, log_e_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regauge.stats import CasePolicy, Direction

BoolArray: TypeAlias = "NDArray[np.bool_]"
IntArray: TypeAlias = "NDArray[np.int64]"
Tallies: TypeAlias = "tuple[IntArray, IntArray]"


class End(IntEnum):
    """Where a cell stands."""

    UNTESTED = 0
    OPEN = 1
    NAMED = 2
    DRIFTED = 3
    CLEARED = 4
    INCONCLUSIVE = 5
    FLAKY = 6
    MISSING = 7


class CellTest:
    """The test of many cells in one direction, look by look.

    Attributes:
        looks: After how many trials of the candidate evidence is looked at.
        ends: An `End` for each cell; shape (runs, cells).
        log_e: The evidence of each cell at its last look; -inf where there was none.
        log_bound: What names a cell of each run, at the last look; shape (runs,).
    """

    def __init__(
        self,
        policy: CasePolicy,
        main: Tallies,
        *,
        suspects: BoolArray,
        family: int,
        first_draws: int = 1,
        direction: Direction = "worse",
    ) -> None:
        """Begin with the cells whose first trials left a doubt.

        Args:
            main: Passes and trials of main's history; shape (runs, cells).
            suspects: Which cells are to be tested; others count in the family alone.
            family: How many cells are tested together, at least those given.
            first_draws: How many trials of the candidate the first look has.
        """
        self.looks = (first_draws, *(look for look in policy.looks if look > first_draws))
        self.ends = np.where(suspects, int(End.OPEN), int(End.UNTESTED)).astype(np.int8)
        self.log_e = np.full(suspects.shape, -np.inf)
        self._policy = policy
        self._main = main
        self._family = max(family, 1)
        self._direction: Direction = direction
        self.log_bound = np.full(len(suspects), policy.log_bound(self._family))

    @property
    def open(self) -> tuple[IntArray, ...]:
        """Runs and cells that are not decided, as indices."""
        return np.nonzero(self.ends == End.OPEN)

    @property
    def serious(self) -> BoolArray:
        """Which of the open cells, in their order, main is drawn again for."""
        return np.asarray(self.log_e[self.open] >= log(self._policy.serious))

    def look(self, number: int, *, candidate: Tallies, fresh: Tallies) -> None:
        """Decide what can be decided of the open cells.

        Args:
            number: Which look this is, counted from 0.
            candidate: Passes and trials of the candidate, for the open cells in their order.
            fresh: The same of main in this run, without its history.
        """
        rows, cells = where = self.open
        if not rows.size:
            return
        policy = self._policy
        s, m = self._main[0][where], self._main[1][where]
        (k, r), (x, n) = candidate, fresh
        evidence = log_e_value(s + x, m + n, k, r, direction=self._direction)
        self.log_e[where] = evidence
        looked = np.unique(rows)
        bounds = e_bh(self.log_e[looked], alpha=policy.alpha, cells=self._family)
        self.log_bound[looked] = bounds.log_bound
        controlled = n >= policy.control_min
        ratio = log_drift_ratio((x, n), history=(s, m), candidate=(k, r))
        at_cap = number == len(self.looks) - 1
        self.ends[rows, cells] = np.select(
            [
                controlled & (ratio > log(policy.drifted)),
                controlled & (evidence >= self.log_bound[rows]),
                (evidence < log(policy.clear)) & (number > 0),
                (evidence >= log(policy.inconclusive)) & at_cap,
                np.full(rows.shape, at_cap),
            ],
            [End.DRIFTED, End.NAMED, End.CLEARED, End.INCONCLUSIVE, End.FLAKY],
            End.OPEN,
        )

    def stop(self, row: int, cell: int) -> None:
        """Draw no more for a cell, because trials of it are missing."""
        self.ends[row, cell] = End.MISSING
