"""Files of requirements that a project's workflows install from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from regauge.scaffold._workflows import WORKFLOWS, find_missing_requirements, workflow_path

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = {"run": "pip install -r requirements.txt"}


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ([], []),
        ([{"uses": "actions/checkout@v4"}, INSTALL], ["requirements.txt"]),
        ([INSTALL, INSTALL], ["requirements.txt"]),
        ([{"run": "pip install -r there.txt"}], []),
        ([{"run": "pip install -r there.txt -r gone.txt"}], ["gone.txt"]),
        ([INSTALL | {"working-directory": "app"}], []),
        ([{"run": "pip install -r there.txt", "working-directory": "app"}], ["there.txt"]),
    ],
)
def test_requirements_that_do_not_exist_are_named_with_their_workflow(
    tmp_path: Path, steps: list[dict[str, Any]], missing: list[str]
):
    (tmp_path / "there.txt").touch()
    (tmp_path / "app").mkdir()
    (tmp_path / "app/requirements.txt").touch()
    assert find_missing_requirements(tmp_path) == []
    paths = [workflow_path(name) for name in WORKFLOWS[:2]]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps({"jobs": {"a": {"steps": steps}, "b": {}}}))
    expected = [(path, name) for path in paths for name in missing]
    assert find_missing_requirements(tmp_path) == expected
