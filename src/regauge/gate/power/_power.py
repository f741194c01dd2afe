"""What a gate with these cases can see: its error rates, simulated from the suite's own history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.power._simulated_suite import SimulatedSuite, lowered
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate._outcome import GateOutcome
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Count
    from regauge.gate.power._simulation import Played
    from regauge.stats import Interval

# Simulated runs of a search, and of a change that most runs find or most miss.
_SEARCH_RUNS, _DROP_RUNS = 300, 400
# Rates nearer to 0 or 1 than this are not given as a number: too few runs are simulated.
_RARE = 0.01
_DROPS = (0.02, 0.05, 0.10)


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
class Target:
    """A drop of every case's pass rate that is to be found, and how often.

    Attributes:
        drop: How much lower every pass rate is, between 0 and 1.
        power: How often it is to be found, between 0 and 1.
        seed: Of the runs that are simulated.
    """

    drop: float
    power: float
    seed: int = 0

    def found_in(self, suite: SimulatedSuite) -> Rate:
        """How often the drop is found in a suite."""
        return _rate(suite.play(self.seed, lowered(self.drop), runs=_SEARCH_RUNS))


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
    prompts: Sequence[str] = (),
    drops: Sequence[float] = _DROPS,
) -> OperatingLine | None:
    """Simulate the gate on a suite whose cases are as main's history says.

    The pass probability of each case is drawn from what its history leaves open, so a case that
    never failed in 12 trials may still fail now and then.

    Args:
        histories: Main's trials of each compared case, all checks together.
        seed: One seed gives one result.
        cells: How many pairs of case and check are tested together; as many as cases if None.
        cases: Simulate so many cases like these instead of these; taken as of one prompt.
        prompts: Whose case each history is of, where there are several: each prompt's suite is
            tested for itself.
        drops: Sizes of drops, each between 0 and 1.

    Returns:
        None without any trial of main.
    """
    suite = SimulatedSuite.of(histories, policy, cells=cells, cases=cases, prompts=prompts)
    if suite is None:
        return None
    runs = suite.runs
    alike = suite.play(seed, lambda p: p, runs=runs)
    stable = suite.stable
    broken = None
    if stable.size:
        broken = _rate(suite.play(seed + 1, suite.breaking_one, runs=min(runs, _DROP_RUNS)))
    return OperatingLine(
        cases=suite.main[0].size,
        false_alarm=_rate(alike),
        one_broken=broken,
        drops=tuple(
            (drop, _rate(suite.play(seed + 2, lowered(drop), runs=min(runs, _DROP_RUNS))))
            for drop in drops
        ),
        calls_per_case=float(np.mean(alike.calls)) / suite.main[0].size,
    )


def unchanged_calls(
    histories: Sequence[Count],
    policy: GatePolicy,
    *,
    cells: int | None = None,
    prompts: Sequence[str] = (),
    seed: int = 0,
) -> float | None:
    """How many trials of both arms a case takes on average where nothing changed.

    The arguments are those of `operating_line`. None without any trial of main.
    """
    suite = SimulatedSuite.of(histories, policy, cells=cells, prompts=prompts)
    if suite is None:
        return None
    played = suite.play(seed, lambda p: p, runs=min(suite.runs, _DROP_RUNS))
    return float(np.mean(played.calls)) / suite.main[0].size


def operating_line_of(outcome: GateOutcome, *, seed: int = 0) -> OperatingLine | None:
    """The line for the cases that a gate compared; None where it compared none with a history."""
    compared = [case for case in outcome.cases if case.state == "changed" and case.history.trials]
    return operating_line(
        [case.history for case in compared],
        outcome.policy,
        seed=seed,
        cells=outcome.cells or None,
        prompts=[case.prompt for case in compared],
    )


def cases_needed(
    histories: Sequence[Count], policy: GatePolicy, target: Target, *, at_most: int = 3_000
) -> Needed | None:
    """How many cases like these find a drop of every case's pass rate as often as wanted.

    Args:
        target: What is to be found.
        at_most: Where to stop looking.

    Returns:
        The smallest number found by halving, to about a tenth; None if `at_most` is not enough or
        main has no trial.
    """

    def found(cases: int) -> Rate | None:
        suite = SimulatedSuite.of(histories, policy, cases=cases)
        return None if suite is None else target.found_in(suite)

    low, high = 0, 10
    reached = found(high)
    while reached is not None and reached.value < target.power:
        if high >= at_most:
            return None
        low, high = high, min(2 * high, at_most)
        reached = found(high)
    if reached is None:
        return None
    while high - low > max(5, high // 10):
        middle = (low + high) // 2
        tried = found(middle)
        if tried is not None and tried.value >= target.power:
            high, reached = middle, tried
        else:
            low = middle
    return Needed(cases=high, found=reached)


def first_draws_needed(
    histories: Sequence[Count], policy: GatePolicy, target: Target, *, at_most: int = 3
) -> int | None:
    """How many first trials of each of these cases find a drop as often as wanted.

    Args:
        target: What is to be found.
        at_most: Where to stop looking.

    Returns:
        None if `at_most` is not enough, or main has no trial.
    """
    for first_draws in range(policy.first_draws, at_most + 1):
        suite = SimulatedSuite.of(histories, replace(policy, first_draws=first_draws))
        if suite is None:
            return None
        if target.found_in(suite).value >= target.power:
            return first_draws
    return None


def _rate(played: Played) -> Rate:
    return Rate(hits=int(np.count_nonzero(played.blocked)), runs=len(played.blocked))


def _points(drop: float) -> str:
    return f"{100 * drop:g}-point"
