from __future__ import annotations

from math import exp

import pytest

from regauge.stats import CasePolicy, CriticalPolicy, SuitePolicy


def test_looks_follow_each_other_to_the_cap():
    policy, drawn, looks = CasePolicy(), 0, []
    while (look := policy.next_look(drawn)) is not None:
        looks.append(look)
        drawn = look
    assert looks == [1, 3, 6, 10, 16, 24]
    assert policy.cap == 24


def test_draws_made_early_skip_looks():
    assert CasePolicy().next_look(4) == 6


def test_a_hundred_cells_ask_for_an_e_value_of_two_thousand():
    assert exp(CasePolicy().log_bound(100)) == pytest.approx(2000)
    assert exp(CasePolicy().log_bound(100, named=4)) == pytest.approx(500)


def test_the_shares_of_the_rounds_are_spent_of_one_alpha():
    policy = SuitePolicy()
    assert [policy.bound(j) for j in (1, 2, 3)] == pytest.approx([0.005, 0.0025, 0.0025])
    five = [policy.bound(j, prompts=5) for j in (1, 2, 3)]
    assert 5 * sum(five) == pytest.approx(policy.alpha)


def test_a_critical_case_blocks_at_two_failures_of_eight():
    policy = CriticalPolicy()
    assert (policy.trials_wanted(0), policy.trials_wanted(1)) == (3, 8)
    assert (policy.blocks(1), policy.blocks(2)) == (False, True)


def test_a_strict_one_blocks_at_the_first():
    policy = CriticalPolicy(strict=True)
    assert policy.trials_wanted(1) == 3
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
        wanted = policy.trials_wanted(first) if drawn >= policy.first else policy.first
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
        (lambda: CasePolicy(looks=()), "looks must rise"),
        (lambda: CasePolicy(looks=(0, 3)), "looks must rise"),
        (lambda: CasePolicy(looks=(3, 3)), "looks must rise"),
        (lambda: CasePolicy(clear=0), "bounds of e-values"),
        (lambda: CasePolicy(control_min=-1), "control_min"),
        (lambda: CasePolicy().log_bound(0), "named must be 1 to cells"),
        (lambda: CasePolicy().log_bound(3, named=4), "named must be 1 to cells"),
        (lambda: SuitePolicy(alpha=2), "alpha must be above 0"),
        (lambda: SuitePolicy(extend=0), "extend must be above 0"),
        (lambda: SuitePolicy(spend=(0.9, 0.2)), "sum to at most 1"),
        (lambda: SuitePolicy(spend=()), "spend must be shares"),
        (lambda: SuitePolicy().bound(4), "no round 4 of 3"),
        (lambda: SuitePolicy().bound(1, prompts=0), "0 prompts"),
        (lambda: CriticalPolicy(first=0), "a critical case needs trials"),
        (lambda: CriticalPolicy(failures=9), "no more failures than trials"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()
