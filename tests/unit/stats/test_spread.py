"""Whether verdicts vary less: exact where nothing changed, found where a case became steady."""

from __future__ import annotations

import random
from itertools import combinations
from statistics import variance

import pytest
from hypothesis import given, strategies as st

from regauge.stats import Arms, steadier_p_value, variance_fall, verdict_variance

sides = st.tuples(st.integers(2, 5), st.integers(2, 5)).flatmap(
    lambda trials: st.builds(
        Arms,
        base_passes=st.integers(0, trials[0]),
        base_trials=st.just(trials[0]),
        passes=st.integers(0, trials[1]),
        trials=st.just(trials[1]),
    )
)


def drawn(dice: random.Random, rates: list[tuple[float, float]], trials: int) -> list[Arms]:
    """So many trials of cases that pass at one rate under main and another under the candidate."""

    def passed(rate: float) -> int:
        return sum(dice.random() < rate for _ in range(trials))

    return [
        Arms(base_passes=passed(old), base_trials=trials, passes=passed(new), trials=trials)
        for old, new in rates
    ]


@given(case=sides)
def test_the_variance_is_the_sample_variance_of_zeros_and_ones(case: Arms):
    said = [1] * case.passes + [0] * (case.trials - case.passes)
    assert verdict_variance(case.passes, case.trials) == pytest.approx(variance(said))


@given(case=sides)
def test_the_p_value_counts_all_ways_to_deal_the_verdicts(case: Arms):
    pooled = case.base_passes + case.passes
    verdicts = [1] * pooled + [0] * (case.base_trials + case.trials - pooled)
    observed = verdict_variance(case.base_passes, case.base_trials) - verdict_variance(
        case.passes, case.trials
    )
    reached = []
    for chosen in combinations(range(len(verdicts)), case.trials):
        passes = sum(verdicts[n] for n in chosen)
        fall = verdict_variance(pooled - passes, case.base_trials)
        reached.append(fall - verdict_variance(passes, case.trials) >= observed - 1e-9)
    assert steadier_p_value([case]) == pytest.approx(sum(reached) / len(reached))


@given(cases=st.lists(sides, min_size=1, max_size=5))
def test_an_interval_holds_the_fall_and_turns_round_with_the_sides(cases: list[Arms]):
    turned = [
        Arms(
            base_passes=case.passes,
            base_trials=case.trials,
            passes=case.base_passes,
            trials=case.base_trials,
        )
        for case in cases
    ]
    fall, rise = variance_fall(cases), variance_fall(turned)

    assert fall is not None
    assert rise is not None
    assert fall.base - fall.candidate in fall.interval
    assert (rise.interval.low, rise.interval.high) == pytest.approx(
        (-fall.interval.high, -fall.interval.low)
    )


def test_cases_without_two_trials_of_both_say_nothing():
    once = Arms(base_passes=0, base_trials=1, passes=4, trials=4)
    assert steadier_p_value([once]) == 1
    assert variance_fall([once]) is None
    with pytest.raises(ValueError, match="3 of 2 trials"):
        Arms(base_passes=3, base_trials=2, passes=0, trials=2)


@pytest.mark.parametrize(
    "rates", [[0.5] * 3, [0.8] * 6, [0.95] * 6, [0.1, 0.5, 0.9, 0.97, 1.0, 1.0]], ids=str
)
def test_where_nothing_changed_it_is_seldom_called_steadier(rates: list[float]):
    dice, runs, alpha = random.Random(53), 400, 0.05
    worlds = [drawn(dice, [(rate, rate) for rate in rates], 8) for _ in range(runs)]

    called = sum(steadier_p_value(world) <= alpha for world in worlds)
    above = sum(fall.interval.low > 0 for world in worlds if (fall := variance_fall(world)))

    # Three standard errors above what may be: 5 % of the tests, 2.5 % of either end.
    assert called / runs <= alpha + 3 * (alpha / runs) ** 0.5
    assert above / runs <= alpha / 2 + 3 * (alpha / 2 / runs) ** 0.5


def test_cases_that_became_steady_are_found_and_the_interval_holds_the_true_fall():
    dice, runs, rates = random.Random(53), 200, [(0.6, 0.97)] * 4
    true = 0.6 * 0.4 - 0.97 * 0.03
    worlds = [drawn(dice, rates, 12) for _ in range(runs)]

    found = sum(steadier_p_value(world) <= 0.01 for world in worlds)
    held = sum(true in fall.interval for world in worlds if (fall := variance_fall(world)))

    assert found / runs > 0.9
    assert held / runs > 0.92
