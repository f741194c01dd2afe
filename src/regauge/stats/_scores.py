"""Whether scores between 0 and 1 got lower: a permutation test within cases."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from regauge.stats._counts import Direction, FloatArray, IntArray

# Keeps a case whose scores hardly vary from deciding alone; in units of the score.
SPREAD_FLOOR = 0.02
# Up to here all choices of the candidate's trials are listed once, and then drawn from.
_CHOICES_LISTED = 5_000


def score_p_value(
    main: Sequence[ArrayLike],
    candidate: Sequence[ArrayLike],
    *,
    seed: int,
    direction: Direction = "worse",
    permutations: int = 10_000,
    min_effect: float = 0.0,
) -> float:
    """The one-sided p-value that the candidate's scores are lower than main's.

    The statistic is the sum over cases of the candidate's mean score divided by the standard
    deviation of all scores of the case plus 0.02. Scores are permuted between the arms within
    each case (Pitman, JRSS Supplement 1937); the arrangement seen counts as one of those drawn,
    so the p-value is valid for any number of permutations (Phipson & Smyth, SAGMB 2010).

    >>> score_p_value([[0.9, 0.8, 0.9]] * 8, [[0.2]] * 8, seed=1, permutations=999)
    0.001

    Args:
        main: For each case, the scores of main between 0 and 1; cases may differ in number.
        candidate: For each case of `main`, in its order, the scores of the candidate.
        seed: Of the permutations; one seed gives one p-value. At least 0.
        direction: `better` asks whether the scores are higher.
        permutations: How many are drawn, at least 1; no p-value is below 1/(permutations + 1).
        min_effect: How much lower scores may be and not count: the candidate's are moved by so
            much to the good side first. At least 0.

    Returns:
        Above 0 and at most 1; 1 when no case has scores of both arms that differ.

    Raises:
        ValueError: If the arms have different numbers of cases, a score is outside 0 to 1 or not
            a number, or an option is out of range.
    """
    if len(main) != len(candidate):
        raise ValueError(f"main has scores of {len(main)} cases, the candidate of {len(candidate)}")
    if permutations < 1 or min_effect < 0:
        raise ValueError("permutations must be at least 1 and min_effect at least 0")
    rng = np.random.default_rng(seed)
    seen = 0.0
    permuted = np.zeros(permutations)
    for before, after in zip(main, candidate, strict=True):
        ours, theirs = _scores(before), _scores(after)
        if direction == "better":
            ours, theirs = 1 - ours, 1 - theirs
        both = np.concatenate([ours, theirs + min_effect])
        if not ours.size or not theirs.size or np.ptp(both) == 0:
            continue
        drawn = theirs.size
        scaled = both / (drawn * (float(np.std(both)) + SPREAD_FLOOR))
        seen += float(np.sum(scaled[ours.size :]))
        permuted += _sums_of_choices(scaled, drawn, permutations, rng)
    # Sums in another order differ in their last digits; a tie must count as one.
    tie = 1e-9 * max(1.0, abs(seen))
    as_low = int(np.count_nonzero(permuted <= seen + tie))
    return (1 + as_low) / (1 + permutations)


def _sums_of_choices(
    values: FloatArray, drawn: int, times: int, rng: np.random.Generator
) -> FloatArray:
    """Sums of `drawn` of the values, chosen at random without replacement; shape (times,)."""
    if comb(values.size, drawn) <= _CHOICES_LISTED:
        chosen: IntArray = np.array(list(combinations(range(values.size), drawn)), dtype=np.int64)
        sums = values[chosen].sum(axis=1)
        return np.take(sums, rng.integers(0, sums.size, times))
    order = np.argsort(rng.random((times, values.size)), axis=1)
    return np.asarray(values[order[:, :drawn]].sum(axis=1), dtype=np.float64)


def _scores(values: ArrayLike) -> FloatArray:
    scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if scores.ndim != 1 or not np.all((scores >= 0) & (scores <= 1)):
        raise ValueError(f"scores of a case must be a list of numbers from 0 to 1, not {values!r}")
    return scores
