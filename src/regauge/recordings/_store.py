"""Answers of this machine: kept the moment they land, shared by processes, never committed."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, Self

from regauge.recordings._database import SCHEMA_VERSION, explained, open_database
from regauge.recordings._owner import may_live, this_process
from regauge.recordings._recording import Recording, RecordingKey, encode_line
from regauge.recordings._redact import Redactor
from regauge.strict_json import read_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator, Iterable
    from pathlib import Path
    from types import TracebackType

    from regauge.project import RecordMode

__all__ = ["Claim", "LocalStore"]

Claim = Literal["mine", "taken", "answered"]

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
        self._owner = this_process()
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
            return None if self._database is None else self._get(self._database, key)

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
        return [found for key in keys if (found := self.get(key)) is not None]

    @contextmanager
    def together(self) -> Generator[None]:
        """Make what is written in the block one transaction: it is kept when the block ends.

        An error that leaves the block leaves nothing of it behind. Other threads wait meanwhile.
        """
        with self._writing():
            yield

    def _get(self, database: sqlite3.Connection, key: RecordingKey) -> Recording | None:
        body = self._body(database, key)
        return None if body is None else Recording.from_json(read_json(body))

    def _body(self, database: sqlite3.Connection, key: RecordingKey) -> str | None:
        if self._fresh_only:
            row = database.execute(
                "SELECT body FROM answers WHERE digest = ? AND trial = ? AND session = ?",
                (key.digest, key.trial, self._session),
            ).fetchone()
        else:
            row = database.execute(
                "SELECT body FROM answers WHERE digest = ? AND trial = ? ORDER BY rowid DESC"
                " LIMIT 1",
                (key.digest, key.trial),
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
