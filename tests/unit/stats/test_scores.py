from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regauge.stats import score_p_value


def exact(base, candidate) -> float:
    """Every way to deal the scores of every case to the sides."""
    ways, seen = [], 0.0
    for before, after in zip(base, candidate, strict=True):
        both = np.array([*before, *after])
        weight = 1 / (both.std() + 0.02)
        seen += weight * np.mean(after)
        ways.append([weight * np.mean(chosen) for chosen in combinations(both, len(after))])
    sums = [sum(way) for way in product(*ways)]
    return sum(total <= seen + 1e-9 for total in sums) / len(sums)


@pytest.mark.parametrize(
    ("base", "candidate"),
    [
        ([[0.9, 0.8, 1.0], [0.7, 0.9, 0.8]], [[0.8], [0.6]]),
        ([[0.9, 0.9, 0.9, 0.8], [0.5, 0.1]], [[0.8, 0.9], [0.3, 0.2, 0.4]]),
        ([[0.5, 0.5], [0.3]], [[0.5], [0.9]]),
    ],
)
def test_the_p_value_is_close_to_that_of_all_permutations(base, candidate):
    found = score_p_value(base, candidate, seed=7, permutations=20_000)
    assert found == pytest.approx(exact(base, candidate), abs=0.015)


def test_many_trials_of_both_sides_are_permuted_too():
    """More choices than can be listed: 12 of 24."""
    rng = np.random.default_rng(1)
    base = rng.uniform(0.7, 0.9, (5, 12))
    assert score_p_value(base, base - 0.1, seed=1, permutations=2_000) < 0.001
    assert score_p_value(base, base, seed=1, permutations=2_000) > 0.4


def test_one_seed_gives_one_p_value():
    sides = ([[0.9, 0.7, 0.8]] * 5, [[0.7]] * 5)
    assert score_p_value(*sides, seed=3) == score_p_value(*sides, seed=3)


scores = st.lists(st.integers(0, 10).map(lambda n: n / 10), min_size=1, max_size=4)
suites = st.lists(st.tuples(scores, scores), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(suite=suites)
def test_better_is_worse_with_the_scores_turned_round(suite):
    base, candidate = (list(side) for side in zip(*suite, strict=True))
    turned = [[[1 - score for score in case] for case in side] for side in (base, candidate)]
    better = score_p_value(base, candidate, seed=5, direction="better", permutations=200)
    assert better == score_p_value(*turned, seed=5, permutations=200)


@settings(max_examples=40, deadline=None)
@given(suite=suites)
def test_the_p_value_is_a_probability_above_nothing(suite):
    base, candidate = zip(*suite, strict=True)
    assert 1 / 201 <= score_p_value(base, candidate, seed=5, permutations=200) <= 1


def test_lower_scores_never_raise_the_p_value_much():
    base = np.random.default_rng(2).uniform(0.6, 0.95, (30, 12)).tolist()
    candidate = [[case[0]] for case in base]
    drops = [
        score_p_value(base, [[score - drop for score in case] for case in candidate], seed=1)
        for drop in (0.0, 0.05, 0.1, 0.2)
    ]
    assert drops == sorted(drops, reverse=True)
    assert drops[-1] < 0.001 < drops[0]


def test_a_drop_within_the_effect_that_matters_is_not_held_against_it():
    base = np.random.default_rng(2).uniform(0.8, 0.9, (40, 12)).tolist()
    candidate = [[case[0] - 0.04] for case in base]
    assert score_p_value(base, candidate, seed=1) < 0.01
    assert score_p_value(base, candidate, seed=1, min_effect=0.05) > 0.5
    raised = [[1 - case[0]] for case in candidate]
    mirrored = [[1 - score for score in case] for case in base]
    assert score_p_value(mirrored, raised, seed=1, direction="better", min_effect=0.05) > 0.5


def test_an_unchanged_prompt_gets_p_values_that_are_uniform():
    """At most 5 % and a margin of four standard errors below 0.05, in 300 suites of one seed."""
    rng = np.random.default_rng(11)
    found = [
        score_p_value(
            np.round(all_[:, :6], 1), np.round(all_[:, 6:], 1), seed=run, permutations=199
        )
        for run, all_ in enumerate(rng.beta(8, 2, (300, 6, 7)))
    ]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize(
    "sides",
    [([], []), ([[0.5, 0.5]], [[0.5]]), ([[]], [[0.1]]), ([[0.9]], [[]])],
    ids=["no case", "all scores alike", "no baseline", "not drawn"],
)
def test_where_nothing_can_be_said_p_is_one(sides):
    assert score_p_value(*sides, seed=1, permutations=50) == 1


@pytest.mark.parametrize(
    ("sides", "options", "complaint"),
    [
        (([[0.5]], []), {}, "base has scores of 1 cases, the candidate of 0"),
        (([[1.5]], [[0.5]]), {}, "numbers from 0 to 1"),
        (([[0.5]], [[float("nan")]]), {}, "numbers from 0 to 1"),
        (([[[0.5]]], [[0.5]]), {}, "a list of numbers"),
        (([[0.5]], [[0.5]]), {"permutations": 0}, "permutations must be at least 1"),
        (([[0.5]], [[0.5]]), {"min_effect": -1}, "min_effect at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(sides, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        score_p_value(*sides, seed=1, **options)
