"""An interval of any statistic of a sample, by drawing the sample again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.stats._counts import FloatArray, IntArray

# Samples times items that are counted at once, which bounds the memory.
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
    >>> means = lambda drawn: (drawn @ scores / 4).round(3)
    >>> bootstrap_interval(means, 4, seed=1, resamples=200)
    Interval(low=0.175, high=0.775)

    Args:
        statistic: Takes how often each sample has each item, shape (samples, items), and gives
            the value of each sample, NaN where it is not defined.
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
    values: list[FloatArray] = []
    at_once = max(1, _CELLS // size)
    for start in range(0, resamples, at_once):
        samples = min(at_once, resamples - start)
        items = rng.integers(0, size, (samples, size)) + size * np.arange(samples)[:, np.newaxis]
        drawn = np.bincount(items.ravel(), minlength=samples * size).reshape(samples, size)
        values.append(statistic(drawn))
    defined = np.concatenate(values)
    defined = defined[~np.isnan(defined)]
    if 2 * defined.size <= resamples:
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low=float(low), high=float(high))
