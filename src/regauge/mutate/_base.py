"""The base: its record and its outputs, drawn only where they are missing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError, UnmeasuredError
from regauge.gate import Count, History
from regauge.mutate._outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.mutate._types import Bench, Case, Observed

# Trials of the base for a case without a baseline: with fewer, the e-value of a case that always
# fails now needs more trials of every mutant than the base costs once.
_TRIALS = 12


class Base:
    """The base's record and outputs, shared by all mutants.

    Attributes:
        calls: Trials of the base that were asked for.
        outputs: Compares outputs.
    """

    def __init__(self, cases: Sequence[Case], bench: Bench) -> None:
        self.cases: Mapping[str, Case] = {case.key: case for case in cases}
        self.calls = 0
        self.outputs = Outputs()
        self._bench = bench
        self._drawn: dict[str, list[Observed]] = defaultdict(list)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def repeats_itself(self) -> bool:
        """True if every case is known to give the same output each time."""
        return all(case.repeats > 1 for case in self.cases.values())

    async def history(self, key: str, more: int = 0) -> History:
        """The base's record of a case: of the baseline, or trials that are drawn now.

        Args:
            more: So many trials beyond these, where the record decides nothing.
        """
        known = self.cases[key].history
        if known is not None and known.whole.trials:
            return _added(known, await self._record(key, more)) if more else known
        return await self._record(key, _TRIALS + more)

    async def _record(self, key: str, trials: int) -> History:
        drawn = await self._first(key, trials)
        checks = {
            check: Count(passed=bits.count(True), trials=len(bits) - bits.count(None))
            for check in self.cases[key].checks
            for bits in [[one.facts.checks.get(check) for one in drawn]]
        }
        passed = [one.facts.passed for one in drawn]
        whole = Count(passed=passed.count(True), trials=len(passed) - passed.count(None))
        return History(checks=checks, whole=whole)

    async def first(self, key: str) -> Observed:
        """The trial of a case that its eval replays."""
        return (await self._first(key, 1))[0]

    async def is_usual(self, key: str) -> bool:
        """True if the first trial gave the one output that the baseline has of a case."""
        case = self.cases[key]
        if not case.repeats:
            return False
        return (await self.first(key)).facts.answer.startswith(case.answer)

    async def texts(self, key: str, count: int) -> list[str]:
        """Outputs of the base for a case: this number, or more where they are known to be equal."""
        if await self.is_usual(key):
            return [(await self.first(key)).output] * self.cases[key].repeats
        return [one.output for one in await self._first(key, count)]

    async def _first(self, key: str, count: int) -> list[Observed]:
        """The first trials of the base for a case; the same for every caller."""
        async with self._locks[key]:
            drawn = self._drawn[key]
            missing = range(len(drawn), count)
            if missing:
                made = await self._bench.draw(None, [(key, number) for number in missing])
                # The first one is that of the evals, which is recorded.
                self.calls += sum(number > 0 for number in missing)
                for one in made:
                    if isinstance(one, RegaugeError):
                        raise one
                    if isinstance(one, Exception):
                        raise UnmeasuredError(f"{type(one).__name__}: {one}") from one
                    drawn.append(one)
            return drawn[:count]


def _added(one: History, other: History) -> History:
    checks = {check: count + other.checks[check] for check, count in one.checks.items()}
    return History(checks=checks, whole=one.whole + other.whole)
