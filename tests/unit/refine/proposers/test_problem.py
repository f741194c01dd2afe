"""The problem that a proposer receives: as many cases as a request has room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regauge.refine.problem import problem_of
from tests.unit.refine.proposers.problems import CASES, told

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


def test_only_cases_of_the_search_are_shown() -> None:
    config, state, _ = told("Rate alerts.")
    mode = replace(state.mode, cases=("one", "two", "three", "held"), failing=("one", "held"))
    state = replace(state, open_modes=(mode,), config=replace(config, train=("one", "three")))
    problem = problem_of(state, CASES)
    assert sorted(problem.cases) == ["one", "three"]
    assert problem_of(state, {"one": CASES["one"]}).cases == ("one",)
