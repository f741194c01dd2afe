"""Runs on this machine: those that can be compared, notes on a comparison, lines of the list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.cli.runs import _name_runs, _notes, _run, _run_line
from regauge.errors import UsageError
from regauge.history import LabelledRun
from regauge.project import Project
from regauge.reports import RunRecord

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


def record(run: str = "r1", **more: Any) -> RunRecord:
    values: dict[str, Any] = {
        "id": run,
        "started_at": "2026-01-31T10:00:00+00:00",
        "finished_at": "2026-01-31T10:00:01+00:00",
        "status": "finished",
        "regauge_version": "0",
        "python_version": "3",
        "command": [],
        "git": None,
        "options": {},
        "evals": [],
    }
    return RunRecord(**(values | more))


def labelled(*records: RunRecord) -> list[LabelledRun]:
    return [
        LabelledRun(label=label, record=one, read=list)
        for label, one in zip("AB", records, strict=False)
    ]


@pytest.mark.parametrize(
    ("days", "notes"),
    [
        (("01", "02"), []),
        (("02", "02"), []),
        (("02", "01"), ["A is newer than B, so `better` and `worse` describe the earlier run B"]),
    ],
)
def test_a_comparison_with_an_earlier_run_is_noted(days: tuple[str, str], notes: list[str]):
    runs = [record(f"r{n}", started_at=f"2026-01-{day}T10:00") for n, day in enumerate(days)]
    assert [*_notes(labelled(*runs))][2:] == notes


def test_runs_without_cases_and_the_same_run_twice_are_noted():
    assert [*_notes(labelled(record(), record()))] == [
        "run A has no cases", "run B has no cases", "A and B are the same run",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("suites", "notes"),
    [
        ([("candidate", 2)], []),
        ([("base", 3), ("candidate", 1)], []),
        ([("base", 3)], ["run A has no cases"]),
        ([("base", 3), ("candidate", 0)], ["run A has no cases"]),
    ],
)
def test_trials_of_the_base_are_no_cases_of_a_run(suites: list[Any], notes: list[str]):
    run = record().model_copy(
        update={"evals": [SimpleNamespace(side=side, cases=cases) for side, cases in suites]}
    )
    assert [*_notes(labelled(run))] == notes


def test_a_line_of_the_list_states_an_interruption():
    line = "r1  -            0 cases, 0 failed, 0 unmeasured"
    assert _run_line(record()) == f"{line}, $0  "
    assert _run_line(record(status="interrupted")) == f"{line}, interrupted, $0  "


def test_an_unreadable_run_is_named_among_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\n")
    for name, text in (("20260101-000001-aaaa", "{"), ("20260101-000002-bbbb", "")):
        run = tmp_path / ".regauge/runs" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text(text or record(name).model_dump_json())
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(group, ["runs", "list"], catch_exceptions=False)
    assert "20260101-000002-bbbb  -" in result.stdout
    assert "20260101-000001-aaaa  unreadable: .regauge/runs/" in result.stderr
    with pytest.raises(UsageError, match="2026"):  # two runs begin with it
        _run(Project.find(tmp_path), "2026")
