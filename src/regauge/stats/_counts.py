"""Arrays of counts: what the functions of this package take, checked and brought to one shape."""

from __future__ import annotations

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
