"""The database of the history, through SQLAlchemy. Loaded only where the history is used."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import NullPool

from regauge.errors import StoreError
from regauge.history._failure import damaged, explained
from regauge.history._steps import STEPS
from regauge.history._tables import RUNS, SCHEMA, SUITES, TRIALS
from regauge.history._types import MeasuredSuite
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from sqlalchemy.engine import URL

    from regauge.history._place import StorePlace
    from regauge.history._steps import Step
    from regauge.history._types import RunEntry

__all__ = ["Store"]

_BUSY_S: Final = 30
# Any number will do that no other program takes for its own lock.
_LOCK: Final = 0x7265_6761_7567_65
# Of one connection attempt and of an unreachable server, so that no run hangs at its end.
_SERVER: Final[dict[str, Any]] = {
    "application_name": "regauge",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
}
_INTEGER_MAX: Final = 2**63 - 1
_LIMITS: Final = ("SET LOCAL lock_timeout = '30s'", "SET LOCAL statement_timeout = '60s'")


class Store:
    """The history in one database. Any number of processes may use one at once.

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
            self._engine = _engine(make_url(place.url))
            self._prepare()

    def add(self, entry: RunEntry) -> bool:
        """Take a run in, whole or not at all.

        Returns:
            Whether it was new.

        Raises:
            StoreError: The database does not take it.
        """
        with explained(self._place):
            try:
                with self._writing() as connection:
                    connection.execute(
                        RUNS.insert(),
                        {
                            "id": entry.id,
                            "started_at": entry.started_at,
                            "finished_at": entry.finished_at,
                            "document": entry.document,
                        },
                    )
                    suites = [
                        _suite_row(number, suite) for number, suite in enumerate(entry.suites)
                    ]
                    trials = [asdict(trial) | {"run": entry.id} for trial in entry.trials]
                    if suites:
                        connection.execute(SUITES.insert(), suites)
                    if trials:
                        connection.execute(TRIALS.insert(), trials)
            except IntegrityError:
                # Another writer was faster; its transaction has ended, so the run is whole.
                if entry.id in self.ids():
                    return False
                raise
        return True

    def ids(self) -> set[str]:
        """The runs there are."""
        with self._reading() as connection:
            return set(connection.scalars(select(RUNS.c.id)))

    def matching(self, name: str, *, limit: int = 6) -> list[str]:
        """Runs whose id begins so, the newest first."""
        query = select(RUNS.c.id).where(RUNS.c.id.startswith(name, autoescape=True))
        with self._reading() as connection:
            return list(connection.scalars(query.order_by(RUNS.c.id.desc()).limit(limit)))

    def documents(self, *, limit: int) -> list[dict[str, Any]]:
        """The records of the newest runs, the newest first."""
        query = (
            select(RUNS.c.document)
            .order_by(RUNS.c.started_at.desc(), RUNS.c.finished_at.desc(), RUNS.c.id.desc())
            .limit(min(limit, _INTEGER_MAX))
        )
        with self._reading() as connection:
            return [read_json(text) for text in connection.scalars(query)]

    def document(self, run: str) -> dict[str, Any] | None:
        """The record of one run; None where there is no such run."""
        with self._reading() as connection:
            text = connection.scalar(select(RUNS.c.document).where(RUNS.c.id == run))
        return None if text is None else dict(read_json(text))

    def rows(self, run: str) -> Iterator[dict[str, Any]]:
        """The rows of one run, in the shape of `TrialRow`."""
        query = select(TRIALS.c.row).where(TRIALS.c.run == run).order_by(TRIALS.c.number)
        with self._reading() as connection:
            texts = list(connection.scalars(query))
        return (read_json(text) for text in texts)

    def suites(self, prompt: str) -> list[MeasuredSuite]:
        """How all runs measured a prompt, the oldest first."""
        columns = [column for column in SUITES.c if column.name != "number"]
        query = (
            select(*columns, RUNS.c.started_at)
            .join(RUNS, RUNS.c.id == SUITES.c.run)
            .where(SUITES.c.prompt == prompt)
            .order_by(RUNS.c.started_at, RUNS.c.finished_at, RUNS.c.id, SUITES.c.number)
        )
        with self._reading() as connection:
            return [MeasuredSuite(**row) for row in connection.execute(query).mappings()]

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        with explained(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Generator[Connection]:
        """A transaction that writes: of SQLite, it waits for others before it reads."""
        engine = self._engine.execution_options(regauge_begin="IMMEDIATE")
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                for limit in _LIMITS:
                    connection.exec_driver_sql(limit)
            yield connection

    def _prepare(self) -> None:
        """Take the steps that are missing; processes that meet here take them one by one."""
        with self._engine.connect() as connection:
            taken = self._checked(_steps_taken(connection))
        if taken == len(self._steps):
            return
        with self._writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            taken = self._checked(_steps_taken(connection))
            for number, step in enumerate(self._steps[taken:], taken + 1):
                for statement in step:
                    connection.exec_driver_sql(statement)
                connection.execute(
                    SCHEMA.insert(), {"step": number, "regauge_version": version("regauge")}
                )

    def _checked(self, taken: int | None) -> int:
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
        return taken


def _steps_taken(connection: Connection) -> int | None:
    """How many steps a database has taken; None where the table says nothing."""
    if not inspect(connection).has_table(SCHEMA.name):
        return 0
    taken = connection.scalar(select(func.max(SCHEMA.c.step)))
    return None if taken is None else int(taken)


def _suite_row(number: int, suite: MeasuredSuite) -> dict[str, Any]:
    row = asdict(suite) | {"number": number}
    del row["started_at"]  # the run knows it
    return row


def _engine(url: URL) -> Engine:
    """An engine that holds no connection between two uses, so that nothing is left open."""
    if url.get_backend_name() == "postgresql":
        server = {key: value for key, value in _SERVER.items() if key not in url.query}
        # Poolers between here and the server know nothing of prepared statements.
        return create_engine(
            url, poolclass=NullPool, connect_args={"prepare_threshold": None} | server
        )
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_S})
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", _begin)
    return engine


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    """Python's driver would begin transactions late, and end them before statements of DDL."""
    del record
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    how = connection.get_execution_options().get("regauge_begin", "DEFERRED")
    connection.exec_driver_sql(f"BEGIN {how}")
