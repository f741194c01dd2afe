from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest
from hypothesis import given, strategies as st

from regauge.errors import BudgetError
from regauge.runner import Budget

cents = st.integers(0, 500).map(lambda value: value / 100)


@given(
    limit=cents,
    processes=st.integers(1, 4),
    calls=st.lists(st.tuples(cents, st.one_of(st.none(), st.floats(0, 1)), st.booleans())),
)
def test_what_is_spent_or_under_way_never_exceeds_the_limit(
    limit: float, processes: int, calls: list[tuple[float, float | None, bool]]
):
    """Where no call costs more than was expected of it."""
    budget = Budget(limit, processes=processes)
    with ExitStack() as under_way:
        for expected, share, ends in calls:
            charge = budget.charge(expected)
            with suppress(BudgetError):
                kept = charge.__enter__()
                kept.actual_usd = None if share is None else share * expected
                if ends:
                    charge.__exit__(None, None, None)
                else:
                    under_way.push(charge)
            assert budget.finished.usd + budget.reserved.usd <= limit / processes + 1e-6
    assert budget.reserved.usd == pytest.approx(0.0, abs=1e-9)


def test_a_call_that_fails_costs_nothing():
    budget = Budget(1.0)
    with pytest.raises(ValueError, match="no answer"), budget.charge(0.9):
        raise ValueError("no answer")
    assert (budget.finished.usd, budget.reserved.usd) == (0.0, 0.0)
    with budget.charge(0.9) as charge:
        charge.actual_usd = 0.2
    assert budget.finished.usd == 0.2


def test_without_a_limit_everything_is_counted_and_nothing_refused():
    budget = Budget(None)
    for _ in range(3):
        with budget.charge(0.0) as charge:
            charge.actual_usd = 100.0
    assert budget.finished.usd == 300.0


def test_a_refusal_says_what_was_spent_and_how_to_go_on():
    budget = Budget(1.0)
    with budget.charge(0.7) as charge:
        charge.actual_usd = 0.6
    with pytest.raises(
        BudgetError, match=r"\$1\.00 is reached: \$0\.6000 .* \$0\.7000\n"
    ) as caught:
        budget.charge(0.7).__enter__()
    assert "--budget-usd" in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_call_that_may_fit_later_is_told_from_one_that_never_will():
    budget = Budget(1.0)
    with budget.charge(0.0):  # one that costs what was expected of it
        pass
    budget.excess = 1.0
    with budget.charge(0.8) as under_way:
        assert budget.may_fit_later(0.5)
        assert not budget.may_fit_later(0.1)
        assert not budget.may_fit_later(1.5)
        under_way.actual_usd = 0.3
    assert not budget.may_fit_later(0.5)
    with budget.charge(0.5):
        pass
    assert not Budget(None).may_fit_later(1e9)


def test_calls_that_cost_more_than_was_expected_are_reserved_at_that_rate():
    budget = Budget(1.0)
    with budget.charge(0.1) as first:
        assert budget.may_fit_later(0.2)  # until a call shows what it costs
        first.actual_usd = 0.3
    with budget.charge(0.2) as second:
        assert budget.may_fit_later(0.05)
        second.actual_usd = 0.6
    with pytest.raises(BudgetError), budget.charge(0.05):
        pass
    assert budget.finished.usd <= 1.0


def test_calls_beyond_the_limit_are_refused_and_failed_ones_do_not_count():
    budget = Budget(None, limit_calls=2)
    with pytest.raises(RuntimeError), budget.charge(0.0):
        raise RuntimeError
    for _ in range(2):
        with budget.charge(0.0):
            pass
    with pytest.raises(BudgetError, match="budget of 2 calls is reached"), budget.charge(0.0):
        pass
    assert budget.finished.calls == 2


def test_tokens_are_reserved_while_a_call_is_under_way_and_then_counted_as_used():
    budget = Budget(None, limit_tokens=100)
    with budget.charge(0.0, tokens=60) as charge:
        with pytest.raises(BudgetError, match="--budget-tokens"), budget.charge(0.0, tokens=60):
            pass
        charge.actual_tokens = 10
    with budget.charge(0.0, tokens=60):
        pass
    assert budget.finished.tokens == 10
