"""The SQLite file of the local store: opening it, its schema, and what its failures mean."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from regauge.errors import Fault, RecordingError, explain_os_error, find_no_descriptor

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

__all__ = ["SCHEMA_VERSION", "explained", "open_database"]

SCHEMA_VERSION: Final = 1

_BUSY_S: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE answers (
    digest TEXT NOT NULL,
    trial INTEGER NOT NULL,
    session INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (digest, trial, session)
);
CREATE TABLE claims (
    digest TEXT NOT NULL,
    trial INTEGER NOT NULL,
    session INTEGER NOT NULL,
    owner TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (digest, trial, session)
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    plan TEXT NOT NULL,
    mode TEXT NOT NULL,
    owner TEXT NOT NULL,
    touched_at REAL NOT NULL,
    finished INTEGER NOT NULL DEFAULT 0
);
"""


def open_database(path: Path, *, read_only: bool) -> sqlite3.Connection | None:
    """Open the file, making it first where it does not exist.

    Args:
        path: The file.
        read_only: Never write; None is returned where there is no file.

    Raises:
        RecordingError: The file is damaged, is not ours, or cannot be opened.
    """
    with explained(path):
        if read_only:
            if not path.exists():
                return None
            database = _connect_read_only(path)
        else:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _error(path, f"cannot be made: {error.strerror}", _PERMISSION) from error
            database = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        try:
            _prepare(database, path, read_only=read_only)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turn what SQLite says into what a reader can do about it.

    Raises:
        RecordingError: Whatever SQLite raised.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        said = str(error)
        if "unable to open" in said and (no_descriptor := find_no_descriptor()) is not None:
            said, fix = explain_os_error(no_descriptor)
        elif "full" in said or "disk I/O" in said:
            fix = "make room on the disk, then run the same command again: it continues"
        elif "readonly" in said or "unable to open" in said or "attempt to write" in said:
            fix = _PERMISSION
        elif "locked" in said or "busy" in said:
            fix = "another process holds it for long: let it end, then run the same command again"
        else:
            fix = _away(path)
        raise _error(path, f"the local store cannot be used: {said}", fix) from error


_PERMISSION: Final = (
    "give write permission for this directory, or replay committed recordings only: --record=none"
)


def _away(path: Path) -> str:
    # The -wal and -shm files belong to the damaged file and would be applied to a new one.
    return (
        f"move it away: mv {path} {path}.damaged && rm -f {path}-wal {path}-shm\n"
        "  committed recordings are not in it and lose nothing; answers kept only there are asked"
        " for again"
    )


def _error(path: Path, message: str, fix: str) -> RecordingError:
    return RecordingError([Fault(path=path, line=None, message=message, fix=fix)])


def _connect_read_only(path: Path) -> sqlite3.Connection:
    quoted = str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        database = sqlite3.connect(
            f"file:{quoted}?{mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # In a directory that cannot be written there is no place for the shared index of the
            # write-ahead log; nobody else can write there either, so the file stands still.
            database.close()
            continue
        return database
    raise sqlite3.OperationalError("unable to open database file")


def _prepare(database: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    version = _version(database)
    if version == 0 and not read_only:
        _write_ahead(database)
        # Another process may have come first while this one waited.
        database.execute("BEGIN IMMEDIATE")
        version = _version(database)
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and not tables:
            for statement in _SCHEMA.split(";")[:-1]:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            version = SCHEMA_VERSION
        database.execute("COMMIT")
    if version > SCHEMA_VERSION:
        raise _error(
            path,
            f"written by a newer regauge (schema {version}, this one knows {SCHEMA_VERSION})",
            f"install that version, or {_away(path)}",
        )
    if version < SCHEMA_VERSION:
        raise _error(path, "not a local store of regauge, or a very old one", _away(path))
    if not read_only:
        # Survives the death of the process; a power cut may take the last answers, no more.
        database.execute("PRAGMA synchronous = NORMAL")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _write_ahead(database: sqlite3.Connection) -> None:
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # Changing the mode does not wait as other statements do.
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
