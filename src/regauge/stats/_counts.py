"""Arrays of counts: what the functions of this package take, checked and brought to one shape."""

from __future__ import annotations

from math import lgamma
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

# Tables are as long as the largest count; beyond this a count is a mistake.
_TOO_MANY = 10_000_000

Direction = Literal["worse", "better"]


def count_array(values: ArrayLike, *, name: str) -> IntArray:
    """Whole numbers of at least 0, as an array of 64-bit integers.

    Raises:
        ValueError: If a value is not a whole number, below 0 or absurdly large; `name` says whose
            it is.
    """
    given = np.asarray(values)
    kind = given.dtype.kind
    if kind not in "biuf" or (kind == "f" and not np.array_equal(given, np.trunc(given))):
        raise ValueError(f"{name} must be whole numbers, not {values!r}")
    if given.size and (given.max() >= _TOO_MANY or given.min() <= -_TOO_MANY):
        raise ValueError(f"{name} must be below {_TOO_MANY:,}")
    whole = given.astype(np.int64)
    if whole.size and int(whole.min()) < 0:
        raise ValueError(f"{name} must be 0 or more, not {int(whole.min())}")
    return whole


def tallies(passes: ArrayLike, trials: ArrayLike, *, of: str) -> tuple[IntArray, IntArray]:
    """Passes and trials of one arm, in one shape.

    Raises:
        ValueError: If there are more passes than trials, or if the shapes do not go together.
    """
    passed, drawn = np.broadcast_arrays(
        count_array(passes, name=f"passes of {of}"), count_array(trials, name=f"trials of {of}")
    )
    if np.any(passed > drawn):
        raise ValueError(f"{of} has more passes than trials")
    return passed, drawn


def two_arms(
    main_passes: ArrayLike, main_trials: ArrayLike, passes: ArrayLike, trials: ArrayLike
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The tallies of main and of the candidate, in one shape.

    Raises:
        ValueError: As in `tallies`.
    """
    main = tallies(main_passes, main_trials, of="main")
    candidate = tallies(passes, trials, of="the candidate")
    s, m, k, r = np.broadcast_arrays(*main, *candidate)
    return s, m, k, r


# Below this a tail of the Fourier transform is mostly rounding error, so it is computed by itself.
_ROUNDED_BELOW = 1e-9
_SMALLEST = 1e-300


def upper_tails(pmfs: FloatArray, parts: IntArray, observed: IntArray) -> FloatArray:
    """P(sum of the parts >= observed); the parts are independent.

    All sums are convolved at once by their Fourier transforms. Tails that are too small for that
    are convolved term by term, so they keep their relative precision.

    Args:
        pmfs: Shape (kinds, width): the probability of 0, 1, ... width-1 for each kind of part.
        parts: Shape (sums, kinds): the number of parts of each kind in each sum.
        observed: Shape (sums,).

    Returns:
        Shape (sums,), between 0 and 1.
    """
    steps: IntArray = np.arange(pmfs.shape[1], dtype=np.int64)
    reach = np.max(np.where(pmfs > 0, steps, 0), axis=1, initial=0)
    size = int((parts @ reach).max(initial=0)) + 1
    length = 1 << size.bit_length()
    transformed = np.fft.rfft(pmfs, n=length, axis=1)
    sizes = np.log(np.maximum(np.abs(transformed), _SMALLEST))
    together = np.exp(parts @ sizes + 1j * (parts @ np.angle(transformed)))
    sums = np.fft.irfft(together, n=length, axis=1)[:, :size]
    # Summed from the far end, the smallest first.
    tails = np.cumsum(np.maximum(sums[:, ::-1], 0.0), axis=1)[:, ::-1]
    tail: FloatArray = tails[np.arange(len(tails)), np.clip(observed, 0, size - 1)]
    for row in np.nonzero((tail < _ROUNDED_BELOW) & (observed < size))[0]:
        tail[row] = _tail(pmfs, parts[row], int(observed[row]))
    tail[observed >= size] = 0.0
    return np.minimum(tail, 1.0)


def _tail(pmfs: FloatArray, parts: IntArray, observed: int) -> float:
    """The tail of one sum, term by term; every term is positive."""
    total = np.ones(1)
    for kind in np.nonzero(parts)[0]:
        power, left = np.trim_zeros(pmfs[kind], "b"), int(parts[kind])
        while left:
            if left & 1:
                total = np.convolve(total, power)
            left >>= 1
            if left:
                power = np.convolve(power, power)
    return float(total[observed:][::-1].sum())


def binomial_tail(least: int, trials: int, rate: float) -> float:
    """P(X >= least) for X binomial."""
    if rate in {0.0, 1.0}:
        return float(least <= trials * rate)
    logs = [
        lgamma(trials + 1) - lgamma(x + 1) - lgamma(trials - x + 1)
        for x in range(least, trials + 1)
    ]
    x = np.arange(least, trials + 1)
    terms = np.exp(np.array(logs) + x * np.log(rate) + (trials - x) * np.log1p(-rate))
    return min(1.0, float(terms.sum()))
