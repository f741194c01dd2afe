"""The pairs that confirm a broken case, played through exactly."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from math import comb, log

import numpy as np
import pytest

from regauge.stats import CasePolicy, log_e_value

POLICY = CasePolicy()


def binomial(n: int, p: float) -> np.ndarray:
    return np.array([comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)])


def ever_confirmed(p: float) -> float:
    """How likely the pairs alone ever reach the bound if both sides pass with p."""
    found, states = 0.0, {(0, 0): 1.0}
    steps = (*POLICY.steps, *POLICY.late_steps)
    for step, trials in zip(steps, accumulate(steps), strict=True):
        after: dict[tuple[int, int], float] = defaultdict(float)
        moves = np.outer(binomial(step, p), binomial(step, p))
        for (base, candidate), mass in states.items():
            for (i, j), chance in np.ndenumerate(moves):
                after[base + i, candidate + j] += mass * chance
        base, candidate = np.array(list(after)).T
        reached = (trials >= POLICY.control_min) & (
            log_e_value(base, trials, candidate, trials) >= log(POLICY.confirm)
        )
        found += sum(mass for mass, hit in zip(after.values(), reached, strict=True) if hit)
        states = {
            state: mass
            for (state, mass), hit in zip(after.items(), reached, strict=True)
            if not hit
        }
    return found


@pytest.mark.parametrize("p", [0.3, 0.5, 0.6, 0.8, 0.95])
def test_two_sides_alike_are_hardly_ever_told_apart(p):
    """At any stop: by the inequality of Ville at most 1 in 20, in fact at most 1 in 100."""
    assert ever_confirmed(p) <= 0.01


@pytest.mark.parametrize(
    ("base", "candidate", "expected"),
    [
        ((3, 3), (0, 3), 30.8845),
        ((5, 5), (0, 5), 420.328),
        ((5, 5), (1, 5), 17.2685),
        ((9, 9), (4, 9), 13.9957),
        ((15, 15), (7, 15), 136.050),
        ((12, 23), (0, 24), 1047.235),
        ((9, 23), (0, 23), 25.8655),
        ((9, 39), (0, 39), 6.9189),
    ],
)
def test_side_by_side_e_values_are_as_published(base, candidate, expected):
    found = float(np.exp(log_e_value(*base, *candidate)))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((12, 12, 0, 1), 18.000749),
        ((12, 12, 0, 3), 761.764737),
        ((12, 12, 0, 5), 11103.0002),
        ((9, 12, 0, 6), 17.1281198),
        ((5, 5, 0, 5), 420.327970),
        ((12, 23, 0, 24), 1047.23500),
        ((9, 23, 0, 23), 25.8655112),
        ((9, 9, 4, 9), 13.9956704),
    ],
)
def test_e_values_are_exact(counts, expected):
    assert float(np.exp(log_e_value(*counts))) == pytest.approx(expected, rel=1e-6)
