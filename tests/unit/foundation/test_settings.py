"""The range of each setting, with both of its ends, and settings that are refused in words."""

from __future__ import annotations

import os
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from regauge.errors import ConfigError, UsageError
from regauge.project import Project, PythonTarget, Settings

if TYPE_CHECKING:
    from pathlib import Path

PROVIDER = {"providers": {"a": {"base_url": "http://a/v1"}}}
PRICES = {"providers": {"a": {"prices": {"m": {"input_per_million": 1, "output_per_million": 1}}}}}
HTTP = {"targets": {"a": {"kind": "http", "url": "http://a/"}}}
GOAL = {"refine": {"goals": [{"pass_rate": 0.9}]}}


def settings_with(name: str, value: object) -> Settings:
    """The settings with one of them, and what its table needs."""
    needed = next(
        (table for table in (PRICES, PROVIDER, HTTP) if name.startswith(_path(table))), {}
    )
    document: dict[str, Any] = _copy(needed)
    *tables, key = name.split(".")
    reduce(lambda table, part: table.setdefault(part, {}), tables, document)[key] = value
    return Settings.model_validate(document)


def _path(table: dict[str, Any]) -> str:
    parts = []
    while isinstance(table, dict) and len(table) == 1:
        ((name, table),) = table.items()
        parts.append(name)
    return ".".join(parts) + "."


def _copy(table: Any) -> Any:
    return {k: _copy(v) for k, v in table.items()} if isinstance(table, dict) else table


def value_of(settings: Settings, name: str) -> object:
    value: Any = settings
    for part in name.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("trials", [1, 10_000], [0, 10_001]),
        ("concurrency", [1, 1024, "auto"], [0, 1025, "some"]),
        ("budget_usd", [0, 0.01], [-0.01]),
        ("request_mb_max", [0.001], [0, -1]),
        ("timeout_s", [0.001], [0, -1]),
        ("holdout", [0, 1, 0.5], [-0.01, 1.01]),
        ("html_cases_max", [1], [0]),
        ("html_mb_max", [0.001], [0, -1]),
        ("gate.first_trials", [1, 24, "auto"], [0, 25]),
        ("gate.baseline_trials", [3, 100, "auto"], [2, 101]),
        ("gate.accepted_max", [0, 7], [-1]),
        ("gate.alpha_case", [0.001, 0.999], [0, 1]),
        ("gate.alpha_suite", [0.001, 0.999], [0, 1]),
        ("gate.min_effect", [0, 0.999], [-0.01, 1]),
        ("gate.new_case_trials", [3, 100], [0, 101]),
        ("gate.new_case_passes", [1, 3], [0, 101]),
        ("calibration.floor", [-1, 0.999], [-1.01, 1]),
        ("calibration.min_labels", [1], [0]),
        ("refine.max_cycles", [1], [0]),
        ("refine.budget_calls", [1], [0]),
        ("refine.budget_refiner_calls", [0], [-1]),
        ("refine.temperature", [0, 2], [-0.01, 2.01]),
        ("refine.max_tokens", [1], [0]),
        ("refine.context_tokens", [1], [0]),
        ("refine.budget_usd", [0], [-0.01]),
        ("mutate.floor", [0, 1], [-0.01, 1.01]),
        ("providers.a.timeout_s", [0.001], [0]),
        ("providers.a.max_attempts", [1], [0]),
        ("providers.a.deadline_s", [0.001], [0]),
        ("providers.a.batch_price", [0, 1], [-0.01, 1.01]),
        ("providers.a.api_key_command", [["key"]], [[]]),
        ("providers.a.prices.m.input_per_million", [0], [-1]),
        ("providers.a.prices.m.output_per_million", [0], [-1]),
        ("providers.a.prices.m.cached_input_per_million", [0], [-1]),
        ("targets.a.concurrency", [1, 1024, "auto"], [0, 1025]),
        ("targets.a.timeout_s", [0.001], [0]),
        ("targets.a.deadline_s", [0.001], [0]),
        ("targets.a.max_attempts", [1], [0]),
        ("targets.a.cost_usd", [0], [-0.01]),
        ("targets.a.status", [[200], [599]], [[199], [600]]),
    ],
)
def test_the_ends_of_a_range_are_taken_and_the_next_values_refused(
    name: str, inside: list[object], outside: list[object]
):
    for value in inside:
        assert value_of(settings_with(name, value), name) == value
    for value in outside:
        with pytest.raises(ValidationError):
            settings_with(name, value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("refine.goals", [{"pass_rate": 1}], "fix: no number of trials shows that nothing ever"),
        ("refine.goals", [{"pass_rate": 100}], "fix: no number of trials shows that nothing ever"),
        ("refine.goals", [{"pass_rate": 0}], "fix: write a share such as 0.95"),
        ("refine.goals", [{"pass_rate": 101}], "fix: write a share such as 0.95"),
        ("refine.goals", [{"pass_rate": 99.5}], "a share, not a percentage: write 0.995"),
        ("refine.goals", [{"pass_rate": True}], "write a number without quotes, such as 0.95"),
        (
            "refine.goals",
            [{"pass_rate": 0.9, "criterion": "corectness"}],
            "there is no criterion 'corectness'\n  fix: did you mean",
        ),
        ("refine.goals", [{"pass_rate": 0.9, "criterion": "zzz"}], "\n  fix: there are "),
        ("gate.ref", "HEAD^", "moves with every commit"),
        ("gate.ref", "@", "moves with every commit"),
        ("gate.anchor", "1.0", "must be 'major', 'none' or a version, not '1.0'"),
        ("gate.anchor", "01.0.0", "must be 'major', 'none' or a version"),
        ("providers.a.base_url", "ftp://a/v1", "no URL of an HTTP endpoint: ftp://a/v1\n"),
        ("providers.a.base_url", "http://a:0/v1", "no URL of an HTTP endpoint"),
        ("providers.a.base_url", "http://a:x/v1", "no URL of an HTTP endpoint"),
        ("providers.a.base_url", "http:///v1", "no URL of an HTTP endpoint"),
        (
            "providers.a.base_url",
            "http://me:pw@a/v1",
            "in the URL (http://a/v1) would be comm",
        ),
        ("targets.a.files", ["/etc"], "not a relative path: '/etc'\n"),
        ("targets.a.files", ["../x"], "not a relative path: '../x'"),
        ("targets.a.files", ["a\\b"], "not a relative path"),
        ("targets.a.files", ["C:/x"], "not a relative path"),
        ("targets.a.files", [""], "not a relative path"),
        ("targets.a.headers_env", {"X": "a b"}, "should match pattern"),
        ("redact", ["("], "not a regular expression: missing )"),
        ("model", "gpt", "'gpt' names no provider"),
        ("models", ["sim:a", "sim:b", "sim:a"], "'sim:a' is listed twice"),
        ("models", ["gpt"], "'gpt' names no provider"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_in_words(name: str, value: object, words: str):
    with pytest.raises(ValidationError) as caught:
        settings_with(name, value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("refine.goals", [{"pass_rate": 0.001}, {"pass_rate": 0.999, "criterion": None}]),
        ("models", ["sim:a", "sim:b"]),
        ("gate.ref", "HEADS"),
        ("gate.ref", "origin/main~2"),
        ("gate.anchor", "0.10.999999999"),
        ("providers.a.base_url", "https://a:443"),
        ("redact", ["key-[a-z]{30}"]),
        ("targets.a.headers_env", {"X-Key": "_KEY_1"}),
    ],
)
def test_a_setting_that_makes_sense_is_taken(name: str, value: object):
    assert settings_with(name, value)


@pytest.mark.parametrize("name", ["app", "app:", ":run", "app:run()", "app.1:run", "app/x:run", ""])
def test_a_callable_is_a_module_and_a_name_in_it(name: str):
    assert PythonTarget(callable="app.pipeline:Bot.run").callable == "app.pipeline:Bot.run"
    with pytest.raises(ValidationError, match="not the name of a callable"):
        PythonTarget(callable=name)


def test_a_directory_of_a_target_has_no_slash_at_its_end():
    assert value_of(settings_with("targets.a.files", ["app/", "a.py"]), "targets.a.files") == [
        "app",
        "a.py",
    ]


def test_places_of_a_project_are_below_its_root(tmp_path: Path):
    project = Project(root=tmp_path)
    inside = {
        "prompts": project.prompts_dir,
        "fixtures": project.fixtures_dir,
        "fixtures/golden": project.golden_dir,
        "fixtures/recordings": project.recordings_dir,
        "fixtures/recordings/judges/a.jsonl": project.recordings_path("judges/a"),
        "fixtures/baselines/a.json": project.baseline_path("a"),
        "fixtures/labels": project.labels_dir,
        ".regauge": project.state_dir,
        "pyproject.toml": project.pyproject,
    }
    assert {name: tmp_path / name for name in inside} == inside
    text = f"in {tmp_path}{os.sep}a and {tmp_path}"
    assert project.shorten(text) == f"in a and {tmp_path}"


def test_the_state_of_a_project_is_kept_out_of_git(tmp_path: Path):
    project = Project(root=tmp_path)
    project.prepare_state_dir("runs/a")
    assert (tmp_path / ".regauge/runs/a").is_dir()
    ignore = tmp_path / ".regauge/.gitignore"
    assert ignore.read_text().splitlines()[-1] == "*"
    ignore.write_text("own\n")
    project.prepare_state_dir()
    assert ignore.read_text() == "own\n"
    (tmp_path / ".regauge/batches").touch()
    with pytest.raises(
        UsageError, match=r"\.regauge/batches is a file, and .*\n  fix: move it away: mv"
    ):
        project.prepare_state_dir("batches")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.regauge").touch()
    with pytest.raises(UsageError, match=r"other/\.regauge is a file"):
        Project(root=tmp_path / "other").prepare_state_dir("runs")


def test_an_error_in_the_syntax_has_its_line(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\ntrials = 1\ntrials = 2\n")
    with pytest.raises(ConfigError) as caught:
        Project(root=tmp_path).settings  # noqa: B018 - reading it is what raises
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.line == 3
    assert diagnostic.message.startswith("not TOML: ")
    assert diagnostic.fix == "correct the syntax; pytest and other tools read this file too"
