"""The database of the history: a file of SQLite, or PostgreSQL through psycopg."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import StoreError
from regauge.history._failure import URL_FIX, damaged, driver_of, explained
from regauge.history._steps import STEPS
from regauge.history._types import MeasuredSuite
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from regauge.history._place import StorePlace
    from regauge.history._steps import Step
    from regauge.history._types import RunEntry

__all__ = ["Store"]

_BUSY_S: Final = 30
# Any number that no other program uses for its own advisory lock.
_LOCK: Final = 0x7265_6761_7567_65
# Limits of a connection attempt and of an unreachable server, so that no run hangs at its end.
_SERVER: Final[dict[str, Any]] = {
    "application_name": "regauge",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
}
_LIMITS: Final = ("SET LOCAL lock_timeout = '30s'", "SET LOCAL statement_timeout = '60s'")
_INTEGER_MAX: Final = 2**63 - 1
_SUITE: Final = tuple(field.name for field in fields(MeasuredSuite) if field.name != "started_at")


class Store:
    """The history in one database. Any number of processes may use one at once.

    A connection is open during a call only. Statements are those that SQLite and PostgreSQL share.

    Args:
        place: Where it is; a file is made when it is first written to.
        steps: Of the schema.

    Raises:
        StoreError: It cannot be opened, or is no history that this program knows.
    """

    def __init__(self, place: StorePlace, *, steps: Sequence[Step] = STEPS) -> None:
        self._place = place
        self._steps = steps
        with explained(place):
            if place.file is not None:
                place.file.parent.mkdir(parents=True, exist_ok=True)
            self._prepare()

    def add(self, entry: RunEntry) -> bool:
        """Add a run, whole or not at all.

        Returns:
            Whether it was new.

        Raises:
            StoreError: The database refuses it.
        """
        with explained(self._place):
            try:
                with self._writing() as connection:
                    self._insert(
                        connection,
                        "regauge_runs",
                        [
                            {
                                "id": entry.id,
                                "started_at": entry.started_at,
                                "finished_at": entry.finished_at,
                                "document": entry.document,
                            }
                        ],
                    )
                    suites = [
                        {name: getattr(suite, name) for name in _SUITE} | {"number": number}
                        for number, suite in enumerate(entry.suites)
                    ]
                    trials = [asdict(trial) | {"run": entry.id} for trial in entry.trials]
                    self._insert(connection, "regauge_suites", suites)
                    self._insert(connection, "regauge_trials", trials)
            except driver_of(self._place).IntegrityError:
                # Another writer was faster; its transaction has ended, so the run is whole.
                if entry.id in self.ids():
                    return False
                raise
        return True

    def ids(self) -> set[str]:
        """The ids of all runs."""
        return {run for (run,) in self._rows("SELECT id FROM regauge_runs")}

    def matching(self, name: str, *, limit: int = 6) -> list[str]:
        """Runs whose id begins with a text, the newest first."""
        found = self._rows(
            "SELECT id FROM regauge_runs WHERE substr(id, 1, ?) = ? ORDER BY id DESC LIMIT ?",
            (len(name), name, limit),
        )
        return [run for (run,) in found]

    def documents(self, *, limit: int) -> list[dict[str, Any]]:
        """The records of the newest runs, the newest first."""
        found = self._rows(
            "SELECT document FROM regauge_runs"
            " ORDER BY started_at DESC, finished_at DESC, id DESC LIMIT ?",
            (min(limit, _INTEGER_MAX),),
        )
        return [self._read(text) for (text,) in found]

    def document(self, run: str) -> dict[str, Any] | None:
        """The record of one run; None where there is no such run."""
        found = self._rows("SELECT document FROM regauge_runs WHERE id = ?", (run,))
        return dict(self._read(found[0][0])) if found else None

    def rows(self, run: str) -> Iterator[dict[str, Any]]:
        """The rows of one run, in the shape of `TrialRow`."""
        query = 'SELECT "row" FROM regauge_trials WHERE run = ? ORDER BY number'
        return (self._read(text) for (text,) in self._rows(query, (run,)))

    def suites(self, prompt: str) -> list[MeasuredSuite]:
        """The measurements of a prompt in all runs, the oldest first."""
        columns = ", ".join(f's."{name}"' for name in _SUITE)
        found = self._rows(
            f"SELECT {columns}, r.started_at FROM regauge_suites s"  # noqa: S608 - names of ours
            " JOIN regauge_runs r ON r.id = s.run WHERE s.prompt = ?"
            " ORDER BY r.started_at, r.finished_at, r.id, s.number",
            (prompt,),
        )
        suites: list[MeasuredSuite] = []
        for values in found:
            suite = dict(zip((*_SUITE, "started_at"), values, strict=True))
            suite["dirty"] = bool(suite["dirty"])  # SQLite has no booleans
            suites.append(MeasuredSuite(**suite))
        return suites

    def _read(self, text: str) -> Any:
        try:
            return read_json(text)
        except ValueError as error:
            what = f"a run in it is not JSON: {error}"
            raise StoreError(self._place.shown, what, damaged(self._place)) from error

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with explained(self._place), closing(_connect(self._place)) as connection:
            return list(connection.execute(self._sql(query), values).fetchall())

    def _insert(self, connection: Any, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        columns = ", ".join(f'"{name}"' for name in rows[0])
        marks = ", ".join("?" for _ in rows[0])
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - as above
        values = [tuple(row.values()) for row in rows]
        connection.cursor().executemany(self._sql(statement), values)

    def _sql(self, statement: str) -> str:
        """A statement with the driver's sign for a value."""
        return statement if self._place.file is not None else statement.replace("?", "%s")

    @contextmanager
    def _writing(self) -> Generator[Any]:
        """A transaction that writes: of SQLite, it waits for others before it reads."""
        with closing(_connect(self._place)) as connection:
            for statement in ("BEGIN IMMEDIATE",) if self._place.file is not None else _LIMITS:
                connection.execute(statement)
            yield connection
            connection.commit()

    def _prepare(self) -> None:
        """Take the steps that are missing; processes that meet here take them one by one."""
        with closing(_connect(self._place)) as connection:
            taken = self._steps_taken(connection)
        if taken == len(self._steps):
            return
        with self._writing() as connection:
            if self._place.file is None:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            taken = self._steps_taken(connection)
            for number, step in enumerate(self._steps[taken:], taken + 1):
                for statement in step:
                    connection.execute(statement)
                row = {"step": number, "regauge_version": version("regauge")}
                self._insert(connection, "regauge_schema", [row])

    def _steps_taken(self, connection: Any) -> int:
        """The number of steps that a database has taken.

        Raises:
            StoreError: Its table is empty, or a newer regauge wrote it.
        """
        table = (
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'regauge_schema'"
            if self._place.file is not None
            else "SELECT 1 WHERE to_regclass('regauge_schema') IS NOT NULL"
        )
        if connection.execute(table).fetchone() is None:
            return 0
        (taken,) = connection.execute("SELECT max(step) FROM regauge_schema").fetchone()
        if taken is None:
            raise StoreError(
                self._place.shown, "its table regauge_schema is empty", damaged(self._place)
            )
        if taken > len(self._steps):
            raise StoreError(
                self._place.shown,
                f"written by a newer regauge (schema {taken}, this one knows {len(self._steps)})",
                "install that version of regauge, or name another store in REGAUGE_STORE",
            )
        return int(taken)


def _connect(place: StorePlace) -> Any:
    """A new connection; both drivers follow PEP 249.

    Raises:
        StoreError: The URL of a server cannot be read.
    """
    if place.file is not None:
        # Without an isolation level, the driver begins no transaction of its own.
        return sqlite3.connect(place.file, timeout=_BUSY_S, isolation_level=None)
    driver = driver_of(place)
    try:
        options = driver.conninfo.conninfo_to_dict(place.url)
    except (driver.ProgrammingError, ValueError) as error:
        raise StoreError(place.shown, "its URL cannot be read", URL_FIX) from error
    # Poolers between here and the server do not keep prepared statements.
    return driver.connect(prepare_threshold=None, **(_SERVER | options))
