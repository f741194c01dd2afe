"""Many runs of the gate at once, on counts alone: what its error rates come from.

The tests and rules are those of the gate itself; only the bookkeeping of single trials is left
out. Each case has one check.
"""

from __future__ import annotations

from dataclasses import dataclass
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from regauge.gate._policy import GatePolicy
    from regauge.gate._types import Arm
    from regauge.gate.engine import BoolArray, IntArray, Tallies

    FloatArray = NDArray[np.float64]
    Index = tuple[IntArray, IntArray]
    Rates = Callable[[int], FloatArray]

# The waves after those of the case test, as the gate draws them.
_WAVES_OF_CASES = 30


class Trials(Protocol):
    """What runs draw from."""

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
    """What each run came to; every array has shape (runs,).

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
        """Whether the change is accepted."""
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
        found: list[IntArray] = []
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
            found.append(going[hit])
            equal.append(screened.equal[hit])
            keep = ~hit & screen_extends(policy, number, screened.p_value)
            going, s, m, k, r = going[keep], s[keep], m[keep], k[keep], r[keep]
        if not found:
            return going, np.zeros(0, dtype=np.bool_)
        return np.concatenate(found), np.concatenate(equal)

    def _side_by_side(self, rows: IntArray, own: IntArray, equal: BoolArray) -> BoolArray:
        """Which of some runs confirm side by side that the suite is worse."""
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
        """Which of some runs reject, and which end undecided."""
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
