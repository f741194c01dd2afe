"""An interval of any statistic of a sample, by drawing the sample again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.stats._counts import IntArray


def bootstrap_interval(
    statistic: Callable[[IntArray], float | None],
    size: int,
    *,
    seed: int,
    resamples: int = 2_000,
    confidence: float = 0.95,
) -> Interval | None:
    """The percentile interval of the bootstrap (Efron, Annals of Statistics 1979).

    >>> scores = np.array([0.1, 0.4, 0.5, 0.9])
    >>> mean = lambda items: round(float(scores[items].mean()), 3)
    >>> bootstrap_interval(mean, 4, seed=1, resamples=200)
    Interval(low=0.175, high=0.775)

    Args:
        statistic: Takes the indices of the items drawn, with repetitions, and gives the value, or
            None where it is not defined.
        size: How many items the sample has.
        seed: Of the draws; one seed gives one interval. At least 0.
        resamples: How many samples are drawn, at least 1.
        confidence: Above 0 and below 1.

    Returns:
        None when the sample is empty, or the statistic is not defined for half of the samples
        drawn: too little is known then.

    Raises:
        ValueError: If an option is out of range.
    """
    if size < 0 or resamples < 1 or not 0 < confidence < 1:
        raise ValueError("size, resamples and confidence must be in range")
    if not size:
        return None
    rng = np.random.default_rng(seed)
    drawn = (statistic(rng.integers(0, size, size)) for _ in range(resamples))
    values = [value for value in drawn if value is not None]
    if 2 * len(values) <= resamples:
        return None
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low=float(low), high=float(high))
