"""The tests of single cases in one run: the first round, further looks, and main next to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.engine._case_test import CellTest, End, Observed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.engine._case_test import Tallies
    from regauge.gate.engine._drawn import Drawn, Request


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
