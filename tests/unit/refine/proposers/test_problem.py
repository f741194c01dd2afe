"""The problem that a proposer receives: as many cases as a request has room for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.refine.analysis import Tally
from regauge.refine.loop._state import Spending, TrialResults
from regauge.refine.problem import problem_of
from tests.unit.refine.proposers.problems import CASES, prompt, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.loop._state import TrialPlan

NAMES = tuple(f"case-{number}" for number in range(20))


@pytest.mark.parametrize(
    ("failing", "passing", "shown", "searched"),
    [(1, 1, (1, 1), 2), (3, 2, (3, 2), 5), (4, 3, (3, 2), 7), (9, 9, (3, 2), 12)],
)
def test_a_few_cases_of_each_kind_are_shown_and_more_are_searched(
    failing: int, passing: int, shown: tuple[int, int], searched: int
) -> None:
    config, state, _ = told("Rate alerts.")
    cases = {
        name: replace(CASES["one"], id=name, inputs={"alert": f"Alert {name} " * 400})
        for name in NAMES
    }
    mode = replace(state.mode, cases=NAMES[: failing + passing], failing=NAMES[:failing])
    state = replace(state, config=replace(config, train=NAMES), open_modes=(mode,))
    problem = problem_of(state, cases)
    assert (len(problem.failing), len(problem.passing)) == shown
    assert len(problem.cases) == searched
    assert len({*problem.cases} & {*mode.failing}) == min(failing, 6)
    for case in (*problem.failing, *problem.passing):
        (text,) = case.inputs.values()
        assert 2_000 <= len(str(text)) < 2_100
        assert str(text).startswith("Alert case-")


@pytest.mark.parametrize(("length", "cut"), [(2_000, 0), (2_001, 1), (2_500, 500)])
def test_long_inputs_and_outputs_keep_their_beginning_and_end(length: int, cut: int) -> None:
    text = "a" * 1_000 + "b" * (length - 2_000) + "c" * 1_000
    output = "a" * 500 + "b" * (length - 2_000) + "c" * 500
    _, state, _ = told("Rate alerts.")
    (outcome,) = state.tally.failures(state.text.digest, "one", state.mode.check)
    state = replace(state, tally=Tally().with_outcomes([replace(outcome, output=output)]))
    cases = {name: replace(case, inputs={"alert": text}) for name, case in CASES.items()}
    case = problem_of(state, {"one": cases["one"]}).failing[0]
    middle = f"\n[... {cut} characters ...]\n" if cut else ""
    assert case.inputs == {"alert": "a" * 1_000 + middle + "c" * 1_000}
    assert case.output == "a" * 500 + middle + "c" * 500


def test_only_cases_of_the_search_are_shown() -> None:
    config, state, _ = told("Rate alerts.")
    mode = replace(state.mode, cases=("one", "two", "three", "held"), failing=("one", "held"))
    state = replace(state, open_modes=(mode,), config=replace(config, train=("one", "three")))
    problem = problem_of(state, CASES)
    assert sorted(problem.cases) == ["one", "three"]
    assert problem_of(state, {"one": CASES["one"]}).cases == ("one",)


def test_a_search_draws_trials_of_a_text_that_nothing_else_has_drawn() -> None:
    plans: list[TrialPlan] = []

    async def run_trials(asked: Sequence[TrialPlan]) -> TrialResults:
        plans.extend(asked)
        return TrialResults(outcomes=(), spending=Spending())

    config, state, _ = told("Rate alerts.")
    state = replace(state, config=replace(config, first_trial=7))
    problem = problem_of(state, CASES, run_trials=run_trials)
    assert problem.run_trials is not None
    other = prompt("Rate all alerts.")
    for text, cases in (
        (problem.text, ["one", "two"]),
        (other, ["one"]),
        (problem.text, ["two", "two", "three"]),
        (other, ["one"]),
    ):
        asyncio.run(problem.run_trials(text, cases))  # type: ignore[arg-type]
    assert [[*plan.trials] for plan in plans] == [
        [("one", 507), ("two", 507)],
        [("one", 507)],
        [("two", 508), ("two", 509), ("three", 507)],
        [("one", 508)],
    ]
    assert [plan.text for plan in plans] == [problem.text, other, problem.text, other]
    assert problem_of(state, CASES).run_trials is None
