"""Main and candidate drawn side by side, without any history."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from regauge.stats._counts import FloatArray, count_array
from regauge.stats._tails import upper_tails

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from regauge.stats._counts import Direction


def sign_flip_p_value(
    main_passes: ArrayLike, passes: ArrayLike, *, direction: Direction = "worse"
) -> FloatArray:
    """The exact one-sided p-value that the candidate passes less than main, case by case paired.

    If the arms are alike, the difference of a case is as likely to have the one sign as the
    other, so the sum of the differences has a distribution known exactly: all assignments of
    signs, counted by convolution (Fisher, "The design of experiments", 1935; Pitman, JRSS
    Supplement 1937). With one trial for each arm it is McNemar's exact test.

    >>> float(sign_flip_p_value([3, 3, 3, 2], [0, 1, 3, 2]))
    0.25

    Args:
        main_passes: Passes of main in fresh trials, one per case on the last axis; axes before it
            are suites of their own.
        passes: Passes of the candidate in as many trials of the same case.
        direction: `better` asks whether the candidate passes more.

    Returns:
        Between 0 and 1, in the common shape without the last axis; 1 when no case differs.

    Raises:
        ValueError: If a count is negative or not whole, or the shapes do not go together.
    """
    ours, theirs = np.broadcast_arrays(
        count_array(main_passes, name="passes of main"),
        count_array(passes, name="passes of the candidate"),
    )
    loss = np.atleast_1d(ours - theirs if direction == "worse" else theirs - ours)
    shape = loss.shape[:-1]
    rows = loss.reshape(int(np.prod(shape)), loss.shape[-1])
    sizes = np.abs(rows)
    largest = int(sizes.max(initial=0))
    # Half of the sum of signed sizes, shifted to start at 0: each part is 0 or its size.
    pmfs = np.zeros((largest, largest + 1))
    pmfs[:, 0] = 0.5
    pmfs[np.arange(largest), np.arange(1, largest + 1)] = 0.5
    if not largest:
        return np.ones(shape)
    observed = np.sum(np.maximum(rows, 0), axis=1)
    return upper_tails(pmfs, sizes - 1, observed).reshape(shape)


def sign_test_p_value(worse: int, better: int) -> float:
    """The exact one-sided p-value that more cases got worse than better.

    P(X >= worse) for X binomial of worse + better fair coins (Arbuthnott 1710; Dixon & Mood,
    JASA 1946).

    >>> sign_test_p_value(5, 0)
    0.03125

    Raises:
        ValueError: If a count is below 0.
    """
    if min(worse, better) < 0:
        raise ValueError(f"counts of cases must be 0 or more, not {worse} and {better}")
    changed = worse + better
    ways = sum(comb(changed, count) for count in range(worse, changed + 1))
    return float(Fraction(ways, 1 << changed))
