"""Whether a suite as a whole got worse: an exact permutation test within cases."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, IntArray, count_array, tallies, two_arms
from regauge.stats._tails import upper_tails

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from regauge.stats._counts import Direction


def failure_weight(fails: ArrayLike, trials: ArrayLike) -> IntArray:
    """What one failure of a case counts: 3, 2 or 1, the more the less often the case fails.

    3 up to a tenth of all trials, of both arms, 2 up to a fifth, 1 above. It depends on what both
    arms share alone, so permuting trials between them leaves it as it is and the test stays exact.

    >>> failure_weight([0, 2, 3, 13], 13).tolist()
    [3, 2, 1, 1]

    Raises:
        ValueError: If there are more fails than trials, or a count is not whole or below 0.
    """
    failed, drawn = tallies(fails, trials, of="a case (fails)")
    return np.where(10 * failed <= drawn, 3, np.where(5 * failed <= drawn, 2, 1))


def suite_p_value(
    main_passes: ArrayLike,
    main_trials: ArrayLike,
    passes: ArrayLike,
    trials: ArrayLike,
    *,
    direction: Direction = "worse",
    weights: ArrayLike | None = None,
) -> FloatArray:
    """The exact one-sided p-value that the candidate fails more than main.

    A stratum holds trials that are exchangeable between the arms if the prompt changed nothing:
    all trials of a case, or those of a case in one round, where both arms ran side by side. Given
    the fails of a stratum, the candidate's share of them is hypergeometric; the statistic is the
    weighted sum of the candidate's fails, and its distribution is the convolution of these
    (Fisher, "The design of experiments", 1935, for one stratum; Mantel & Haenszel, JNCI 1959, and
    Gart, Biometrika 1970, for several).

    >>> p = suite_p_value([12] * 100, 12, [0] * 4 + [1] * 96, 1)
    >>> bool(np.isclose(p, 13.0**-4))
    True

    Args:
        main_passes: Passes of main, one per stratum on the last axis; axes before it are suites of
            their own.
        main_trials: Trials of main; a stratum with none carries no information.
        passes: Passes of the candidate.
        trials: Trials of the candidate: the same rounds for every case, never more for suspects.
        direction: `better` tests for fewer fails: the same with passes and fails exchanged.
        weights: Weight of a failure in each stratum, whole numbers of at least 1 that depend on
            what both arms share; `failure_weight` of the pooled counts if None, which finds small
            drops spread over stable cases far more often than equal weights.

    Returns:
        Between 0 and 1, in the common shape without the last axis; 1 when nothing can be said.

    Raises:
        ValueError: If a count is negative or not whole, or there are more passes than trials.
    """
    arms = two_arms(main_passes, main_trials, passes, trials)
    s, m, k, r = (np.atleast_1d(arm) for arm in arms)
    if direction == "better":
        s, k = m - s, r - k
    shape = s.shape[:-1]
    rows = (int(np.prod(shape)), s.shape[-1])
    fails, drawn = (r - k).reshape(rows), r.reshape(rows)
    pooled, trials_of_all = (m - s + r - k).reshape(rows), (m + r).reshape(rows)
    weight = failure_weight(pooled, trials_of_all)
    if weights is not None:
        weight = np.broadcast_to(count_array(weights, name="weights"), s.shape).reshape(rows)
    # Where all trials agree, or one arm has none, permuting them changes nothing.
    informs = (pooled > 0) & (pooled < trials_of_all) & (drawn > 0) & (drawn < trials_of_all)
    tables = np.stack([pooled, trials_of_all, drawn, weight], axis=-1)[informs]
    if not tables.size:
        return np.ones(shape)
    distinct, which = np.unique(_packed(tables), return_inverse=True)
    kinds = len(distinct)
    where = np.nonzero(informs)[0] * kinds + which
    parts = np.bincount(where, minlength=rows[0] * kinds).reshape(rows[0], kinds)
    observed = np.sum(np.where(informs, weight * fails, 0), axis=1)
    pmfs, least = _hypergeometric(_unpacked(distinct))
    return upper_tails(pmfs, parts, observed - parts @ least).reshape(shape)


def expected_failures(
    main_passes: ArrayLike, main_trials: ArrayLike, trials: ArrayLike
) -> FloatArray:
    """How many of the candidate's trials would fail at the rate of main's record.

    >>> float(expected_failures([12, 9, 0], 12, 1))
    1.25

    Args:
        main_passes: Passes of main, one per case on the last axis.
        main_trials: Trials of main; a case with none counts nothing.
        trials: Trials of the candidate.

    Returns:
        The sum over the last axis.

    Raises:
        ValueError: As in `suite_p_value`.
    """
    s, m, _, r = two_arms(main_passes, main_trials, 0, trials)
    return np.asarray(np.sum(r * (m - s) / np.maximum(m, 1), axis=-1), dtype=np.float64)


# A stratum has fewer trials than this, and a weight below 1,000.
_TRIALS_MOST = 1 << 17


def _packed(tables: IntArray) -> IntArray:
    """Each row (fails, trials, drawn, weight) as one number: whole rows sort far more slowly."""
    if int(tables[:, 1].max()) >= _TRIALS_MOST:
        raise ValueError(f"a stratum must have fewer than {_TRIALS_MOST:,} trials")
    fails, trials, drawn, weight = tables.T
    return np.asarray(
        ((weight * _TRIALS_MOST + fails) * _TRIALS_MOST + trials) * _TRIALS_MOST + drawn
    )


def _unpacked(packed: IntArray) -> IntArray:
    rest, drawn = np.divmod(packed, _TRIALS_MOST)
    rest, trials = np.divmod(rest, _TRIALS_MOST)
    weight, fails = np.divmod(rest, _TRIALS_MOST)
    return np.stack([fails, trials, drawn, weight], axis=-1)


def _hypergeometric(tables: IntArray) -> tuple[FloatArray, IntArray]:
    """The weighted fails of the candidate for each row (fails, trials of both, drawn, weight).

    Each starts at 0; the fails that the candidate has at least, weighted, are given apart. The
    binomial coefficients are whole numbers, divided once: each probability is as exact as a float
    can be.
    """
    fails, trials, drawn, weight = tables.T
    least = np.maximum(0, drawn - (trials - fails))
    width = int((weight * (np.minimum(fails, drawn) - least)).max()) + 1
    pmfs = np.zeros((tables.shape[0], width))
    for row, (failed, of_both, taken, heavy) in enumerate(tables.tolist()):
        ways = comb(of_both, taken)
        start = max(0, taken - (of_both - failed))
        for j in range(start, min(failed, taken) + 1):
            share = comb(failed, j) * comb(of_both - failed, taken - j) / ways
            pmfs[row, heavy * (j - start)] = share
    return pmfs, np.asarray(weight * least)
