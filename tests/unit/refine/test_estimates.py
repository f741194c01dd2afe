"""What a refinement run takes, before anything is paid."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.refine.refinement import Refinement
from tests.unit.refine.world import HEALTHY, world


@pytest.mark.parametrize(
    ("judging", "calls"),
    [({}, 1.0), ({"tone": 2.0}, 3.0), ({"tone": 0.5, "x": 1.0}, 2.5)],
)
def test_the_first_look_runs_each_training_case(judging: dict[str, float], calls: float):
    config = replace(world(HEALTHY).config, judging=judging)
    refinement: Any = SimpleNamespace(config=config, _call_usd=0.25)
    estimate = Refinement.estimate(refinement)
    trials = config.policy.test.baseline_trials * len(config.train)
    assert (estimate.train, estimate.holdout) == (len(config.train), len(config.holdout))
    assert estimate.first_look_calls == trials * calls
    assert estimate.first_look_calls <= estimate.least_calls <= estimate.one_repair_calls
    assert estimate.calls_max == config.policy.limits.calls
    assert (estimate.has_llm_judges, estimate.call_usd) == (bool(judging), 0.25)
