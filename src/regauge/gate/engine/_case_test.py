"""The tests of single cases: the first wave, further trials, and the base next to them.

The arrays have one row per run, so the gate (one row) and the simulation of its error rates (many
rows) are decided by the same lines.
"""

from __future__ import annotations

from enum import IntEnum
from math import log
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from regauge.stats import e_bh, log_drift_ratio, log_e_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from regauge.evidence import Count
    from regauge.gate._policy import GatePolicy
    from regauge.gate.engine._drawn import Drawn, Request
    from regauge.stats import CasePolicy, Direction

BoolArray: TypeAlias = "NDArray[np.bool_]"
IntArray: TypeAlias = "NDArray[np.int64]"
Tallies: TypeAlias = "tuple[IntArray, IntArray]"


class End(IntEnum):
    """The state of a cell."""

    UNTESTED = 0
    OPEN = 1
    NAMED = 2
    DRIFTED = 3
    CLEARED = 4
    UNDECIDED = 5
    MIXED = 6
    MISSING = 7


class Observed(NamedTuple):
    """Passes and trials of the open cells so far, in their order.

    Attributes:
        candidate: All trials of the candidate, the first round included.
        today: Main's trials of today, drawn in pairs.
        paired: The candidate's trials of the same pairs.
    """

    candidate: Tallies
    today: Tallies
    paired: Tallies


class CellTest:
    """The test of many cells in one direction, look by look.

    Attributes:
        steps: Further trials of an open cell for each look after the first round.
        ends: An `End` for each cell; shape (runs, cells).
        log_e: The evidence against main's record and today's trials, at the last look.
        log_today: The evidence of the pairs alone, at the last look; -inf without any.
        log_bound: The bound of `log_e` in each run, at the last look; shape (runs,).
    """

    def __init__(
        self,
        policy: CasePolicy,
        main: Tallies,
        first: Tallies,
        *,
        family: int | None = None,
        direction: Direction = "worse",
        passes_at_most: float = 1.0,
    ) -> None:
        """Begin with the cells whose first round leaves a doubt.

        Args:
            main: Passes and trials of main's record; shape (runs, cells).
            first: Passes and trials of the candidate in the first round.
            family: The number of cells that are tested together, if there are more than these.
            direction: `better` tests whether cells that main fails are fixed.
            passes_at_most: Only cells that main passes at most so often are tested for that.
        """
        self._policy = policy
        self._direction: Direction = direction
        self._main = main
        (s, m), (k, r) = main, first
        if direction == "better":
            doubt = (r > 0) & (k == r) & (m > 0) & (s <= passes_at_most * m)
        else:
            doubt = (k < r) & (s > 0)
        self.log_e = np.full(doubt.shape, -np.inf)
        where = np.nonzero(doubt)
        self.log_e[where] = self._evidence(s[where], m[where], k[where], r[where])
        least = np.where(r >= policy.many, policy.suspect_of_many, policy.suspect)
        doubt &= self.log_e >= np.log(least)
        self.steps = policy.all_steps
        self.tested = doubt
        self.ends = np.where(doubt, int(End.OPEN), int(End.UNTESTED)).astype(np.int8)
        self.log_today = np.full(doubt.shape, -np.inf)
        self._record = np.full(doubt.shape, -np.inf)
        self._family = max(family or 0, doubt.shape[1], 1)
        self.log_bound = np.full(len(doubt), policy.log_bound(self._family))

    @property
    def open(self) -> tuple[IntArray, ...]:
        """Runs and cells that are not decided, as indices."""
        return np.nonzero(self.ends == End.OPEN)

    def paired(self, number: int) -> BoolArray:
        """The open cells, in order, that run the base as well at a look, counted from 0."""
        evidence = self.log_e[self.open]
        if number + 2 >= self._policy.paired_from:
            return np.ones(evidence.shape, dtype=np.bool_)
        return np.asarray(evidence >= log(self._policy.serious))

    def look(self, number: int, observed: Observed) -> None:
        """Decide what can be decided of the open cells.

        Args:
            number: Which look this is, counted from 0.
            observed: What there is of the open cells.
        """
        rows, cells = where = self.open
        if not rows.size:
            return
        policy = self._policy
        s, m = self._main[0][where], self._main[1][where]
        (k, r), (b, n), (kd, nd) = observed
        evidence = self._evidence(s + b, m + n, k, r)
        today = self._evidence(b, n, kd, nd)
        self.log_e[where], self.log_today[where] = evidence, today
        before = self._evidence(s, m, k, r)
        self._record[where] = np.maximum(self._record[where], np.maximum(evidence, before))
        against, confirmed = self._named(rows, cells)
        controlled = n >= policy.control_min
        ratio = log_drift_ratio((b, n), history=(s, m), candidate=(k, r))
        moved = controlled & (ratio > log(policy.drifted))
        # In the direction that is tested main is ahead by so many trials of today.
        ahead = b - kd if self._direction == "worse" else (n - b) - (nd - kd)
        at_cap = number >= len(policy.steps) - 1
        # The candidate passes none of today's trials and main some: drift, and perhaps more.
        never = (kd if self._direction == "worse" else nd - kd) == 0
        untold = moved & never & (ahead >= policy.untold)
        # Few pairs in which neither passes do not tell "main hardly passes" from "never".
        drifted = moved & (today < 0) & (at_cap & ~untold | (ahead <= 0) & ~never)
        self.ends[rows, cells] = np.select(
            [
                confirmed & controlled,
                drifted,
                evidence < log(policy.clear),
            ],
            [End.NAMED, End.DRIFTED, End.CLEARED],
            End.OPEN,
        )
        if at_cap:
            left = self.ends[rows, cells] == End.OPEN
            end = self._at_cap(
                number,
                asked=against,
                today=today,
                ahead=ahead,
                likely=(evidence >= log(max(policy.undecided, self._family)))
                & (today >= log(policy.undecided_today)),
                moved=moved,
                untold=untold,
            )
            self.ends[rows[left], cells[left]] = end[left]

    def stop(self, row: int, cell: int) -> None:
        """Draw no more for a cell, because trials of it are missing."""
        self.ends[row, cell] = End.MISSING

    def _evidence(self, s: IntArray, m: IntArray, k: IntArray, r: IntArray) -> NDArray[np.float64]:
        return log_e_value(s, m, k, r, direction=self._direction)

    def _named(self, rows: IntArray, cells: IntArray) -> tuple[BoolArray, BoolArray]:
        """The open cells that the record names, and those that the pairs confirm."""
        policy = self._policy
        looked, row = np.unique(rows, return_inverse=True)
        bounds = e_bh(self._record[looked], alpha=policy.alpha, cells=self._family)
        self.log_bound[looked] = bounds.log_bound
        live = (self.ends[looked] == End.OPEN) | (self.ends[looked] == End.NAMED)
        named = (self._record[looked] >= bounds.log_bound[:, np.newaxis]) & live
        among = np.where(named, self.log_today[looked], -np.inf)
        confirm = e_bh(among, alpha=1 / policy.confirm, cells=np.maximum(named.sum(axis=1), 1))
        confirmed = named & (among >= confirm.log_bound[:, np.newaxis])
        return named[row, cells], confirmed[row, cells]

    def _at_cap(
        self,
        number: int,
        *,
        asked: BoolArray,
        today: NDArray[np.float64],
        ahead: IntArray,
        likely: BoolArray,
        moved: BoolArray,
        untold: BoolArray,
    ) -> IntArray:
        """The end of each cell once the regular steps are used up; OPEN where it continues."""
        policy = self._policy
        worth = asked & ((today >= log(policy.keep_on)) | (ahead >= policy.passes_ahead))
        open_end = likely | untold
        step, regular = number + 1, len(policy.steps)
        late = regular + len(policy.late)
        # A run that continues gives an undecided cell so many steps more than it had.
        more = step < regular + len(policy.more) or late <= step < len(self.steps)
        goes_on = (worth & (step < late)) | (open_end & more)
        return np.select(
            [goes_on, open_end, moved],
            [int(End.OPEN), int(End.UNDECIDED), int(End.DRIFTED)],
            int(End.MIXED),
        )


class CaseStage:
    """Every cell of the required cases, tested both ways.

    Attributes:
        cells: Case and check of each column of the tests.
        worse: The test for broken cells.
        better: The test for fixed ones, spent on cells that main hardly ever passes.
    """

    def __init__(self, drawn: Sequence[Drawn], policy: GatePolicy) -> None:
        """Begin once the first round is in."""
        self.cells: list[tuple[Drawn, str]] = [
            (one, check) for one in drawn for check in one.case.checks
        ]
        self._column = {(one.case.key, check): i for i, (one, check) in enumerate(self.cells)}
        main = _row([one.history(check) for one, check in self.cells])
        first = _row([one.candidate(check, one.first) for one, check in self.cells])
        self.worse = CellTest(policy.case, main, first)
        self.better = CellTest(
            policy.case,
            main,
            first,
            direction="better",
            passes_at_most=policy.improved_at_most,
        )

    def waves(self) -> Iterator[list[Request]]:
        """The trials each look needs; the looks are taken between them."""
        for number, step in enumerate(self.worse.steps):
            wave = self._wanted(number, step)
            if not wave:
                return
            yield wave
            for test in (self.worse, self.better):
                self._look(test, number)

    def test_of(self, drawn: Drawn, check: str) -> tuple[CellTest, int] | None:
        """The test that a cell is in, and its column; None where nothing was to be tested."""
        column = self._column.get((drawn.case.key, check))
        if column is None:
            return None
        for test in (self.worse, self.better):
            if test.tested[0, column]:
                return test, column
        return None

    def _wanted(self, number: int, step: int) -> list[Request]:
        cases: dict[tuple[str, str], Drawn] = {}
        paired: set[tuple[str, str]] = set()
        for test in (self.worse, self.better):
            columns: list[int] = test.open[1].tolist()
            for column, pair in zip(columns, test.paired(number).tolist(), strict=True):
                one = self.cells[column][0]
                cases[one.case.key] = one
                if pair:
                    paired.add(one.case.key)
        wave: list[Request] = []
        for key, one in cases.items():
            wave += one.more(step, pairs=key in paired)
        return wave

    def _look(self, test: CellTest, number: int) -> None:
        columns: list[int] = test.open[1].tolist()
        if not columns:
            return
        cells = [self.cells[column] for column in columns]
        observed = Observed(
            candidate=_counts([one.candidate(check) for one, check in cells]),
            today=_counts([one.paired("main", check) for one, check in cells]),
            paired=_counts([one.paired("candidate", check) for one, check in cells]),
        )
        test.look(number, observed)
        for column, (one, _) in zip(columns, cells, strict=True):
            if any(one.gaps()) and test.ends[0, column] != End.NAMED:
                test.stop(0, column)


def _counts(counts: Sequence[Count]) -> Tallies:
    passed = np.array([count.passed for count in counts], dtype=np.int64)
    return passed, np.array([count.trials for count in counts], dtype=np.int64)


def _row(counts: Sequence[Count]) -> Tallies:
    passed, trials = _counts(counts)
    return passed[np.newaxis], trials[np.newaxis]
