"""How variance is counted."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from regauge.refine.analysis import CheckOutcome, Outcome, agreement, format_share, variance_of


def outcome(case: str, trial: int, answer: str, *, passed: bool) -> Outcome:
    checks = (CheckOutcome(check="json", passed=passed),)
    return Outcome(text="t", case=case, trial=trial, output=answer, checks=checks)


@given(st.lists(st.sampled_from("abc"), min_size=2))
def test_agreement_is_the_share_of_equal_pairs(values: list[str]):
    pairs = [
        one == other for n, one in enumerate(values) for m, other in enumerate(values) if n != m
    ]
    assert agreement(values) == pytest.approx(sum(pairs) / len(pairs))


def test_a_case_that_was_drawn_once_says_nothing():
    assert variance_of([outcome("a", 0, "x", passed=True)]) is None
    assert variance_of([outcome("a", 0, "x", passed=True)] * 2) is None


def test_answers_may_vary_where_verdicts_do_not():
    said = variance_of(
        [
            outcome("a", 0, "x", passed=True),
            outcome("a", 1, "y", passed=True),
            outcome("b", 0, "x", passed=True),
            outcome("b", 1, "x", passed=False),
        ]
    )
    assert said is not None
    assert (said.cases, said.trials, said.outputs, said.verdicts) == (2, 4, 0.5, 0.5)
    assert said.checks["json"].unsteady == ("b",)
    # Case b passes half of two trials, so its variance is 1/2; that of a is 0.
    assert said.sigma == said.checks["json"].sigma == pytest.approx(0.5)
    assert (said.checks["json"].passed, said.checks["json"].trials) == (3, 4)


def test_verdicts_are_compared_over_the_checks_that_judged_both_trials():
    def judged(case: str, trial: int, **verdicts: bool) -> Outcome:
        checks = tuple(CheckOutcome(check=check, passed=ok) for check, ok in verdicts.items())
        return Outcome(text="t", case=case, trial=trial, checks=checks)

    trials = [
        judged("a", 0, json=True, tone=True),
        judged("a", 1, json=True),
        judged("a", 2, json=True, tone=True),
        judged("b", 0, json=True),
        judged("b", 1, tone=False),  # no check judged both trials of this case
    ]
    said = variance_of(trials)
    assert said is not None
    assert (said.verdicts, said.sigma) == (1.0, 0.0)
    said = variance_of([*trials, judged("a", 3, tone=False)])
    assert said is not None
    # Of the six pairs, one shares no check and two differ.
    assert said.verdicts == pytest.approx(3 / 5)


def test_one_unsteady_case_of_many_is_never_shown_as_none():
    trials = [outcome(f"c{n}", trial, "x", passed=True) for n in range(300) for trial in (0, 1)]
    said = variance_of([*trials[:-1], outcome("c299", 1, "y", passed=False)])
    assert said is not None
    assert (format_share(said.outputs), format_share(said.verdicts)) == (">99%", ">99%")
    assert [format_share(share) for share in (0.0, 0.001, 0.42, 1.0)] == [
        "0%",
        "<1%",
        "42%",
        "100%",
    ]
