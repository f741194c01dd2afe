"""Permutation tests within cases: for suites, scores, verdict variance and recordings."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from regauge.stats._intervals import (
    FloatArray,
    IntArray,
    count_array,
    tallies,
    two_sides,
    upper_tails,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from regauge.stats._intervals import Direction


def failure_weight(fails: ArrayLike, trials: ArrayLike) -> IntArray:
    """The weight of one failure of a case: 3, 2 or 1, larger for rarer failures.

    3 up to a tenth of all trials of both sides, 2 up to a fifth, 1 above. It depends on pooled
    counts only, so permuting trials between the sides does not change it and the test stays exact.

    >>> failure_weight([0, 2, 3, 13], 13).tolist()
    [3, 2, 1, 1]

    Raises:
        ValueError: If there are more fails than trials, or a count is not whole or below 0.
    """
    failed, trial_counts = tallies(fails, trials, side="a case (fails)")
    return np.where(10 * failed <= trial_counts, 3, np.where(5 * failed <= trial_counts, 2, 1))


def suite_p_value(
    base_passes: ArrayLike,
    base_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    direction: Direction = "worse",
    weights: ArrayLike | None = None,
) -> FloatArray:
    """The exact one-sided p-value that the candidate fails more than the base.

    A stratum is a set of trials that are exchangeable if the change has no effect: all trials of a
    case, or those in one round if both sides ran side by side. Given the fails of a stratum, the
    candidate's share is hypergeometric. The statistic is the weighted sum of the candidate's
    fails; its distribution is their convolution. (Fisher, "The design of experiments", 1935, for
    one stratum; Mantel & Haenszel, JNCI 1959, and Gart, Biometrika 1970, for several.)

    >>> p = suite_p_value([12] * 100, 12, [0] * 4 + [1] * 96, 1)
    >>> bool(np.isclose(p, 13.0**-4))
    True

    Args:
        base_passes: Passes of base, one per stratum on the last axis; other axes are suites.
        base_trials: Trials of the base; a stratum with none carries no information.
        passes: Passes of the candidate.
        trials: Trials of the candidate: the same rounds for every case, never more for suspects.
        direction: `better` tests for fewer fails: the same with passes and fails exchanged.
        weights: Weight of a failure in each stratum, whole numbers of at least 1 that depend on
            pooled counts; `failure_weight` if None, which finds small drops in many stable cases
            far more often than equal weights.

    Returns:
        Between 0 and 1, in the common shape without the last axis; 1 without information.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    sides = two_sides(base_passes, base_trials, passes, trials)
    s, m, k, r = (np.atleast_1d(side) for side in sides)
    if direction == "better":
        s, k = m - s, r - k
    shape = s.shape[:-1]
    rows = (int(np.prod(shape)), s.shape[-1])
    fails, sample = (r - k).reshape(rows), r.reshape(rows)
    pooled, trials_of_all = (m - s + r - k).reshape(rows), (m + r).reshape(rows)
    weight = failure_weight(pooled, trials_of_all)
    if weights is not None:
        weight = np.broadcast_to(count_array(weights, name="weights"), s.shape).reshape(rows)
    # If all trials agree, or one side has none, permuting them changes nothing.
    informative = (pooled > 0) & (pooled < trials_of_all) & (sample > 0) & (sample < trials_of_all)
    tables = np.stack([pooled, trials_of_all, sample, weight], axis=-1)[informative]
    if not tables.size:
        return np.ones(shape)
    distinct, which = np.unique(_pack(tables), return_inverse=True)
    kinds = len(distinct)
    bins = np.nonzero(informative)[0] * kinds + which
    parts = np.bincount(bins, minlength=rows[0] * kinds).reshape(rows[0], kinds)
    statistic = np.sum(np.where(informative, weight * fails, 0), axis=1)
    pmfs, least = _hypergeometric(_unpack(distinct))
    return upper_tails(pmfs, parts, statistic - parts @ least).reshape(shape)


def expected_failures(
    base_passes: ArrayLike, base_trials: ArrayLike, trials: ArrayLike
) -> FloatArray:
    """The expected fails of the candidate at the base's fail rate.

    >>> float(expected_failures([12, 9, 0], 12, 1))
    1.25

    Args:
        base_passes: Passes of the base, one per case on the last axis.
        base_trials: Trials of the base; a case with none is ignored.
        trials: Trials of the candidate.

    Returns:
        The sum over the last axis.

    Raises:
        ValueError: As in `suite_p_value`.
    """
    s, m, _, r = two_sides(base_passes, base_trials, 0, trials)
    return np.asarray(np.sum(r * (m - s) / np.maximum(m, 1), axis=-1), dtype=np.float64)


# A stratum has fewer trials than this, and a weight below 1,000.
_TRIALS_MOST = 1 << 17


def _pack(tables: IntArray) -> IntArray:
    """Pack each row (fails, trials, sample, weight) into one number, which sorts far faster."""
    if int(tables[:, 1].max()) >= _TRIALS_MOST:
        raise ValueError(f"a stratum must have fewer than {_TRIALS_MOST:,} trials")
    fails, trials, sample, weight = tables.T
    return np.asarray(
        ((weight * _TRIALS_MOST + fails) * _TRIALS_MOST + trials) * _TRIALS_MOST + sample
    )


def _unpack(packed: IntArray) -> IntArray:
    rest, sample = np.divmod(packed, _TRIALS_MOST)
    rest, trials = np.divmod(rest, _TRIALS_MOST)
    weight, fails = np.divmod(rest, _TRIALS_MOST)
    return np.stack([fails, trials, sample, weight], axis=-1)


def _hypergeometric(tables: IntArray) -> tuple[FloatArray, IntArray]:
    """The distribution of the candidate's weighted fails by row (fails, trials, sample, weight).

    Each starts at 0; the minimum of the weighted fails is returned separately. The binomial
    coefficients are whole numbers, divided once, so each probability is exact to a float.
    """
    fails, trials, sample, weight = tables.T
    least = np.maximum(0, sample - (trials - fails))
    width = int((weight * (np.minimum(fails, sample) - least)).max()) + 1
    pmfs = np.zeros((tables.shape[0], width))
    for row, (failed, pooled_count, sample_size, heavy) in enumerate(tables.tolist()):
        ways = comb(pooled_count, sample_size)
        start = max(0, sample_size - (pooled_count - failed))
        for j in range(start, min(failed, sample_size) + 1):
            share = comb(failed, j) * comb(pooled_count - failed, sample_size - j) / ways
            pmfs[row, heavy * (j - start)] = share
    return pmfs, np.asarray(weight * least)


# Keeps a case whose scores hardly vary from deciding alone; in units of the score.
SPREAD_FLOOR = 0.02
# Up to this number all choices of the candidate's trials are enumerated, then sampled.
_CHOICES_LISTED = 5_000


def score_p_value(
    base: Sequence[ArrayLike],
    candidate: Sequence[ArrayLike],
    *,
    seed: int,
    direction: Direction = "worse",
    permutations: int = 10_000,
    min_effect: float = 0.0,
) -> float:
    """The one-sided p-value that the candidate's scores are lower than the base's.

    The statistic is a sum over cases: the candidate's mean score, divided by the standard
    deviation of the case's scores plus 0.02. Scores are permuted between the sides within each
    case (Pitman, JRSS Supplement 1937). The observed arrangement counts as one of those drawn, so
    the p-value is valid for any number of permutations (Phipson & Smyth, SAGMB 2010).

    >>> score_p_value([[0.9, 0.8, 0.9]] * 8, [[0.2]] * 8, seed=1, permutations=999)
    0.001

    Args:
        base: The base's scores of each case, between 0 and 1; cases may differ in number.
        candidate: The candidate's scores of each case, in the same order.
        seed: The random seed, at least 0; one seed gives one p-value.
        direction: `better` tests for higher scores.
        permutations: The number of drawn permutations, at least 1; the p-value is at least
            1/(permutations + 1).
        min_effect: The ignored difference in score, at least 0; it is added to the candidate's
            scores first.

    Returns:
        Above 0 and at most 1; 1 if no case has differing scores from both sides.

    Raises:
        ValueError: If the sides have different numbers of cases, a score is not a number from 0 to
            1, or an option is out of range.
    """
    if len(base) != len(candidate):
        raise ValueError(f"base has scores of {len(base)} cases, the candidate of {len(candidate)}")
    if permutations < 1 or min_effect < 0:
        raise ValueError("permutations must be at least 1 and min_effect at least 0")
    rng = np.random.default_rng(seed)
    seen = 0.0
    permuted = np.zeros(permutations)
    for before, after in zip(base, candidate, strict=True):
        old, new = _scores(before), _scores(after)
        if direction == "better":
            old, new = 1 - old, 1 - new
        pooled = np.concatenate([old, new + min_effect])
        if not old.size or not new.size or np.ptp(pooled) == 0:
            continue
        size = new.size
        scaled = pooled / (size * (float(np.std(pooled)) + SPREAD_FLOOR))
        seen += float(np.sum(scaled[old.size :]))
        permuted += _sums_of_choices(scaled, size, permutations, rng)
    # Sums in another order differ in their last digits; a tie must count as one.
    tie = 1e-9 * max(1.0, abs(seen))
    as_low = int(np.count_nonzero(permuted <= seen + tie))
    return (1 + as_low) / (1 + permutations)


def _sums_of_choices(
    values: FloatArray, size: int, times: int, rng: np.random.Generator
) -> FloatArray:
    """Sums of `size` of the values, chosen at random without replacement; shape (times,)."""
    if comb(values.size, size) <= _CHOICES_LISTED:
        choices: IntArray = np.array(list(combinations(range(values.size), size)), dtype=np.int64)
        sums = values[choices].sum(axis=1)
        return np.take(sums, rng.integers(0, sums.size, times))
    order = np.argsort(rng.random((times, values.size)), axis=1)
    return np.asarray(values[order[:, :size]].sum(axis=1), dtype=np.float64)


def _scores(values: ArrayLike) -> FloatArray:
    scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if scores.ndim != 1 or not np.all((scores >= 0) & (scores <= 1)):
        raise ValueError(f"scores of a case must be a list of numbers from 0 to 1, not {values!r}")
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    """One step of an audit.

    Attributes:
        passed: The share of recorded passes that is repeated, earlier steps included.
        failed: The same for recorded failures.
        level: The maximum p-value at which the recordings count as better than fresh trials.
        further: The maximum p-value that starts the next step.
    """

    passed: Fraction
    failed: Fraction
    level: float
    further: float = 0.0

    def shares(self, recorded: int, *, least: int = 20) -> tuple[Fraction, Fraction]:
        """The shares for a number of recorded trials, with at least `least` repeated.

        >>> AUDIT_STEPS[0].shares(40)
        (Fraction(1, 2), Fraction(3, 5))
        """
        passed = max(self.passed, min(Fraction(1), Fraction(least, max(recorded, 1))))
        return passed, max(self.failed, passed)


FULL_AUDIT: Final = (AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.01),)
"""Every recorded trial is compared with a fresh one."""

AUDIT_STEPS: Final = (
    AuditStep(passed=Fraction(1, 10), failed=Fraction(3, 5), level=0.003, further=0.20),
    AuditStep(passed=Fraction(2, 5), failed=Fraction(1), level=0.003, further=0.20),
    AuditStep(passed=Fraction(1), failed=Fraction(1), level=0.004),
)
"""Few recorded trials are repeated, and more after a small p-value. The levels sum to 1 %."""


def audit_p_value(
    better: int,
    worse: int,
    *,
    passed: Fraction = Fraction(1),
    failed: Fraction = Fraction(1),
) -> float:
    """The exact one-sided p-value that recorded trials pass more often than fresh ones.

    Without selection a recorded and a fresh trial of the same request are exchangeable. So in a
    pair that differs, each of them is equally likely to be the pass; repeating passes and failures
    in different shares shifts the odds by their ratio.

    >>> audit_p_value(8, 0), audit_p_value(0, 3)
    (0.00390625, 1.0)
    >>> round(audit_p_value(4, 1, passed=Fraction(1, 10), failed=Fraction(3, 5)), 5)
    0.00184

    Args:
        better: Pairs whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        passed: The share of recorded passes that was repeated.
        failed: The share of recorded failures that was repeated.
    """
    trials = better + worse
    rate = passed / (passed + failed)
    tail = sum(
        comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(better, trials + 1)
    )
    return float(tail) if better else 1.0
