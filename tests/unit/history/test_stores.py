"""Runs in a store that cannot be read, and errors of stores with their fixes."""

from __future__ import annotations

import errno
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import InvalidFileError, StoreError
from regauge.history import RunEntry, StorePlace
from regauge.history._history import History
from regauge.history._store import Store, explain_errors
from regauge.project import Project

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
        suites=[],
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
    assert str(older).startswith(f"history in sqlite:///{tmp_path}/{FILE}: ") or FILE in str(older)
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


def test_a_url_of_a_server_that_cannot_be_read_is_named(tmp_path: Path):
    url = "postgresql://me:secret@db:port/evals?x=%zz"
    place = StorePlace.from_settings(Project(root=tmp_path), {"REGAUGE_STORE": url})
    with pytest.raises(StoreError, match="its URL cannot be read\n  fix: ") as caught:
        Store(place)
    assert "secret" not in str(caught.value)
