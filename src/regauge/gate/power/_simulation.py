"""Many simulated runs of the gate at once, on counts alone.

The tests and rules are those of the gate itself; only the bookkeeping of single trials is left
out. Each case has one check.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from regauge.gate.engine import (
    CellTest,
    End,
    Observed,
    Pairs,
    day_bound,
    day_goes_on,
    net_bound,
    pair_weights,
    pairs_p_value,
    passes_ahead,
    rest_better,
    screen,
    screen_bound,
    screen_extends,
)
from regauge.stats import draw_pass_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from regauge.evidence import Count
    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm
    from regauge.gate.engine import BoolArray, IntArray, Tallies

    FloatArray = NDArray[np.float64]
    Index = tuple[IntArray, IntArray]
    Rates = Callable[[int], FloatArray]

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
    """At most the number of simulated cases, in the shares of prompts and records."""
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
        """The number of cases."""
        return int(self.main[0].size)

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
        """The number of suites for a range; 0 for a record that is long enough."""
        known = self.size >= _CASES_KNOWN and int(self.main[1].min()) >= _TRIALS_KNOWN
        return 0 if known else _SUITES

    @property
    def stable(self) -> IntArray:
        """The cases that main passes nearly always."""
        s, m = self.main
        return np.nonzero(s >= _STABLE * m)[0]

    @property
    def flaky_share(self) -> float:
        """The share of all trials that flaky cases pass by the record: the most they can lose."""
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
        """Return whether runs reject; shape (suites, runs of each), a row per drawn suite."""
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
        passes, trials = (tuple(arm.tolist()) for arm in self.main)
        p, after = _drawn_rates(passes, trials, seed=seed, runs=runs, suites=suites)
        rng = deepcopy(after)
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


@lru_cache(maxsize=2)
def _drawn_rates(
    passes: tuple[int, ...], trials: tuple[int, ...], *, seed: int, runs: int, suites: int
) -> tuple[FloatArray, np.random.Generator]:
    """Pass rates, and the generator after them: changes of one suite are simulated on the same."""
    rng = np.random.default_rng(seed)
    p = draw_pass_rates(passes, trials, runs=runs, rng=rng, suites=suites)
    p.flags.writeable = False
    return p, rng


# The waves after those of the case test, as the gate draws them.
_WAVES_OF_CASES = 30


class Trials(Protocol):
    """The trials that simulated runs use."""

    def draw(self, arm: Arm, wave: int, where: Index, count: IntArray | int) -> IntArray:
        """Passes of `count` further trials of some runs and cases, all of one wave."""
        ...


class Chances:
    """Trials that pass by chance, at rates that may be others in each wave.

    Args:
        main: The pass rates of main in a wave; shape (runs, cases).
        candidate: The same of the candidate.
    """

    def __init__(self, rng: np.random.Generator, main: Rates, candidate: Rates) -> None:
        self._rng = rng
        self._rates: dict[Arm, Rates] = {"main": main, "candidate": candidate}

    def draw(self, arm: Arm, wave: int, where: Index, count: IntArray | int) -> IntArray:
        """Passes of further trials."""
        return self._rng.binomial(count, self._rates[arm](wave)[where])


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The results of simulated runs; every array has shape (runs,).

    Attributes:
        blocked: The change is rejected.
        undecided: It is neither rejected nor accepted.
        broken: How many cases were named as broken.
        fixed: How many cases were named as fixed.
        worse: A suite was found worse side by side.
        asked: A suite was below main's record, so both arms were drawn side by side.
        weighed: Broken cases were weighed against fixed ones.
        drifted: A case fails on main too, today.
        calls: Trials of both arms together.
    """

    blocked: BoolArray
    undecided: BoolArray
    broken: IntArray
    fixed: IntArray
    worse: BoolArray
    asked: BoolArray
    weighed: BoolArray
    drifted: BoolArray
    calls: IntArray

    @property
    def accepted(self) -> BoolArray:
        """Return whether the change is accepted."""
        return ~self.blocked & ~self.undecided


def play(
    policy: GatePolicy,
    main: Tallies,
    trials: Trials,
    *,
    family: int | None = None,
    prompts: Sequence[IntArray] | None = None,
    recorded: int = 0,
) -> Played:
    """Run the gate many times.

    Args:
        main: Passes and trials of main's record; shape (runs, cases).
        trials: What is drawn.
        family: How many cells are tested together; as many as cases if None.
        prompts: The columns of the cases of each prompt; all cases are of one prompt if None.
        recorded: Trials of each case that a replay has, and none of main; 0 where models may be
            called.
    """
    if recorded:
        return _replayed(policy, main, trials, prompts=prompts, recorded=recorded)
    return _Runs(policy, main, trials, family=family, prompts=prompts).played()


def _replayed(
    policy: GatePolicy,
    main: Tallies,
    trials: Trials,
    *,
    prompts: Sequence[IntArray] | None,
    recorded: int,
) -> Played:
    """Replays are not accepted where their trials are below main's record; pairs are missing."""
    runs, cases = main[0].shape
    columns = prompts or [_range(cases)]
    blocked = np.zeros(runs, dtype=np.bool_)
    for own in columns:
        drawn = np.full((runs, own.size), recorded, dtype=np.int64)
        where = np.broadcast_arrays(_range(runs)[:, np.newaxis], own)
        passes = trials.draw("candidate", 0, (where[0], where[1]), drawn)
        screened = screen((main[0][:, own], main[1][:, own]), (passes, drawn))
        blocked |= screened.p_value <= screen_bound(policy.suite, 0, prompts=len(columns))
    no, none = np.zeros_like(blocked), np.zeros(runs, dtype=np.int64)
    return Played(
        blocked=blocked,
        undecided=no,
        broken=none,
        fixed=none,
        worse=no,
        asked=blocked,
        weighed=no,
        drifted=no,
        calls=none,
    )


class _Runs:
    """All runs of one call of `play`; arrays have one row per run."""

    def __init__(
        self,
        policy: GatePolicy,
        main: Tallies,
        trials: Trials,
        *,
        family: int | None,
        prompts: Sequence[IntArray] | None,
    ) -> None:
        runs, cases = main[0].shape
        self._policy, self._main, self._trials = policy, main, trials
        self._columns: Sequence[IntArray] = prompts or [np.arange(cases, dtype=np.int64)]
        self._family = family
        self._first = np.empty(cases, dtype=np.int64)
        control = 0
        for own in self._columns:
            self._first[own] = policy.first_draws_of(own.size)
            control += min(policy.suite.control, own.size)
        self._calls = np.full(runs, control, dtype=np.int64)
        self._first_passes = self._draw("candidate", 0, _range(runs), _range(cases), self._first)
        self._worse = self._tested("worse")
        self._better = self._tested("better")

    def played(self) -> Played:
        runs = len(self._calls)
        named = self._worse.ends == End.NAMED
        fixed = self._better.ends == End.NAMED
        unclear = self._worse.ends == End.UNDECIDED
        rejects = np.zeros((runs, len(self._columns)), dtype=np.bool_)
        weighs = np.zeros_like(rejects)
        for number, own in enumerate(self._columns):
            rejects[:, number], weighs[:, number] = self._of_broken(
                own, named[:, own], fixed[:, own]
            )
        blocked = rejects.any(axis=1)
        worse, asked = np.zeros_like(blocked), np.zeros_like(blocked)
        undecided = np.zeros_like(blocked)
        for number, own in enumerate(self._columns):
            going = np.nonzero(~blocked & weighs[:, number])[0]
            if going.size:
                rejected, left = self._weigh(going, own)
                worse[going] |= rejected
                undecided[going] |= left
            undecided |= ~weighs[:, number] & unclear[:, own].any(axis=1)
        for own, weighed in zip(self._columns, weighs.T, strict=True):
            going = np.nonzero(~blocked & ~weighed)[0]
            rows, equal = self._screen(going, own)
            asked[rows] = True
            if rows.size:
                worse[rows[self._side_by_side(rows, own, equal)]] = True
        blocked = blocked | worse
        return Played(
            blocked=blocked,
            undecided=undecided & ~blocked,
            broken=np.asarray(named.sum(axis=1)),
            fixed=np.asarray(fixed.sum(axis=1)),
            worse=worse,
            asked=asked,
            weighed=np.asarray(weighs.any(axis=1)),
            drifted=np.any(self._worse.ends == End.DRIFTED, axis=1),
            calls=self._calls,
        )

    def _tested(self, direction: str) -> CellTest:
        """The test of single cases in one direction, all looks taken."""
        s = self._main[0]
        better = direction == "better"
        test = CellTest(
            self._policy.case,
            self._main,
            (self._first_passes, np.broadcast_to(self._first, s.shape)),
            family=self._family,
            direction="better" if better else "worse",
            passes_at_most=self._policy.improved_at_most if better else 1.0,
        )
        k, r = self._first_passes.copy(), np.broadcast_to(self._first, s.shape).copy()
        b, n, kd = (np.zeros_like(s) for _ in range(3))
        for number, step in enumerate(test.steps):
            where = test.open
            if not where[0].size:
                break
            pair = test.paired(number)
            passes = self._trials.draw("candidate", number + 1, (where[0], where[1]), step)
            both = (where[0][pair], where[1][pair])
            of_main = self._trials.draw("main", number + 1, both, step)
            k[where] += passes
            r[where] += step
            b[both] += of_main
            n[both] += step
            kd[both] += passes[pair]
            np.add.at(self._calls, where[0], step)
            np.add.at(self._calls, both[0], step)
            test.look(
                number,
                Observed((k[where], r[where]), (b[where], n[where]), (kd[where], n[where])),
            )
        return test

    def _of_broken(
        self, own: IntArray, named: BoolArray, fixed: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """In which runs the broken cases of a prompt reject, and in which they are weighed."""
        hit = named.any(axis=1)
        weighs = np.zeros_like(hit)
        if self._policy.on_broken == "net" and (rows := np.nonzero(hit)[0]).size:
            here = np.ix_(rows, own)
            first = np.broadcast_to(self._first[own], (rows.size, own.size))
            better = rest_better(
                (self._main[0][here], self._main[1][here]),
                (self._first_passes[here], first),
                named[rows],
            )
            weighs[rows] = fixed[rows].any(axis=1) | (better <= self._policy.net.trigger)
        if self._policy.on_broken == "warn":
            return np.zeros_like(hit), weighs
        return hit & ~weighs, weighs

    def _screen(self, going: IntArray, own: IntArray) -> tuple[IntArray, BoolArray]:
        """The runs whose suite is below main's record, and whether equal weights show it."""
        policy, prompts = self._policy.suite, len(self._columns)
        here = np.ix_(going, own)
        s, m, k = self._main[0][here], self._main[1][here], self._first_passes[here]
        r = np.broadcast_to(self._first[own], k.shape)
        int_arrays: list[IntArray] = []
        equal: list[BoolArray] = []
        for number in range(policy.rounds):
            if not going.size:
                break
            if number:
                extra = policy.extra_round(int(self._first[own[0]]))
                wave = _WAVES_OF_CASES + number
                k = k + self._draw("candidate", wave, going, own, extra)
                r = r + extra
            screened = screen((s, m), (k, r))
            hit = screened.p_value <= screen_bound(policy, number, prompts=prompts)
            int_arrays.append(going[hit])
            equal.append(screened.equal[hit])
            keep = ~hit & screen_extends(policy, number, screened.p_value)
            going, s, m, k, r = going[keep], s[keep], m[keep], k[keep], r[keep]
        if not int_arrays:
            return going, np.zeros(0, dtype=np.bool_)
        return np.concatenate(int_arrays), np.concatenate(equal)

    def _side_by_side(self, rows: IntArray, own: IntArray, equal: BoolArray) -> BoolArray:
        """The runs, among some, that confirm side by side that the suite is worse."""
        policy, prompts = self._policy.suite, len(self._columns)
        here = np.ix_(rows, own)
        record = self._main[0][here], self._main[1][here]
        worse = np.zeros(rows.size, dtype=np.bool_)
        left = np.arange(rows.size)
        waves: list[Pairs] = []
        first = int(self._first[own[0]])
        for number in range(len(policy.levels)):
            pairs = policy.pairs_of_look(number, cases=own.size, first_draws=first)
            wave = 2 * _WAVES_OF_CASES + number
            waves.append(self._pairs(wave, rows[left], own, pairs))
            now = record[0][left], record[1][left]
            p = pairs_p_value(waves, pair_weights(now, waves, equal[left]))
            lower = np.asarray(passes_ahead(waves) < 0)
            if self._policy.on_broken != "net":
                lower = np.ones_like(lower)
            hit = (p <= day_bound(policy, number, prompts=prompts)) & lower
            worse[left[hit]] = True
            keep = ~hit & day_goes_on(policy, number, p)
            left, waves = left[keep], [_kept(one, keep) for one in waves]
            if not left.size:
                break
        return worse

    def _weigh(self, rows: IntArray, own: IntArray) -> tuple[BoolArray, BoolArray]:
        """The runs, among some, that reject, and those that end undecided."""
        policy, prompts = self._policy.net, len(self._columns)
        rejected = np.zeros(rows.size, dtype=np.bool_)
        undecided = np.zeros_like(rejected)
        left = np.arange(rows.size)
        waves: list[Pairs] = []
        first = int(self._first[own[0]])
        for number in range(len(policy.all_levels)):
            pairs = policy.pairs_of_look(number, cases=own.size, first_draws=first)
            wave = 2 * _WAVES_OF_CASES + number
            waves.append(self._pairs(wave, rows[left], own, pairs))
            worse = pairs_p_value(waves, 1) <= net_bound(policy, number, prompts=prompts)
            better = pairs_p_value(waves, 1, direction="better") <= policy.better
            rejected[left[worse]] = True
            keep = ~worse & ~better
            undecided[left] = keep & (passes_ahead(waves) < 0)
            left, waves = left[keep], [_kept(one, keep) for one in waves]
            if not left.size:
                break
        return rejected, undecided

    def _pairs(self, wave: int, rows: IntArray, own: IntArray, pairs: int) -> Pairs:
        drawn = np.full((rows.size, own.size), pairs, dtype=np.int64)
        return Pairs(
            (self._draw("main", wave, rows, own, pairs), drawn),
            (self._draw("candidate", wave, rows, own, pairs), drawn),
        )

    def _draw(
        self, arm: Arm, wave: int, rows: IntArray, own: IntArray, count: IntArray | int
    ) -> IntArray:
        """Passes of further trials of all cases of some runs; shape (rows, cases)."""
        shape = (rows.size, own.size)
        where = (
            np.broadcast_to(rows[:, np.newaxis], shape),
            np.broadcast_to(own[np.newaxis], shape),
        )
        each = np.broadcast_to(count, shape)
        self._calls[rows] += each.sum(axis=1)
        return self._trials.draw(arm, wave, where, each)


def _range(stop: int) -> IntArray:
    return np.arange(stop, dtype=np.int64)


def _kept(wave: Pairs, keep: BoolArray) -> Pairs:
    (s, m), (k, r) = wave
    return Pairs((s[keep], m[keep]), (k[keep], r[keep]))
