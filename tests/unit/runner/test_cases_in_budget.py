"""Which calls a budget lets begin: single ones, and those of a case that it can pay to the end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.errors import BudgetError, UsageError
from regauge.runner import Budget
from regauge.runner._budget import CallCost, CasesInBudget, Charge
from regauge.runner._spec import _concurrency

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("limits", "usage", "any_limit"),
    [
        ({}, False, False),
        ({"limit_calls": 3}, False, True),
        ({"limit_tokens": 3}, True, True),
        ({"limit_usd": 0.5}, True, True),
        ({"limit_usd": 0.0, "limit_calls": 0}, True, True),
    ],
)
def test_a_budget_knows_what_it_limits(limits: dict[str, Any], *, usage: bool, any_limit: bool):
    budget = Budget(**({"limit_usd": None} | limits))
    assert (budget.limits_usage, budget.is_limited) == (usage, any_limit)


@pytest.mark.parametrize(
    ("limits", "case", "noun"),
    [
        ({"limit_usd": 1.0}, (1.0, 0, 0), None),
        ({"limit_usd": 1.0}, (1.01, 0, 0), "usd"),
        ({"limit_usd": 1.0, "processes": 2}, (0.51, 0, 0), "usd"),
        ({"limit_usd": 1.0, "finished": CallCost(0.5)}, (0.51, 0, 0), "usd"),
        ({"limit_calls": 4}, (9, 9, 4), None),
        ({"limit_calls": 4}, (0, 0, 5), "calls"),
        (
            {"limit_calls": 4, "finished": CallCost(calls=1), "reserved": CallCost(calls=2)},
            (0, 0, 3),
            None,
        ),
        (
            {"limit_calls": 4, "finished": CallCost(calls=1), "reserved": CallCost(calls=2)},
            (0, 0, 4),
            "calls",
        ),
        ({"limit_tokens": 10}, (0, 10, 0), None),
        ({"limit_tokens": 10, "finished": CallCost(tokens=1)}, (0, 10, 0), "tokens"),
    ],
)
def test_a_case_begins_where_its_rest_fits(
    limits: dict[str, Any], case: tuple[float, int, int], noun: str | None
):
    budget = Budget(**({"limit_usd": None} | limits))
    usd, tokens, calls = case
    if noun is None:
        budget.check_case(CallCost(usd, tokens, calls))
        return
    with pytest.raises(BudgetError, match=f"--budget-{noun}") as caught:
        budget.check_case(CallCost(usd, tokens, calls))
    assert caught.value.limit == noun


@pytest.mark.parametrize(
    ("limits", "noun"),
    [
        ({"limit_calls": 2}, "calls"),
        ({"limit_tokens": 20}, "tokens"),
        ({"limit_calls": 4, "processes": 2}, "calls"),
    ],
)
def test_the_third_call_is_refused_where_two_fit(limits: dict[str, Any], noun: str):
    budget = Budget(**({"limit_usd": None} | limits))
    for _ in range(2):
        with budget.charge(0.0, tokens=10) as charge:
            charge.actual_tokens = 10
    with (
        pytest.raises(BudgetError, match=f"{noun}.* is reached") as caught,
        budget.charge(0.0, tokens=10),
    ):
        pass
    assert caught.value.limit == noun
    assert (budget.finished.calls, budget.reserved.calls, budget.finished.tokens) == (2, 0, 20)


def planned(case: str, trial: int, *, trials: int = 2) -> Any:
    suite = SimpleNamespace(trials=trials, model_judges=(), prompt=SimpleNamespace(name="p"))
    planned_case = SimpleNamespace(eval=suite, converses=False, case=SimpleNamespace(id=case))
    return SimpleNamespace(planned_case=planned_case, trial=trial)


def request_of(case: str, trial: int) -> Any:
    return SimpleNamespace(prompt="p", case=case, trial=trial)


def begun(budget: Budget, cases: Sequence[str], costs: dict[str, tuple[float, int]]) -> list[str]:
    """What is begun and refused, in order: two trials of each case, with a call each."""
    events: list[str] = []
    admission = CasesInBudget(budget)

    async def run(case: str, trial: int) -> None:
        with admission.trial(planned(case, trial)):
            try:
                await admission.admit(request_of(case, trial))
            except BudgetError as error:
                events.append(f"{case}{trial} refused: {error.limit}")
                return
            events.append(f"{case}{trial}")
            await asyncio.sleep(0)
            usd, tokens = costs[case]
            with budget.charge(0.0) as charge:
                charge.actual_usd, charge.actual_tokens = usd, tokens
            made = Charge()
            made.actual_usd, made.actual_tokens = usd, tokens
            admission.add(request_of(case, trial), made)

    async def run_all() -> None:
        await asyncio.gather(*(run(case, trial) for case in cases for trial in range(2)))

    asyncio.run(run_all())
    return events


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"limit_usd": 6.0}, []),
        ({"limit_usd": 4.0}, ["c"]),
        ({"limit_usd": 2.0}, ["b", "c"]),
        ({"limit_tokens": 60}, []),
        ({"limit_tokens": 59}, ["c"]),
        ({"limit_calls": 6}, []),
        ({"limit_calls": 4}, ["c"]),
        ({}, []),
    ],
)
def test_the_first_case_runs_alone_and_the_next_ones_begin_while_they_fit(
    limits: dict[str, Any], refused: list[str]
):
    budget = Budget(**({"limit_usd": None} | limits))
    events = begun(budget, "abc", dict.fromkeys("abc", (1.0, 10)))
    assert sorted({event[0] for event in events if "refused" in event}) == refused
    assert [event for event in events if "refused" not in event][:2] == ["a0", "a1"]
    assert len(events) == 6


@pytest.mark.parametrize(
    ("text", "value"), [("auto", "auto"), ("1", 1), ("1024", 1024), ("007", 7)]
)
def test_a_concurrency_is_a_number_or_auto(text: str, value: object):
    assert _concurrency(text) == value


@pytest.mark.parametrize("text", ["0", "1025", "-1", "1.5", "", "x", "\u0661"])
def test_no_other_text_is_a_concurrency(text: str):
    with pytest.raises(UsageError, match="a number from 1 to 1024, or auto"):
        _concurrency(cast("Any", text))
