"""Runs in a store that cannot be read, and errors of stores with their fixes."""

from __future__ import annotations

import errno
import json
import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import InvalidFileError, StoreError, UsageError
from regauge.history import RunEntry, find_store
from regauge.history._history import History, SyncReport
from regauge.history._place import FilePlace, explain_errors
from regauge.history._store import Store
from regauge.project import Project
from regauge.reports import RunWriter

if TYPE_CHECKING:
    from pathlib import Path

FILE = "team.sqlite3"


def history_of(root: Path) -> History:
    return History(Project(root=root), {"REGAUGE_STORE": f"sqlite:///{root / FILE}"})


def entry(number: int, document: object) -> RunEntry:
    return RunEntry(
        id=f"20260131-10000{number}-aaaa",
        started_at=f"2026-01-31T10:00:0{number}+00:00",
        finished_at="2026-01-31T10:00:09+00:00",
        document=document if isinstance(document, str) else json.dumps(document),
        evals=[],
        trials=[],
    )


def test_runs_that_cannot_be_read_are_errors_among_the_others(tmp_path: Path):
    history = history_of(tmp_path)
    assert history.records(limit=5) == []
    store = Store(history.place)
    store.add(entry(0, {"id": "a", "schema_version": 99}))
    store.add(entry(1, {"id": "b", "schema_version": 1, "command": 5}))
    older, newer = reversed(history.records(limit=5))
    assert isinstance(older, StoreError)
    assert isinstance(newer, StoreError)
    assert FILE in str(older)
    assert "run 'a': it has schema version 99; this regauge reads 1\n" in str(older)
    assert str(older).endswith("fix: read it with the regauge that wrote it")
    assert "run 'b': " in str(newer)
    assert [str(record) for record in history.records(limit=1)] == [str(newer)]


def test_a_run_that_is_not_json_is_named(tmp_path: Path):
    history = history_of(tmp_path)
    Store(history.place).add(entry(0, "{"))
    with pytest.raises(StoreError, match="a run in it is not JSON: "):
        history.records(limit=5)


@pytest.mark.parametrize("row", ["[]", "{}", '{"case": 3}', '{"verdicts": 5}'])
def test_a_run_with_other_rows_is_not_added(tmp_path: Path, row: str):
    run = tmp_path / "run"
    run.mkdir()
    document: dict[str, Any] = {
        "schema_version": 1, "id": "run", "started_at": "2026-01-31T10:00:00+00:00",
        "finished_at": "2026-01-31T10:00:09+00:00",
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(document))
    (run / "trials.jsonl").write_text(f"{row}\n")
    with pytest.raises(InvalidFileError):
        history_of(tmp_path).add(run)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "no space is left on the disk\n  fix: make room"),
        (PermissionError(errno.EACCES, "Permission denied"), "Permission denied\n  fix: "),
        (sqlite3.OperationalError("database is locked\nmore"), "database is locked\n  fix: "),
        (sqlite3.OperationalError(""), "no reason given\n  fix: "),
        (
            sqlite3.OperationalError("unable to open database file"),
            "unable to open database file\n",
        ),
    ],
)
def test_an_error_of_a_store_has_a_fix(tmp_path: Path, error: Exception, words: str):
    place = history_of(tmp_path).place
    with pytest.raises(StoreError) as caught, explain_errors(place):
        raise error
    assert words in str(caught.value)
    assert caught.value.fix


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path):
    place = history_of(tmp_path).place
    assert isinstance(place, FilePlace)
    place.file.mkdir(parents=True)
    with pytest.raises(StoreError, match="it is a directory\n  fix: move it away: mv "):
        Store(place)


def test_a_url_of_a_server_that_cannot_be_read_is_named(tmp_path: Path):
    url = "postgresql://me:secret@db:port/evals?x=%zz"
    place = find_store(Project(root=tmp_path), {"REGAUGE_STORE": url})
    with pytest.raises(StoreError, match="its URL cannot be read\n  fix: ") as caught:
        Store(place)
    assert "secret" not in str(caught.value)


def write_run(root: Path, number: int, *results: Any) -> str:
    """Write a run of the project; return its id."""
    name = f"20260131-10000{number}-aaaa"
    writer = RunWriter(root / ".regauge/runs" / name, redact=str)
    for result in results:
        writer.add(result)
    writer.finish(
        started_at=datetime(2026, 1, 31, 10, 0, number, tzinfo=UTC),
        interrupted=False,
        command=["pytest", "evals"],
        options={"record": "none"},
        git=None,
    )
    return name


def test_runs_of_this_machine_are_added_once_the_oldest_first(made: Any, tmp_path: Path):
    project = Project(root=tmp_path)
    assert History.open(project, {}).empty
    assert History.open(project, {}).sync() == SyncReport()
    first = write_run(tmp_path, 0, made.result([made.trial(0)]))
    second = write_run(tmp_path, 1, made.result([made.trial(0, "failed"), made.trial(1)]))
    broken = write_run(tmp_path, 2, made.result([made.trial(0)]))
    (tmp_path / ".regauge/runs" / broken / "run.json").write_text("{")
    history = History.open(project, {})
    assert history.caught_up.added_runs == (first, second)
    ((name, problem),) = history.caught_up.unreadable
    assert name == broken
    assert "run.json" in problem
    assert History.open(project, {}).caught_up.added_runs == ()
    suites = history.evals("alert")
    assert [(suite.run, suite.cases, suite.passed, suite.trials) for suite in suites] == [
        (first, 1, 1, 1),
        (second, 1, 0, 2),
    ]
    assert history.evals("other") == []
    assert [record.id for record in history.records(limit=1)] == [second]
    assert [record.id for record in history.records(limit=9)] == [second, first]


def test_a_shared_store_takes_no_runs_by_itself(made: Any, tmp_path: Path):
    name = write_run(tmp_path, 0, made.result([made.trial(0)]))
    project, environ = Project(root=tmp_path), {"REGAUGE_STORE": f"sqlite:///{tmp_path / FILE}"}
    history = History.open(project, environ)
    assert (history.empty, history.caught_up) == (True, SyncReport())
    assert history.evals("alert") == []
    assert history.sync().added_runs == (name,)
    assert not History.open(project, environ).empty


def test_a_run_is_found_by_the_beginning_of_its_id(made: Any, tmp_path: Path):
    names = [
        write_run(tmp_path, number, made.result([made.trial(0)], case=made.case(number)))
        for number in range(2)
    ]
    history = History.open(Project(root=tmp_path), {})
    record, rows = history.run(names[1])
    assert record.id == names[1]
    assert [row["case"] for row in rows()] == ["c1"]
    assert history.run("20260131-100000")[0].id == names[0]
    with pytest.raises(UsageError) as caught:
        history.run("20260131")
    assert str(caught.value) == (
        f"2 runs begin with '20260131': {names[1]}, {names[0]}\n  fix: give more of its id"
    )
    with pytest.raises(
        UsageError, match=r"no run 'x', neither in .regauge/runs nor in .*\n  fix: `re"
    ):
        history.run("x")
    with pytest.raises(UsageError, match="there is no run 'x'"):
        History(Project(root=tmp_path / "other"), {}).run("x")
