"""Which runs on this machine can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.cli.runs import _name_runs
from regauge.errors import UsageError
from regauge.project import Project

if TYPE_CHECKING:
    from pathlib import Path


def test_runs_that_cannot_be_read_are_none_to_compare(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\n")
    for number in range(2):
        run = tmp_path / f".regauge/runs/20260101-00000{number}-aaaa"
        run.mkdir(parents=True)
        (run / "run.json").write_text("{")
    project = Project.find(tmp_path)
    for names in ((None, None), ("latest", None), ("latest", "latest")):
        with pytest.raises(UsageError, match="there are no two runs with cases on this machine"):
            _name_runs(project, *names)
