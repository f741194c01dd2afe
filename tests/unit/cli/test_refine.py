"""Options of `regauge refine`: the command line first, then the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regauge.cli.refine import _options
from regauge.project import Project

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT: dict[str, Any] = {
    "proposers": None,
    "refiner_model": None,
    "max_cycles": None,
    "budget_calls": None,
    "budget_refiner_calls": None,
    "budget_usd": None,
    "fix_flaky": False,
    "show_expected": False,
    "include_tracked": False,
    "remove_unused": False,
    "seed": 0,
}


@pytest.mark.parametrize(
    ("setting", "option", "field", "values"),
    [
        ('model = "sim:a"', {"refiner_model": "sim:b"}, "model", ("", "sim:a", "sim:b")),
        (
            'proposers = ["model"]',
            {"proposers": "rules, own"},
            "proposers",
            (("rules", "model"), ("model",), ("rules", "own")),
        ),
        ("max_cycles = 2", {"max_cycles": 3}, "cycles", (5, 2, 3)),
        ("budget_calls = 2", {"budget_calls": 3}, "calls", (None, 2, 3)),
        ("budget_refiner_calls = 2", {"budget_refiner_calls": 0}, "model_calls", (40, 2, 0)),
        ("budget_usd = 0.5", {"budget_usd": 0.0}, "usd", (None, 0.5, 0.0)),
        ("fix_flaky = true", {"fix_flaky": True}, "fix_flaky", (False, True, True)),
        ("show_expected = true", {"show_expected": True}, "show_expected", (False, True, True)),
        ('frozen = ["Be kind."]', {}, "frozen", ((), ("Be kind.",), ("Be kind.",))),
        ("temperature = 0.5", {}, "temperature", (None, 0.5, 0.5)),
        ("max_tokens = 9", {}, "max_tokens", (None, 9, 9)),
        ("context_tokens = 9", {}, "context_tokens", (None, 9, 9)),
    ],
)
def test_an_option_comes_from_the_command_line_else_from_the_settings(
    tmp_path: Path, setting: str, option: dict[str, Any], field: str, values: tuple[Any, ...]
):
    def value(words: dict[str, Any]) -> Any:
        return getattr(_options(Project.find(tmp_path), "triage", LEFT_OUT | words), field)

    default, of_settings, of_option = values
    settings = tmp_path / "pyproject.toml"
    settings.write_text("[tool.regauge]\n")
    assert value({}) == default
    settings.write_text(f"[tool.regauge.refine]\n{setting}\n")
    assert value({}) == of_settings
    assert value(option) == of_option
