"""Whether main itself has changed: the provider's drift, not the candidate's doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, tallies
from regauge.stats._evidence import log_rising

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from regauge.stats._counts import IntArray


def log_drift_ratio(
    fresh: tuple[ArrayLike, ArrayLike],
    *,
    history: tuple[ArrayLike, ArrayLike],
    candidate: tuple[ArrayLike, ArrayLike],
) -> FloatArray:
    """How much better main's fresh trials fit the candidate's record than main's own history.

    The natural logarithm of the ratio of two posterior predictive probabilities, each after the
    prior Beta(1/2, 1/2) (Jeffreys, "Theory of probability", 1961; the predictive of
    Beta-Bernoulli trials in Bernardo & Smith, "Bayesian theory", 1994).

    >>> drift = log_drift_ratio((0, 5), history=(12, 12), candidate=(0, 6))
    >>> bool(drift > np.log(10))
    True

    Args:
        fresh: Passes and trials of main in this run.
        history: Passes and trials of main before it, without the fresh ones.
        candidate: Passes and trials of the candidate.

    Returns:
        Above 0 where the candidate's record tells the fresh trials better; 0 without fresh trials.
        In the common shape of the counts.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    arms = (
        *tallies(*fresh, of="main in this run"),
        *tallies(*history, of="main's history"),
        *tallies(*candidate, of="the candidate"),
    )
    x, n, s, m, k, r = np.broadcast_arrays(*arms)
    return _log_predictive(x, n, k, r) - _log_predictive(x, n, s, m)


def _log_predictive(x: IntArray, n: IntArray, seen: IntArray, of: IntArray) -> FloatArray:
    """Log probability of x passes in n trials, in their order, after `seen` of `of` passed."""
    most = int((n + of).max(initial=0))
    half, one = log_rising(0.5, most), log_rising(1.0, most)
    passed = np.take(half, seen + x) - np.take(half, seen)
    failed = np.take(half, of - seen + n - x) - np.take(half, of - seen)
    return np.asarray(passed + failed - (np.take(one, of + n) - np.take(one, of)))
