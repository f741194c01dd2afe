"""The store of the run history, in SQLite or PostgreSQL."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import StoreError, UsageError, explain_os_error, find_no_descriptor
from regauge.on_demand import install_command
from regauge.project import is_store_url, redact_store_url
from regauge.reports import MeasuredSuite
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run to add to the history.

    Attributes:
        document: The record as JSON in ASCII; see `RunRecord`.
        trials: The columns of each row, with the row as JSON in ASCII; see `TrialRow`. Read once.
    """

    id: str
    started_at: str
    finished_at: str
    document: str
    suites: Sequence[MeasuredSuite]
    trials: Iterable[Mapping[str, Any]]


VARIABLE: Final = "REGAUGE_STORE"

_FILE: Final = "history.sqlite3"
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = re.compile(r"[^:]+://")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """The location of the store.

    Attributes:
        url: The URL of a server for libpq, perhaps with a password; empty for a file.
        display: The location without passwords, for messages.
        file: The database file; None for a server.
        is_project_file: Whether it is the project's own file, made from the runs next to it.
    """

    url: str
    display: str
    file: Path | None
    is_project_file: bool

    @classmethod
    def from_settings(cls, project: Project, environ: Mapping[str, str]) -> StorePlace:
        """The store from `REGAUGE_STORE`, `[tool.regauge] store`, or the project's own file.

        Raises:
            UsageError: The URL is of an unknown database.
        """
        url = environ.get(VARIABLE, "").strip() or project.settings.store
        if not url:
            file = project.state_dir / _FILE
            return cls(url="", display=str(project.relative(file)), file=file, is_project_file=True)
        if not is_store_url(url):
            message = f"{VARIABLE} is not a store that regauge can use: {redact_store_url(url)!r}"
            raise UsageError(
                message, fix="write postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
            )
        if url.startswith(_SQLITE):
            file = project.root / url.removeprefix(_SQLITE)
            return cls(
                url="", display=str(project.relative(file)), file=file, is_project_file=False
            )
        server = _POSTGRESQL.sub("postgresql://", url, count=1)
        return cls(url=server, display=redact_store_url(url), file=None, is_project_file=False)


_PERMISSION: Final = "give write permission for the file and its directory"
# Words of a database's messages, and the fix; an empty fix for damaged content.
_FILE_FIXES: Final = (
    ("locked|busy", "another process keeps it locked: wait for it, then run the command again"),
    ("full|disk I/O", "make room on the disk, then: regauge runs list --sync"),
    ("readonly|unable to open", _PERMISSION),
)
_SERVER_FIXES: Final = (
    ("permission denied", "let its owner grant it: GRANT USAGE, CREATE ON SCHEMA public TO <user>"),
    (
        "authentication failed|no password|role .* does not exist",
        "check the user and the password in REGAUGE_STORE",
    ),
    ("database .* does not exist", "make it: createdb <name>"),
    ("(relation|column) .* does not exist|violates", ""),
    ("timeout|lock", "end what locks its tables, then: regauge runs list --sync"),
)
_CHECK_SERVER: Final = (
    "check that the server runs and can be reached, then: regauge runs list --sync"
)
URL_FIX: Final = "write postgresql://USER@HOST/DATABASE, with special characters as %XX"


@contextmanager
def explain_errors(place: StorePlace) -> Generator[None]:
    """Turn errors of the driver or the system into a `StoreError`.

    Raises:
        StoreError: The driver or the system raised an error.
    """
    try:
        yield
    except ImportError as error:
        raise StoreError(
            place.display,
            "PostgreSQL needs psycopg, which is not installed",
            install_command("psycopg"),
        ) from error
    except OSError as error:
        problem, fix = explain_os_error(error)
        raise StoreError(place.display, problem, fix or _PERMISSION) from error
    except driver_of(place).Error as error:
        words = str(error)
        problem = words.strip().partition("\n")[0].rstrip() or "no reason given"
        fix = _fix(place, words)
        if place.file is not None and place.file.is_dir():
            problem, fix = "it is a directory", damage_fix(place)
        if "unable to open" in words and (no_descriptor := find_no_descriptor()) is not None:
            problem, fix = explain_os_error(no_descriptor)
        raise StoreError(place.display, problem, fix) from error


def driver_of(place: StorePlace) -> Any:
    """The database driver, a module of PEP 249.

    Raises:
        ImportError: The driver of PostgreSQL is not installed.
    """
    return sqlite3 if place.file is not None else importlib.import_module("psycopg")


def damage_fix(place: StorePlace) -> str:
    """The fix for a damaged file, or a database of another program."""
    if place.file is None:
        return (
            "drop its tables regauge_*, then import what this machine has: regauge runs list --sync"
        )
    return (
        f"move it away: mv {place.display} {place.display}.damaged\n"
        "  nothing is lost that is still in .regauge/runs: `regauge runs list --sync` imports it"
    )


def _fix(place: StorePlace, message: str) -> str:
    """The fix for a message of SQLite or PostgreSQL."""
    fixes = _SERVER_FIXES if place.file is None else _FILE_FIXES
    for pattern, fix in fixes:
        if re.search(pattern, message):
            return fix or damage_fix(place)
    return damage_fix(place) if place.file is not None else _CHECK_SERVER


Step = tuple[str, ...]

# Statements that SQLite and PostgreSQL share. `regauge_schema` lists the completed steps.
STEPS: Final[tuple[Step, ...]] = (
    (
        """
        CREATE TABLE regauge_schema (
            step INTEGER PRIMARY KEY,
            regauge_version TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE regauge_runs (
            id TEXT PRIMARY KEY,
            started_at TEXT NOT NULL,
            finished_at TEXT NOT NULL,
            document TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE regauge_suites (
            run TEXT NOT NULL REFERENCES regauge_runs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            "commit" TEXT,
            dirty BOOLEAN NOT NULL,
            prompt TEXT NOT NULL,
            version TEXT,
            prompt_digest TEXT NOT NULL,
            dataset TEXT NOT NULL,
            model TEXT NOT NULL,
            side TEXT,
            cases INTEGER NOT NULL,
            measured INTEGER NOT NULL,
            passed INTEGER NOT NULL,
            trials INTEGER NOT NULL,
            answers INTEGER NOT NULL,
            cost_usd DOUBLE PRECISION,
            latency_p50_s DOUBLE PRECISION,
            judges_digest TEXT NOT NULL,
            cases_digest TEXT NOT NULL,
            PRIMARY KEY (run, number)
        )
        """,
        "CREATE INDEX regauge_suites_of_prompt ON regauge_suites (prompt, run)",
        """
        CREATE TABLE regauge_trials (
            run TEXT NOT NULL REFERENCES regauge_runs (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            prompt TEXT NOT NULL,
            "case" TEXT NOT NULL,
            side TEXT,
            trial INTEGER NOT NULL,
            outcome TEXT NOT NULL,
            "row" TEXT NOT NULL,
            PRIMARY KEY (run, number)
        )
        """,
        'CREATE INDEX regauge_trials_of_case ON regauge_trials (prompt, "case", run)',
    ),
    ("ALTER TABLE regauge_suites RENAME COLUMN answers TO completions",),
)


# Longer than merging one run locks the file; after that, another program blocks it.
_BUSY_S: Final = 30
# A number that no other program uses for an advisory lock.
_LOCK: Final = 0x7265_6761_7567_65
# Limits of a connection attempt and of an unreachable server, so that no run hangs at its end.
_SERVER: Final[dict[str, Any]] = {
    "application_name": "regauge",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
}
_LIMITS: Final = ("SET LOCAL lock_timeout = '30s'", "SET LOCAL statement_timeout = '60s'")
_INTEGER_MAX: Final = 2**63 - 1
# Rows in memory at once; more make a large run no faster to read and take more memory.
_ROWS_AT_ONCE: Final = 1000
_RUN: Final = ("id", "started_at", "finished_at", "document")
_SUITE: Final = tuple(field.name for field in fields(MeasuredSuite) if field.name != "started_at")


class Store:
    """The history in one database, which any number of processes may use at once.

    A connection is open during a call only.

    Args:
        place: The location; a missing file is created.
        steps: The steps of the schema.

    Raises:
        StoreError: It cannot be opened, or has an unknown schema.
    """

    def __init__(self, place: StorePlace, *, steps: Sequence[Step] = STEPS) -> None:
        self._place = place
        self._steps = steps
        with explain_errors(place):
            if place.file is not None:
                place.file.parent.mkdir(parents=True, exist_ok=True)
            self._prepare()

    def add(self, entry: RunEntry) -> bool:
        """Add a run in one transaction.

        Returns:
            Whether the run was new.

        Raises:
            StoreError: The database refuses it.
        """
        with explain_errors(self._place):
            try:
                with self._writing() as connection:
                    run = {name: getattr(entry, name) for name in _RUN}
                    suites = [
                        {name: getattr(suite, name) for name in _SUITE} | {"number": number}
                        for number, suite in enumerate(entry.suites)
                    ]
                    trials = ({**trial, "run": entry.id} for trial in entry.trials)
                    self._insert(connection, "regauge_runs", [run])
                    self._insert(connection, "regauge_suites", suites)
                    self._insert(connection, "regauge_trials", trials)
            except driver_of(self._place).IntegrityError:
                # Another writer was faster; its transaction has ended, so the run is complete.
                if entry.id in self.ids():
                    return False
                raise
        return True

    def ids(self) -> set[str]:
        """The ids of all runs."""
        return {run for (run,) in self._rows("SELECT id FROM regauge_runs")}

    def matching(self, name: str) -> list[str]:
        """Up to six ids that begin with a text, the newest first."""
        begins = "SELECT id FROM regauge_runs WHERE substr(id, 1, ?) = ? ORDER BY id DESC LIMIT 6"
        rows = self._rows(begins, (len(name), name))
        return [run for (run,) in rows]

    def documents(self, *, limit: int) -> list[dict[str, Any]]:
        """The records of the newest runs, the newest first."""
        rows = self._rows(
            "SELECT document FROM regauge_runs"
            " ORDER BY started_at DESC, finished_at DESC, id DESC LIMIT ?",
            (min(limit, _INTEGER_MAX),),
        )
        return [self._read(text) for (text,) in rows]

    def document(self, run: str) -> dict[str, Any] | None:
        """The record of one run; None without such a run."""
        rows = self._rows("SELECT document FROM regauge_runs WHERE id = ?", (run,))
        return dict(self._read(rows[0][0])) if rows else None

    def rows(self, run: str) -> Iterator[dict[str, Any]]:
        """The rows of one run, in the shape of `TrialRow`, read in pages."""
        query = (
            'SELECT number, "row" FROM regauge_trials WHERE run = ? AND number > ?'
            " ORDER BY number LIMIT ?"
        )
        last = -1
        while page := self._rows(query, (run, last, _ROWS_AT_ONCE)):
            for last, text in page:  # noqa: B007 - the next page begins there
                yield self._read(text)

    def suites(self, prompt: str) -> list[MeasuredSuite]:
        """The measurements of a prompt in all runs, the oldest first."""
        columns = ", ".join(f's."{name}"' for name in _SUITE)
        rows = self._rows(
            f"SELECT {columns}, r.started_at FROM regauge_suites s"  # noqa: S608 - names of ours
            " JOIN regauge_runs r ON r.id = s.run WHERE s.prompt = ?"
            " ORDER BY r.started_at, r.finished_at, r.id, s.number",
            (prompt,),
        )
        suites: list[MeasuredSuite] = []
        for values in rows:
            suite = dict(zip((*_SUITE, "started_at"), values, strict=True))
            suite["dirty"] = bool(suite["dirty"])  # SQLite has no booleans
            suites.append(MeasuredSuite(**suite))
        return suites

    def _read(self, text: str) -> Any:
        try:
            return read_json(text)
        except ValueError as error:
            problem = f"a run in it is not JSON: {error}"
            raise StoreError(self._place.display, problem, damage_fix(self._place)) from error

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with explain_errors(self._place), closing(_connect(self._place)) as connection:
            return list(connection.execute(self._sql(query), values).fetchall())

    def _insert(self, connection: Any, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        left = iter(rows)
        first = next(left, None)
        if first is None:
            return
        columns = ", ".join(f'"{name}"' for name in first)
        marks = ", ".join("?" for _ in first)
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - as above
        values = (tuple(row.values()) for row in chain([first], left))
        connection.cursor().executemany(self._sql(statement), values)

    def _sql(self, statement: str) -> str:
        """A statement with the driver's placeholder for values."""
        return statement if self._place.file is not None else statement.replace("?", "%s")

    @contextmanager
    def _writing(self) -> Generator[Any]:
        """A writing transaction; SQLite waits for other writers before the first read."""
        with closing(_connect(self._place)) as connection:
            for statement in ("BEGIN IMMEDIATE",) if self._place.file is not None else _LIMITS:
                connection.execute(statement)
            yield connection
            connection.commit()

    def _prepare(self) -> None:
        """Run missing steps of the schema; concurrent processes run them one after another."""
        with closing(_connect(self._place)) as connection:
            step_count = self._steps_taken(connection)
        if step_count == len(self._steps):
            return
        with self._writing() as connection:
            if self._place.file is None:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            step_count = self._steps_taken(connection)
            for number, step in enumerate(self._steps[step_count:], step_count + 1):
                for statement in step:
                    connection.execute(statement)
                row = {"step": number, "regauge_version": version("regauge")}
                self._insert(connection, "regauge_schema", [row])

    def _steps_taken(self, connection: Any) -> int:
        """The number of completed steps in a database.

        Raises:
            StoreError: The table is empty, or a newer regauge wrote it.
        """
        table = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'regauge_schema'"
        if self._place.file is None:
            table = "SELECT 1 WHERE to_regclass('regauge_schema') IS NOT NULL"
        if connection.execute(table).fetchone() is None:
            return 0
        (step_count,) = connection.execute("SELECT max(step) FROM regauge_schema").fetchone()
        if step_count is None:
            raise StoreError(
                self._place.display,
                "its table regauge_schema is empty",
                damage_fix(self._place),
            )
        if step_count > len(self._steps):
            raise StoreError(
                self._place.display,
                f"written by a newer regauge (schema {step_count}, this one knows"
                f" {len(self._steps)})",
                "install that version of regauge, or name another store in REGAUGE_STORE",
            )
        return int(step_count)


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
        raise StoreError(place.display, "its URL cannot be read", URL_FIX) from error
    # Poolers between here and the server do not keep prepared statements.
    return driver.connect(prepare_threshold=None, **(_SERVER | options))
