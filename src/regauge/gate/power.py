"""Many simulated runs of the gate at once, on counts alone.

They use the gate's own tests and rules, without single trials. Each case has one check.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regauge.gate._cases import CheckState, CheckTest, OpenCheckCounts, tallies_of
from regauge.gate._suites import (
    Pairs,
    candidate_lead,
    net_bound,
    pair_weights,
    pairs_bound,
    pairs_continue,
    pairs_p_value,
    rest_better,
    screen,
    screen_bound,
    screen_extends,
)
from regauge.stats import FIRST_TRIALS_MAX, Interval, clopper_pearson, draw_pass_rates
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from regauge.evidence import Count
    from regauge.gate._cases import BoolArray, IntArray, Tallies
    from regauge.gate._types import GateOutcome, GatePolicy, Side
    from regauge.stats import NetPolicy, SuitePolicy

    FloatArray = NDArray[np.float64]
    Index = tuple[IntArray, IntArray]
    Rates = Callable[[int], FloatArray]

# Minimum pass rate on the base of a case to break.
_STABLE = 0.9
# Pass rates of flaky cases.
_FLAKY_LOW, _FLAKY_HIGH = 0.05, 0.97
# Limit of cases times runs; time and memory grow with it.
_SIZE = 120_000
_RUNS_LEAST, _RUNS_MOST = 100, 1_000
# Larger suites are simulated by this number of their cases, which detect nearly as much.
_CASES_MOST = 1_000
# With this number of cases and trials, a rate needs no range.
_CASES_KNOWN, _TRIALS_KNOWN = 100, 12
# Sampled suites for the range: more narrow it slightly and take longer.
_SUITES = 30
# Steps of a bisection, enough for the precision shown.
_HALVINGS = 30


def lower_rates(drop: float) -> Callable[[FloatArray], FloatArray]:
    """A change that lowers every pass rate by the same drop, down to 0.

    >>> lower_rates(0.1)(np.array([1.0, 0.05])).tolist()
    [0.9, 0.0]
    """
    return lambda p: np.clip(p - drop, 0.0, 1.0)


def lower_flaky_rates(drop: float) -> Callable[[FloatArray], FloatArray]:
    """A change with the same mean loss, but on flaky cases only: one shift of their logits.

    >>> lower_flaky_rates(0.1)(np.array([[1.0, 0.5]])).round(2).tolist()
    [[1.0, 0.3]]
    """

    def change(p: FloatArray) -> FloatArray:
        flaky = (p > _FLAKY_LOW) & (p < _FLAKY_HIGH)
        logits = np.log(np.clip(p, 1e-9, 1 - 1e-9)) - np.log1p(-np.clip(p, 1e-9, 1 - 1e-9))

        def shift_rates(shift: FloatArray) -> FloatArray:
            return np.where(flaky, 1 / (1 + np.exp(shift[:, np.newaxis] - logits)), p)

        low, high = np.zeros(len(p)), np.full(len(p), 20.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = (p - shift_rates(middle)).mean(axis=1) >= drop
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return shift_rates(high)

    return change


def _thin(cases: list[tuple[Count, str]]) -> list[tuple[Count, str]]:
    """At most the number of simulated cases, in the shares of prompts and records."""
    if len(cases) <= _CASES_MOST:
        return cases
    sorted_cases = sorted(cases, key=lambda case: (case[1], case[0].rate, case[0].trials))
    return [sorted_cases[i * len(sorted_cases) // _CASES_MOST] for i in range(_CASES_MOST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSuite:
    """Cases to simulate.

    Attributes:
        base: Passes and trials of the base; shape (cases,).
        family: Number of checks tested together.
        prompts: Columns of the cases of each prompt.
        recorded: Trials of each case in a replay; 0 if models may be called.
    """

    base: tuple[IntArray, IntArray]
    policy: GatePolicy
    family: int
    prompts: tuple[IntArray, ...]
    recorded: int = 0

    @classmethod
    def from_baselines(
        cls,
        baselines: Sequence[Count],
        policy: GatePolicy,
        *,
        checks: int | None = None,
        cases: int | None = None,
        prompts: Sequence[str] = (),
    ) -> SimulatedSuite | None:
        """A suite with these baselines; None without any trial."""
        prompt_names = list(prompts) or [""] * len(baselines)
        recorded = [
            (count, prompt)
            for count, prompt in zip(baselines, prompt_names, strict=True)
            if count.trials
        ]
        if not recorded:
            return None
        per_case = 1.0 if checks is None else max(1.0, checks / len(recorded))
        if cases is not None:
            # The requested number of cases, with the pass rates of the suite.
            recorded.sort(key=lambda case: case[0].passed / case[0].trials)
            recorded = [(recorded[i * len(recorded) // cases][0], "") for i in range(cases)]
        family = round(per_case * len(recorded))
        recorded = _thin(recorded)
        columns: dict[str, list[int]] = {}
        for column, (_, prompt) in enumerate(recorded):
            columns.setdefault(prompt, []).append(column)
        return cls(
            base=tallies_of([count for count, _ in recorded]),
            policy=policy,
            family=family,
            prompts=tuple(np.array(indices, dtype=np.int64) for indices in columns.values()),
        )

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(self.base[0].size)

    @property
    def runs_in_time(self) -> int:
        """The number of runs that take about a second."""
        return _SIZE // self.size

    @property
    def runs(self) -> int:
        """The number of simulated runs of an unchanged prompt."""
        return int(np.clip(self.runs_in_time, _RUNS_LEAST, _RUNS_MOST))

    @property
    def suites(self) -> int:
        """The number of suites for a range; 0 if the record is long enough."""
        is_known = self.size >= _CASES_KNOWN and int(self.base[1].min()) >= _TRIALS_KNOWN
        return 0 if is_known else _SUITES

    @property
    def stable(self) -> IntArray:
        """The cases that the base passes nearly always."""
        s, m = self.base
        return np.nonzero(s >= _STABLE * m)[0]

    @property
    def flaky_share(self) -> float:
        """The share of all trials that flaky cases pass by the record: the most they can lose."""
        rates = self.base[0] / self.base[1]
        flaky = (rates > _FLAKY_LOW) & (rates < _FLAKY_HIGH)
        return float(np.mean(np.where(flaky, rates, 0.0)))

    def break_one(self, p: FloatArray) -> FloatArray:
        """Break one stable case in each run, another one in the next run."""
        stable = self.stable
        q = p.copy()
        runs = np.arange(len(p))
        q[runs, stable[runs % stable.size]] = 0.0
        return q

    def simulate(
        self,
        seed: int,
        change: Callable[[FloatArray], FloatArray],
        *,
        runs: int,
        suites: int = 0,
    ) -> SimulatedRun:
        """Run the gate many times, on pass rates that fit the record.

        Args:
            suites: Number of suites, each with one set of pass rates for all its runs; 0 for new
                rates in every run.
        """
        rng = np.random.default_rng(seed)
        p = draw_pass_rates(*self.base, runs=runs, rng=rng, suites=suites)
        q = change(p)
        record = tuple(np.broadcast_to(side, p.shape) for side in self.base)
        return simulate(
            self.policy,
            (record[0], record[1]),
            RandomTrials(rng, lambda _: p, lambda _: q),
            family=self.family,
            prompts=self.prompts,
            recorded=self.recorded,
        )


# First round number after the case test, as in the gate.
_ROUNDS_OF_CASES = 30


class RandomTrials:
    """Random trials, at rates that may differ between rounds.

    Args:
        base: Returns the pass rates of the base in a round; shape (runs, cases).
        candidate: Returns those of the candidate.
    """

    def __init__(self, rng: np.random.Generator, base: Rates, candidate: Rates) -> None:
        self._rng = rng
        self._rates: dict[Side, Rates] = {"base": base, "candidate": candidate}

    def draw(self, side: Side, round_number: int, index: Index, count: IntArray | int) -> IntArray:
        """Passes of `count` further trials of some runs and cases, all of one round."""
        return self._rng.binomial(count, self._rates[side](round_number)[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The results of simulated runs; every array has shape (runs,).

    Attributes:
        blocked: Whether the change is rejected.
        undecided: Whether it is neither rejected nor accepted.
        broken: Number of broken cases.
        fixed: Number of fixed cases.
        worse: Whether paired trials showed a suite to be worse.
        paired: Whether a suite was below its baseline, so that paired trials were run.
        drifted: Whether the base fails a case today, too.
        calls: Trials of both sides together.
    """

    blocked: BoolArray
    undecided: BoolArray
    broken: IntArray
    fixed: IntArray
    worse: BoolArray
    paired: BoolArray
    drifted: BoolArray
    calls: IntArray

    @property
    def accepted(self) -> BoolArray:
        """Return whether the change is accepted."""
        return ~self.blocked & ~self.undecided


def simulate(
    policy: GatePolicy,
    base: Tallies,
    trials: RandomTrials,
    *,
    family: int | None = None,
    prompts: Sequence[IntArray] | None = None,
    recorded: int = 0,
) -> SimulatedRun:
    """Run the gate many times.

    Args:
        base: Passes and trials of the base; shape (runs, cases).
        trials: Source of further trials.
        family: Number of checks tested together; None for the number of cases.
        prompts: Columns of the cases of each prompt; None for a single prompt.
        recorded: Trials of each case in a replay, which has none of the base; 0 if models may be
            called.
    """
    if recorded:
        return _replay(policy, base, trials, prompts=prompts, recorded=recorded)
    return _Runs(policy, base, trials, family=family, prompts=prompts).simulate()


def _replay(
    policy: GatePolicy,
    base: Tallies,
    trials: RandomTrials,
    *,
    prompts: Sequence[IntArray] | None,
    recorded: int,
) -> SimulatedRun:
    """Simulate replays, which have no pairs: those below the baseline are not accepted."""
    runs, cases = base[0].shape
    all_columns = prompts or [_range(cases)]
    blocked = np.zeros(runs, dtype=np.bool_)
    for columns in all_columns:
        counts = np.full((runs, columns.size), recorded, dtype=np.int64)
        index = np.broadcast_arrays(_range(runs)[:, np.newaxis], columns)
        passes = trials.draw("candidate", 0, (index[0], index[1]), counts)
        result = screen((base[0][:, columns], base[1][:, columns]), (passes, counts))
        blocked |= result.p_value <= screen_bound(policy.suite, 0, prompts=len(all_columns))
    never, zeros = np.zeros_like(blocked), np.zeros(runs, dtype=np.int64)
    return SimulatedRun(
        blocked=blocked,
        undecided=never,
        broken=zeros,
        fixed=zeros,
        worse=never,
        paired=blocked,
        drifted=never,
        calls=zeros,
    )


class _Runs:
    """All runs of one call of `simulate`; arrays have one row per run."""

    def __init__(
        self,
        policy: GatePolicy,
        base: Tallies,
        trials: RandomTrials,
        *,
        family: int | None,
        prompts: Sequence[IntArray] | None,
    ) -> None:
        runs, cases = base[0].shape
        self._policy, self._base, self._trials = policy, base, trials
        self._columns: Sequence[IntArray] = prompts or [np.arange(cases, dtype=np.int64)]
        self._family = family
        self._first = np.empty(cases, dtype=np.int64)
        control = 0
        for columns in self._columns:
            self._first[columns] = policy.first_trials_of(columns.size)
            control += min(policy.suite.control, columns.size)
        self._calls = np.full(runs, control, dtype=np.int64)
        self._first_passes = self._draw("candidate", 0, _range(runs), _range(cases), self._first)
        self._worse = self._check_test("worse")
        self._better = self._check_test("better")

    def simulate(self) -> SimulatedRun:
        runs = len(self._calls)
        is_named = self._worse.states == CheckState.CONFIRMED
        fixed = self._better.states == CheckState.CONFIRMED
        unclear = self._worse.states == CheckState.UNDECIDED
        rejects = np.zeros((runs, len(self._columns)), dtype=np.bool_)
        weighs = np.zeros_like(rejects)
        for number, columns in enumerate(self._columns):
            rejects[:, number], weighs[:, number] = self._broken_runs(
                columns, is_named[:, columns], fixed[:, columns]
            )
        blocked = rejects.any(axis=1)
        worse, paired = np.zeros_like(blocked), np.zeros_like(blocked)
        undecided = np.zeros_like(blocked)
        for number, columns in enumerate(self._columns):
            going = np.nonzero(~blocked & weighs[:, number])[0]
            if going.size:
                rejected, open_rows = self._net_test(going, columns)
                worse[going] |= rejected
                undecided[going] |= open_rows
            undecided |= ~weighs[:, number] & unclear[:, columns].any(axis=1)
        for columns, is_net_tested in zip(self._columns, weighs.T, strict=True):
            going = np.nonzero(~blocked & ~is_net_tested)[0]
            rows, equal = self._screen(going, columns)
            paired[rows] = True
            if rows.size:
                worse[rows[self._side_by_side(rows, columns, equal)]] = True
        blocked = blocked | worse
        return SimulatedRun(
            blocked=blocked,
            undecided=undecided & ~blocked,
            broken=np.asarray(is_named.sum(axis=1)),
            fixed=np.asarray(fixed.sum(axis=1)),
            worse=worse,
            paired=paired,
            drifted=np.any(self._worse.states == CheckState.DRIFTED, axis=1),
            calls=self._calls,
        )

    def _check_test(self, direction: str) -> CheckTest:
        """The test of single cases in one direction, after all looks."""
        s = self._base[0]
        better = direction == "better"
        test = CheckTest(
            self._policy.case,
            self._base,
            (self._first_passes, np.broadcast_to(self._first, s.shape)),
            family=self._family,
            direction="better" if better else "worse",
            passes_at_most=self._policy.improved_at_most if better else 1.0,
        )
        k, r = self._first_passes.copy(), np.broadcast_to(self._first, s.shape).copy()
        b, n, kd = (np.zeros_like(s) for _ in range(3))
        for number, step in enumerate(test.steps):
            index = test.open
            if not index[0].size:
                break
            pair = test.paired(number)
            passes = self._trials.draw("candidate", number + 1, (index[0], index[1]), step)
            pair_index = (index[0][pair], index[1][pair])
            of_base = self._trials.draw("base", number + 1, pair_index, step)
            k[index] += passes
            r[index] += step
            b[pair_index] += of_base
            n[pair_index] += step
            kd[pair_index] += passes[pair]
            np.add.at(self._calls, index[0], step)
            np.add.at(self._calls, pair_index[0], step)
            test.evaluate(
                number,
                OpenCheckCounts((k[index], r[index]), (b[index], n[index]), (kd[index], n[index])),
            )
        return test

    def _broken_runs(
        self, columns: IntArray, is_broken: BoolArray, fixed: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """The runs in which broken cases of a prompt reject, and those that weigh them."""
        hit = is_broken.any(axis=1)
        weighs = np.zeros_like(hit)
        if self._policy.on_broken == "net" and (rows := np.nonzero(hit)[0]).size:
            index = np.ix_(rows, columns)
            first = np.broadcast_to(self._first[columns], (rows.size, columns.size))
            better = rest_better(
                (self._base[0][index], self._base[1][index]),
                (self._first_passes[index], first),
                is_broken[rows],
            )
            weighs[rows] = fixed[rows].any(axis=1) | (better <= self._policy.net.trigger)
        if self._policy.on_broken == "warn":
            return np.zeros_like(hit), weighs
        return hit & ~weighs, weighs

    def _screen(self, going: IntArray, columns: IntArray) -> tuple[IntArray, BoolArray]:
        """The runs whose suite is below the baseline, and whether equal weights show it."""
        policy, prompts = self._policy.suite, len(self._columns)
        index = np.ix_(going, columns)
        s, m, k = self._base[0][index], self._base[1][index], self._first_passes[index]
        r = np.broadcast_to(self._first[columns], k.shape)
        int_arrays: list[IntArray] = []
        equal: list[BoolArray] = []
        for number in range(policy.rounds):
            if not going.size:
                break
            if number:
                extra = policy.extra_round(int(self._first[columns[0]]))
                round_number = _ROUNDS_OF_CASES + number
                k = k + self._draw("candidate", round_number, going, columns, extra)
                r = r + extra
            result = screen((s, m), (k, r))
            hit = result.p_value <= screen_bound(policy, number, prompts=prompts)
            int_arrays.append(going[hit])
            equal.append(result.equal[hit])
            keep = ~hit & screen_extends(policy, number, result.p_value)
            going, s, m, k, r = going[keep], s[keep], m[keep], k[keep], r[keep]
        if not int_arrays:
            return going, np.zeros(0, dtype=np.bool_)
        return np.concatenate(int_arrays), np.concatenate(equal)

    def _side_by_side(self, rows: IntArray, columns: IntArray, equal: BoolArray) -> BoolArray:
        """The runs, among some, whose paired trials confirm a worse suite."""
        policy, prompts = self._policy.suite, len(self._columns)
        index = np.ix_(rows, columns)
        s, m = self._base[0][index], self._base[1][index]

        def judge(
            number: int, open_rows: IntArray, rounds: list[Pairs]
        ) -> tuple[BoolArray, BoolArray]:
            weights = pair_weights((s[open_rows], m[open_rows]), rounds, equal[open_rows])
            p = pairs_p_value(rounds, weights)
            hit = p <= pairs_bound(policy, number, prompts=prompts)
            if self._policy.on_broken == "net":
                hit &= candidate_lead(rounds) < 0
            return hit, ~hit & pairs_continue(policy, number, p)

        return self._run_looks(rows, columns, policy, len(policy.levels), judge)[0]

    def _net_test(self, rows: IntArray, columns: IntArray) -> tuple[BoolArray, BoolArray]:
        """The runs, among some, that reject, and those that end undecided."""
        policy, prompts = self._policy.net, len(self._columns)

        def judge(number: int, _: IntArray, rounds: list[Pairs]) -> tuple[BoolArray, BoolArray]:
            worse = pairs_p_value(rounds, 1) <= net_bound(policy, number, prompts=prompts)
            better = pairs_p_value(rounds, 1, direction="better") <= policy.better
            return worse, ~worse & ~better

        return self._run_looks(rows, columns, policy, len(policy.all_levels), judge)

    def _run_looks(
        self,
        rows: IntArray,
        columns: IntArray,
        policy: SuitePolicy | NetPolicy,
        look_count: int,
        judge: Callable[[int, IntArray, list[Pairs]], tuple[BoolArray, BoolArray]],
    ) -> tuple[BoolArray, BoolArray]:
        """The runs, among some, that reject, and those that go on behind the base.

        Args:
            judge: Called with the look, the open runs and their pairs; returns the runs that
                reject, and those that continue.
        """
        rejected = np.zeros(rows.size, dtype=np.bool_)
        behind = np.zeros_like(rejected)
        open_rows, rounds = np.arange(rows.size), list[Pairs]()
        first = int(self._first[columns[0]])
        for number in range(look_count):
            pairs = policy.pairs_of_look(number, cases=columns.size, first_trials=first)
            round_number = 2 * _ROUNDS_OF_CASES + number
            rounds.append(self._pairs(round_number, rows[open_rows], columns, pairs))
            reject, keep = judge(number, open_rows, rounds)
            rejected[open_rows[reject]] = True
            behind[open_rows] = keep & (candidate_lead(rounds) < 0)
            open_rows, rounds = open_rows[keep], [_select(pair, keep) for pair in rounds]
            if not open_rows.size:
                break
        return rejected, behind

    def _pairs(self, round_number: int, rows: IntArray, columns: IntArray, pairs: int) -> Pairs:
        trials = np.full((rows.size, columns.size), pairs, dtype=np.int64)
        return Pairs(
            (self._draw("base", round_number, rows, columns, pairs), trials),
            (self._draw("candidate", round_number, rows, columns, pairs), trials),
        )

    def _draw(
        self,
        side: Side,
        round_number: int,
        rows: IntArray,
        columns: IntArray,
        count: IntArray | int,
    ) -> IntArray:
        """Passes of further trials of some runs; shape (rows, cases)."""
        shape = (rows.size, columns.size)
        index = (
            np.broadcast_to(rows[:, np.newaxis], shape),
            np.broadcast_to(columns[np.newaxis], shape),
        )
        counts = np.broadcast_to(count, shape)
        self._calls[rows] += counts.sum(axis=1)
        return self._trials.draw(side, round_number, index, counts)


def _range(stop: int) -> IntArray:
    return np.arange(stop, dtype=np.int64)


def _select(pairs: Pairs, keep: BoolArray) -> Pairs:
    (s, m), (k, r) = pairs
    return Pairs((s[keep], m[keep]), (k[keep], r[keep]))


# Simulated runs of a search, of a change, and of all suites of a range (with a minimum).
_SEARCH_RUNS, _CHANGE_RUNS, _RANGE_RUNS, _RANGE_RUNS_LEAST = 300, 400, 1_200, 150
# Rates closer to 0 or 1 than this are not shown as numbers, for lack of runs.
_RARE = 0.01
# Drops in reports.
_DROPS = (0.02, 0.05, 0.10)
# The drop that is also simulated on flaky cases only.
_FLAKY_DROP = 0.05
# If this drop is detected less often, reports show the effect of more first trials.
_STEP_DROP, _STEP_POWER = 0.05, 0.8
# Quantiles of the range of power, which contains nine in ten suites.
_RANGE = (0.05, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of an event in simulated runs.

    >>> range_ = Interval(low=0.62, high=0.91)
    >>> str(Rate(hits=3, runs=1000)), str(Rate(hits=79, runs=100, range=range_))
    ('< 1 %', '79 % (62-91)')

    Attributes:
        range: Range of the rate for nine in ten suites that fit the record; None if the record is
            long enough.
    """

    hits: int
    runs: int
    range: Interval | None = None

    @property
    def value(self) -> float:
        """The rate, between 0 and 1."""
        return self.hits / self.runs

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the rate."""
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
class DetectableDrop:
    """A drop of every case's pass rate, and the required power.

    Attributes:
        drop: Drop of every pass rate, between 0 and 1.
        power: Required rate of detection, between 0 and 1.
        seed: Seed of the simulated runs.
    """

    drop: float
    power: float
    seed: int = 0

    def detection_rate(self, suite: SimulatedSuite) -> Rate:
        """The rate at which the drop is detected in a suite."""
        return _rate(suite.simulate(self.seed, lower_rates(self.drop), runs=_SEARCH_RUNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """The same gate with twice the trials of every case in the first round.

    Attributes:
        first_trials: Value of the setting.
        drops: Detection rate by drop.
        calls_per_case: Mean trials per case for an unchanged prompt.
    """

    first_trials: int
    drops: tuple[tuple[float, Rate], ...]
    calls_per_case: float

    def __str__(self) -> str:
        losses = ", ".join(f"-{100 * drop:g} points {rate}" for drop, rate in reversed(self.drops))
        return (
            f"first_trials = {self.first_trials} sees {losses}, for {self.calls_per_case:.1f} calls"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityLine:
    """The detection and false alarm rates of a gate with the current cases.

    Attributes:
        cases: Number of simulated cases.
        false_alarm: Rate at which an unchanged prompt is blocked.
        one_broken: Rate at which one case is detected that always passed and now always fails; None
            without a stable case.
        drops: Detection rate by drop of all pass rates.
        flaky_drop: Detection rate for a mean drop of 5 points on flaky cases only; None if they are
            too few to lose as much.
        calls_per_case: Mean trials per case for an unchanged prompt.
        step: The gate with more first trials; None if a drop of 5 points is detected often enough,
            or first trials are at their maximum.
        recorded: Trials of each case in a replay; 0 if models may be called.
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
        losses = [] if self.one_broken is None else [f"1 broken case {self.one_broken}"]
        for drop, rate in reversed(self.drops):
            words = f"-{100 * drop:g} points {rate}"
            if drop == _FLAKY_DROP and self.flaky_drop is not None:
                words += f", on flaky cases alone {self.flaky_drop}"
            losses.append(words)
        # The method guarantees less than 1 %; the simulation must not contradict it.
        rare = self.false_alarm.interval.low < _RARE
        alarm = "< 1 %" if rare else str(self.false_alarm)
        sees = "sees"
        if self.recorded:
            sees = f"this replay, with {plural(self.recorded, 'recorded trial')} of each case, sees"
        line = f"{sees}: {', '.join(losses)}; false alarm {alarm}"
        if self.step is None:
            return line
        return f"{line}\n{self.step} per case instead of {self.calls_per_case:.1f}"


def sensitivity_line(
    baselines: Sequence[Count],
    policy: GatePolicy,
    *,
    seed: int = 0,
    checks: int | None = None,
    cases: int | None = None,
    prompts: Sequence[str] = (),
    drops: Sequence[float] = _DROPS,
    recorded: int = 0,
) -> SensitivityLine | None:
    """Simulate the gate on a suite with the base's record.

    Pass rates are sampled from the range that fits each record, so a case that never failed in 12
    trials may still fail sometimes.

    Args:
        baselines: Trials of the base for each compared case, all checks together.
        seed: Seed of the simulation.
        checks: Number of checks tested together; None for the number of cases.
        cases: Number of cases like these to simulate instead, as one prompt.
        prompts: Prompt of each case, if there are several: each has its own suite test.
        drops: Sizes of drops, each between 0 and 1.
        recorded: Trials of each case in a replay; 0 if models may be called.

    Returns:
        None without any trial of the base.
    """
    suite = SimulatedSuite.from_baselines(
        baselines, policy, checks=checks, cases=cases, prompts=prompts
    )
    if suite is None:
        return None
    suite = replace(suite, recorded=recorded)
    alike = suite.simulate(seed, lambda p: p, runs=suite.runs)
    runs = min(suite.runs, _CHANGE_RUNS)
    broken = None
    if suite.stable.size:
        broken = _rate(suite.simulate(seed + 1, suite.break_one, runs=runs))
    flaky = None
    if _FLAKY_DROP in drops and suite.flaky_share > 2 * _FLAKY_DROP:
        flaky = _detection_rate(suite, seed + 2, lower_flaky_rates(_FLAKY_DROP), runs=runs)
    losses = tuple(
        (drop, _detection_rate(suite, seed + 2, lower_rates(drop), runs=runs)) for drop in drops
    )
    size = cases or sum(1 for count in baselines if count.trials)
    first_trials = min(2 * policy.first_trials_of(size), FIRST_TRIALS_MAX)
    weak = dict(losses)[_STEP_DROP].value < _STEP_POWER if _STEP_DROP in drops else False
    step = None
    # Each prompt has its own first round, so one setting cannot double them all.
    if (
        weak
        and not recorded
        and first_trials > policy.first_trials_of(size)
        and len({*prompts}) <= 1
    ):
        doubled_suite = replace(suite, policy=replace(policy, first_trials=first_trials))
        unchanged = doubled_suite.simulate(seed, lambda p: p, runs=runs)
        step = NextStep(
            first_trials=first_trials,
            drops=tuple(
                (drop, _detection_rate(doubled_suite, seed + 2, lower_rates(drop), runs=runs))
                for drop in drops
                if drop >= _STEP_DROP
            ),
            calls_per_case=float(np.mean(unchanged.calls)) / suite.size,
        )
    return SensitivityLine(
        cases=size,
        false_alarm=_rate(alike),
        one_broken=broken,
        drops=losses,
        flaky_drop=flaky,
        calls_per_case=float(np.mean(alike.calls)) / suite.size,
        step=step,
        recorded=recorded,
    )


def _detection_rate(
    suite: SimulatedSuite, seed: int, change: Callable[[FloatArray], FloatArray], *, runs: int
) -> Rate:
    """The rate at which a change is detected, with its range if the record is short."""
    if not suite.suites:
        return _rate(suite.simulate(seed, change, runs=runs))
    # All suites share the runs that fit the time.
    total_runs = max(_RANGE_RUNS_LEAST, min(_RANGE_RUNS, suite.runs_in_time))
    results = suite.simulate(
        seed, change, runs=max(1, total_runs // suite.suites), suites=suite.suites
    )
    blocked = results.blocked.reshape(suite.suites, -1)
    low, high = np.quantile(blocked.mean(axis=1), _RANGE)
    return Rate(
        hits=int(np.count_nonzero(blocked)),
        runs=int(blocked.size),
        range=Interval(low=float(low), high=float(high)),
    )


def unchanged_calls(
    baselines: Sequence[Count],
    policy: GatePolicy,
    *,
    checks: int | None = None,
    prompts: Sequence[str] = (),
) -> float | None:
    """The mean trials per case of both sides for an unchanged prompt.

    The arguments are those of `sensitivity_line`. None without any trial of the base.
    """
    suite = SimulatedSuite.from_baselines(baselines, policy, checks=checks, prompts=prompts)
    if suite is None:
        return None
    results = suite.simulate(0, lambda p: p, runs=min(suite.runs, _CHANGE_RUNS))
    return float(np.mean(results.calls)) / suite.size


def sensitivity_line_of(outcome: GateOutcome) -> SensitivityLine | None:
    """The line for the cases that a gate compared; None without a baseline."""
    compared_cases = [
        case for case in outcome.cases if case.state == "changed" and case.before.trials
    ]
    recorded = 0
    if outcome.policy.provisional and not outcome.base_trials and compared_cases:
        # Without recorded trials of the base there are no pairs, which a broken case needs.
        recorded = min(case.candidate.trials for case in compared_cases) or 1
    return sensitivity_line(
        [case.before for case in compared_cases],
        outcome.policy,
        checks=outcome.checks or None,
        prompts=[case.prompt for case in compared_cases],
        drops=_DROPS[1:],
        recorded=recorded,
    )


def cases_needed(
    baselines: Sequence[Count], policy: GatePolicy, target: DetectableDrop, *, at_most: int = 3_000
) -> int | None:
    """The number of cases that detect a drop of every case's pass rate with a required power.

    Args:
        target: Drop and power.
        at_most: Largest number to try.

    Returns:
        The smallest number found by halving, to about a tenth; None if `at_most` is not enough, or
        the base has no trial.
    """

    def is_detected(cases: int) -> bool:
        suite = SimulatedSuite.from_baselines(baselines, policy, cases=cases)
        return suite is not None and target.detection_rate(suite).value >= target.power

    if not any(count.trials for count in baselines):
        return None
    low, high = 0, 10
    while not is_detected(high):
        if high >= at_most:
            return None
        low, high = high, min(2 * high, at_most)
    while high - low > max(5, high // 10):
        middle = (low + high) // 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high


def first_trials_needed(
    baselines: Sequence[Count],
    policy: GatePolicy,
    target: DetectableDrop,
    *,
    at_most: int = FIRST_TRIALS_MAX,
) -> int | None:
    """The number of first trials per case that detects a drop with a required power.

    Args:
        target: Drop and power.
        at_most: Largest number to try.

    Returns:
        None if `at_most` is not enough, or the base has no trial.
    """
    first_trials = policy.first_trials_of(len(baselines))
    while first_trials <= at_most:
        suite = SimulatedSuite.from_baselines(baselines, replace(policy, first_trials=first_trials))
        if suite is None:
            return None
        if target.detection_rate(suite).value >= target.power:
            return first_trials
        first_trials += max(1, first_trials // 2)
    return None


def _rate(results: SimulatedRun) -> Rate:
    return Rate(hits=int(np.count_nonzero(results.blocked)), runs=len(results.blocked))
