"""The interval of a difference between two pass rates on the same cases."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import two_arms

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from regauge.stats._counts import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDifference:
    """Candidate minus main, between -1 and 1, with its interval.

    Attributes:
        main: The mean pass rate of main, over cases.
        candidate: The mean pass rate of the candidate.
        low: Where the interval of the difference begins.
        high: Where it ends.
    """

    main: float
    candidate: float
    low: float
    high: float

    @property
    def value(self) -> float:
        """Above 0 where the candidate passes more."""
        return self.candidate - self.main


def rate_difference(
    main_passes: ArrayLike,
    main_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    confidence: float = 0.95,
) -> RateDifference | None:
    """The difference of the mean pass rates of cases, with a normal interval.

    The cases are fixed, so only the spread within cases counts: p(1-p), estimated without bias
    where a case has several trials of an arm. With one trial of each case the candidate's spread
    within cases is what main's spread between cases leaves of the whole. A correction for
    continuity and a floor of three trials keep the interval honest for few failures.

    >>> found = rate_difference([12] * 50, 12, [1] * 46 + [0] * 4, 1)
    >>> round(100 * found.value, 1), round(100 * found.low, 1), round(100 * found.high, 1)
    (-8.0, -16.5, 0.5)

    Args:
        main_passes: Passes of main, one per case.
        main_trials: Trials of main; a case without trials of an arm counts nothing.
        passes: Passes of the candidate.
        trials: Trials of the candidate.
        confidence: Above 0 and below 1.

    Returns:
        None without any case that has trials of both arms.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    s, m, k, r = (np.atleast_1d(arm) for arm in two_arms(main_passes, main_trials, passes, trials))
    both = (m > 0) & (r > 0)
    s, m, k, r = s[both], m[both], k[both], r[both]
    if not s.size:
        return None
    ours, theirs = s / m, k / r
    before, after = float(ours.mean()), float(theirs.mean())
    of_main = _within(s, m)
    within_main = float(of_main.mean()) if of_main.size else before * (1 - before)
    if np.all(r > 1):
        within = max(float(_within(k, r).mean()), within_main / 2)
    else:
        spread = float(ours.var(ddof=1)) if s.size > 1 else 0.0
        between = max(0.0, spread - within_main * float((1 / m).mean()))
        within = max(after * (1 - after) - between, within_main)
    n = s.size
    inverse_main, inverse = float((1 / m).mean()), float((1 / r).mean())
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    half = z * sqrt((within_main * inverse_main + within * inverse) / n) + inverse / (2 * n)
    half = max(half, 3 * inverse / n)
    return RateDifference(
        main=before,
        candidate=after,
        low=max(-1.0, after - before - half),
        high=min(1.0, after - before + half),
    )


def _within(passes: IntArray, trials: IntArray) -> FloatArray:
    """p(1-p) of each case that has several trials, without bias."""
    several = trials > 1
    p, n = passes[several] / trials[several], trials[several]
    return np.asarray(p * (1 - p) * n / (n - 1), dtype=np.float64)
