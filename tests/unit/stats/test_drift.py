from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import log_drift_ratio

side = st.integers(0, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def predictive(x: int, n: int, seen: int, of: int) -> Fraction:
    """Draw by draw: after s of t passes the next passes with (s + 1/2)/(t + 1)."""
    chance = Fraction(1)
    outcomes = [1] * x + [0] * (n - x)
    for outcome in outcomes:
        to_pass = Fraction(2 * seen + 1, 2 * (of + 1))
        chance *= to_pass if outcome else 1 - to_pass
        seen, of = seen + outcome, of + 1
    return chance


@settings(max_examples=25, deadline=None)
@given(fresh=side, baseline=side, candidate=side)
def test_the_ratio_is_that_of_predicting_one_draw_after_the_other(fresh, baseline, candidate):
    expected = predictive(*fresh, *candidate) / predictive(*fresh, *baseline)
    found = float(log_drift_ratio(fresh, baseline=baseline, candidate=candidate))
    assert found == pytest.approx(log(expected), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(fresh=side, baseline=side, candidate=side)
def test_exchanging_the_two_records_turns_the_ratio_round(fresh, baseline, candidate):
    one = log_drift_ratio(fresh, baseline=baseline, candidate=candidate)
    other = log_drift_ratio(fresh, baseline=candidate, candidate=baseline)
    assert float(one) == pytest.approx(-float(other), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(baseline=side, candidate=side)
def test_without_fresh_draws_there_is_no_drift(baseline, candidate):
    assert float(log_drift_ratio((0, 0), baseline=baseline, candidate=candidate)) == 0


def test_base_that_fails_today_as_the_candidate_does_has_drifted():
    assert log_drift_ratio((0, 3), baseline=(12, 12), candidate=(0, 6)) > log(10)


def test_base_that_passes_today_as_before_has_not():
    assert log_drift_ratio((5, 5), baseline=(12, 12), candidate=(0, 6)) < log(1 / 10)


def test_many_cells_at_once_are_the_same_as_one_by_one():
    fresh, candidate = np.arange(4), np.arange(7)[:, None]
    together = log_drift_ratio((fresh, 3), baseline=(11, 12), candidate=(candidate, 6))
    assert together.shape == (7, 4)
    alone = log_drift_ratio((2, 3), baseline=(11, 12), candidate=(5, 6))
    assert together[5, 2] == pytest.approx(float(alone))


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="the baseline has more passes than trials"):
        log_drift_ratio((0, 3), baseline=(13, 12), candidate=(0, 6))
