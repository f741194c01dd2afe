"""What is grouped as a failure, and what counts as evidence."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from regauge.refine._policy import AcceptancePolicy
from regauge.refine.analysis import (
    Check,
    CheckOutcome,
    Outcome,
    Tally,
    diagnose,
    p_better,
    p_worse,
    tail,
)
from tests.unit.refine.world import UTC, without


def outcomes(text, case, passed, failed, check="json", *, first=0, code="missing"):
    return [
        Outcome(
            text=text, case=case, trial=first + n, output="",
            checks=(CheckOutcome(check=check, passed=n < passed, code="" if n < passed else code),),
        )
        for n in range(passed + failed)
    ]  # fmt: skip


def test_failures_are_grouped_by_check_form_first_and_flaky_ones_apart():
    tally = Tally().with_outcomes(
        [
            *outcomes("t", "a", 0, 3, "tone"),
            *outcomes("t", "a", 0, 3, "json", first=10),
            *outcomes("t", "b", 2, 1, "utc", first=20),
            *outcomes("t", "c", 9, 0, "utc", first=30),
        ]
    )
    checks = {"tone": Check(name="tone"), "json": Check(name="json", criterion="format")}

    found = diagnose(tally, lambda _: ("t",), ["a", "b", "c"], checks, AcceptancePolicy())

    assert [mode.check for mode in found.modes] == ["json", "tone"]
    assert [(c.check, c.failures, c.trials) for c in found.flaky] == [("utc", 1, 12)]
    assert found.modes[0].key == "json/missing"


@given(trials=st.integers(0, 20), rate=st.floats(0.01, 0.99))
def test_the_tail_is_a_probability_that_falls(trials, rate):
    tails = [tail(trials, failures, rate) for failures in range(trials + 1)]

    assert all(0 <= value <= 1 + 1e-9 for value in tails)
    assert tails == sorted(tails, reverse=True)
    assert abs(tails[0] - 1) < 1e-9


@given(k=st.integers(0, 6), j=st.integers(0, 6))
def test_evidence_for_and_against_is_the_same_seen_from_either_side(k, j):
    tally = Tally().with_outcomes(
        [*outcomes("old", "a", k, 6 - k), *outcomes("new", "a", j, 6 - j)]
    )

    assert p_better(tally, "new", "old", ["a"], "json") == pytest.approx(
        p_worse(tally, "old", "new", ["a"], "json")
    )
    if j <= k:
        assert p_better(tally, "new", "old", ["a"], "json") > 0.3


def test_a_trial_is_counted_once():
    twice = [*outcomes("t", "a", 1, 1), *outcomes("t", "a", 1, 1)]

    assert Tally().with_outcomes(twice).trials("t", "a") == 2
    assert UTC not in without("utc").full_text
