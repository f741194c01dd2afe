from __future__ import annotations

from math import comb

import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import clopper_pearson, flaky_probability, rule_of_three, wilson

counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
intervals = pytest.mark.parametrize("interval", [wilson, clopper_pearson])


@pytest.mark.parametrize(
    ("interval", "passes", "trials", "low", "high"),
    [
        (wilson, 15, 148, 0.0624, 0.1605),
        (wilson, 81, 263, 0.2553, 0.3662),
        (wilson, 0, 20, 0.0, 0.1611),
        (wilson, 1, 29, 0.0061, 0.1718),
        (clopper_pearson, 81, 263, 0.2527, 0.3676),
        (clopper_pearson, 15, 148, 0.0578, 0.1617),
        (clopper_pearson, 0, 20, 0.0, 0.1684),
        (clopper_pearson, 1, 29, 0.0009, 0.1776),
    ],
)
def test_intervals_are_those_of_newcombes_table(interval, passes, trials, low, high):
    """Newcombe, Statistics in Medicine 1998, table I: methods 3 and 5."""
    found = interval(passes, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


@intervals
@settings(max_examples=25, deadline=None)
@given(count=counts, confidence=st.floats(0.01, 0.999))
def test_an_interval_contains_the_rate_it_is_of(interval, count, confidence):
    passes, trials = count
    found = interval(passes, trials, confidence=confidence)
    assert 0 <= found.low <= found.high <= 1
    assert not trials or passes / trials in found


@intervals
@settings(max_examples=25, deadline=None)
@given(count=counts)
def test_fails_have_the_mirror_image_of_the_interval_of_passes(interval, count):
    passes, trials = count
    one, other = interval(passes, trials), interval(trials - passes, trials)
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-12)


@intervals
@settings(max_examples=25, deadline=None)
@given(count=counts)
def test_more_confidence_is_a_wider_interval(interval, count):
    narrow, wide = (interval(*count, confidence=share) for share in (0.8, 0.99))
    assert wide.low <= narrow.low + 1e-12
    assert narrow.high <= wide.high + 1e-12


@settings(max_examples=25, deadline=None)
@given(count=counts.filter(lambda count: count[1]))
def test_the_exact_interval_leaves_its_share_in_each_tail(count):
    passes, trials = count
    found = clopper_pearson(passes, trials, confidence=0.9)

    def at_least(least: int, rate: float) -> float:
        return sum(
            comb(trials, x) * rate**x * (1 - rate) ** (trials - x) for x in range(least, trials + 1)
        )

    if passes:
        assert at_least(passes, found.low) == pytest.approx(0.05, rel=1e-9)
    if passes < trials:
        assert 1 - at_least(passes + 1, found.high) == pytest.approx(0.05, rel=1e-6)


def test_the_exact_interval_covers_at_least_its_confidence():
    found = [clopper_pearson(x, 12) for x in range(13)]
    for hundredth in range(101):
        rate = hundredth / 100
        covered = sum(
            comb(12, x) * rate**x * (1 - rate) ** (12 - x) for x in range(13) if rate in found[x]
        )
        assert covered >= 0.95 - 1e-12


@pytest.mark.parametrize(("interval", "method"), [(wilson, "wilson"), (clopper_pearson, "beta")])
@settings(max_examples=25, deadline=None)
@given(count=counts.filter(lambda count: count[1]))
def test_intervals_agree_with_statsmodels(interval, method, count):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    expected = proportion.proportion_confint(*count, method=method)
    found = interval(*count)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(count=counts.filter(lambda count: count[1]), confidence=st.floats(0.5, 0.999))
def test_the_exact_interval_agrees_with_scipy(count, confidence):
    special = pytest.importorskip("scipy.special")
    (x, n), tail = count, (1 - confidence) / 2
    found = clopper_pearson(x, n, confidence=confidence)
    low = special.betaincinv(x, n - x + 1, tail) if x else 0
    high = special.betaincinv(x + 1, n - x, 1 - tail) if x < n else 1
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(count=counts, low=st.floats(0, 0.4), high=st.floats(0.5, 1))
def test_the_posterior_of_flakiness_agrees_with_scipy(count, low, high):
    special = pytest.importorskip("scipy.special")
    (x, n) = count
    expected = special.betainc(x + 1, n - x + 1, high) - special.betainc(x + 1, n - x + 1, low)
    assert flaky_probability(x, n, low=low, high=high) == pytest.approx(expected, abs=1e-9)


@intervals
def test_without_trials_nothing_is_known(interval):
    found = interval(0, 0)
    assert (found.low, found.high) == (0, 1)


@intervals
def test_an_interval_of_many_trials_is_narrow(interval):
    found = interval(9_000, 10_000)
    assert found.high - found.low == pytest.approx(0.0118, abs=2e-4)


def test_no_failure_in_twenty_leaves_fifteen_percent():
    assert rule_of_three(20) == 0.15
    assert rule_of_three(2) == rule_of_three(0) == 1


@settings(max_examples=25, deadline=None)
@given(trials=st.integers(21, 500))
def test_the_rule_of_three_is_a_little_above_the_exact_bound(trials):
    exact = 1 - 0.05 ** (1 / trials)
    assert exact <= rule_of_three(trials) <= 1.1 * exact


def test_a_case_that_fails_three_of_twelve_is_flaky_and_a_clean_one_is_not():
    assert flaky_probability(9, 12) > 0.95 > flaky_probability(12, 12)
    assert flaky_probability(7, 12, low=0, high=1) == 1


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: wilson(3, 2), "passes must be 0 to trials, not 3 of 2"),
        (lambda: clopper_pearson(-1, 2), "passes must be 0 to trials, not -1 of 2"),
        (lambda: wilson(1, 2, confidence=1), "confidence must be above 0 and below 1"),
        (lambda: rule_of_three(-1), "0 to trials"),
        (lambda: flaky_probability(1, 2, low=0.9, high=0.1), "in order"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, complaint):
    with pytest.raises(ValueError, match=complaint):
        ask()
