from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge import stats
from regauge.stats import bootstrap_interval, confusion_matrix, of_all, position_flips

SCALE = (1, 2, 3, 4, 5)
ratings = st.lists(st.tuples(st.sampled_from(SCALE), st.sampled_from(SCALE)), max_size=25)
kinds = pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])


def value_of(measure):
    """The measure of all items as they are."""

    @functools.wraps(measure)
    def value(one, other, **options):
        return of_all(measure(one, other, **options), len(one))

    return value


accuracy, cohen_kappa = value_of(stats.accuracy), value_of(stats.cohen_kappa)
spearman, kendall_tau_b = value_of(stats.spearman), value_of(stats.kendall_tau_b)
MEASURES = [stats.accuracy, stats.cohen_kappa, stats.spearman, stats.kendall_tau_b]
correlations = pytest.mark.parametrize("correlation", [spearman, kendall_tau_b])


def apart(pairs):
    return [one for one, _ in pairs], [other for _, other in pairs]


def test_kappa_is_that_of_the_textbook():
    """Fleiss, Statistical methods for rates and proportions, table 13.1: 0.676 (0.68)."""
    counts = {("a", "a"): 75, ("a", "b"): 1, ("a", "c"): 4, ("b", "a"): 5, ("b", "b"): 4}
    counts |= {("b", "c"): 1, ("c", "a"): 0, ("c", "b"): 0, ("c", "c"): 10}
    one, other = apart([pair for pair, count in counts.items() for _ in range(count)])
    assert cohen_kappa(one, other) == pytest.approx(0.676, abs=5e-4)


@kinds
@settings(max_examples=25, deadline=None)
@given(labels=st.lists(st.sampled_from(SCALE), min_size=2).filter(lambda all_: len({*all_}) > 1))
def test_kappa_of_a_rater_with_itself_is_one(weights, labels):
    assert cohen_kappa(labels, labels, weights=weights, labels=SCALE) == 1


@kinds
@settings(max_examples=25, deadline=None)
@given(pairs=ratings)
def test_kappa_is_symmetric_and_at_most_one(weights, pairs):
    one, other = apart(pairs)
    found = cohen_kappa(one, other, weights=weights, labels=SCALE)
    turned = cohen_kappa(other, one, weights=weights, labels=SCALE)
    assert found == (None if turned is None else pytest.approx(turned, abs=1e-12))
    assert found is None or -1 - 1e-12 <= found <= 1


@settings(max_examples=25, deadline=None)
@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_with_two_labels_all_weights_are_one(pairs):
    one, other = apart(pairs)
    linear = cohen_kappa(one, other, weights="linear", labels=(False, True))
    quadratic = cohen_kappa(one, other, weights="quadratic", labels=(False, True))
    plain = cohen_kappa(one, other, labels=(False, True))
    assert plain == linear == quadratic


@settings(max_examples=25, deadline=None)
@given(pairs=ratings)
def test_quadratic_kappa_is_what_means_and_variances_give(pairs):
    """Fleiss & Cohen 1973: an intraclass correlation, with variances over n."""
    one, other = (np.array(side, dtype=float) for side in apart(pairs))
    found = cohen_kappa(*apart(pairs), weights="quadratic", labels=SCALE)
    if found is not None:
        spread = one.var() + other.var() + (one.mean() - other.mean()) ** 2
        covariance = np.mean((one - one.mean()) * (other - other.mean()))
        assert found == pytest.approx(2 * covariance / spread, abs=1e-9)


def test_a_near_miss_costs_less_with_weights():
    one, other = [1, 2, 3, 4, 5, 5], [2, 2, 3, 4, 5, 4]
    plain, linear, quadratic = (
        cohen_kappa(one, other, weights=weights, labels=SCALE)
        for weights in ("none", "linear", "quadratic")
    )
    assert plain < linear < quadratic < 1


def test_kappa_is_not_defined_where_chance_alone_agrees():
    assert cohen_kappa([], []) is None
    assert cohen_kappa(["pass"] * 9, ["pass"] * 9) is None


def test_weights_need_a_scale():
    with pytest.raises(ValueError, match="linear weights need the labels in the order"):
        cohen_kappa([1, 2], [1, 2], weights="linear")


def test_a_confusion_matrix_counts_pairs_in_the_order_of_the_labels():
    matrix = confusion_matrix(["b", "a", "b"], ["a", "a", "b"], labels=["a", "b", "c"])
    assert matrix.counts == ((1, 0, 0), (1, 1, 0), (0, 0, 0))
    assert (matrix.labels, matrix.total) == (("a", "b", "c"), 3)
    assert confusion_matrix(["b", "a"], ["c", "a"]).labels == ("b", "a", "c")


@settings(max_examples=25, deadline=None)
@given(pairs=ratings.filter(len))
def test_accuracy_is_the_share_on_the_diagonal(pairs):
    matrix = confusion_matrix(*apart(pairs), labels=SCALE)
    diagonal = sum(matrix.counts[place][place] for place in range(5))
    assert accuracy(*apart(pairs)) == diagonal / matrix.total


def test_accuracy_of_nothing_is_not_defined():
    assert accuracy([], []) is None


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [(["a"], "'b' is not one of the labels"), (["a", "b", "a"], "a label is repeated")],
)
def test_labels_must_fit(labels, complaint):
    with pytest.raises(ValueError, match=complaint):
        confusion_matrix(["a", "b"], ["a", "a"], labels=labels)


@pytest.mark.parametrize(
    "measure", [accuracy, cohen_kappa, confusion_matrix, spearman, kendall_tau_b, position_flips]
)
def test_raters_must_rate_the_same_items(measure):
    with pytest.raises(ValueError, match="rated 1 and 2 items"):
        measure([1], [1, 2])


@correlations
@settings(max_examples=25, deadline=None)
@given(pairs=ratings)
def test_correlations_agree_with_scipy(correlation, pairs):
    reference = pytest.importorskip("scipy.stats")
    one, other = apart(pairs)
    found = correlation(one, other)
    if len({*one}) < 2 or len({*other}) < 2:
        assert found is None
    else:
        other_way = reference.spearmanr if correlation is spearman else reference.kendalltau
        assert found == pytest.approx(other_way(one, other).statistic, abs=1e-9)


@correlations
@settings(max_examples=25, deadline=None)
@given(pairs=ratings)
def test_correlations_turn_round_with_the_scale(correlation, pairs):
    one, other = apart(pairs)
    found, turned = correlation(one, other), correlation(one, [-value for value in other])
    assert (found is None and turned is None) or found == pytest.approx(-turned, abs=1e-12)


@correlations
def test_only_the_order_counts_for_a_rank_correlation(correlation):
    assert correlation([1, 2, 3, 10], [0.1, 0.2, 0.9, 0.95]) == 1


@correlations
def test_a_rating_that_is_no_number_is_refused(correlation):
    with pytest.raises(ValueError, match="NaN"):
        correlation([1, float("nan")], [1, 2])


def test_a_judge_that_prefers_a_place_flips():
    shown = ["first", "first", "second", "tie", "tie", "second"]
    exchanged = ["second", "first", "second", "tie", "first", "first"]
    found = position_flips(shown, exchanged)
    assert (found.pairs, found.flips, found.for_first, found.for_second) == (6, 3, 1, 1)
    assert found.rate == 0.5


def test_no_pairs_have_no_rate_of_flips():
    assert position_flips([], []).rate is None


@pytest.mark.parametrize("measure", MEASURES)
@settings(max_examples=25, deadline=None)
@given(pairs=ratings, data=st.data())
def test_a_sample_has_the_value_of_the_items_that_it_drew(measure, pairs, data):
    items = st.lists(st.integers(0, len(pairs) - 1), max_size=12) if pairs else st.just([])
    samples = data.draw(st.lists(items, min_size=1, max_size=4))
    drawn = np.array([np.bincount(sample, minlength=len(pairs)) for sample in samples], dtype=int)
    found = measure(*apart(pairs))(drawn)
    for value, sample in zip(found.tolist(), samples, strict=True):
        alone = value_of(measure)(*apart([pairs[item] for item in sample]))
        assert value == pytest.approx(np.nan if alone is None else alone, abs=1e-12, nan_ok=True)


def test_a_bootstrap_interval_of_a_mean_is_near_the_normal_one():
    values = np.random.default_rng(4).normal(5, 2, 400)
    found = bootstrap_interval(lambda drawn: drawn @ values / 400, 400, seed=1)
    half = 1.96 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_one_seed_gives_one_bootstrap_interval():
    human, judge = [1, 2, 3, 4, 5] * 4, [1, 2, 3, 5, 5] * 4

    kappa = stats.cohen_kappa(human, judge)
    found = bootstrap_interval(kappa, 20, seed=9, resamples=200)
    assert found == bootstrap_interval(kappa, 20, seed=9, resamples=200)
    assert of_all(kappa, 20) in found


def test_a_statistic_that_is_mostly_not_defined_has_no_interval():
    assert (
        bootstrap_interval(lambda drawn: np.full(len(drawn), np.nan), 5, seed=1, resamples=10)
        is None
    )
    assert bootstrap_interval(lambda drawn: np.ones(len(drawn)), 0, seed=1) is None


@pytest.mark.parametrize("options", [{"resamples": 0}, {"confidence": 1}])
def test_a_bootstrap_needs_options_in_range(options):
    with pytest.raises(ValueError, match="in range"):
        bootstrap_interval(lambda drawn: np.ones(len(drawn)), 5, seed=1, **options)
