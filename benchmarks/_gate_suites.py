"""Suites with known pass rates, and changes of them by an edit, a provider or an author.

Arrays have the shape (runs, cases). The mixes are those of published suites: `exam` is one of a
benchmark of questions, the others are typical golden sets of projects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Rates: TypeAlias = NDArray[np.float64]
Sampler: TypeAlias = "Callable[[np.random.Generator, int], Rates]"

# From here on a case counts as stable, and between these as flaky.
STABLE = 0.97
FLAKY = (0.05, 0.97)
_REROLLED = 0.35
_HALVINGS = 40


def _always(value: float) -> Sampler:
    return lambda _, size: np.full(size, value)


def _beta(passes: float, fails: float) -> Sampler:
    return lambda rng, size: rng.beta(passes, fails, size)


def _between(low: float, high: float) -> Sampler:
    return lambda rng, size: rng.uniform(low, high, size)


# Shares of cases, and how often a case of that share passes on main.
MIXES: Mapping[str, tuple[tuple[float, Sampler], ...]] = {
    "typical": (
        (0.60, _always(0.999)),
        (0.22, _beta(50, 1)),
        (0.13, _between(0.5, 0.95)),
        (0.05, _beta(1, 40)),
    ),
    "0/1": ((0.90, _always(0.999)), (0.05, _beta(2, 1)), (0.05, _always(0.01))),
    "flaky": ((1.0, _beta(4, 1)),),
    "very flaky": ((1.0, _beta(2, 1.2)),),
    "exam": ((0.40, _always(0.999)), (0.30, _always(0.01)), (0.30, _between(0.05, 0.95))),
    "wavering": ((0.30, _always(0.999)), (0.20, _always(0.01)), (0.50, _between(0.05, 0.95))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How often each case passes today, round by round.

    Attributes:
        main: The pass rates of main in a round.
        candidate: Those of the changed prompt.
    """

    main: Callable[[int], Rates]
    candidate: Callable[[int], Rates]


def draw_suites(rng: np.random.Generator, mix: str, runs: int, cases: int) -> Rates:
    """Pass rates on main of the cases of many suites."""
    shares = [share for share, _ in MIXES[mix]]
    kind = rng.choice(len(shares), size=(runs, cases), p=shares)
    p = np.empty(kind.shape)
    for number, (_, sampler) in enumerate(MIXES[mix]):
        chosen = kind == number
        p[chosen] = sampler(rng, int(chosen.sum()))
    return p


def world_of(rng: np.random.Generator, name: str, p: Rates, mix: str) -> World:
    """What a named scenario makes of suites that pass with `p` before.

    Raises:
        SystemExit: There is no such scenario.
    """
    kind, _, argument = name.partition(":")
    if kind == "swing":
        fixed, broken, points = map(float, argument.split("/"))
        changed = swung(rng, p, int(fixed), int(broken), points)
        return World(main=lambda _: p, candidate=lambda _: changed)
    size = float(argument or 0)
    if kind in _CHANGES:
        changed = _CHANGES[kind](rng, p, size, mix)
        return World(main=lambda _: p, candidate=lambda _: changed)
    if kind in _DAYS:
        rates = _DAYS[kind](rng, p, size)
        return World(main=rates, candidate=rates)
    if kind == "today":
        # One stable case: base passes it so often today, and the candidate never.
        today = _of_stable(rng, p, 1, size / 100)
        never = np.where(today != p, 0.0, p)
        return World(main=lambda _: today, candidate=lambda _: never)
    if kind == "drift+drop":
        today = lowered(p, 5)
        both = lowered(today, size)
        return World(main=lambda _: today, candidate=lambda _: both)
    raise SystemExit(f"no scenario {name!r}; there are: {', '.join(SCENARIOS)}")


def lowered(p: Rates, points: float) -> Rates:
    """Every pass rate lower by so many points."""
    return np.clip(p - points / 100, 0, 1)


def shifted(p: Rates, logits: float | Rates) -> Rates:
    """Every pass rate moved by so many logits."""
    clipped = np.clip(p, 1e-9, 1 - 1e-9)
    return np.asarray(1 / (1 + np.exp(-(np.log(clipped) - np.log1p(-clipped) + logits))))


def lowered_by_logit(p: Rates, points: float, *, flaky: bool = False) -> Rates:
    """So many points lost on average by one shift of the logits: of all cases, or of flaky ones."""
    where = (p > FLAKY[0]) & (p < FLAKY[1]) if flaky else np.ones_like(p, dtype=np.bool_)
    base = np.clip(p, 1e-6, 1 - 1e-6)
    low, high = np.zeros((len(p), 1)), np.full((len(p), 1), 20.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        lost = (p - np.where(where, shifted(base, -middle), p)).mean(axis=1, keepdims=True)
        enough = lost > points / 100
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(where, shifted(base, -low), p)


def reworded(rng: np.random.Generator, p: Rates, points: float, mix: str) -> Rates:
    """A share of the cases re-rolled, then cases fixed or broken until the net is as wanted."""
    fresh = draw_suites(rng, mix, *p.shape)
    q = np.where(rng.random(p.shape) < _REROLLED, fresh, p)
    wanted = points / 100 * p.shape[1]
    for row in range(len(p)):
        for case in rng.permutation(p.shape[1]):
            gap = wanted - (q[row] - p[row]).sum()
            if abs(gap) < 0.5:
                break
            if gap > 0 and q[row, case] < 0.5:
                q[row, case] = 0.999
            elif gap < 0 and q[row, case] > 0.5:
                q[row, case] = 0.01
    return q


def swung(rng: np.random.Generator, p: Rates, fixed: int, broken: int, points: float) -> Rates:
    """So many cases fixed and broken, then flaky ones moved alike until the net is as wanted."""
    q = _some(rng, p, (0.9, 1), broken, 0.01)
    q = np.where(q != p, q, _some(rng, p, (0, 0.25), fixed, 0.99))
    flaky = (q == p) & (p > FLAKY[0]) & (p < FLAKY[1])
    low, high = np.full((len(p), 1), -20.0), np.full((len(p), 1), 20.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        net = (np.where(flaky, shifted(p, middle), q) - p).mean(axis=1, keepdims=True)
        enough = 100 * net > points
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(flaky, shifted(p, low), q)


def _some(
    rng: np.random.Generator, p: Rates, between: tuple[float, float], count: int, to: float
) -> Rates:
    """The rates with so many cases of a range, where there are any, set to another rate."""
    order = rng.random(p.shape)
    order[(p < between[0]) | (p > between[1])] = 2.0
    chosen = np.argsort(order, axis=1)[:, :count]
    fits = np.take_along_axis(order, chosen, axis=1) < 1
    q = p.copy()
    values = np.where(fits, to, np.take_along_axis(q, chosen, axis=1))
    np.put_along_axis(q, chosen, values, axis=1)
    return q


def _of_stable(rng: np.random.Generator, p: Rates, count: float, to: float) -> Rates:
    return _some(rng, p, (STABLE, 1), int(count), to)


def _swapped(rng: np.random.Generator, p: Rates, count: float) -> Rates:
    broken = _of_stable(rng, p, count, 0.0)
    return np.where(broken != p, broken, _some(rng, p, (0, 0.6), int(count), 1.0))


def _rerolled(rng: np.random.Generator, p: Rates, percent: float, mix: str) -> Rates:
    fresh = draw_suites(rng, mix, *p.shape)
    return np.where(rng.random(p.shape) < percent / 100, fresh, p)


def _moods(rng: np.random.Generator, p: Rates, spread: float) -> Callable[[int], Rates]:
    moods: dict[int, Rates] = {}

    def rates(round_number: int) -> Rates:
        if round not in moods:
            moods[round_number] = rng.normal(0, spread, (len(p), 1))
        return shifted(p, moods[round_number])

    return rates


def _constant(p: Rates) -> Callable[[int], Rates]:
    return lambda _: p


_Change: TypeAlias = "Callable[[np.random.Generator, Rates, float, str], Rates]"
_CHANGES: Mapping[str, _Change] = {
    "unchanged": lambda _rng, p, _size, _mix: p,
    "drop": lambda _rng, p, size, _mix: lowered(p, size),
    "logit": lambda _rng, p, size, _mix: lowered_by_logit(p, size),
    "flaky": lambda _rng, p, size, _mix: lowered_by_logit(p, size, flaky=True),
    "broken": lambda rng, p, size, _mix: _of_stable(rng, p, size, 0.0),
    "fifth": lambda rng, p, size, _mix: _of_stable(rng, p, size, 0.2),
    "half": lambda rng, p, size, _mix: _of_stable(rng, p, size, 0.5),
    "dead": lambda rng, p, size, _mix: _some(rng, p, (0.6, 0.9), int(size), 0.0),
    "fixed": lambda rng, p, size, _mix: _some(rng, p, (0, 0.5), int(size), 1.0),
    "swap": lambda rng, p, size, _mix: _swapped(rng, p, size),
    "jitter": _rerolled,
    "reword": reworded,
}
_Day: TypeAlias = "Callable[[np.random.Generator, Rates, float], Callable[[int], Rates]]"
_DAYS: Mapping[str, _Day] = {
    "drift": lambda _rng, p, size: _constant(lowered(p, size)),
    "drift-logit": lambda _rng, p, size: _constant(shifted(p, size)),
    "mood": lambda _rng, p, size: lambda round_number: p if round_number else shifted(p, size),
    "moods": _moods,
    "sag": lambda rng, p, size: _constant(
        np.where(rng.random(p.shape) < size / 100, p * rng.uniform(0.2, 0.8, p.shape), p)
    ),
    "today-alike": lambda rng, p, size: _constant(_of_stable(rng, p, 1, size / 100)),
}
SCENARIOS = (*_CHANGES, *_DAYS, "swing", "today", "drift+drop")
