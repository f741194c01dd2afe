"""Faults of the simulated server: which share of requests fails, and which ones."""

from __future__ import annotations

from collections import Counter

import pytest

from regauge.sim.server import FaultPlan

REQUESTS = range(4000)


@pytest.mark.parametrize(
    "shares",
    [
        (),
        (("drop", 0.0),),
        (("drop", 1.0),),
        (("429", 0.02), ("500", 0.5), ("timeout", 0.25)),
        (("429", 0.5), ("drop", 0.25), ("truncate", 0.25)),
    ],
)
def test_each_fault_has_its_share_of_the_requests(shares: tuple[tuple[str, float], ...]):
    counts = Counter(map(FaultPlan(shares=shares).decide, REQUESTS))
    left = 1 - sum(share for _, share in shares)
    for fault, share in (*shares, ("", left)):
        if share in {0, 1}:
            assert counts[fault] == share * len(REQUESTS)
        assert counts[fault] / len(REQUESTS) == pytest.approx(share, abs=0.03)
    assert counts.total() == len(REQUESTS)


def test_the_seed_selects_the_requests():
    def decided(seed: int) -> list[str]:
        plan = FaultPlan(shares=(("500", 0.5),), seed=seed)
        return [plan.decide(number) for number in REQUESTS]

    assert decided(1) == decided(1) != decided(2)
