"""The local store: completions of this machine, shared by processes, not committed."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, Literal, Self

from regauge.errors import RecordingError, explain_os_error, find_no_descriptor
from regauge.recordings._file import Recording, RecordingKey, encode_line
from regauge.recordings._redact import Redactor
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from regauge.project import RecordMode

_FIELD_AFTER_NAME: Final = 19  # starttime is field 22 of /proc/<pid>/stat; the name ends field 2


def describe_process(pid: int) -> str:
    """Describe a process of this host as one line: host, boot, process id and start time."""
    return "|".join((_host(), _boot(), str(pid), _start_of(pid)))


def may_be_running(owner: str) -> bool:
    """Return whether the process of `describe_process` may still be running.

    A process id alone is not enough: ids are reused. A process of another host cannot be checked,
    so it counts as running; its claims end by expiry.
    """
    parts = owner.split("|")
    if len(parts) != len(("host", "boot", "pid", "started")):
        return False
    host, boot, pid, started = parts
    if host != _host():
        return True
    if boot != _boot() or not pid.isdigit():
        return False
    if sys.platform == "win32":
        return True  # signal 0 is Ctrl-C there; claims end by expiry
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # running, under another user
    now = _start_of(int(pid))
    return not (started and now) or started == now


def _host() -> str:
    return platform.node().replace("|", "")


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Return the start time of a process, in the unit of the system; "" if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except OSError:
        return ""
    else:
        fields = stat.rpartition(")")[2].split()
        # A zombie has ended; only its parent has not read its status.
        return "ended" if fields[0] == "Z" else fields[_FIELD_AFTER_NAME]
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)  # noqa: S603 - a fixed program and a number
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(done.stdout.split())


SCHEMA_VERSION: Final = 1

# Writes take milliseconds; a store that is busy for longer is blocked by another program.
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
    """Open the file; create it if it is missing.

    Args:
        path: The file.
        read_only: Never write; a missing file then returns None.

    Raises:
        RecordingError: The file is damaged, has another format, or cannot be opened.
    """
    with explain_errors(path):
        if read_only:
            if not path.exists():
                return None
            database = _connect_read_only(path)
        else:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RecordingError.at_place(
                    path, f"cannot be made: {error.strerror}", _PERMISSION
                ) from error
            database = _connect(str(path))
        try:
            _prepare(database, path, read_only=read_only)
        except BaseException:
            database.close()
            raise
        return database


@contextmanager
def explain_errors(path: Path) -> Generator[None]:
    """Turn errors of SQLite into errors with a fix.

    Raises:
        RecordingError: SQLite raised an error.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        message = str(error)
        if "unable to open" in message and (no_descriptor := find_no_descriptor()) is not None:
            message, fix = explain_os_error(no_descriptor)
        elif "full" in message or "disk I/O" in message:
            fix = (
                "make room on the disk, or raise the limit of file sizes (ulimit -f), then run"
                " the same command again: it continues"
            )
        elif "readonly" in message or "unable to open" in message or "attempt to write" in message:
            fix = _PERMISSION
        elif "locked" in message or "busy" in message:
            fix = "another process keeps it locked: wait for it, then run the same command again"
        else:
            fix = _move_away_fix(path)
        raise RecordingError.at_place(
            path, f"the local store cannot be used: {message}", fix
        ) from error


_PERMISSION: Final = (
    "give write permission for this directory, or replay committed recordings only: --record=none"
)


def _move_away_fix(path: Path) -> str:
    # The -wal and -shm files belong to the damaged file and would be applied to a new one.
    name = quote(str(path))
    return (
        f"move it away: mv {name} {name}.damaged && rm -f {name}-wal {name}-shm\n"
        "  committed recordings are not in it and lose nothing; its other completions are"
        " requested again"
    )


def _connect(place: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(
        place, uri=uri, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )


def _connect_read_only(path: Path) -> sqlite3.Connection:
    quoted = str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        database = _connect(f"file:{quoted}?{mode}", uri=True)
        try:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A read-only directory has no place for the shared index of the write-ahead log; other
            # processes cannot write there either, so the file does not change.
            database.close()
            continue
        return database
    raise sqlite3.OperationalError("unable to open database file")


def _prepare(database: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    version = _version(database)
    if version == 0 and not read_only:
        _write_ahead(database)
        # Another process may have created it while this one waited.
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
        raise RecordingError.at_place(
            path,
            f"written by a newer regauge (schema {version}, this one knows {SCHEMA_VERSION})",
            f"install that version, or {_move_away_fix(path)}",
        )
    if version < SCHEMA_VERSION:
        raise RecordingError.at_place(
            path, "not a local store of regauge, or a very old one", _move_away_fix(path)
        )
    if not read_only:
        # Survives the death of the process; a power cut may lose the last completions.
        database.execute("PRAGMA synchronous = NORMAL")
        # A row is written once and seldom read again: 256 KiB serve as well as SQLite's 2 MiB.
        database.execute("PRAGMA cache_size = -256")


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


Claim = Literal["acquired", "taken", "recorded"]

# A claim of a dead process is free after this: longer than the slowest completion. With a shorter
# lease, slow completions are made twice; a longer one delays the run after a crash. An interrupted
# session resumes within a day.
_LEASE_S: Final = 900.0
_RESUME_WITHIN_S: Final = 86_400.0
_ANY_SESSION: Final = 0


class LocalStore:
    """The completions in `.regauge/store.sqlite3`; for several threads and several processes.

    Without a session, or in one of mode `missing`, `get` finds the latest completion of any run. In
    a session of mode `all` it only finds completions of this session. So every completion is new,
    and a resumed run does not pay twice.

    Args:
        path: The file; it is created on first use.
        redactor: Removes secrets; by default the well-known forms of keys.
        read_only: Never write. `put`, `claim` and `begin` then raise errors.

    Raises:
        RecordingError: The file is damaged, has another format, or cannot be opened. All methods
            raise it, too.
    """

    def __init__(
        self, path: Path, *, redactor: Redactor | None = None, read_only: bool = False
    ) -> None:
        self.path = path
        self._redactor = redactor or Redactor()
        self._read_only = read_only
        self._database = open_database(path, read_only=read_only)
        self._lock = threading.RLock()
        self._depth = 0
        self._owner = describe_process(os.getpid())
        # Each store of a process has its own claims.
        self._holder = os.urandom(8).hex()
        self._session = _ANY_SESSION
        self._fresh_only = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the claims and close the file."""
        with self._lock:
            if self._database is None:
                return
            try:
                if not self._read_only:
                    with explain_errors(self.path):
                        self._database.execute(
                            "DELETE FROM claims WHERE holder = ?", (self._holder,)
                        )
            finally:
                self._database.close()
                self._database = None

    def begin(self, plan_digest: str, mode: RecordMode, *, owner: str | None = None) -> int:
        """Begin a session, or resume one of the same plan and mode whose process has died.

        Sessions without activity for over a day are not resumed: their completions are outdated.

        Args:
            plan_digest: The digest of the plan.
            mode: The record mode.
            owner: The process of the run, see `describe_process`, if several processes share the
                run and its session. By default this process.

        Returns:
            The number of the session, for `join` in other processes.
        """
        now = time.time()
        owner = owner or self._owner
        with self._write() as database:
            rows = database.execute(
                "SELECT id, owner FROM sessions WHERE plan = ? AND mode = ? AND finished = 0"
                " AND touched_at > ? ORDER BY id DESC",
                (plan_digest, mode, now - _RESUME_WITHIN_S),
            ).fetchall()
            open_sessions = [
                int(row[0]) for row in rows if row[1] == owner or not may_be_running(row[1])
            ]
            if open_sessions:
                session = open_sessions[0]
                database.execute(
                    "UPDATE sessions SET owner = ?, touched_at = ? WHERE id = ?",
                    (owner, now, session),
                )
            else:
                row = database.execute(
                    "INSERT INTO sessions (plan, mode, owner, touched_at) VALUES (?, ?, ?, ?)"
                    " RETURNING id",
                    (plan_digest, mode, owner, now),
                ).fetchone()
                session = int(row[0])
        self.join(session, mode)
        return session

    def join(self, session: int, mode: RecordMode) -> None:
        """Use a session that another process of the same run has begun."""
        self._fresh_only = mode == "all"
        # Completions of mode `missing` belong to all runs.
        self._session = session if self._fresh_only else _ANY_SESSION

    def finish(self, session: int) -> None:
        """Finish a session: the next run of the same plan begins a new one."""
        with self._write() as database:
            database.execute("UPDATE sessions SET finished = 1 WHERE id = ?", (session,))

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, RecordingKey):
            return False
        with self._lock, explain_errors(self.path):
            return self._database is not None and self._body(self._database, key) is not None

    def get(self, key: RecordingKey) -> Recording | None:
        """Return the recording of one request and trial, or None."""
        with self._lock, explain_errors(self.path):
            body = None if self._database is None else self._body(self._database, key)
        return None if body is None else Recording.from_json(read_json(body))

    def put(self, recording: Recording) -> Recording:
        """Store a recording. After the return it survives a kill of the process.

        The claim on it ends. It replaces the recordings of this session and of finished ones.

        Returns:
            The stored recording, without secrets.
        """
        clean = self._redactor.redact_recording(recording)
        body = encode_line(clean).decode()
        key = clean.key
        with self._write() as database:
            database.execute(
                "DELETE FROM answers WHERE digest = ? AND trial = ? AND (session = ?"
                " OR session IN (SELECT id FROM sessions WHERE finished = 1))",
                (key.digest, key.trial, self._session),
            )
            # A new row each time: the latest completion has the highest rowid.
            database.execute(
                "INSERT INTO answers (digest, trial, session, body) VALUES (?, ?, ?, ?)",
                (key.digest, key.trial, self._session, body),
            )
            self._drop_claim(database, key)
        return clean

    def claim(self, key: RecordingKey, *, lease_s: float = _LEASE_S) -> Claim:
        """Claim the only call of the model for a request and trial.

        Args:
            key: The request and trial.
            lease_s: Seconds after which another process may take over in any case.

        Returns:
            `acquired`: make the call, then `put` or `release`. `recorded`: `get` finds it.
            `taken`: another process or thread is making the call; retry later.
        """
        now = time.time()
        with self._write() as database:
            if self._body(database, key) is not None:
                return "recorded"
            row = database.execute(
                "SELECT owner, holder, expires_at FROM claims"
                " WHERE digest = ? AND trial = ? AND session = ?",
                (key.digest, key.trial, self._session),
            ).fetchone()
            if row is not None:
                owner, _, expires_at = row
                if expires_at > now and (owner == self._owner or may_be_running(owner)):
                    return "taken"
            database.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                (key.digest, key.trial, self._session, self._owner, self._holder, now + lease_s),
            )
            return "acquired"

    def release(self, key: RecordingKey) -> None:
        """Release a claim without a recording; without a claim nothing happens."""
        with self._write() as database:
            self._drop_claim(database, key)

    def drop(self, key: RecordingKey) -> None:
        """Delete the recordings of one request and trial."""
        with self._write() as database:
            database.execute(
                "DELETE FROM answers WHERE digest = ? AND trial = ?", (key.digest, key.trial)
            )

    def check_writable(self) -> None:
        """Check that the file can be written; nothing changes.

        Raises:
            RecordingError: It cannot be written.
        """
        with self._write() as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def export(self, keys: Iterable[RecordingKey]) -> list[Recording]:
        """Return the recordings of these keys, in the order of the keys."""
        return [recording for key in keys if (recording := self.get(key)) is not None]

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Make the writes of the block one transaction, committed at its end.

        An exception rolls all of them back. Other threads wait meanwhile.
        """
        with self._write():
            yield

    def _body(self, database: sqlite3.Connection, key: RecordingKey) -> str | None:
        row = database.execute(
            "SELECT body FROM answers WHERE digest = ? AND trial = ? AND (session = ? OR NOT ?)"
            " ORDER BY rowid DESC LIMIT 1",
            (key.digest, key.trial, self._session, self._fresh_only),
        ).fetchone()
        return None if row is None else str(row[0])

    def _drop_claim(self, database: sqlite3.Connection, key: RecordingKey) -> None:
        database.execute(
            "DELETE FROM claims WHERE digest = ? AND trial = ? AND session = ? AND holder = ?",
            (key.digest, key.trial, self._session, self._holder),
        )

    @contextmanager
    def _write(self) -> Generator[sqlite3.Connection]:
        # A larger transaction explains the errors of its parts.
        with self._lock, nullcontext() if self._depth else explain_errors(self.path):
            if self._database is None or self._read_only:
                raise RuntimeError("the local store is closed, or was opened for reading only")
            if self._depth:  # part of a larger transaction
                yield self._database
                return
            self._database.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield self._database
            except BaseException:
                # A full disk ends the transaction by itself.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            else:
                self._database.execute("COMMIT")
            finally:
                self._depth = 0
