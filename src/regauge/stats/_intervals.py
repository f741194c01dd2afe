"""Intervals of a pass rate, to show beside it. No decision rests on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from regauge.stats._tails import binomial_tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A closed interval; `low` is at most `high`, and a rate lies between 0 and 1."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


_NOTHING_KNOWN = Interval(low=0.0, high=1.0)


def wilson(passes: float, trials: int, *, confidence: float = 0.95) -> Interval:
    """The score interval of a proportion (Wilson, JASA 1927).

    Its coverage is close to `confidence` on average, for few trials too (Brown, Cai & DasGupta,
    Statistical Science 2001).

    >>> round(wilson(9, 12).low, 4), round(wilson(9, 12).high, 4)
    (0.4677, 0.9111)

    Args:
        passes: 0 to `trials`; a sum of pass rates where each trial is a case of several.
        trials: With 0 trials the interval is 0 to 1.
        confidence: Above 0 and below 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    _check(passes, trials, confidence)
    if not trials:
        return _NOTHING_KNOWN
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = passes / trials
    shrink = 1 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / shrink
    half = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / shrink
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if passes == 0 else max(0.0, middle - half)
    high = 1.0 if passes == trials else min(1.0, middle + half)
    return Interval(low=low, high=high)


def clopper_pearson(passes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """The exact interval of a proportion (Clopper & Pearson, Biometrika 1934).

    Its coverage is never below `confidence`, so it is wider than Wilson's.

    >>> clopper_pearson(12, 12).high
    1.0

    Args:
        passes: 0 to `trials`.
        trials: With 0 trials the interval is 0 to 1.
        confidence: Above 0 and below 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    _check(passes, trials, confidence)
    tail = (1 - confidence) / 2
    low = _rate_with_tail(passes, trials, tail) if passes else 0.0
    high = 1 - _rate_with_tail(trials - passes, trials, tail) if passes < trials else 1.0
    return Interval(low=low, high=high)


def rule_of_three(trials: int) -> float:
    """The greatest fail rate that goes with no failure in `trials`, at 95 % confidence: 3/trials.

    (Hanley & Lippman-Hand, JAMA 1983.) At most 1.

    >>> rule_of_three(20)
    0.15

    Raises:
        ValueError: If `trials` is below 0.
    """
    _check(0, trials, 0.95)
    return min(1.0, 3 / trials) if trials else 1.0


def flaky_probability(passes: int, trials: int, *, low: float = 0.05, high: float = 0.95) -> float:
    """The posterior probability that the pass probability lies between `low` and `high`.

    After the uniform prior (Bayes 1763; Laplace 1774). With whole-number shapes the Beta
    distribution is a binomial tail: P(Beta(s+1, f+1) <= x) = P(Bin(n+1, x) >= s+1).

    >>> round(flaky_probability(9, 12), 3), round(flaky_probability(12, 12), 3)
    (0.997, 0.513)

    Args:
        passes: 0 to `trials`.
        trials: 0 or more.
        low: At least 0, below `high`.
        high: At most 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    _check(passes, trials, 0.5)
    if not 0 <= low < high <= 1:
        raise ValueError(f"low and high must be in order within 0 to 1, not {low!r} and {high!r}")
    below_high = binomial_tail(passes + 1, trials + 1, high)
    below_low = binomial_tail(passes + 1, trials + 1, low)
    return max(0.0, below_high - below_low)


def _rate_with_tail(least: int, trials: int, tail: float) -> float:
    """The rate at which P(Bin(trials, rate) >= least) is `tail`, by bisection; least above 0."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if binomial_tail(least, trials, middle) < tail:
            low = middle
        else:
            high = middle
    return high


def _check(passes: float, trials: int, confidence: float) -> None:
    if not 0 <= passes <= trials:
        raise ValueError(f"passes must be 0 to trials, not {passes} of {trials}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, not {confidence!r}")
