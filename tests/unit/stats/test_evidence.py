from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import BetaComponent, CasePolicy, failures_needed, log_e_value

LOOKS = (1, 3, 6, 10, 16, 24)


def e_value(s, m, k, r) -> float:
    return float(np.exp(log_e_value(s, m, k, r)))


def binomial(n: int, p: float) -> np.ndarray:
    return np.array([comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)])


@pytest.mark.parametrize(
    ("s", "m", "k", "r", "expected"),
    [
        (12, 12, 0, 1, 18.000749),
        (12, 12, 0, 3, 761.764737),
        (12, 12, 0, 4, 3174.16972),
        (12, 12, 0, 5, 11103.0002),
        (12, 12, 2, 3, 1.25445702),
        (12, 12, 5, 6, 0.395267821),
        (9, 12, 0, 6, 17.1281198),
        (20, 20, 0, 3, 2902.10123),
        (17, 17, 4, 10, 286.323454),
    ],
)
def test_e_values_are_those_of_the_reference(s, m, k, r, expected):
    assert e_value(s, m, k, r) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("s", "m", "k", "r", "expected"),
    [
        (12, 12, 0, 6, 34007.7),
        (15, 15, 0, 6, 100149),
        (12, 12, 1, 3, 14.33),
        (9, 12, 0, 1, 0.294075),
        (12, 12, 4, 10, 72.7986),
    ],
)
def test_e_values_are_those_of_the_reference_to_its_six_digits(s, m, k, r, expected):
    assert e_value(s, m, k, r) == pytest.approx(expected, rel=5e-6)


def test_the_e_value_of_a_yearly_leap_is_the_one_of_the_published_message():
    """16 of 24 against 35 of 35 is probably worse, and below the bar of 2,000 at 100 cases."""
    assert e_value(35, 35, 16, 24) == pytest.approx(251, abs=0.5)


SIZES = (1, 20, 50, 100, 200, 500, 1000)
FAILURES_IN_A_ROW = {
    (3, 3): (3, 10, 15, 19, 25, 35, 45),
    (5, 5): (2, 5, 7, 8, 10, 12, 15),
    (8, 8): (2, 4, 5, 5, 6, 7, 8),
    (10, 10): (2, 3, 4, 5, 5, 6, 7),
    (12, 12): (2, 3, 4, 4, 5, 5, 6),
    (20, 20): (1, 3, 3, 3, 4, 4, 5),
    (30, 30): (1, 2, 3, 3, 3, 4, 4),
    (11, 12): (3, 6, 7, 8, 9, 10, 11),
    (10, 12): (5, 9, 10, 12, 13, 15, 16),
    (9, 12): (7, 12, 14, 16, 18, 21, 23),
    (6, 12): (18, 35, 43, 49, 57, 68, 77),
}


@pytest.mark.parametrize("baseline", FAILURES_IN_A_ROW)
def test_so_many_failures_in_a_row_name_a_case(baseline):
    policy = CasePolicy()
    found = tuple(failures_needed(*baseline, log_bound=policy.log_bound(n)) for n in SIZES)
    assert found == FAILURES_IN_A_ROW[baseline]


def test_no_number_of_failures_names_a_case_that_base_never_passes():
    assert failures_needed(0, 12, log_bound=log(20), at_most=500) is None


def test_the_mean_e_value_of_an_unchanged_or_better_prompt_is_at_most_one():
    """Enumerated over all outcomes, not sampled; its greatest value is a known number."""
    worst = 0.0
    for m in (5, 12, 20):
        for r in (1, 3, 6, 10):
            e = np.exp(log_e_value(np.arange(m + 1)[:, None], m, np.arange(r + 1), r))
            for p in np.linspace(0.01, 0.99, 33):
                for q in np.linspace(p, 1, 5):
                    worst = max(worst, binomial(m, p) @ e @ binomial(r, q))
    assert worst == pytest.approx(0.721048, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(0, 20),
    most=st.integers(1, 16),
    p=st.floats(0, 1),
    better_by=st.floats(0, 1),
)
def test_no_rule_of_stopping_makes_the_mean_e_value_exceed_one(m, most, p, better_by):
    """The best of all rules is found by going back from the last draw (the Snell envelope)."""
    q = p + (1 - p) * better_by
    s = np.arange(m + 1)[:, None]
    best = np.exp(log_e_value(s, m, np.arange(most + 1), most))
    for r in range(most - 1, -1, -1):
        go_on = (1 - q) * best[:, :-1] + q * best[:, 1:]
        best = np.maximum(np.exp(log_e_value(s, m, np.arange(r + 1), r)), go_on)
    assert binomial(m, p) @ best[:, 0] <= 1 + 1e-9


@settings(max_examples=30, deadline=None)
@given(
    base=st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)),
    candidate=st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)),
    p=st.floats(0, 1),
    better_by=st.floats(0, 1),
)
def test_no_choice_of_mixtures_makes_the_mean_e_value_exceed_one(base, candidate, p, better_by):
    q = p + (1 - p) * better_by
    e = np.exp(
        log_e_value(
            np.arange(9)[:, None],
            8,
            np.arange(7),
            6,
            base_mixture=[BetaComponent(weight=1, passes=base[0], fails=base[1])],
            candidate_mixture=[BetaComponent(weight=1, passes=candidate[0], fails=candidate[1])],
        )
    )
    assert binomial(8, p) @ e @ binomial(6, q) <= 1 + 1e-9


counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=50, deadline=None)
@given(base=counts, candidate=counts)
def test_better_is_worse_with_passes_and_fails_exchanged(base, candidate):
    (s, m), (k, r) = base, candidate
    assert log_e_value(s, m, k, r, direction="better") == log_e_value(m - s, m, r - k, r)


@settings(max_examples=50, deadline=None)
@given(base=counts, candidate=counts)
def test_the_log_form_agrees_with_the_formula_written_out(base, candidate):
    """With gamma functions, and the supremum looked for on a grid instead of solved."""
    special = pytest.importorskip("scipy.special")
    (s, m), (k, r) = base, candidate

    def marginal(x, n, mixture):
        return np.log(
            sum(
                w * np.exp(special.betaln(a + x, b + n - x) - special.betaln(a, b))
                for w, a, b in mixture
            )
        )

    a = marginal(s, m, [(0.75, 20, 0.2), (0.15, 3, 1), (0.1, 1, 1)])
    b = marginal(k, r, [(0.55, 0.15, 2), (0.45, 1, 1)])

    def likelihood(x, n, p):
        return special.xlogy(x, p) + special.xlogy(n - x, 1 - p)

    grid = np.linspace(0, 1, 2001)
    p_at_most = np.maximum.accumulate(likelihood(s, m, grid))
    found = float(log_e_value(s, m, k, r))
    supremum = a + b - found
    on_grid = float(np.max(p_at_most + likelihood(k, r, grid)))
    assert on_grid <= supremum + 1e-9
    assert supremum == pytest.approx(on_grid, abs=0.02)


@settings(max_examples=50, deadline=None)
@given(base=counts, trials=st.integers(0, 30))
def test_one_more_pass_never_speaks_against_the_candidate_below_mains_rate(base, trials):
    s, m = base
    below = [k for k in range(trials + 1) if k * m <= s * trials]
    values = log_e_value(s, m, below, trials) if below else np.zeros(1)
    assert np.all(np.diff(values) <= 1e-9)


@settings(max_examples=50, deadline=None)
@given(base=counts)
def test_an_side_without_draws_is_no_evidence(base):
    s, m = base
    assert log_e_value(s, m, 0, 0) <= 1e-9
    assert log_e_value(0, 0, m - s, m) <= 1e-9


@settings(max_examples=50, deadline=None)
@given(base=counts, candidate=counts)
def test_a_candidate_at_least_as_good_as_base_is_never_suspected(base, candidate):
    (s, m), (k, r) = base, candidate
    if k * m >= s * r:
        assert log_e_value(s, m, k, r) <= 1e-9


def test_many_cells_at_once_are_the_same_as_one_by_one():
    s, r = np.arange(13)[:, None], np.array(LOOKS)
    together = log_e_value(s, 12, 0, r)
    assert together.shape == (13, 6)
    one_by_one = [[float(log_e_value(int(i), 12, 0, int(j))) for j in r] for i in s[:, 0]]
    assert together == pytest.approx(np.array(one_by_one), rel=1e-12)


def test_long_histories_stay_finite():
    assert np.isfinite(log_e_value(100_000, 100_000, 0, 1_000))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((13, 12, 0, 1), "base has more passes than trials"),
        ((12, 12, 2, 1), "the candidate has more passes than trials"),
        ((-1, 12, 0, 1), "passes of base must be 0 or more, not -1"),
        ((1.5, 12, 0, 1), r"passes of base must be whole numbers, not 1\.5"),
        ((12, 12, float("nan"), 1), "passes of the candidate must be whole numbers"),
        ((12, 12, 0, "six"), "trials of the candidate must be whole numbers"),
        ((12, 10**12, 0, 1), "trials of base must be below 10,000,000"),
    ],
)
def test_counts_that_cannot_be_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        log_e_value(*arguments)


def test_a_mixture_needs_positive_parts():
    with pytest.raises(ValueError, match="above 0"):
        BetaComponent(weight=0, passes=1, fails=1)


@settings(max_examples=60, deadline=None)
@given(p=st.floats(0, 1), better_by=st.floats(0, 1))
def test_two_sides_alike_hardly_ever_name_a_case_by_the_pairs_of_today(p, better_by):
    """The chance to reach the bar at any look, over every way that the pairs come out."""
    policy = CasePolicy()
    q = p + (1 - p) * better_by
    reached, state, pairs = 0.0, np.ones((1, 1)), 0
    for step in (*policy.steps, *policy.late_steps):
        state = _spread(_spread(state, binomial(step, p)).T, binomial(step, q)).T
        pairs += step
        passed = np.arange(pairs + 1)
        e = np.exp(log_e_value(passed[:, None], pairs, passed[None, :], pairs))
        named = (e >= 1 / policy.alpha) & (pairs >= 3)
        reached += float(state[named].sum())
        state = np.where(named, 0.0, state)
    assert reached <= policy.alpha


def _spread(state: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """A distribution over rows after further passes were added to each."""
    return np.apply_along_axis(np.convolve, 0, state, chances)
