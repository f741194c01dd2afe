"""Trials of a version next to those of the anchor: on the same state of the same cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regauge.evidence import Count
from regauge.gate._anchor import compare_baselines, compare_with_anchor
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import (
    BaselineKey,
    StoredBaseline,
    StoredTrials,
)


def key(prompt: str) -> BaselineKey:
    return BaselineKey(
        prompt=prompt * 64, model="sim:a", parameters={}, dataset="d", judges={"c": "e" * 64}
    )


def stored(prompt: str, passed: int, *, digest: str = "1", trials: int = 12) -> StoredBaseline:
    cases: dict[str, StoredTrials] = {}
    for case in range(20):
        kept = StoredTrials(digest=digest * 16)
        for number in range(trials):
            facts = TrialFacts(checks={"c": number < passed}, output_digest="0" * 64)
            kept = kept.add(number, facts)
        cases[f"c{case}"] = kept
    return StoredBaseline(key=key(prompt), version="1.0.0", cases=cases)


def test_other_states_of_cases_are_not_compared():
    anchor = stored("a", 12)
    assert compare_baselines(anchor, stored("b", 3, digest="2")) is None
    assert compare_with_anchor(anchor, {}, {}) is None
    removed = {"c1": Count(passed=9, trials=12)}
    assert compare_with_anchor(anchor, removed, {}) is None
    empty = {"c1": Count(passed=0, trials=0)}
    assert compare_with_anchor(anchor, empty, {"c1": "1" * 64}) is None


@pytest.mark.parametrize(
    ("passed", "drawn_for", "suspected", "confirmed"),
    [(12, "", False, False), (9, "", True, False), (9, "b" * 64, False, True)],
)
def test_a_loss_is_suspected_and_trials_of_the_same_days_confirm_it(
    passed: int,
    drawn_for: str,
    suspected: bool,  # noqa: FBT001
    confirmed: bool,  # noqa: FBT001
):
    anchor = replace(stored("a", 12), drawn_for=drawn_for)
    found = compare_baselines(anchor, stored("b", passed))
    assert found is not None
    assert (found.cases, found.is_rerun) == (20, bool(drawn_for))
    assert (found.is_suspected, found.is_confirmed) == (suspected, confirmed)
    assert found.difference.value == pytest.approx((passed - 12) / 12)


def test_accepted_cases_are_counted_and_not_tested():
    anchor = stored("a", 12)
    cases = [f"c{number}" for number in range(20)]
    found = compare_baselines(anchor, stored("b", 9), accepted=cases)
    assert found is not None
    assert (found.cases, found.p_value, found.is_suspected) == (20, 1.0, False)
