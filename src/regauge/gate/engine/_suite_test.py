"""The rules of the test of a whole suite: what a round's p-value leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from regauge.stats import SuitePolicy


def round_bound(policy: SuitePolicy, number: int, *, prompts: int, tests: int = 1) -> float:
    """Up to which p-value round `number`, from 1, says that a suite is worse.

    The error rate is shared out to the prompts, and then to the tests of one prompt: that of the
    cases, and one for each check with scores.
    """
    return policy.bound(number, prompts=prompts) / tests


def goes_on(policy: SuitePolicy, number: int, p_value: ArrayLike) -> NDArray[np.bool_]:
    """Whether another round is worth its calls, if nothing has been decided yet."""
    return (np.asarray(p_value) <= policy.extend) & (number < policy.rounds)


def main_drifted(
    policy: SuitePolicy, *, p_history: ArrayLike, p_candidate: ArrayLike
) -> NDArray[np.bool_]:
    """Whether main itself is below its history today, and the candidate not below main.

    Args:
        p_history: How likely main's trials of today are after its history.
        p_candidate: How likely the candidate's trials are after main's of today.
    """
    below_history = np.asarray(p_history) <= policy.control
    below_main = np.asarray(p_candidate) <= policy.control
    return np.asarray(below_history & ~below_main)
