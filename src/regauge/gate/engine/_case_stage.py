"""The tests of single cases in one run: first trials, further looks, and main beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.engine._case_test import CellTest, End
from regauge.gate.engine._drawn import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.engine._case_test import Tallies
    from regauge.gate.engine._drawn import Drawn


class CaseStage:
    """Every cell of the required cases, tested both ways.

    Attributes:
        cells: Case and check of each column of the tests.
        worse: The test for broken cells.
        better: The test for repaired ones, spent on cells that main hardly ever passes.
    """

    def __init__(self, drawn: Sequence[Drawn], policy: GatePolicy) -> None:
        """Begin once the first trials are in."""
        self.cells: list[tuple[Drawn, str]] = [
            (one, check) for one in drawn for check in one.case.checks
        ]
        self._first = policy.first_draws
        self._column = {(one.case.key, check): i for i, (one, check) in enumerate(self.cells)}
        s, m = main = _row([one.history(check) for one, check in self.cells])
        k, r = _row([one.candidate(check, self._first) for one, check in self.cells])
        broken = (k < r) & (s > 0)
        repaired = (r > 0) & (k == r) & (m > 0) & (s <= policy.improved_at_most * m)
        self._tested = (set(np.nonzero(broken)[1].tolist()), set(np.nonzero(repaired)[1].tolist()))
        self.worse = CellTest(
            policy.case,
            main,
            suspects=broken,
            family=len(self.cells),
            first_draws=policy.first_draws,
        )
        self.better = CellTest(
            policy.case,
            main,
            suspects=repaired,
            family=len(self.cells),
            first_draws=policy.first_draws,
            direction="better",
        )

    def waves(self) -> Iterator[list[Request]]:
        """The trials each look needs; the looks are taken between them."""
        before = self._first
        for number, look in enumerate(self.worse.looks):
            if number:
                wave = self._wanted(look, more=look - before)
                if not wave:
                    return
                yield wave
            for test in (self.worse, self.better):
                self._look(test, number, look)
            before = look

    def of(self, drawn: Drawn, check: str) -> tuple[CellTest, int] | None:
        """The test that a cell is in, and its column; None where nothing was to be tested."""
        column = self._column.get((drawn.case.key, check))
        if column is None:
            return None
        if column in self._tested[0]:
            return self.worse, column
        return (self.better, column) if column in self._tested[1] else None

    def _wanted(self, look: int, *, more: int) -> list[Request]:
        cases: dict[tuple[str, str], Drawn] = {}
        control: dict[tuple[str, str], None] = {}
        for test in (self.worse, self.better):
            columns: list[int] = test.open[1].tolist()
            for column, serious in zip(columns, test.serious.tolist(), strict=True):
                one = self.cells[column][0]
                cases[one.case.key] = one
                if serious:
                    control[one.case.key] = None
        wave = [Request(one, "candidate", look) for one in cases.values()]
        wave += [Request(cases[key], "main", cases[key].asked("main") + more) for key in control]
        return wave

    def _look(self, test: CellTest, number: int, look: int) -> None:
        columns: list[int] = test.open[1].tolist()
        if not columns:
            return
        cells = [self.cells[column] for column in columns]
        test.look(
            number,
            candidate=_counts([one.candidate(check, look) for one, check in cells]),
            fresh=_counts([one.today(check) for one, check in cells]),
        )
        for column, (one, _) in zip(columns, cells, strict=True):
            missing = any(one.gaps("candidate", 0, look)) or any(one.gaps("main"))
            if missing and test.ends[0, column] != End.NAMED:
                test.stop(0, column)


def _counts(counts: Sequence[Count]) -> Tallies:
    passed = np.array([count.passed for count in counts], dtype=np.int64)
    return passed, np.array([count.trials for count in counts], dtype=np.int64)


def _row(counts: Sequence[Count]) -> Tallies:
    passed, trials = _counts(counts)
    return passed[np.newaxis], trials[np.newaxis]
