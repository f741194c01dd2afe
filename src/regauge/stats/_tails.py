"""Exact tails of sums of independent whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from regauge.stats._counts import FloatArray, IntArray


def upper_tails(pmfs: FloatArray, kinds: IntArray, observed: IntArray) -> FloatArray:
    """P(sum of the parts >= observed), by convolution; the parts are independent.

    Every term is positive, so small tails keep their relative precision.

    Args:
        pmfs: Shape (kinds, width): the probability of 0, 1, ... width-1 for each kind of part.
        kinds: Shape (rows, parts): the kind of each part of each sum, or -1 for a part that is 0.
        observed: Shape (rows,).

    Returns:
        Shape (rows,), between 0 and 1.
    """
    width = pmfs.shape[1]
    longest = np.max(np.where(pmfs > 0, np.arange(width, dtype=np.int64), 0), axis=1, initial=0)
    with_nothing = np.vstack([pmfs, np.eye(1, width)])
    reach = np.append(longest, 0)
    size = int(reach[kinds].sum(axis=1).max(initial=0)) + 1
    # Parts that are 0 go to the end, where whole columns of them cost nothing.
    ordered = np.take_along_axis(kinds, np.argsort(kinds < 0, axis=1, kind="stable"), axis=1)
    total = np.zeros((kinds.shape[0], size))
    total[:, 0] = 1.0
    for column in ordered.T:
        if not np.any(column >= 0):
            break
        part = with_nothing[column]
        after = part[:, :1] * total
        for step in range(1, min(size, int(reach[column].max()) + 1)):
            if np.any(part[:, step]):
                after[:, step:] += part[:, step : step + 1] * total[:, : size - step]
        total = after
    # Summed from the far end, the smallest first.
    tails = np.cumsum(total[:, ::-1], axis=1)[:, ::-1]
    padded = np.concatenate([tails, np.zeros((tails.shape[0], 1))], axis=1)
    found: FloatArray = padded[np.arange(padded.shape[0]), np.clip(observed, 0, size)]
    return np.minimum(found, 1.0)
