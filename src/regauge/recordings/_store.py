"""Answers of this machine: kept the moment they land, shared by processes, never committed."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from regauge.errors import Fault, RecordingError, explain_os_error, find_no_descriptor
from regauge.recordings._file import Recording, RecordingKey, encode_line
from regauge.recordings._redact import Redactor
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from types import TracebackType

    from regauge.project import RecordMode

_FIELD_AFTER_NAME: Final = 19  # starttime is field 22 of /proc/<pid>/stat; the name ends field 2


def describe_process(pid: int) -> str:
    """A process of this host: host, boot, process id and start time, as one line of text."""
    return "|".join((_host(), _boot(), str(pid), _start_of(pid)))


def may_live(owner: str) -> bool:
    """Return whether the process that `describe_process` described there may still run.

    A process id alone would not do: ids are used again. A process of another host cannot be
    looked at, so it counts as alive; what it holds ends by expiry.
    """
    parts = owner.split("|")
    if len(parts) != len(("host", "boot", "pid", "started")):
        return False
    host, boot, pid, started = parts
    if host != _host():
        return True
    if boot != _boot() or not pid.isdigit():
        return False
    if os.name == "nt":
        return True  # signal 0 is Ctrl-C there; what it holds ends by expiry
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, under another user
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
    """When a process started, in whatever unit the system has; "" where that is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except OSError:
        return ""
    else:
        fields = stat.rpartition(")")[2].split()
        # A zombie has ended; its parent has only not looked yet.
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
            database = _connect(str(path))
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
            fix = "another process holds it for long: let it end, then run the same command again"
        else:
            fix = _away(path)
        raise _error(path, f"the local store cannot be used: {message}", fix) from error


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
            # In a directory that cannot be written there is no place for the shared index of the
            # write-ahead log; no one else can write there either, so the file stands still.
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


Claim = Literal["mine", "taken", "answered"]

# A claim whose process died is free after this: longer than the slowest completion takes. A shorter
# lease has slow completions made twice; a longer one delays the run after a crash. A session that
# was cut off resumes within a day.
_LEASE_S: Final = 900.0
_RESUME_WITHIN_S: Final = 86_400.0
_ANY_SESSION: Final = 0


class LocalStore:
    """The answers in `.regauge/store.sqlite3`; for several threads and several processes.

    Without a session, or in one of mode `missing`, `get` finds the latest answer of any run. In a
    session of mode `all` it finds only what this session put, so every answer is a fresh one, and
    an interrupted run that is resumed does not pay twice.

    Args:
        path: The file; it is made on first use.
        redactor: What keeps secrets out; by default the well-known forms of keys.
        read_only: Never write. `put`, `claim` and `begin` are then errors.

    Raises:
        RecordingError: The file is damaged, is not ours, or cannot be opened. So do all methods.
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
        # Two stores of one process hold claims of their own.
        self._holder = os.urandom(8).hex()
        self._session = _ANY_SESSION
        self._fresh_only = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give claims back and close the file."""
        with self._lock:
            if self._database is None:
                return
            try:
                if not self._read_only:
                    with explained(self.path):
                        self._database.execute(
                            "DELETE FROM claims WHERE holder = ?", (self._holder,)
                        )
            finally:
                self._database.close()
                self._database = None

    def begin(self, plan_digest: str, mode: RecordMode, *, owner: str | None = None) -> int:
        """Begin a session, or resume one of the same plan and mode whose process has died.

        Sessions that were last touched over a day ago are not resumed: their answers are no longer
        fresh ones.

        Args:
            plan_digest: What the session is to answer.
            mode: The record mode.
            owner: The process the run belongs to, see `describe_process`, when several processes
                share the run: they all get the same session. By default this process.

        Returns:
            The number of the session, for `join` in other processes.
        """
        now = time.time()
        owner = owner or self._owner
        with self._writing() as database:
            rows = database.execute(
                "SELECT id, owner FROM sessions WHERE plan = ? AND mode = ? AND finished = 0"
                " AND touched_at > ? ORDER BY id DESC",
                (plan_digest, mode, now - _RESUME_WITHIN_S),
            ).fetchall()
            open_ones = [int(row[0]) for row in rows if row[1] == owner or not may_live(row[1])]
            if open_ones:
                session = open_ones[0]
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
        """Work in a session that another process of the same run has begun."""
        self._fresh_only = mode == "all"
        # Answers of mode `missing` belong to all runs.
        self._session = session if self._fresh_only else _ANY_SESSION

    def finish(self, session: int) -> None:
        """End a session: the next run of the same plan begins a new one."""
        with self._writing() as database:
            database.execute("UPDATE sessions SET finished = 1 WHERE id = ?", (session,))

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, RecordingKey):
            return False
        with self._lock, explained(self.path):
            return self._database is not None and self._body(self._database, key) is not None

    def get(self, key: RecordingKey) -> Recording | None:
        """The answer to one request and draw, or None."""
        with self._lock, explained(self.path):
            body = None if self._database is None else self._body(self._database, key)
        return None if body is None else Recording.from_json(read_json(body))

    def put(self, recording: Recording) -> Recording:
        """Keep an answer. Once this returns, killing the process does not lose it.

        A claim on it ends. It replaces the answer of this session, if any, and those of sessions
        that are finished.

        Returns:
            The recording as it was kept, that is without secrets.
        """
        clean = self._redactor.recording(recording)
        body = encode_line(clean).decode()
        key = clean.key
        with self._writing() as database:
            database.execute(
                "DELETE FROM answers WHERE digest = ? AND trial = ? AND (session = ?"
                " OR session IN (SELECT id FROM sessions WHERE finished = 1))",
                (key.digest, key.trial, self._session),
            )
            # A new row each time: the latest answer is the one with the highest rowid.
            database.execute(
                "INSERT INTO answers (digest, trial, session, body) VALUES (?, ?, ?, ?)",
                (key.digest, key.trial, self._session, body),
            )
            self._drop_claim(database, key)
        return clean

    def claim(self, key: RecordingKey, *, lease_s: float = _LEASE_S) -> Claim:
        """Ask for the right to be the only one who asks the model for this answer.

        Args:
            key: The request and draw.
            lease_s: After how many seconds another process may take over in any case.

        Returns:
            `mine`: ask, then `put` or `release`. `answered`: `get` finds it by now. `taken`: a
            living process, or another part of this one, is asking; look again later.
        """
        now = time.time()
        with self._writing() as database:
            if self._body(database, key) is not None:
                return "answered"
            row = database.execute(
                "SELECT owner, holder, expires_at FROM claims"
                " WHERE digest = ? AND trial = ? AND session = ?",
                (key.digest, key.trial, self._session),
            ).fetchone()
            if row is not None:
                owner, _, expires_at = row
                if expires_at > now and (owner == self._owner or may_live(owner)):
                    return "taken"
            database.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                (key.digest, key.trial, self._session, self._owner, self._holder, now + lease_s),
            )
            return "mine"

    def release(self, key: RecordingKey) -> None:
        """Give a claim back without an answer; one that is not held is no matter."""
        with self._writing() as database:
            self._drop_claim(database, key)

    def drop(self, key: RecordingKey) -> None:
        """Forget the answers to one request and draw."""
        with self._writing() as database:
            database.execute(
                "DELETE FROM answers WHERE digest = ? AND trial = ?", (key.digest, key.trial)
            )

    def check_writable(self) -> None:
        """Write a page, which changes nothing.

        Raises:
            RecordingError: It cannot be written.
        """
        with self._writing() as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def export(self, keys: Iterable[RecordingKey]) -> list[Recording]:
        """The answers to those keys that have one, in the order of the keys."""
        return [recording for key in keys if (recording := self.get(key)) is not None]

    @contextmanager
    def together(self) -> Generator[None]:
        """Make what is written in the block one transaction: it is kept when the block ends.

        An error that leaves the block leaves nothing of it behind. Other threads wait meanwhile.
        """
        with self._writing():
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
    def _writing(self) -> Generator[sqlite3.Connection]:
        with self._lock, explained(self.path):
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
