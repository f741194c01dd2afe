from __future__ import annotations

import numpy as np
import pytest

from regauge.stats import draw_pass_rates, pass_rate_grid


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_mean_failure_rate_of_a_suite_is_kept_however_short_its_record():
    """8 of 3,000 trials failed: 0.27 %; four fixed kinds of cases would call that 0.53 %."""
    passes = np.full(1000, 3)
    passes[:8] = 2
    rates = draw_pass_rates(passes, 3, runs=20, rng=rng())
    assert 1 - rates.mean() == pytest.approx(8 / 3000, abs=0.0006)


def test_a_case_keeps_to_its_own_record():
    passes = [12] * 60 + [9] * 20 + [0] * 10
    rates = draw_pass_rates(passes, 12, runs=200, rng=rng()).mean(axis=0)
    assert rates[:60].min() > 0.97
    assert 0.6 < rates[60:80].mean() < 0.9
    assert rates[80:].max() < 0.1


def test_suites_differ_from_each_other_and_stay_the_same_within():
    rates = draw_pass_rates([12] * 8 + [9, 6], 12, runs=5, rng=rng(), suites=3)
    assert rates.shape == (15, 10)
    suites = rates.reshape(3, 5, 10)
    assert (suites == suites[:, :1]).all()
    assert (suites[0] != suites[1]).any()


def test_one_seed_gives_one_draw_on_the_grid():
    one, other = (draw_pass_rates([3, 5], [4, 5], runs=9, rng=rng(4)) for _ in range(2))
    assert (one == other).all()
    assert np.isin(one, pass_rate_grid()).all()


def test_more_passes_than_trials_are_refused():
    with pytest.raises(ValueError, match="more passes than trials"):
        draw_pass_rates([3], [2], runs=1, rng=rng())
