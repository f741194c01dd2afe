"""What simulated gates find, and what they cost, in numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regauge.gate import Count, DetectableDrop, GatePolicy, cases_needed, first_trials_needed
from regauge.gate.power import (
    SimulatedSuite,
    lower_flaky_rates,
    lower_rates,
    sensitivity_line,
    unchanged_calls,
)
from regauge.stats import CasePolicy
from tests.transcripts import assert_as_written
from tests.unit.gate.power.test_power import typical

FEW = [Count(passed=passed, trials=12) for passed in (12, 12, 12, 11, 9, 3, 0, 12)]
POLICIES = {
    "usual": GatePolicy(),
    "blocking": GatePolicy(on_broken="block"),
    "warning": GatePolicy(on_broken="warn"),
    "undecided passes": GatePolicy(on_undecided="warn", on_drifted="block"),
    "other steps": GatePolicy(
        case=CasePolicy(steps=(2, 3), late_steps=(), extra_steps=(4,)), first_trials=2
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_simulated_gates_find_what_was_written_down(name: str):
    lines: list[str] = []
    changes = {"alike": lambda p: p, "lower": lower_rates(0.15), "flaky": lower_flaky_rates(0.05)}
    for cases in (FEW, typical(30)):
        prompts = ["a" if number % 3 else "b" for number in range(len(cases))]
        for of, checks in (([], None), (prompts, 3 * len(cases))):
            suite = SimulatedSuite.from_baselines(cases, POLICIES[name], checks=checks, prompts=of)
            assert suite is not None
            for change, how in {**changes, "one": suite.break_one}.items():
                for recorded in (0, 2):
                    played = replace(suite, recorded=recorded).simulate(7, how, runs=60)
                    counts = {
                        field: int(np.sum(getattr(played, field)))
                        for field in played.__dataclass_fields__
                    }
                    counts["accepted"] = int(np.sum(played.accepted))
                    lines.append(f"{len(cases)} cases, {len(of)}, {change}, {recorded}: {counts}")
    assert_as_written("\n".join([*lines, ""]), f"power/{name}")


def test_lines_and_sizes_are_those_that_were_written_down():
    lines = [
        str(sensitivity_line(FEW, GatePolicy(), seed=2, drops=(0.05, 0.1))),
        str(sensitivity_line(FEW, GatePolicy(), seed=2, drops=(0.2,), recorded=3)),
        str(sensitivity_line(typical(60), GatePolicy(first_trials=1), cases=120, drops=(0.05,))),
        f"{unchanged_calls(FEW, GatePolicy()):.6g}",
        str(cases_needed(FEW, GatePolicy(), DetectableDrop(drop=0.2, power=0.6))),
        str(cases_needed(FEW, GatePolicy(), DetectableDrop(drop=0.01, power=0.99), at_most=20)),
        str(
            first_trials_needed(
                FEW, GatePolicy(first_trials=1), DetectableDrop(drop=0.2, power=0.7)
            )
        ),
        str(
            first_trials_needed(
                FEW, GatePolicy(), DetectableDrop(drop=0.01, power=0.99), at_most=13
            )
        ),
        str(sensitivity_line([Count(passed=0, trials=0)], GatePolicy())),
    ]
    assert_as_written("\n".join([*lines, ""]), "power/lines")
