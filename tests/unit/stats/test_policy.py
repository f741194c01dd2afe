from __future__ import annotations

from math import exp

import pytest

from regauge.stats import (
    CasePolicy,
    CriticalPolicy,
    NetPolicy,
    SuitePolicy,
    auto_baseline_trials,
    auto_first_trials,
)


@pytest.mark.parametrize(
    ("cases", "first", "record"),
    [
        (1, 24, 48),
        (3, 24, 48),
        (5, 20, 40),
        (8, 13, 25),
        (20, 5, 12),
        (40, 3, 12),
        (99, 1, 12),
        (140, 1, 12),
        (1000, 1, 12),
    ],
)
def test_sizes_follow_the_number_of_cases(cases, first, record):
    assert (auto_first_trials(cases), auto_baseline_trials(cases)) == (first, record)


def test_a_suspect_has_23_further_trials_and_16_where_only_today_is_thin():
    policy = CasePolicy()
    assert (sum(policy.steps), policy.cap) == (23, 39)


def test_a_hundred_cells_ask_for_an_e_value_of_two_thousand():
    assert exp(CasePolicy().log_bound(100)) == pytest.approx(2000)
    assert exp(CasePolicy().log_bound(100, broken=4)) == pytest.approx(500)


def test_the_looks_side_by_side_share_one_error_rate():
    policy = SuitePolicy()
    assert policy.levels == pytest.approx((0.012,) * 3)
    assert sum(policy.levels) == pytest.approx(policy.alpha)


def test_runs_that_continue_spend_halves_of_what_is_left_of_5_percent():
    suite, net = SuitePolicy(extra_pairs=(8, 8, 8)), NetPolicy(extra_pairs=(8, 8))
    assert suite.levels[3:] == pytest.approx((0.007, 0.0035, 0.00175))
    assert net.all_levels[3:] == pytest.approx((0.0055, 0.00275))
    assert max(sum(suite.levels), sum(net.all_levels)) <= 0.05
    assert SuitePolicy(alpha=0.2, extra_pairs=(8,)).levels[-1] == 0


@pytest.mark.parametrize(
    ("cases", "first", "pairs", "weighed"),
    [(8, 13, [13, 20, 32], [13, 20, 20]), (140, 1, [2, 3, 5], [2, 3, 3])],
)
def test_pairs_come_in_units_of_the_first_round_and_half_of_them_in_small_suites(
    cases, first, pairs, weighed
):
    size = {"cases": cases, "first_trials": first}
    assert [SuitePolicy().pairs_of_look(look, **size) for look in range(3)] == pairs
    assert [NetPolicy().pairs_of_look(look, **size) for look in range(3)] == weighed
    assert SuitePolicy(extra_pairs=(8,)).pairs_of_look(3, **size) == 8


def test_a_critical_case_blocks_at_two_failures_of_eight():
    policy = CriticalPolicy()
    assert (policy.count_trials(0), policy.count_trials(1)) == (3, 8)
    assert (policy.blocks(1), policy.blocks(2)) == (False, True)


def test_a_strict_one_blocks_at_the_first():
    policy = CriticalPolicy(strict=True)
    assert policy.count_trials(1) == 3
    assert policy.blocks(1)
    assert not policy.blocks(0)


@pytest.mark.parametrize(
    ("fail_rate", "strict", "expected"),
    [
        (0.001, False, 2e-5),
        (0.01, False, 0.0017),
        (0.02, False, 0.0067),
        (0.05, False, 0.038),
        (0.001, True, 0.003),
        (0.02, True, 0.059),
        (0.05, True, 0.143),
    ],
)
def test_critical_cases_are_blocked_by_mistake_as_rarely_as_published(fail_rate, strict, expected):
    policy = CriticalPolicy(strict=strict)

    def blocked(drawn: int, failures: int) -> float:
        first = min(failures, drawn)
        wanted = policy.count_trials(first) if drawn >= policy.first else policy.first
        if drawn == wanted:
            return float(policy.blocks(failures))
        return fail_rate * blocked(drawn + 1, failures + 1) + (1 - fail_rate) * blocked(
            drawn + 1, failures
        )

    assert blocked(0, 0) == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: CasePolicy(alpha=0), "alpha must be above 0"),
        (lambda: CasePolicy(steps=()), "steps of at least one trial"),
        (lambda: CasePolicy(late_steps=(0,)), "steps of at least one trial"),
        (lambda: CasePolicy(clear=0), "bounds of e-values"),
        (lambda: CasePolicy(control_min=-1), "control_min"),
        (lambda: CasePolicy().log_bound(0), "broken must be 1 to checks"),
        (lambda: CasePolicy().log_bound(3, broken=4), "broken must be 1 to checks"),
        (lambda: SuitePolicy(alpha=2), "alpha must be above 0"),
        (lambda: SuitePolicy(extend=0), "extend must be above 0"),
        (lambda: SuitePolicy(screen=()), "a suite needs rounds"),
        (lambda: SuitePolicy(futile=(2.0,)), "a level of screen and futile"),
        (lambda: SuitePolicy(pairs=(0,)), "pairs must be at least 1"),
        (lambda: NetPolicy(levels=(0.01,)), "a level for each look"),
        (lambda: NetPolicy(better=0), "a level of net"),
        (lambda: CriticalPolicy(first=0), "a critical case needs trials"),
        (lambda: CriticalPolicy(failures=9), "no more failures than trials"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()
