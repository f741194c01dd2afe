"""A suite to simulate: main's record of its cases, and what that leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.power._simulation import Chances, play
from regauge.stats import draw_pass_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.engine import BoolArray, IntArray
    from regauge.gate.power._simulation import FloatArray, Played

# Cases that main passes at least so often are what one broken case is taken from.
_STABLE = 0.9
# Rates between these are of flaky cases.
_FLAKY_LOW, _FLAKY_HIGH = 0.05, 0.97
# Cases times runs, which bound time and memory.
_SIZE = 120_000
_RUNS_LEAST, _RUNS_MOST = 100, 1_000
# Larger suites are simulated by so many of their cases: what these find, all of them find.
_CASES_MOST = 1_000
# From so many cases with so many trials on, one number is precise enough without a range.
_CASES_KNOWN, _TRIALS_KNOWN = 100, 12
# Suites drawn from what the record leaves open, for the range.
_SUITES = 30
_HALVINGS = 30


def lowered(drop: float) -> Callable[[FloatArray], FloatArray]:
    """Every pass rate lower by the same, down to 0.

    >>> lowered(0.1)(np.array([1.0, 0.05])).tolist()
    [0.9, 0.0]
    """
    return lambda p: np.clip(p - drop, 0.0, 1.0)


def lowered_where_flaky(drop: float) -> Callable[[FloatArray], FloatArray]:
    """The same loss on average over all cases, all of it on flaky ones: one shift of their logits.

    >>> lowered_where_flaky(0.1)(np.array([[1.0, 0.5]])).round(2).tolist()
    [[1.0, 0.3]]
    """

    def change(p: FloatArray) -> FloatArray:
        flaky = (p > _FLAKY_LOW) & (p < _FLAKY_HIGH)
        logits = np.log(np.clip(p, 1e-9, 1 - 1e-9)) - np.log1p(-np.clip(p, 1e-9, 1 - 1e-9))

        def shifted(by: FloatArray) -> FloatArray:
            return np.where(flaky, 1 / (1 + np.exp(by[:, np.newaxis] - logits)), p)

        low, high = np.zeros(len(p)), np.full(len(p), 20.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = (p - shifted(middle)).mean(axis=1) >= drop
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return shifted(high)

    return change


def _thinned(known: list[tuple[Count, str]]) -> list[tuple[Count, str]]:
    """At most so many cases as are simulated, in the shares of prompts and records."""
    if len(known) <= _CASES_MOST:
        return known
    ordered = sorted(known, key=lambda one: (one[1], one[0].rate, one[0].trials))
    return [ordered[i * len(ordered) // _CASES_MOST] for i in range(_CASES_MOST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSuite:
    """Cases to simulate.

    Attributes:
        main: Passes and trials of main's record; shape (cases,).
        family: How many cells are tested together.
        prompts: The columns of the cases of each prompt.
        recorded: Trials of each case that a replay has; 0 where models may be called.
    """

    main: tuple[IntArray, IntArray]
    policy: GatePolicy
    family: int
    prompts: tuple[IntArray, ...]
    recorded: int = 0

    @classmethod
    def of(
        cls,
        histories: Sequence[Count],
        policy: GatePolicy,
        *,
        cells: int | None = None,
        cases: int | None = None,
        prompts: Sequence[str] = (),
    ) -> SimulatedSuite | None:
        named = list(prompts) or [""] * len(histories)
        known = [
            (count, prompt) for count, prompt in zip(histories, named, strict=True) if count.trials
        ]
        if not known:
            return None
        per_case = 1.0 if cells is None else max(1.0, cells / len(known))
        if cases is not None:
            # As many as wanted, in the shares of the suite.
            known.sort(key=lambda one: one[0].passed / one[0].trials)
            known = [(known[i * len(known) // cases][0], "") for i in range(cases)]
        family = round(per_case * len(known))
        known = _thinned(known)
        columns: dict[str, list[int]] = {}
        for column, (_, prompt) in enumerate(known):
            columns.setdefault(prompt, []).append(column)
        return cls(
            main=(
                np.array([count.passed for count, _ in known], dtype=np.int64),
                np.array([count.trials for count, _ in known], dtype=np.int64),
            ),
            policy=policy,
            family=family,
            prompts=tuple(np.array(own, dtype=np.int64) for own in columns.values()),
        )

    @property
    def size(self) -> int:
        """How many cases there are."""
        return int(self.main[0].size)

    @property
    def runs_in_time(self) -> int:
        """How many runs take about a second."""
        return _SIZE // self.size

    @property
    def runs(self) -> int:
        """How many runs of an unchanged prompt are simulated."""
        return int(np.clip(self.runs_in_time, _RUNS_LEAST, _RUNS_MOST))

    @property
    def suites(self) -> int:
        """How many suites are drawn for a range; 0 where the record is long enough without."""
        known = self.size >= _CASES_KNOWN and int(self.main[1].min()) >= _TRIALS_KNOWN
        return 0 if known else _SUITES

    @property
    def stable(self) -> IntArray:
        """The cases that main passes nearly always."""
        s, m = self.main
        return np.nonzero(s >= _STABLE * m)[0]

    @property
    def flaky_share(self) -> float:
        """What flaky cases pass of all trials, by the record: the most that they can lose."""
        rates = self.main[0] / self.main[1]
        flaky = (rates > _FLAKY_LOW) & (rates < _FLAKY_HIGH)
        return float(np.mean(np.where(flaky, rates, 0.0)))

    def breaking_one(self, p: FloatArray) -> FloatArray:
        """One stable case of each run never passes, another one in the next run."""
        stable = self.stable
        q = p.copy()
        runs = np.arange(len(p))
        q[runs, stable[runs % stable.size]] = 0.0
        return q

    def play(self, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int) -> Played:
        """Run the gate many times, on pass rates that the record leaves open."""
        return self._play(seed, change, runs=runs, suites=0)

    def play_suites(
        self, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int
    ) -> BoolArray:
        """Whether runs reject; shape (suites, runs of each), one row for each drawn suite."""
        each = max(1, runs // self.suites)
        played = self._play(seed, change, runs=each, suites=self.suites)
        return played.blocked.reshape(self.suites, each)

    def _play(
        self,
        seed: int,
        change: Callable[[FloatArray], FloatArray],
        *,
        runs: int,
        suites: int,
    ) -> Played:
        rng = np.random.default_rng(seed)
        p = draw_pass_rates(*self.main, runs=runs, rng=rng, suites=suites)
        q = change(p)
        record = tuple(np.broadcast_to(arm, p.shape) for arm in self.main)
        return play(
            self.policy,
            (record[0], record[1]),
            Chances(rng, lambda _: p, lambda _: q),
            family=self.family,
            prompts=self.prompts,
            recorded=self.recorded,
        )
