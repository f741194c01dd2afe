from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regauge.stats import sign_flip_p_value, sign_test_p_value

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8)


def by_enumeration(main, candidate) -> float:
    losses = [before - after for before, after in zip(main, candidate, strict=True)]
    sums = [
        sum(sign * loss for sign, loss in zip(signs, losses, strict=True))
        for signs in product((-1, 1), repeat=len(losses))
    ]
    return sum(total >= sum(losses) for total in sums) / len(sums)


@settings(max_examples=50, deadline=None)
@given(counts=pairs)
def test_the_p_value_is_what_all_signs_give(counts):
    main, candidate = zip(*counts, strict=True)
    found = float(sign_flip_p_value(main, candidate))
    assert found == pytest.approx(by_enumeration(main, candidate), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(counts=pairs)
def test_better_is_worse_with_the_arms_exchanged(counts):
    main, candidate = zip(*counts, strict=True)
    better = sign_flip_p_value(main, candidate, direction="better")
    assert better == sign_flip_p_value(candidate, main)


@settings(max_examples=50, deadline=None)
@given(counts=pairs)
def test_the_two_directions_share_only_the_outcome_itself(counts):
    main, candidate = zip(*counts, strict=True)
    worse = sign_flip_p_value(main, candidate)
    assert worse + sign_flip_p_value(main, candidate, direction="better") >= 1 - 1e-12


@settings(max_examples=50, deadline=None)
@given(broken=st.integers(0, 40), repaired=st.integers(0, 40))
def test_with_one_trial_each_it_is_the_sign_test_of_mcnemar(broken, repaired):
    main = [1] * broken + [0] * repaired + [1] * 3
    candidate = [0] * broken + [1] * repaired + [1] * 3
    expected = sign_test_p_value(broken, repaired)
    assert float(sign_flip_p_value(main, candidate)) == pytest.approx(expected, rel=1e-9)


def test_a_drop_in_every_one_of_a_hundred_cases_is_as_rare_as_a_hundred_heads():
    p = sign_flip_p_value([3] * 100, [2] * 100)
    assert float(p) == pytest.approx(0.5**100, rel=1e-9)


def test_suites_side_by_side_are_tested_each_by_itself():
    p = sign_flip_p_value([[3, 3], [3, 3], [2, 2]], [[0, 0], [3, 3], [3, 3]])
    assert p.tolist() == [0.25, 1.0, 1.0]


@pytest.mark.parametrize("count", [0, 5])
def test_arms_that_never_differ_are_no_evidence(count):
    assert float(sign_flip_p_value([2] * count, [2] * count)) == 1


def test_the_sign_test_counts_coins():
    assert sign_test_p_value(0, 0) == 1
    assert sign_test_p_value(3, 1) == pytest.approx(5 / 16)
    assert sign_test_p_value(3_000, 0) == pytest.approx(0.0, abs=1e-300)


def test_counts_below_nothing_are_refused():
    with pytest.raises(ValueError, match="0 or more, not -1 and 2"):
        sign_test_p_value(-1, 2)
    with pytest.raises(ValueError, match="passes of main must be 0 or more"):
        sign_flip_p_value([-1], [0])
    with pytest.raises(ValueError, match="shape mismatch"):
        sign_flip_p_value([1, 1, 1], np.array([1, 1]))
