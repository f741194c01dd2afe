"""Intervals of pass rates, of their differences, and of any statistic by bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regauge.evidence import RateDifference

if TYPE_CHECKING:
    from collections.abc import Callable


BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

# Tables are as long as the largest count; a count beyond this is a mistake.
_TOO_MANY = 10_000_000

Direction = Literal["worse", "better"]


def count_array(values: ArrayLike, *, name: str) -> IntArray:
    """Whole numbers of at least 0, as an array of 64-bit integers.

    Args:
        values: The numbers.
        name: The noun for them in errors.

    Raises:
        ValueError: If a value is not a whole number, below 0 or absurdly large.
    """
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind not in "biuf" or (kind == "f" and not np.array_equal(array, np.trunc(array))):
        raise ValueError(f"{name} must be whole numbers, not {values!r}")
    if array.size:
        least = array.min()
        if array.max() >= _TOO_MANY or least <= -_TOO_MANY:
            raise ValueError(f"{name} must be below {_TOO_MANY:,}")
        if least < 0:
            raise ValueError(f"{name} must be 0 or more, not {int(least)}")
    return array.astype(np.int64, copy=False)


def tallies(passes: ArrayLike, trials: ArrayLike, *, side: str) -> tuple[IntArray, IntArray]:
    """Passes and trials of one side, in one shape.

    Raises:
        ValueError: If there are more passes than trials, or the shapes do not broadcast.
    """
    pass_counts, trial_counts = np.broadcast_arrays(
        count_array(passes, name=f"passes of {side}"), count_array(trials, name=f"trials of {side}")
    )
    if np.any(pass_counts > trial_counts):
        raise ValueError(f"{side} has more passes than trials")
    return pass_counts, trial_counts


def two_sides(
    base_passes: ArrayLike, base_trials: ArrayLike, passes: ArrayLike, trials: ArrayLike
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The tallies of the base and of the candidate, in one shape.

    Raises:
        ValueError: As in `tallies`.
    """
    base = tallies(base_passes, base_trials, side="base")
    candidate = tallies(passes, trials, side="the candidate")
    s, m, k, r = np.broadcast_arrays(*base, *candidate)
    return s, m, k, r


# Below this a tail by Fourier transform is mostly rounding error, so it is computed by terms.
_ROUNDED_BELOW = 1e-9
_SMALLEST = 1e-300


def upper_tails(pmfs: FloatArray, parts: IntArray, thresholds: IntArray) -> FloatArray:
    """P(sum of the parts >= threshold) for independent parts.

    All sums are convolved at once by Fourier transforms. Smaller tails are convolved term by term,
    to keep their relative precision.

    Args:
        pmfs: Shape (kinds, width): the probability of 0, 1, ... width-1 for each kind of part.
        parts: Shape (sums, kinds): the number of parts of each kind in each sum.
        thresholds: Shape (sums,).

    Returns:
        Shape (sums,), between 0 and 1.
    """
    steps: IntArray = np.arange(pmfs.shape[1], dtype=np.int64)
    reach = np.max(np.where(pmfs > 0, steps, 0), axis=1, initial=0)
    size = int((parts @ reach).max(initial=0)) + 1
    length = 1 << size.bit_length()
    transformed = np.fft.rfft(pmfs, n=length, axis=1)
    sizes = np.log(np.maximum(np.abs(transformed), _SMALLEST))
    together = np.exp(_multiply(parts, sizes) + 1j * _multiply(parts, np.angle(transformed)))
    sums = np.fft.irfft(together, n=length, axis=1)[:, :size]
    # Summed from the far end, the smallest first.
    tails = np.cumsum(np.maximum(sums[:, ::-1], 0.0), axis=1)[:, ::-1]
    tail: FloatArray = tails[np.arange(len(tails)), np.clip(thresholds, 0, size - 1)]
    for row in np.nonzero((tail < _ROUNDED_BELOW) & (thresholds < size))[0]:
        tail[row] = _tail(pmfs, parts[row], int(thresholds[row]))
    tail[thresholds >= size] = 0.0
    return np.minimum(tail, 1.0)


# OpenBLAS starts threads above 2 ** 18 multiplications. For products of this size they wait more
# than they work: a gate's simulation took 2.4 times the processor time.
_MULTIPLICATIONS = 1 << 18


def _multiply(parts: IntArray, values: FloatArray) -> FloatArray:
    """The matrix product, in blocks of rows that one thread computes."""
    rows = max(1, _MULTIPLICATIONS // max(1, values.size))
    blocks = [parts[start : start + rows] @ values for start in range(0, len(parts), rows)]
    return np.concatenate(blocks) if blocks else parts @ values


def _tail(pmfs: FloatArray, parts: IntArray, threshold: int) -> float:
    """The tail of one sum, term by term; every term is positive."""
    total = np.ones(1)
    for kind in np.nonzero(parts)[0]:
        power, left = np.trim_zeros(pmfs[kind], "b"), int(parts[kind])
        while left:
            if left & 1:
                total = np.convolve(total, power)
            left >>= 1
            if left:
                power = np.convolve(power, power)
    return float(total[threshold:][::-1].sum())


def binomial_tail(least: int, trials: int, rate: float) -> float:
    """P(X >= least) for X binomial."""
    if rate in {0.0, 1.0}:
        return float(least <= trials * rate)
    logs = [
        lgamma(trials + 1) - lgamma(x + 1) - lgamma(trials - x + 1)
        for x in range(least, trials + 1)
    ]
    x = np.arange(least, trials + 1)
    terms = np.exp(np.array(logs) + x * np.log(rate) + (trials - x) * np.log1p(-rate))
    return min(1.0, float(terms.sum()))


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
        passes: 0 to `trials`; a sum of pass rates if each trial is a case with several trials.
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
    # At the ends the formula yields 0 and 1, except for rounding.
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
    """The upper bound of the fail rate without a failure in `trials`, at 95 % confidence: 3/trials.

    (Hanley & Lippman-Hand, JAMA 1983.) At most 1.

    >>> rule_of_three(20)
    0.15

    Raises:
        ValueError: If `trials` is below 0.
    """
    _check(0, trials, 0.95)
    return min(1.0, 3 / trials) if trials else 1.0


def flaky_probability(passes: int, trials: int, *, low: float = 0.05, high: float = 0.95) -> float:
    """The posterior probability that the pass probability is between `low` and `high`.

    The prior is uniform (Bayes 1763; Laplace 1774). With whole-number shapes the Beta distribution
    is a binomial tail: P(Beta(s+1, f+1) <= x) = P(Bin(n+1, x) >= s+1).

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


# Samples times items counted at once; bounds the memory.
_CELLS = 1_000_000


def bootstrap_interval(
    statistic: Callable[[IntArray], FloatArray],
    size: int,
    *,
    seed: int,
    resamples: int = 2_000,
    confidence: float = 0.95,
) -> Interval | None:
    """The percentile interval of the bootstrap (Efron, Annals of Statistics 1979).

    >>> scores = np.array([0.1, 0.4, 0.5, 0.9])
    >>> means = lambda counts: (counts @ scores / 4).round(3)
    >>> bootstrap_interval(means, 4, seed=1, resamples=200)
    Interval(low=0.175, high=0.775)

    Args:
        statistic: Called with the count of each item in each sample, shape (samples, items);
            returns the value of each sample, NaN if undefined.
        size: The number of items in the sample.
        seed: The random seed, at least 0; one seed gives one interval.
        resamples: The number of drawn samples, at least 1.
        confidence: Above 0 and below 1.

    Returns:
        None if the sample is empty, or the statistic is undefined for half of the drawn samples.

    Raises:
        ValueError: If an option is out of range.
    """
    if size < 0 or resamples < 1 or not 0 < confidence < 1:
        raise ValueError("size, resamples and confidence must be in range")
    if not size:
        return None
    rng = np.random.default_rng(seed)
    values: list[FloatArray] = []
    at_once = max(1, _CELLS // size)
    for start in range(0, resamples, at_once):
        block = min(at_once, resamples - start)
        items = rng.integers(0, size, (block, size)) + size * np.arange(block)[:, np.newaxis]
        counts = np.bincount(items.ravel(), minlength=block * size).reshape(block, size)
        values.append(statistic(counts))
    defined = np.concatenate(values)
    defined = defined[~np.isnan(defined)]
    if 2 * defined.size <= resamples:
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low=float(low), high=float(high))


def rate_difference(
    base_passes: ArrayLike,
    base_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    confidence: float = 0.95,
) -> RateDifference | None:
    """The difference of the mean pass rates of cases, with a normal interval.

    The cases are fixed, so only the variance within cases counts: p(1-p), estimated without bias
    if a case has several trials of a side. With one trial per case the candidate's variance within
    cases is its total variance less the base's variance between cases. A continuity correction and
    a floor of three trials keep the coverage for few failures.

    >>> change = rate_difference([12] * 50, 12, [1] * 46 + [0] * 4, 1)
    >>> round(100 * change.value, 1), round(100 * change.low, 1), round(100 * change.high, 1)
    (-8.0, -16.5, 0.5)

    Args:
        base_passes: Passes of the base, one per case.
        base_trials: Trials of the base; a case without trials of a side is ignored.
        passes: Passes of the candidate.
        trials: Trials of the candidate.
        confidence: Above 0 and below 1.

    Returns:
        None if no case has trials of both sides.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    s, m, k, r = (
        np.atleast_1d(side) for side in two_sides(base_passes, base_trials, passes, trials)
    )
    is_measured = (m > 0) & (r > 0)
    s, m, k, r = s[is_measured], m[is_measured], k[is_measured], r[is_measured]
    if not s.size:
        return None
    first, second = s / m, k / r
    before, after = float(first.mean()), float(second.mean())
    of_base = _within_variance(s, m)
    within_base = float(of_base.mean()) if of_base.size else before * (1 - before)
    if np.all(r > 1):
        within = max(float(_within_variance(k, r).mean()), within_base / 2)
    else:
        spread = float(first.var(ddof=1)) if s.size > 1 else 0.0
        between = max(0.0, spread - within_base * float((1 / m).mean()))
        within = max(after * (1 - after) - between, within_base)
    n = s.size
    inverse_base, inverse = float((1 / m).mean()), float((1 / r).mean())
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    half = z * sqrt((within_base * inverse_base + within * inverse) / n) + inverse / (2 * n)
    half = max(half, 3 * inverse / n)
    return RateDifference(
        base=before,
        candidate=after,
        low=max(-1.0, after - before - half),
        high=min(1.0, after - before + half),
    )


def _within_variance(passes: IntArray, trials: IntArray) -> FloatArray:
    """The unbiased estimate of p(1-p) for each case with several trials."""
    several = trials > 1
    p, n = passes[several] / trials[several], trials[several]
    return np.asarray(p * (1 - p) * n / (n - 1), dtype=np.float64)
