"""The power of a gate with these cases: error rates simulated from the suite's record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate.power._simulation import SimulatedSuite, lowered, lowered_where_flaky
from regauge.stats import Interval, clopper_pearson
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.evidence import Count
    from regauge.gate._outcome import GateOutcome
    from regauge.gate._policy import GatePolicy
    from regauge.gate.power._simulation import FloatArray, Played

# Simulated runs of a search, of a change, and of all suites of a range together.
_SEARCH_RUNS, _CHANGE_RUNS, _RANGE_RUNS, _RANGE_RUNS_LEAST = 300, 400, 1_200, 150
# Rates nearer to 0 or 1 than this are not given as a number: too few runs are simulated.
_RARE = 0.01
_DROPS = (0.02, 0.05, 0.10)
# The loss that is also simulated on flaky cases alone.
_FLAKY_DROP = 0.05
# Where fewer of these drops are found, reports name what more first trials would find.
_STEP_DROP, _STEP_POWER = 0.05, 0.8
# The range of power over suites leaves out so much at each end.
_RANGE = (0.05, 0.95)
_FIRST_MOST = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of an event in simulated runs.

    >>> range_ = Interval(low=0.62, high=0.91)
    >>> str(Rate(hits=3, runs=1000)), str(Rate(hits=79, runs=100, range=range_))
    ('< 1 %', '79 % (62-91)')

    Attributes:
        range: Where the rate lies for nine in ten suites that the record leaves open; None where
            the record is long enough for one number.
    """

    hits: int
    runs: int
    range: Interval | None = None

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
            words = "< 1 %"
        elif self.value > 1 - _RARE:
            words = "> 99 %"
        else:
            words = f"{100 * self.value:.0f} %"
        if self.range is None:
            return words
        return f"{words} ({100 * self.range.low:.0f}-{100 * self.range.high:.0f})"


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
        """The rate at which the drop is found in a suite."""
        return _rate(suite.play(self.seed, lowered(self.drop), runs=_SEARCH_RUNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """The same gate with twice the trials of every case in the first round.

    Attributes:
        first_draws: The setting.
        drops: How often drops are found, by their size.
        calls_per_case: Trials per case for an unchanged prompt, mean.
    """

    first_draws: int
    drops: tuple[tuple[float, Rate], ...]
    calls_per_case: float

    def __str__(self) -> str:
        found = ", ".join(f"-{100 * drop:g} points {rate}" for drop, rate in reversed(self.drops))
        return f"first_draws = {self.first_draws} sees {found}, for {self.calls_per_case:.1f} calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingLine:
    """The detections and errors of a gate with the present cases.

    Attributes:
        cases: How many cases were simulated.
        false_alarm: How often an unchanged prompt is blocked.
        one_broken: How often one case is found that always passed and now always fails; None
            without a case that main passes nearly always.
        drops: How often a drop of every case's pass rate is found, by its size.
        flaky_drop: How often a drop of 5 points on average is found, all of it on flaky cases;
            None where so few cases are flaky that they cannot lose as much.
        calls_per_case: Trials per case for an unchanged prompt, mean.
        step: What more first trials find; None where a drop of 5 points is found often enough, or
            where cases have as many as there are.
        recorded: Trials of each case that a replay has; 0 where models may be called.
    """

    cases: int
    false_alarm: Rate
    one_broken: Rate | None
    drops: tuple[tuple[float, Rate], ...]
    flaky_drop: Rate | None
    calls_per_case: float
    step: NextStep | None = None
    recorded: int = 0

    def __str__(self) -> str:
        found = [] if self.one_broken is None else [f"1 broken case {self.one_broken}"]
        for drop, rate in reversed(self.drops):
            words = f"-{100 * drop:g} points {rate}"
            if drop == _FLAKY_DROP and self.flaky_drop is not None:
                words += f", on flaky cases alone {self.flaky_drop}"
            found.append(words)
        # Below 1 % is a property of the method; the simulation is held to not contradict it.
        rare = self.false_alarm.interval.low < _RARE
        alarm = "< 1 %" if rare else str(self.false_alarm)
        sees = "sees"
        if self.recorded:
            sees = f"this replay, with {plural(self.recorded, 'recorded trial')} of each case, sees"
        line = f"{sees}: {', '.join(found)}; false alarm {alarm}"
        if self.step is None:
            return line
        return f"{line}\n{self.step} per case instead of {self.calls_per_case:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The number of cases like these a wanted power needs.

    Attributes:
        found: How often the drop is found with this number of cases.
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
    recorded: int = 0,
) -> OperatingLine | None:
    """Simulate the gate on a suite whose cases are as main's record says.

    The pass rate of each case is drawn from what its record leaves open, so a case that never
    failed in 12 trials may still fail now and then.

    Args:
        histories: Main's trials of each compared case, all checks together.
        seed: One seed gives one result.
        cells: How many pairs of case and check are tested together; as many as cases if None.
        cases: Simulate this number of cases like these instead of these; taken as of one prompt.
        prompts: Whose case each record is of, where there are several: each prompt's suite is
            tested for itself.
        drops: Sizes of drops, each between 0 and 1.
        recorded: Trials of each case that a replay has; 0 where models may be called.

    Returns:
        None without any trial of main.
    """
    suite = SimulatedSuite.of(histories, policy, cells=cells, cases=cases, prompts=prompts)
    if suite is not None and recorded:
        suite = replace(suite, recorded=recorded)
    if suite is None:
        return None
    alike = suite.play(seed, lambda p: p, runs=suite.runs)
    runs = min(suite.runs, _CHANGE_RUNS)
    broken = None
    if suite.stable.size:
        broken = _rate(suite.play(seed + 1, suite.breaking_one, runs=runs))
    flaky = None
    if _FLAKY_DROP in drops and suite.flaky_share > 2 * _FLAKY_DROP:
        flaky = _found(suite, seed + 2, lowered_where_flaky(_FLAKY_DROP), runs=runs)
    found = tuple((drop, _found(suite, seed + 2, lowered(drop), runs=runs)) for drop in drops)
    known = cases or sum(1 for count in histories if count.trials)
    first_draws = min(2 * policy.first_draws_of(known), _FIRST_MOST)
    weak = dict(found)[_STEP_DROP].value < _STEP_POWER if _STEP_DROP in drops else False
    step = None
    # Prompts have first rounds of their own, which one number cannot double.
    if (
        weak
        and not recorded
        and first_draws > policy.first_draws_of(known)
        and len({*prompts}) <= 1
    ):
        more = replace(suite, policy=replace(policy, first_draws=first_draws))
        unchanged = more.play(seed, lambda p: p, runs=runs)
        step = NextStep(
            first_draws=first_draws,
            drops=tuple(
                (drop, _found(more, seed + 2, lowered(drop), runs=runs))
                for drop in drops
                if drop >= _STEP_DROP
            ),
            calls_per_case=float(np.mean(unchanged.calls)) / suite.size,
        )
    return OperatingLine(
        cases=known,
        false_alarm=_rate(alike),
        one_broken=broken,
        drops=found,
        flaky_drop=flaky,
        calls_per_case=float(np.mean(alike.calls)) / suite.size,
        step=step,
        recorded=recorded,
    )


def _found(
    suite: SimulatedSuite, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int
) -> Rate:
    """The rate at which a change is found, with its range if the record is short."""
    if not suite.suites:
        return _rate(suite.play(seed, change, runs=runs))
    # All suites together get as many runs as there is time for.
    each = max(_RANGE_RUNS_LEAST, min(_RANGE_RUNS, suite.runs_in_time))
    blocked = suite.play_suites(seed, change, runs=each)
    low, high = np.quantile(blocked.mean(axis=1), _RANGE)
    return Rate(
        hits=int(np.count_nonzero(blocked)),
        runs=int(blocked.size),
        range=Interval(low=float(low), high=float(high)),
    )


def unchanged_calls(
    histories: Sequence[Count],
    policy: GatePolicy,
    *,
    cells: int | None = None,
    prompts: Sequence[str] = (),
    seed: int = 0,
) -> float | None:
    """The average trials of both arms for a case without a change.

    The arguments are those of `operating_line`. None without any trial of main.
    """
    suite = SimulatedSuite.of(histories, policy, cells=cells, prompts=prompts)
    if suite is None:
        return None
    played = suite.play(seed, lambda p: p, runs=min(suite.runs, _CHANGE_RUNS))
    return float(np.mean(played.calls)) / suite.size


def operating_line_of(outcome: GateOutcome, *, seed: int = 0) -> OperatingLine | None:
    """The line for the cases that a gate compared; None where it compared none with a history."""
    compared = [case for case in outcome.cases if case.state == "changed" and case.before.trials]
    recorded = 0
    if outcome.policy.provisional and not outcome.main_trials and compared:
        # Without recorded trials of main there are no pairs, which alone name a broken case.
        recorded = min(case.candidate.trials for case in compared) or 1
    return operating_line(
        [case.before for case in compared],
        outcome.policy,
        seed=seed,
        cells=outcome.cells or None,
        prompts=[case.prompt for case in compared],
        drops=_DROPS[1:],
        recorded=recorded,
    )


def cases_needed(
    histories: Sequence[Count], policy: GatePolicy, target: Target, *, at_most: int = 3_000
) -> Needed | None:
    """The number of cases that find a drop of every case's pass rate with a given power.

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
    histories: Sequence[Count], policy: GatePolicy, target: Target, *, at_most: int = _FIRST_MOST
) -> int | None:
    """The number of first trials per case that finds a drop with a given power.

    Args:
        target: What is to be found.
        at_most: Where to stop looking.

    Returns:
        None if `at_most` is not enough, or main has no trial.
    """
    first_draws = policy.first_draws_of(len(histories))
    while first_draws <= at_most:
        suite = SimulatedSuite.of(histories, replace(policy, first_draws=first_draws))
        if suite is None:
            return None
        if target.found_in(suite).value >= target.power:
            return first_draws
        first_draws += max(1, first_draws // 2)
    return None


def _rate(played: Played) -> Rate:
    return Rate(hits=int(np.count_nonzero(played.blocked)), runs=len(played.blocked))
