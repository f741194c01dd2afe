"""What a gate with these cases can see: its error rates, simulated from the suite's own history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate._simulation import play
from regauge.stats import clopper_pearson, log_marginal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.gate._case_test import IntArray
    from regauge.gate._policy import GatePolicy
    from regauge.gate._simulation import FloatArray, Played
    from regauge.gate._types import Count
    from regauge.stats import Interval

# Cases times runs of one simulated scenario: about a fifth of a second.
_SIZE = 40_000
_RUNS_LEAST, _RUNS_MOST, _SEARCH_RUNS = 100, 2_000, 300
# Rates nearer to 0 or 1 than this are not given as a number: too few runs are simulated.
_RARE = 0.01
_DROPS = (0.02, 0.05, 0.10)
# Shapes of Beta distributions: cases that hardly ever fail, seldom, often, nearly always.
_KINDS = ((200.0, 0.2), (50.0, 1.0), (3.0, 1.0), (1.0, 20.0))
_FITTING = 30
# Cases that main passes at least so often are what one broken case is taken from.
_STABLE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often something happened in simulated runs.

    >>> str(Rate(hits=3, runs=1000))
    'less than 1 of 100'
    """

    hits: int
    runs: int

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        return self.hits / self.runs

    @property
    def interval(self) -> Interval:
        """Where the true rate lies, at 95 % confidence."""
        return clopper_pearson(self.hits, self.runs)

    def __str__(self) -> str:
        if self.value < _RARE:
            return "less than 1 of 100"
        if self.value > 1 - _RARE:
            return "more than 99 of 100"
        return f"{100 * self.value:.0f} of 100"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingLine:
    """What a gate finds and what it gets wrong, with the cases it has.

    Attributes:
        cases: How many cases were simulated.
        false_alarm: How often an unchanged prompt is blocked.
        one_broken: How often one case is found that always passed and now always fails; None
            without a case that main passes nearly always.
        drops: How often a drop of every case's pass rate is found, by its size.
        calls_per_case: Trials per case for an unchanged prompt, mean.
    """

    cases: int
    false_alarm: Rate
    one_broken: Rate | None
    drops: tuple[tuple[float, Rate], ...]
    calls_per_case: float

    def __str__(self) -> str:
        found = [] if self.one_broken is None else [f"one fully broken case in {self.one_broken}"]
        found += [f"a {_points(drop)} drop in {rate}" for drop, rate in reversed(self.drops)]
        cases = "this 1 case" if self.cases == 1 else f"these {self.cases} cases"
        return (
            f"With {cases} this gate blocks an unchanged prompt in {self.false_alarm} runs "
            f"and finds {', '.join(found)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """How many cases like these a wanted power needs.

    Attributes:
        found: How often the drop is found with so many cases.
    """

    cases: int
    found: Rate


def operating_line(
    histories: Sequence[Count],
    policy: GatePolicy,
    *,
    seed: int = 0,
    cells: int | None = None,
    cases: int | None = None,
    drops: Sequence[float] = _DROPS,
) -> OperatingLine | None:
    """Simulate the gate on a suite whose cases are as main's history says.

    The pass probability of each case is drawn from what its history leaves open, so a case that
    never failed in 12 trials may still fail now and then.

    Args:
        histories: Main's trials of each compared case, all checks together.
        seed: One seed gives one result.
        cells: How many pairs of case and check are tested together; as many as cases if None.
        cases: Simulate so many cases like these instead of these.
        drops: Sizes of drops, each between 0 and 1.

    Returns:
        None without any trial of main.
    """
    suite = _Suite.of(histories, policy, cells=cells, cases=cases)
    if suite is None:
        return None
    runs = suite.runs
    alike = suite.play(seed, lambda p: p, runs=runs)
    stable = suite.stable
    broken = None
    if stable.size:
        broken = _rate(suite.play(seed + 1, suite.breaking_one, runs=min(runs, 400)))
    return OperatingLine(
        cases=suite.main[0].size,
        false_alarm=_rate(alike),
        one_broken=broken,
        drops=tuple(
            (drop, _rate(suite.play(seed + 2, lowered(drop), runs=min(runs, 400))))
            for drop in drops
        ),
        calls_per_case=float(np.mean(alike.calls)) / suite.main[0].size,
    )


def cases_needed(
    histories: Sequence[Count],
    policy: GatePolicy,
    *,
    drop: float,
    power: float,
    seed: int = 0,
    at_most: int = 3_000,
) -> Needed | None:
    """How many cases like these find a drop of every case's pass rate so often.

    Args:
        drop: How much lower every pass rate is, between 0 and 1.
        power: How often it is to be found, between 0 and 1.
        at_most: Where to stop looking.

    Returns:
        The smallest number found by halving, to about a tenth; None if `at_most` is not enough or
        main has no trial.
    """

    def found(cases: int) -> Rate | None:
        suite = _Suite.of(histories, policy, cases=cases)
        return None if suite is None else _rate(suite.play(seed, lowered(drop), runs=_SEARCH_RUNS))

    low, high = 0, 10
    reached = found(high)
    while reached is not None and reached.value < power:
        if high >= at_most:
            return None
        low, high = high, min(2 * high, at_most)
        reached = found(high)
    if reached is None:
        return None
    while high - low > max(5, high // 10):
        middle = (low + high) // 2
        tried = found(middle)
        if tried is not None and tried.value >= power:
            high, reached = middle, tried
        else:
            low = middle
    return Needed(cases=high, found=reached)


def first_draws_needed(
    histories: Sequence[Count],
    policy: GatePolicy,
    *,
    drop: float,
    power: float,
    seed: int = 0,
    at_most: int = 3,
) -> int | None:
    """How many first trials of each of these cases find a drop so often.

    Args:
        drop: How much lower every pass rate is, between 0 and 1.
        power: How often it is to be found, between 0 and 1.
        at_most: Where to stop looking.

    Returns:
        None if `at_most` is not enough, or main has no trial.
    """
    for first_draws in range(policy.first_draws, at_most + 1):
        suite = _Suite.of(histories, replace(policy, first_draws=first_draws))
        if suite is None:
            return None
        if _rate(suite.play(seed, lowered(drop), runs=_SEARCH_RUNS)).value >= power:
            return first_draws
    return None


def lowered(drop: float) -> Callable[[FloatArray], FloatArray]:
    """Every pass probability lower by the same, down to 0.

    >>> lowered(0.1)(np.array([1.0, 0.05])).tolist()
    [0.9, 0.0]
    """
    return lambda p: np.clip(p - drop, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suite:
    """Cases to simulate: main's history, and what it leaves open."""

    main: tuple[IntArray, IntArray]
    policy: GatePolicy
    family: int

    @classmethod
    def of(
        cls,
        histories: Sequence[Count],
        policy: GatePolicy,
        *,
        cells: int | None = None,
        cases: int | None = None,
    ) -> _Suite | None:
        known = [count for count in histories if count.trials]
        if not known:
            return None
        if cases is not None:
            # As many as wanted, in the shares of the suite.
            known.sort(key=lambda count: count.passed / count.trials)
            known = [known[i * len(known) // cases] for i in range(cases)]
        passed = np.array([count.passed for count in known], dtype=np.int64)
        trials = np.array([count.trials for count in known], dtype=np.int64)
        given = sum(1 for count in histories if count.trials)
        per_case = 1.0 if cells is None else max(1.0, cells / given)
        return cls(main=(passed, trials), policy=policy, family=round(per_case * passed.size))

    @property
    def runs(self) -> int:
        """How many runs of an unchanged prompt are simulated."""
        return int(np.clip(4 * _SIZE // self.main[0].size, _RUNS_LEAST, _RUNS_MOST))

    @property
    def stable(self) -> IntArray:
        """The cases that main passes nearly always."""
        s, m = self.main
        return np.nonzero(s >= _STABLE * m)[0]

    def breaking_one(self, p: FloatArray) -> FloatArray:
        """One stable case of each run never passes, another one in the next run."""
        stable = self.stable
        q = p.copy()
        runs = np.arange(len(p))
        q[runs, stable[runs % stable.size]] = 0.0
        return q

    def play(self, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int) -> Played:
        rng = np.random.default_rng(seed)
        p = _pass_probabilities(*self.main, runs, rng)
        shape = (*p.shape, self.policy.case.cap)
        q = change(p)
        return play(
            self.policy,
            (np.broadcast_to(self.main[0], p.shape), np.broadcast_to(self.main[1], p.shape)),
            candidate=rng.random(shape, dtype=np.float32) < q[..., np.newaxis],
            fresh=rng.random(shape, dtype=np.float32) < p[..., np.newaxis],
            family=self.family,
        )


def _rate(played: Played) -> Rate:
    return Rate(hits=int(np.count_nonzero(played.blocked)), runs=len(played.blocked))


def _pass_probabilities(
    s: IntArray, m: IntArray, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Pass probabilities drawn from what the history leaves open; shape (runs, cases).

    How many cases are stable, wavering or hopeless is taken from the suite itself: the weights of
    the mixture are fitted to all histories (empirical Bayes, by expectation maximisation; Robbins
    1956, Dempster, Laird & Rubin, JRSS B 1977), and each case then drawn from its posterior.
    """
    chances = np.exp([log_marginal(s, m, shape=shape) for shape in _KINDS])
    shares = chances / chances.sum(axis=0)
    for _ in range(_FITTING):
        shares = shares.mean(axis=1, keepdims=True) * chances
        shares /= shares.sum(axis=0)
    thresholds = np.cumsum(shares, axis=0)[:, np.newaxis]
    kind = np.sum(rng.random((runs, s.size)) > thresholds[:-1], axis=0)
    shapes = np.array(_KINDS)
    return np.asarray(rng.beta(shapes[kind, 0] + s, shapes[kind, 1] + m - s), dtype=np.float64)


def _points(drop: float) -> str:
    return f"{100 * drop:g}-point"
