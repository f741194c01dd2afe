"""Pass rates that main's record leaves open: a mixing distribution and each case's posterior.

The distribution of pass rates over cases is fitted by maximum likelihood on a fixed grid (Kiefer &
Wolfowitz, Annals of Mathematical Statistics 1956; Laird, JASA 1978), by expectation maximisation.
It keeps the mean failure rate of the suite, however short the record of each case is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, IntArray, tallies

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Logits from -6 to 10 in steps of a quarter, and rates next to 0 and 1.
_LOGITS = np.linspace(-6.0, 10.0, 65)
_NEVER, _ALWAYS = 1e-4, 1 - 1e-6
_ROUNDS = 200
_ROUNDS_OF_RESAMPLED = 60


def pass_rate_grid() -> FloatArray:
    """The pass rates that a case may have."""
    return np.concatenate([[_NEVER], 1 / (1 + np.exp(-_LOGITS)), [_ALWAYS]])


def draw_pass_rates(
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    runs: int,
    rng: np.random.Generator,
    suites: int = 0,
) -> FloatArray:
    """Pass rates of each case, drawn from what its record leaves open.

    Args:
        passes: Passes of main, one per case.
        trials: Trials of main.
        runs: Draws for each suite.
        rng: Of the draws.
        suites: With 0 the distribution is fitted once. Otherwise so many times, with other weights
            of the cases each time (the Bayesian bootstrap: Rubin, Annals of Statistics 1981), and
            each suite's rates stay the same for all its runs: the spread between suites says how
            well the record is known.

    Returns:
        Shape (runs, cases), or (suites * runs, cases), suite by suite.

    Raises:
        ValueError: If there are more passes than trials, or a count is below 0.
    """
    s, m = tallies(passes, trials, of="main")
    records, which, counts = np.unique(
        np.stack([s, m], axis=-1), axis=0, return_inverse=True, return_counts=True
    )
    which = which.reshape(-1)
    grid = pass_rate_grid()
    logs = records[:, :1] * np.log(grid) + (records[:, 1:] - records[:, :1]) * np.log1p(-grid)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    if not suites:
        posterior = _fitted(likelihood, counts / s.size, rounds=_ROUNDS)
        return grid[_chosen(posterior[which], runs, rng)]
    found: list[FloatArray] = []
    for own in rng.dirichlet(np.ones(s.size), suites):
        weights = np.bincount(which, weights=own, minlength=len(records)).astype(np.float64)
        posterior = _fitted(likelihood, weights, rounds=_ROUNDS_OF_RESAMPLED)
        rates = grid[_chosen(posterior[which], 1, rng)]
        found.append(np.repeat(rates, runs, axis=0))
    return np.concatenate(found)


def _fitted(likelihood: FloatArray, weights: FloatArray, *, rounds: int) -> FloatArray:
    """The posterior of each record under the mixing distribution that fits all of them best."""
    mixing = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    posterior = likelihood
    for _ in range(rounds):
        posterior = likelihood * mixing
        posterior /= posterior.sum(axis=1, keepdims=True)
        mixing = weights @ posterior
    return posterior


def _chosen(posterior: FloatArray, runs: int, rng: np.random.Generator) -> IntArray:
    """A place on the grid for each case and run; shape (runs, cases)."""
    steps = np.cumsum(posterior, axis=1)
    found = np.empty((runs, len(posterior)), dtype=np.int64)
    for case, own in enumerate(steps):
        found[:, case] = np.searchsorted(own, rng.random(runs))
    return np.asarray(np.minimum(found, posterior.shape[1] - 1))
