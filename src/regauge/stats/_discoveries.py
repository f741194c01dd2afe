"""Which of many tests may be believed at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from regauge.stats._counts import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EBound:
    """How large an e-value must be to count, in one family or in several.

    Attributes:
        count: K, how many e-values of the family reach the bound; 0 when none does.
        log_bound: The natural logarithm of the bound; with K = 0 that of the first discovery.
    """

    count: IntArray
    log_bound: FloatArray

    def reached(self, log_e: ArrayLike) -> BoolArray:
        """Which of the e-values, in the shape given to `e_bh`, reach the bound."""
        return np.asarray(log_e, dtype=np.float64) >= self.log_bound[..., np.newaxis]


def e_bh(log_e: ArrayLike, *, alpha: float, cells: ArrayLike | None = None) -> EBound:
    """The bound of the e-BH procedure, which holds under any dependence between the cells.

    K is the largest number such that the K-th largest e-value is at least n/(K alpha) (Wang &
    Ramdas, "False discovery rate control with e-values", JRSS B 2022).

    >>> bound = e_bh(np.log([5000.0, 900.0, 1.0]), alpha=0.05, cells=100)
    >>> int(bound.count), round(float(np.exp(bound.log_bound)))
    (1, 2000)

    Args:
        log_e: Natural logarithms of e-values; the last axis is the family, axes before it are
            families of their own. A cell that was not tested is -inf.
        alpha: The false discovery rate, above 0 and at most 1.
        cells: n, the size of each family, where it is not the number of cells given here; cells at
            -inf may be left out of it.

    Returns:
        Count and bound for each family, in the shape of `log_e` without its last axis.

    Raises:
        ValueError: If `alpha` is out of range, a value is NaN, or `cells` is less than the cells
            given.
    """
    _check_rate(alpha)
    largest_first = -np.sort(-np.atleast_1d(np.asarray(log_e, dtype=np.float64)), axis=-1)
    if np.isnan(largest_first).any():
        raise ValueError("an e-value is NaN")
    given = largest_first.shape[-1]
    family = np.broadcast_to(given if cells is None else cells, largest_first.shape[:-1])
    tested = np.count_nonzero(largest_first > -np.inf, axis=-1)
    if np.any(family < tested):
        raise ValueError(f"a family of {family.min()} cells cannot have {tested.max()} e-values")
    sizes = np.maximum(family, 1)
    ranks: IntArray = np.arange(1, given + 1, dtype=np.int64)
    reaches = largest_first >= np.log(sizes[..., np.newaxis] / (ranks * alpha))
    count = np.max(np.where(reaches, ranks, 0), axis=-1, initial=0).astype(np.int64)
    log_bound = np.asarray(np.log(sizes / (np.maximum(count, 1) * alpha)))
    return EBound(count=count, log_bound=log_bound)


def benjamini_hochberg(p_values: ArrayLike, *, alpha: float) -> BoolArray:
    """Which p-values are discoveries at a false discovery rate of `alpha`.

    For independent or positively dependent tests (Benjamini & Hochberg, JRSS B 1995; Benjamini &
    Yekutieli, Annals of Statistics 2001).

    Args:
        p_values: Between 0 and 1, one axis.
        alpha: Above 0 and at most 1.

    Raises:
        ValueError: If a value is out of range.
    """
    _check_rate(alpha)
    p = np.asarray(p_values, dtype=np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError("a p-value is outside 0 to 1")
    ranks = np.arange(1, p.size + 1)
    smallest_first = np.sort(p)
    kept = smallest_first[smallest_first <= alpha * ranks / max(p.size, 1)]
    return p <= kept[-1] if kept.size else np.zeros(p.shape, dtype=np.bool_)


def _check_rate(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must be above 0 and at most 1, not {alpha!r}")
