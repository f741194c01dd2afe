"""The rules for a whole suite: main's record asks, both arms side by side answer.

The arrays have one row per run, as in `_case_test.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regauge.stats import failure_weight, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from regauge.gate.engine._case_test import BoolArray, IntArray, Tallies
    from regauge.stats import Direction, NetPolicy, SuitePolicy

    FloatArray = NDArray[np.float64]


# Bounds are shown as they are compared, without the tail of a binary fraction.
_BOUND_DIGITS = 9


class Pairs(NamedTuple):
    """Passes and trials of both arms in one wave side by side; shape (runs, cases)."""

    main: Tallies
    candidate: Tallies


class Screened(NamedTuple):
    """A round against main's record.

    Attributes:
        p_value: The smaller of two: failures of stable cases weigh more, or all weigh the same.
        equal: Whether it is the one with equal weights; the weights side by side follow it.
    """

    p_value: FloatArray
    equal: BoolArray


def screen(main: Tallies, candidate: Tallies) -> Screened:
    """Weigh the candidate's trials of every case against main's record.

    The smaller p-value is taken, for the screen decides nothing.
    """
    weighted = suite_p_value(*main, *candidate)
    equal = suite_p_value(*main, *candidate, weights=1)
    return Screened(np.minimum(weighted, equal), equal < weighted)


def rest_better(main: Tallies, candidate: Tallies, broken: BoolArray) -> FloatArray:
    """The p-value that the cases which are not broken pass more than main's record."""
    rest = (~broken).astype(np.int64)
    (s, m), (k, r) = main, candidate
    return suite_p_value(s * rest, m * rest, k * rest, r * rest, direction="better", weights=1)


def pair_weights(main: Tallies, waves: Sequence[Pairs], equal: ArrayLike) -> IntArray:
    """Weight of a failure of each case: by the record and all pairs, of both arms together."""
    fails, trials = main[1] - main[0], main[1]
    for wave in waves:
        for passed, drawn in wave:
            fails, trials = fails + drawn - passed, trials + drawn
    same = np.asarray(equal)[..., np.newaxis]
    return np.where(same, 1, failure_weight(fails, trials))


def pairs_p_value(
    waves: Sequence[Pairs], weights: ArrayLike, *, direction: Direction = "worse"
) -> FloatArray:
    """The exact p-value of all waves; trials are exchanged within case and wave alone."""
    of_main, drawn_main, passed, drawn = (
        np.concatenate(arms, axis=-1)
        for arms in zip(*((*wave.main, *wave.candidate) for wave in waves), strict=True)
    )
    each = np.broadcast_to(np.asarray(weights), waves[0].main[0].shape)
    repeated = np.concatenate([each] * len(waves), axis=-1)
    return suite_p_value(of_main, drawn_main, passed, drawn, weights=repeated, direction=direction)


def passes_ahead(waves: Sequence[Pairs]) -> FloatArray:
    """How many more points the candidate passes than main, over the cases, between -1 and 1."""
    main_passes, main_trials = _summed([wave.main for wave in waves])
    passes, trials = _summed([wave.candidate for wave in waves])
    both = (main_trials > 0) & (trials > 0)
    ours = main_passes / np.maximum(main_trials, 1)
    theirs = passes / np.maximum(trials, 1)
    return np.asarray(np.sum((theirs - ours) * both, axis=-1) / np.maximum(both.sum(axis=-1), 1))


def screen_bound(policy: SuitePolicy, number: int, *, prompts: int) -> float:
    """Up to which p-value round `number`, from 0, asks for trials side by side."""
    return round(policy.screen[number] / prompts, _BOUND_DIGITS)


def screen_extends(policy: SuitePolicy, number: int, p_value: ArrayLike) -> BoolArray:
    """Whether another round is worth its calls, where this one asks for nothing."""
    return (np.asarray(p_value) <= policy.extend) & (number + 1 < policy.rounds)


def day_bound(policy: SuitePolicy, number: int, *, prompts: int, tests: int = 1) -> float:
    """Up to which p-value look `number`, from 0, blocks.

    The error rate is shared out to the prompts, and then to the tests of one prompt: that of the
    cases, and one for each check with scores.
    """
    return round(policy.levels[number] / prompts / tests, _BOUND_DIGITS)


def day_goes_on(policy: SuitePolicy, number: int, p_value: ArrayLike) -> BoolArray:
    """Whether another look may still block: there is one, and something points to a loss."""
    futile = policy.futile[min(number, len(policy.futile) - 1)]
    return (np.asarray(p_value) <= futile) & (number + 1 < len(policy.levels))


def net_bound(policy: NetPolicy, number: int, *, prompts: int) -> float:
    """Up to which p-value look `number`, from 0, rejects."""
    return round(policy.all_levels[number] / prompts, _BOUND_DIGITS)


def _summed(arms: Sequence[Tallies]) -> Tallies:
    passes = np.sum([passed for passed, _ in arms], axis=0)
    return passes, np.sum([trials for _, trials in arms], axis=0)
