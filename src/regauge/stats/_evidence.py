"""Evidence on single cases: e-values, drift of the base, and the e-BH procedure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._intervals import FloatArray, IntArray, tallies, two_sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from regauge.stats._intervals import BoolArray, Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaComponent:
    """One component of a Beta mixture for a pass probability.

    Attributes:
        weight: Above 0; the weights of one mixture sum to 1.
        passes: The first shape of the Beta distribution, above 0: prior passes.
        fails: The second shape, above 0: prior fails.
    """

    weight: float
    passes: float
    fails: float

    def __post_init__(self) -> None:
        if min(self.weight, self.passes, self.fails) <= 0:
            raise ValueError("the weight and both shapes of a Beta component must be above 0")


# The base mostly passes; a broken candidate mostly fails. Both allow any pass rate.
BASE_MIXTURE: tuple[BetaComponent, ...] = (
    BetaComponent(weight=0.75, passes=20.0, fails=0.2),
    BetaComponent(weight=0.15, passes=3.0, fails=1.0),
    BetaComponent(weight=0.10, passes=1.0, fails=1.0),
)
# Mixtures determine how soon a broken case is seen (benchmarks/gate.py), not the error rate.
CANDIDATE_MIXTURE: tuple[BetaComponent, ...] = (
    BetaComponent(weight=0.55, passes=0.15, fails=2.0),
    BetaComponent(weight=0.45, passes=1.0, fails=1.0),
)


@lru_cache(maxsize=256)  # a simulation reads a few tables thousands of times
def log_rising(start: float, count_max: int) -> FloatArray:
    """Log of start (start+1) ... (start+i-1) for i = 0 to `count_max`; shape (count_max + 1,).

    The Beta function of counts is a quotient of such products, so a table replaces the gamma
    function: no cancellation, and one look-up per check.
    """
    table = np.concatenate(([0.0], np.cumsum(np.log(start + np.arange(count_max)))))
    table.flags.writeable = False
    return table


def log_marginal(passes: IntArray, trials: IntArray, *, shape: tuple[float, float]) -> FloatArray:
    """Log of the Beta-Bernoulli marginal likelihood of trials in their order.

    B(a + passes, b + fails) / B(a, b) for the shape (a, b), without a binomial coefficient
    (Gelman et al., "Bayesian data analysis", section 2.4).
    """
    count_max = int(trials.max(initial=0))
    first, second = shape
    passed = np.take(log_rising(first, count_max), passes)
    failed = np.take(log_rising(second, count_max), trials - passes)
    return np.asarray(passed + failed - np.take(log_rising(first + second, count_max), trials))


def log_e_value(
    base_passes: ArrayLike,
    base_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    direction: Direction = "worse",
    base_mixture: Sequence[BetaComponent] = BASE_MIXTURE,
    candidate_mixture: Sequence[BetaComponent] = CANDIDATE_MIXTURE,
) -> FloatArray:
    """The natural logarithm of the e-value that the candidate passes less often than the base.

    >>> [round(float(e), 3) for e in np.exp(log_e_value(12, 12, 0, [1, 3]))]
    [18.001, 761.765]

    Args:
        base_passes: Passes among the trials of the base, 0 to `base_trials`.
        base_trials: Trials of the base, stored and fresh together.
        passes: Passes among the trials of the candidate, 0 to `trials`.
        trials: All trials of the candidate.
        direction: `better` tests whether the candidate passes more often: the same with passes
            and fails exchanged.
        base_mixture: The prior of the base's pass probability.
        candidate_mixture: The prior of a worse candidate's pass probability.

    Returns:
        One value per check, in the common shape of the four counts; at most 0 without trials of a
        side.

    Raises:
        ValueError: If a count is negative or not whole, if there are more passes than trials, or
            if the shapes do not go together.
    """
    s, m, k, r = two_sides(base_passes, base_trials, passes, trials)
    if direction == "better":
        s, k = m - s, r - k
    return (
        _log_mixture(s, m, base_mixture)
        + _log_mixture(k, r, candidate_mixture)
        - _log_greatest_null_likelihood(s, m, k, r)
    )


def failures_needed(
    base_passes: int, base_trials: int, *, log_bound: float, at_most: int = 200
) -> int | None:
    """The number of failures in a row, from the first trial on, that reach an e-value.

    >>> failures_needed(12, 12, log_bound=float(np.log(100 / 0.05)))
    4

    Args:
        base_passes: Passes among the base's trials.
        base_trials: The base's trials.
        log_bound: The natural logarithm of the e-value that is enough.
        at_most: The maximum number to try.

    Returns:
        None if `at_most` failures are not enough.

    Raises:
        ValueError: As in `log_e_value`.
    """
    failures = np.arange(1, at_most + 1)
    enough = log_e_value(base_passes, base_trials, 0, failures) >= log_bound
    return int(failures[enough][0]) if enough.any() else None


def _log_mixture(x: IntArray, n: IntArray, mixture: Sequence[BetaComponent]) -> FloatArray:
    parts = [
        np.log(part.weight) + log_marginal(x, n, shape=(part.passes, part.fails))
        for part in mixture
    ]
    return np.asarray(np.logaddexp.reduce(parts, axis=0), dtype=np.float64)


def _log_greatest_null_likelihood(s: IntArray, m: IntArray, k: IntArray, r: IntArray) -> FloatArray:
    """The supremum over all pass probabilities of a candidate at least as good as the base.

    The likelihood is concave in each probability. So for a lower pass rate the supremum is on the
    border, where both sides have one probability.
    """
    apart = _log_greatest_likelihood(s, m) + _log_greatest_likelihood(k, r)
    together = _log_greatest_likelihood(s + k, m + r)
    # Multiplied out, so that it is exact, and true for a side without trials.
    return np.where(k * m >= s * r, apart, together)


def _log_greatest_likelihood(x: IntArray, n: IntArray) -> FloatArray:
    """Log of p^x (1-p)^(n-x) at p = x/n; 0 where n is 0."""
    counts = np.arange(int(n.max(initial=0)) + 1, dtype=np.float64)
    entropy = counts * np.log(np.maximum(counts, 1.0))
    most_likely = np.take(entropy, x) + np.take(entropy, n - x) - np.take(entropy, n)
    return np.asarray(most_likely)


def log_drift_ratio(
    fresh: tuple[ArrayLike, ArrayLike],
    *,
    baseline: tuple[ArrayLike, ArrayLike],
    candidate: tuple[ArrayLike, ArrayLike],
) -> FloatArray:
    """The log likelihood ratio of the base's fresh trials: candidate's record against baseline.

    The natural logarithm of the ratio of two posterior predictive probabilities, each after the
    prior Beta(1/2, 1/2) (Jeffreys, "Theory of probability", 1961; the predictive of
    Beta-Bernoulli trials in Bernardo & Smith, "Bayesian theory", 1994).

    >>> drift = log_drift_ratio((0, 5), baseline=(12, 12), candidate=(0, 6))
    >>> bool(drift > np.log(10))
    True

    Args:
        fresh: Passes and trials of the base in this run.
        baseline: Passes and trials of the base before this run.
        candidate: Passes and trials of the candidate.

    Returns:
        Above 0 if the candidate's record predicts the fresh trials better; 0 without fresh
        trials. In the common shape of the counts.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    sides = (
        *tallies(*fresh, side="base in this run"),
        *tallies(*baseline, side="the baseline"),
        *tallies(*candidate, side="the candidate"),
    )
    x, n, s, m, k, r = np.broadcast_arrays(*sides)
    return _log_predictive(x, n, k, r) - _log_predictive(x, n, s, m)


def _log_predictive(x: IntArray, n: IntArray, s: IntArray, m: IntArray) -> FloatArray:
    """Log probability of x passes in n trials, in their order, after `s` of `m` passed."""
    count_max = int((n + m).max(initial=0))
    half, uniform = log_rising(0.5, count_max), log_rising(1.0, count_max)
    passed = np.take(half, s + x) - np.take(half, s)
    failed = np.take(half, m - s + n - x) - np.take(half, m - s)
    return np.asarray(passed + failed - (np.take(uniform, m + n) - np.take(uniform, m)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EBound:
    """The bound of the e-BH procedure, for one family or several.

    Attributes:
        count: K, the number of e-values in the family that reach the bound.
        log_bound: The natural logarithm of the bound; with K = 0 that of the first discovery.
    """

    count: IntArray
    log_bound: FloatArray

    def is_reached(self, log_e: ArrayLike) -> BoolArray:
        """Return whether each e-value reaches the bound, in the shape given to `e_bh`."""
        return np.asarray(log_e, dtype=np.float64) >= self.log_bound[..., np.newaxis]


def e_bh(log_e: ArrayLike, *, alpha: float, checks: ArrayLike | None = None) -> EBound:
    """The bound of the e-BH procedure, which holds under any dependence between the checks.

    K is the largest number such that the K-th largest e-value is at least n/(K alpha).
    (Wang & Ramdas, "False discovery rate control with e-values", JRSS B 2022.)

    >>> bound = e_bh(np.log([5000.0, 900.0, 1.0]), alpha=0.05, checks=100)
    >>> int(bound.count), round(float(np.exp(bound.log_bound)))
    (1, 2000)

    Args:
        log_e: Natural logarithms of e-values, one family along the last axis. An untested check is
            -inf.
        alpha: The false discovery rate, above 0 and at most 1.
        checks: n, the size of each family; None for the number of checks given. It may exclude
            checks at -inf.

    Returns:
        Count and bound for each family, in the shape of `log_e` without its last axis.

    Raises:
        ValueError: If `alpha` is out of range, a value is NaN, or `checks` is less than the checks
            given.
    """
    _check_rate(alpha)
    largest_first = -np.sort(-np.atleast_1d(np.asarray(log_e, dtype=np.float64)), axis=-1)
    if np.isnan(largest_first).any():
        raise ValueError("an e-value is NaN")
    checks_given = largest_first.shape[-1]
    family = np.broadcast_to(checks_given if checks is None else checks, largest_first.shape[:-1])
    tested = np.count_nonzero(largest_first > -np.inf, axis=-1)
    if np.any(family < tested):
        raise ValueError(f"a family of {family.min()} checks cannot have {tested.max()} e-values")
    sizes = np.maximum(family, 1)
    ranks: IntArray = np.arange(1, checks_given + 1, dtype=np.int64)
    reaches = largest_first >= np.log(sizes[..., np.newaxis] / (ranks * alpha))
    count = np.max(np.where(reaches, ranks, 0), axis=-1, initial=0).astype(np.int64)
    log_bound = np.asarray(np.log(sizes / (np.maximum(count, 1) * alpha)))
    return EBound(count=count, log_bound=log_bound)


def _check_rate(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must be above 0 and at most 1, not {alpha!r}")


# Logits from -6 to 10 in steps of a quarter, and rates next to 0 and 1.
_LOGITS = np.linspace(-6.0, 10.0, 65)
_NEVER, _ALWAYS = 1e-4, 1 - 1e-6
_ROUNDS = 200
_ROUNDS_OF_RESAMPLED = 60


def pass_rate_grid() -> FloatArray:
    """The grid of possible pass rates of a case."""
    return np.concatenate([[_NEVER], 1 / (1 + np.exp(-_LOGITS)), [_ALWAYS]])


def draw_pass_rates(
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    runs: int,
    rng: np.random.Generator,
    suites: int = 0,
) -> FloatArray:
    """Draw pass rates of each case from their posterior.

    Args:
        passes: Passes of the base, one per case.
        trials: Trials of the base.
        runs: Draws for each suite.
        rng: The random generator.
        suites: With 0 the distribution is fitted once. Otherwise it is fitted this number of
            times, with random weights of the cases (the Bayesian bootstrap: Rubin, Annals of
            Statistics 1981). Each suite's rates are the same in all its runs, so the spread
            between suites shows the uncertainty of the baseline.

    Returns:
        Shape (runs, cases), or (suites * runs, cases), suite by suite.

    Raises:
        ValueError: If there are more passes than trials, or a count is below 0.
    """
    s, m = tallies(passes, trials, side="base")
    records, which, counts = np.unique(
        np.stack([s, m], axis=-1), axis=0, return_inverse=True, return_counts=True
    )
    which = which.reshape(-1)
    grid = pass_rate_grid()
    logs = records[:, :1] * np.log(grid) + (records[:, 1:] - records[:, :1]) * np.log1p(-grid)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    if not suites:
        posterior = _fit(likelihood, counts / s.size, rounds=_ROUNDS)
        return grid[_draw_places(posterior[which], runs, rng)]
    float_arrays: list[FloatArray] = []
    for case_weights in rng.dirichlet(np.ones(s.size), suites):
        weights = np.bincount(which, weights=case_weights, minlength=len(records)).astype(
            np.float64
        )
        posterior = _fit(likelihood, weights, rounds=_ROUNDS_OF_RESAMPLED)
        rates = grid[_draw_places(posterior[which], 1, rng)]
        float_arrays.append(np.repeat(rates, runs, axis=0))
    return np.concatenate(float_arrays)


def _fit(likelihood: FloatArray, weights: FloatArray, *, rounds: int) -> FloatArray:
    """The posterior of each record under the best mixing distribution of all records."""
    mixing = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    posterior = likelihood
    for _ in range(rounds):
        posterior = likelihood * mixing
        posterior /= posterior.sum(axis=1, keepdims=True)
        mixing = weights @ posterior
    return posterior


def _draw_places(posterior: FloatArray, runs: int, rng: np.random.Generator) -> IntArray:
    """Draw an index of the grid for each case and run; shape (runs, cases)."""
    cumulatives = np.cumsum(posterior, axis=1)
    places = np.empty((runs, len(posterior)), dtype=np.int64)
    for case, cumulative in enumerate(cumulatives):
        places[:, case] = np.searchsorted(cumulative, rng.random(runs))
    return np.asarray(np.minimum(places, posterior.shape[1] - 1))
