"""What `regauge init` adds to a pyproject.toml."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from regauge.errors import ConfigError, UsageError
from regauge.scaffold import merge_pyproject, plan_working_set

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "added", "said"),
    [
        ("[tool.regauge]\ntrials = 2\n", ["[tool.pytest.ini_options]"], ""),
        ("[tool.pytest.ini_options]\naddopts = '-q'\n", ["[tool.regauge]"], "no:deepeval"),
        ("[tool.pytest]\naddopts = ['-p', 'no:deepeval']\n", ["[tool.regauge]"], ""),
        ("[tool.regauge.gate]\nref = 'x'\n", ["[tool.pytest.ini_options]"], ""),
        ("[tool.ruff]\nline-length = 90", ["[tool.pytest.ini_options]", "[tool.regauge]"], ""),
        ("tool = { ruff = {} }\n", [], "`tool` is written as one value"),
        ("[tool.pytest.ini_options]\npython_files = ['check_*.py']\n", ["[tool.regauge]"], "add test_*.py to python_files"),
    ],
)  # fmt: skip
def test_pyproject_gets_the_tables_that_are_absent(
    tmp_path: Path, text: str, added: list[str], said: str
):
    (tmp_path / "pyproject.toml").write_text(text)
    planned = merge_pyproject(tmp_path)
    merged = planned.text or text
    assert merged.startswith(text)
    assert [line for line in merged[len(text) :].splitlines() if line.startswith("[")] == added
    assert said in planned.reason or said in "".join(planned.advice)
    assert "deepeval" not in planned.reason
    assert (planned.action == "add") == bool(added)
    if added:
        tomllib.loads(merged)


@pytest.mark.parametrize("data", [b"[tool.x", b"tool = 3", b"\xff"])
def test_a_pyproject_that_nobody_can_read_is_refused_before_anything_is_written(
    tmp_path: Path, data: bytes
):
    (tmp_path / "pyproject.toml").write_bytes(data)
    with pytest.raises(
        ConfigError, match=r"pyproject.toml: not TOML: [\s\S]*\n  fix: correct it first"
    ):
        plan_working_set(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_a_file_in_place_of_a_directory_is_refused_before_anything_is_written(tmp_path: Path):
    (tmp_path / "evals").touch()
    with pytest.raises(UsageError, match=r"evals is a file, and .*\n  fix: move or rename evals"):
        plan_working_set(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["evals"]
