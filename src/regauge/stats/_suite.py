"""Whether a suite as a whole got worse: an exact permutation test within cases."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, IntArray, tallies, two_arms
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
    weighted: bool = True,
) -> FloatArray:
    """The exact one-sided p-value that the candidate fails more than main.

    With an unchanged prompt the candidate's trials of a case are exchangeable with main's, so
    the fails among them are hypergeometric, case by case; the statistic is the weighted sum of
    the candidate's fails, and its distribution is the convolution of these (Fisher, "The design
    of experiments", 1935, for one case; Mantel & Haenszel, JNCI 1959, and Gart, Biometrika 1970,
    for strata).

    >>> p = suite_p_value([12] * 100, 12, [0] * 4 + [1] * 96, 1)
    >>> bool(np.isclose(p, 13.0**-4))
    True

    Args:
        main_passes: Passes of main, one per case on the last axis; axes before it are suites of
            their own.
        main_trials: Trials of main, stored ones; a case with none says nothing.
        passes: Passes of the candidate.
        trials: Trials of the candidate: the same rounds for every case, never more for suspects.
        direction: `better` asks whether the candidate fails less: the same with passes and fails
            exchanged.
        weighted: Whether a failure of a case that hardly ever fails counts more, by
            `failure_weight`. It finds small drops spread over stable cases far more often.

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
    fails = (r - k).reshape(rows)
    pooled = (m - s + r - k).reshape(rows)
    drawn, trials_of_all = r.reshape(rows), (m + r).reshape(rows)
    weight = failure_weight(pooled, trials_of_all) if weighted else np.ones_like(pooled)
    # Where all trials agree, or one arm has none, permuting them changes nothing.
    open_cells = (pooled > 0) & (pooled < trials_of_all) & (drawn > 0) & (drawn < trials_of_all)
    tables = np.stack([pooled, trials_of_all, drawn, weight], axis=-1)[open_cells]
    kinds = np.full(rows, -1, dtype=np.int64)
    if not tables.size:
        return np.ones(shape)
    distinct, which = np.unique(tables, axis=0, return_inverse=True)
    kinds[open_cells] = which.reshape(-1)
    observed = np.sum(np.where(open_cells, weight * fails, 0), axis=1)
    return upper_tails(_hypergeometric(distinct), kinds, observed).reshape(shape)


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


def _hypergeometric(tables: IntArray) -> FloatArray:
    """The weighted fails of the candidate for each row (fails, trials of both, drawn, weight).

    The binomial coefficients are whole numbers, divided once: each probability is as exact as a
    float can be.
    """
    width = int((tables[:, 3] * np.minimum(tables[:, 0], tables[:, 2])).max()) + 1
    pmfs = np.zeros((tables.shape[0], width))
    for row, (fails, trials, drawn, weight) in enumerate(tables.tolist()):
        ways = comb(trials, drawn)
        for j in range(max(0, drawn - (trials - fails)), min(fails, drawn) + 1):
            pmfs[row, weight * j] = comb(fails, j) * comb(trials - fails, drawn - j) / ways
    return pmfs
