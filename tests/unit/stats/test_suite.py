from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import expected_failures, failure_weight, suite_p_value
from regauge.stats._permutation import _TRIALS_MOST, _pack, _unpack


def by_enumeration(s, m, k, r, *, weighted=True) -> float:
    """Assign the pooled outcomes of every case to the sides in every way, and count."""
    ways_of_case, observed = [], 0
    for case in zip(s, m, k, r, strict=True):
        passes, before, passed, drawn = (int(count) for count in case)
        fails, trials = before - passes + drawn - passed, before + drawn
        share = fails / trials if trials else 0
        weight = (3 if share <= 0.1 else 2 if share <= 0.2 else 1) if weighted else 1
        outcomes = [1] * fails + [0] * (trials - fails)
        ways_of_case.append([weight * sum(chosen) for chosen in combinations(outcomes, drawn)])
        observed += weight * (drawn - passed)
    sums = [sum(way) for way in product(*ways_of_case)]
    return sum(total >= observed for total in sums) / len(sums)


def table(most_base: int, most: int):
    def side(limit):
        return st.integers(0, limit).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))

    case = st.tuples(side(most_base), side(most)).map(lambda sides: (*sides[0], *sides[1]))
    return st.lists(case, min_size=1, max_size=4).map(lambda cases: np.array(cases).T)


@settings(max_examples=80, deadline=None)
@given(counts=table(4, 2), weighted=st.booleans())
def test_the_p_value_is_what_enumeration_gives(counts, weighted):
    found = suite_p_value(*counts, weights=None if weighted else 1)
    assert float(found) == pytest.approx(by_enumeration(*counts, weighted=weighted), abs=1e-9)


def test_the_p_value_is_what_enumeration_gives_with_long_histories():
    """Here the weights of 3 and 2 occur."""
    s, m, k, r = [12, 11, 10, 9], [12, 12, 12, 12], [0, 1, 0, 1], [1, 2, 1, 1]
    found = suite_p_value(s, m, k, r)
    assert float(found) == pytest.approx(by_enumeration(s, m, k, r), abs=1e-9)


def test_four_failures_of_a_hundred_perfect_cases_are_one_in_thirteen_to_the_fourth():
    p = suite_p_value([12] * 100, 12, [0] * 4 + [1] * 96, 1)
    assert float(p) == pytest.approx(13.0**-4, rel=1e-9)


def test_the_p_value_of_the_published_message_is_one_in_1756():
    s = [12] * 85 + [9] * 10 + [0] * 5
    k = [0] * 3 + [1] * 82 + [0] * 3 + [1] * 7 + [0] * 5
    p = suite_p_value(s, 12, k, 1)
    assert float(p) == pytest.approx(5.69e-4, abs=5e-7)
    assert round(1 / float(p)) == 1756
    assert float(expected_failures(s, 12, 1)) == pytest.approx(7.5)


def test_one_case_unweighted_is_fishers_exact_test():
    stats = pytest.importorskip("scipy.stats")
    for s, k in product(range(13), range(7)):
        fisher = stats.hypergeom.sf(5 - k, 18, 18 - s - k, 6)
        found = suite_p_value([s], 12, [k], 6, weights=1)
        assert float(found) == pytest.approx(fisher, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(pooled=st.lists(st.integers(0, 6), min_size=1, max_size=5), alpha=st.floats(0, 1))
def test_an_unchanged_prompt_is_blamed_no_more_often_than_alpha(pooled, alpha):
    """Given the pooled outcomes, over every way to deal them to the sides (m = 4, r = 2)."""
    chance = 0.0
    for dealt in product(range(3), repeat=len(pooled)):
        weight, s, k = 1.0, [], []
        for fails, mine in zip(pooled, dealt, strict=True):
            weight *= _hypergeometric(mine, fails)
            s.append(4 - (fails - mine))
            k.append(2 - mine)
        if weight and suite_p_value(s, 4, k, 2) <= alpha:
            chance += weight
    assert chance <= alpha + 1e-9


def _hypergeometric(mine: int, fails: int) -> float:
    outcomes = [1] * fails + [0] * (6 - fails)
    return sum(sum(chosen) == mine for chosen in combinations(outcomes, 2)) / 15


@settings(max_examples=25, deadline=None)
@given(counts=table(12, 3))
def test_better_is_worse_with_passes_and_fails_exchanged(counts):
    s, m, k, r = counts
    assert suite_p_value(*counts, direction="better") == suite_p_value(m - s, m, r - k, r)


@settings(max_examples=25, deadline=None)
@given(counts=table(12, 3), data=st.data())
def test_one_more_failure_never_raises_the_p_value(counts, data):
    """Without weights, which change with the pooled fails."""
    s, m, k, r = counts
    case = data.draw(st.integers(0, len(k) - 1))
    worse = np.maximum(k - (np.arange(len(k)) == case), 0)
    before = suite_p_value(s, m, k, r, weights=1)
    assert suite_p_value(s, m, worse, r, weights=1) <= before + 1e-12


@settings(max_examples=25, deadline=None)
@given(counts=table(12, 3), data=st.data())
def test_the_order_of_cases_does_not_matter(counts, data):
    order = data.draw(st.permutations(range(counts.shape[1])))
    assert float(suite_p_value(*counts[:, list(order)])) == pytest.approx(
        float(suite_p_value(*counts)), rel=1e-9
    )


def test_many_suites_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(3)
    m = rng.integers(0, 13, (2, 20, 15))
    r = rng.integers(0, 4, (2, 20, 15))
    s, k = rng.binomial(m, 0.8), rng.binomial(r, 0.6)
    together = suite_p_value(s, m, k, r)
    assert together.shape == (2, 20)
    for place in np.ndindex(2, 20):
        alone = suite_p_value(s[place], m[place], k[place], r[place])
        assert together[place] == pytest.approx(float(alone), rel=1e-12)


@pytest.mark.parametrize(
    "counts",
    [
        ([], [], [], []),
        ([12, 0], [12, 12], [1, 0], [1, 1]),
        ([0], [0], [0], [3]),
        ([12], [12], [0], [0]),
    ],
    ids=["no case", "all trials alike", "no baseline", "not drawn"],
)
def test_where_nothing_can_be_said_p_is_one(counts):
    assert float(suite_p_value(*counts)) == 1


def test_tiny_p_values_keep_their_digits():
    """250 perfect cases that all fail: nothing more extreme can be dealt."""
    assert float(np.log(suite_p_value([12] * 250, 12, 0, 1))) == pytest.approx(-250 * np.log(13))


def test_a_failure_counts_by_how_often_the_case_fails():
    assert failure_weight([0, 1, 2, 3, 4, 5, 10, 20], 20).tolist() == [3, 3, 3, 2, 2, 1, 1, 1]


def test_a_case_without_history_is_expected_to_fail_nothing():
    assert float(expected_failures([0, 6], [0, 12], [3, 3])) == 1.5


def test_given_weights_are_those_of_the_strata():
    """Two rounds of the same two cases, each a stratum of its own."""
    p = suite_p_value([2, 2, 2, 2], 2, [1, 2, 0, 2], 2, weights=[3, 1, 3, 1])
    assert float(p) == pytest.approx((1 / 2) * (1 / 6))
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        suite_p_value([2], 2, [1], 2, weights=0.5)


def test_more_passes_than_trials_are_refused():
    with pytest.raises(ValueError, match="the candidate has more passes than trials"):
        suite_p_value([12], 12, [2], 1)


RATE = st.floats(0, 1)


@settings(max_examples=30, deadline=None)
@given(rates=st.lists(RATE, min_size=4, max_size=4), alpha=RATE, weights=st.sampled_from([1, None]))
def test_a_provider_that_changes_between_waves_blames_no_prompt_more_often_than_alpha(
    rates, alpha, weights
):
    """Two cases in two rounds of two pairs each; every round of a case has a pass rate of its own."""
    outcomes = np.array([*product(range(3), repeat=8)])
    p = suite_p_value(outcomes[:, :4], 2, outcomes[:, 4:], 2, weights=weights)
    chance = np.ones(len(outcomes))
    for stratum, rate in enumerate(rates):
        of_count = np.array([(1 - rate) ** 2, 2 * rate * (1 - rate), rate**2])
        chance *= of_count[outcomes[:, stratum]] * of_count[outcomes[:, 4 + stratum]]
    assert chance[p <= alpha].sum() <= alpha + 1e-9


@pytest.mark.parametrize("sample", [1, _TRIALS_MOST - 1])
def test_a_stratum_of_too_many_trials_is_refused(sample: int):
    largest = np.array([[1, 3, 2, 1], [7, _TRIALS_MOST - 1, sample, 999]])
    assert np.array_equal(_unpack(_pack(largest)), largest)
    with pytest.raises(ValueError, match="must have fewer than 131,072 trials"):
        _pack(largest + np.array([[0, 0, 0, 0], [0, 1, 0, 0]]))
