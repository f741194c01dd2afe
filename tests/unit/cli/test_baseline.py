"""What `regauge baseline simulate` states of a drop that the gate is to find."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.cli.baseline import command
from regauge.gate import Count, DetectableDrop, GatePolicy
from regauge.maintenance.gate_power import GatePower

TARGET = DetectableDrop(drop=0.05, power=0.8)
START = "To find a 5-point drop in 80 of 100 runs takes "


@pytest.mark.parametrize(
    ("cases", "draws", "text"),
    [
        (60, 3, f"{START}about 60 cases like these, or first_trials = 3 with the 2 there are."),
        (60, None, f"{START}about 60 cases like these."),
        (None, None, f"{START}more than 3,000 cases like these."),
        (2, 1, "The 2 cases there are find a 5-point drop in at least 80 of 100 runs."),
    ],
)
def test_a_drop_takes_cases_or_first_trials(cases: int | None, draws: int | None, text: str):
    power = GatePower(
        prompt="triage",
        policy=GatePolicy(first_trials=1),
        target=TARGET,
        counts=[Count(passed=1, trials=1)] * 2,
        line=None,
        needed_cases=cases,
        needed_draws=draws,
    )
    assert power._required_text(TARGET) == text


@pytest.mark.parametrize("hours", ["-0.1", "8784.1", "inf", "nan"])
def test_sessions_are_at_most_a_year_apart(hours: str):
    output = CliRunner().invoke(group, ["baseline", "update", "--session-gap", hours]).output
    assert "Invalid value for '--session-gap'" in output
    (option,) = [one for one in command.commands["update"].params if one.name == "session_gap"]
    assert (option.type.min, option.type.max) == (0, 8_784)
