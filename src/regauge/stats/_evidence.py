"""Evidence against "the candidate passes this case at least as often as main".

The e-value is that of universal inference (Wasserman, Ramdas & Balakrishnan, "Universal
inference", PNAS 2020) with Beta mixtures as the alternative: the marginal likelihood of all
trials, divided by the greatest likelihood that the null hypothesis can give them. The numerator
over the likelihood of any one null is a test martingale (Ville 1939; Robbins 1970, method of
mixtures), and the divisor is at least that likelihood, so E[e] <= 1 for whatever rule stops the
drawing. The mixtures decide how fast evidence grows, never whether it is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, IntArray, two_arms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from regauge.stats._counts import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaComponent:
    """One part of a mixture of Beta distributions of a pass probability.

    Attributes:
        weight: Above 0; the weights of one mixture sum to 1.
        passes: The first shape of the Beta distribution, above 0: passes seen beforehand.
        fails: The second shape, above 0.
    """

    weight: float
    passes: float
    fails: float

    def __post_init__(self) -> None:
        if min(self.weight, self.passes, self.fails) <= 0:
            raise ValueError("the weight and both shapes of a Beta component must be above 0")


# Main mostly passes; a candidate worth naming mostly fails. Both leave room for anything.
MAIN_MIXTURE: tuple[BetaComponent, ...] = (
    BetaComponent(weight=0.75, passes=20.0, fails=0.2),
    BetaComponent(weight=0.15, passes=3.0, fails=1.0),
    BetaComponent(weight=0.10, passes=1.0, fails=1.0),
)
CANDIDATE_MIXTURE: tuple[BetaComponent, ...] = (
    BetaComponent(weight=0.55, passes=0.15, fails=2.0),
    BetaComponent(weight=0.45, passes=1.0, fails=1.0),
)


def log_rising(start: float, most: int) -> FloatArray:
    """Log of start (start+1) ... (start+i-1) for i = 0 to `most`; shape (most + 1,).

    The Beta function of counts is a quotient of such products, so a table of them stands in for
    the gamma function: no cancellation, and one look-up per cell.
    """
    return np.concatenate(([0.0], np.cumsum(np.log(start + np.arange(most)))))


def log_marginal(passes: IntArray, trials: IntArray, *, shape: tuple[float, float]) -> FloatArray:
    """Log of the Beta-Bernoulli marginal likelihood of a sequence of trials, in its order.

    B(a + passes, b + fails) / B(a, b) for the shape (a, b), without a binomial coefficient
    (Gelman et al., "Bayesian data analysis", section 2.4).
    """
    most = int(trials.max(initial=0))
    first, second = shape
    passed = np.take(log_rising(first, most), passes)
    failed = np.take(log_rising(second, most), trials - passes)
    return np.asarray(passed + failed - np.take(log_rising(first + second, most), trials))


def log_e_value(
    main_passes: ArrayLike,
    main_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    direction: Direction = "worse",
    main_mixture: Sequence[BetaComponent] = MAIN_MIXTURE,
    candidate_mixture: Sequence[BetaComponent] = CANDIDATE_MIXTURE,
) -> FloatArray:
    """The natural logarithm of the e-value that the candidate passes less often than main.

    >>> [round(float(e), 3) for e in np.exp(log_e_value(12, 12, 0, [1, 3]))]
    [18.001, 761.765]

    Args:
        main_passes: Passes among the trials of main, 0 to `main_trials`.
        main_trials: Trials of main that count, stored ones and fresh ones together.
        passes: Passes among the trials of the candidate, 0 to `trials`.
        trials: Trials of the candidate, all of them.
        direction: `better` asks whether the candidate passes more often: the same with passes
            and fails exchanged.
        main_mixture: What main's pass probability may be.
        candidate_mixture: What the candidate's may be if it is worse.

    Returns:
        One value per cell, in the common shape of the four counts; with no trials of an arm it is
        at most 0.

    Raises:
        ValueError: If a count is negative or not whole, if there are more passes than trials, or
            if the shapes do not go together.
    """
    s, m, k, r = two_arms(main_passes, main_trials, passes, trials)
    if direction == "better":
        s, k = m - s, r - k
    return (
        _log_mixture(s, m, main_mixture)
        + _log_mixture(k, r, candidate_mixture)
        - _log_greatest_null_likelihood(s, m, k, r)
    )


def failures_needed(
    main_passes: int, main_trials: int, *, log_bound: float, at_most: int = 200
) -> int | None:
    """How many failures in a row, from the first trial on, bring the e-value to a bound.

    >>> failures_needed(12, 12, log_bound=float(np.log(100 / 0.05)))
    4

    Args:
        main_passes: Passes among main's trials.
        main_trials: Main's trials.
        log_bound: The natural logarithm of the e-value that is enough.
        at_most: Where to stop looking.

    Returns:
        None if `at_most` failures are not enough.

    Raises:
        ValueError: As in `log_e_value`.
    """
    failures = np.arange(1, at_most + 1)
    enough = log_e_value(main_passes, main_trials, 0, failures) >= log_bound
    return int(failures[enough][0]) if enough.any() else None


def _log_mixture(x: IntArray, n: IntArray, mixture: Sequence[BetaComponent]) -> FloatArray:
    parts = [
        np.log(part.weight) + log_marginal(x, n, shape=(part.passes, part.fails))
        for part in mixture
    ]
    return np.asarray(np.logaddexp.reduce(parts, axis=0), dtype=np.float64)


def _log_greatest_null_likelihood(s: IntArray, m: IntArray, k: IntArray, r: IntArray) -> FloatArray:
    """The supremum over all pass probabilities of a candidate at least as good as main.

    The likelihood is concave in each probability, so a candidate with a lower pass rate is most
    likely on the border, where both arms have one probability.
    """
    apart = _log_greatest_likelihood(s, m) + _log_greatest_likelihood(k, r)
    together = _log_greatest_likelihood(s + k, m + r)
    # Multiplied out, so that it is exact, and true for an arm without trials.
    return np.where(k * m >= s * r, apart, together)


def _log_greatest_likelihood(x: IntArray, n: IntArray) -> FloatArray:
    """Log of p^x (1-p)^(n-x) at p = x/n; 0 where n is 0."""
    counts = np.arange(int(n.max(initial=0)) + 1, dtype=np.float64)
    entropy = counts * np.log(np.maximum(counts, 1.0))
    most_likely = np.take(entropy, x) + np.take(entropy, n - x) - np.take(entropy, n)
    return np.asarray(most_likely)
