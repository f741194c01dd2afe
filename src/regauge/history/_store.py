"""The store of the run history, in SQLite or PostgreSQL."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import StoreError
from regauge.history._place import explain_errors
from regauge.reports import MeasuredEval
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from regauge.history._place import StorePlace


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
    evals: Sequence[MeasuredEval]
    trials: Iterable[Mapping[str, Any]]


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
        CREATE TABLE regauge_evals (
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
        "CREATE INDEX regauge_evals_of_prompt ON regauge_evals (prompt, run)",
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
    ("ALTER TABLE regauge_evals RENAME COLUMN answers TO completions",),
    ("ALTER TABLE regauge_evals ADD COLUMN eval TEXT NOT NULL DEFAULT ''",),
)


_INTEGER_MAX: Final = 2**63 - 1
# Rows in memory at once; more make a large run no faster to read and take more memory.
_ROWS_AT_ONCE: Final = 1000
_RUN: Final = ("id", "started_at", "finished_at", "document")
_EVAL: Final = tuple(field.name for field in fields(MeasuredEval) if field.name != "started_at")


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
                    evals = [
                        {name: getattr(eval_, name) for name in _EVAL} | {"number": number}
                        for number, eval_ in enumerate(entry.evals)
                    ]
                    trials = ({**trial, "run": entry.id} for trial in entry.trials)
                    self._insert(connection, "regauge_runs", [run])
                    self._insert(connection, "regauge_evals", evals)
                    self._insert(connection, "regauge_trials", trials)
            except self._place.driver().IntegrityError:
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

    def evals(self, prompt: str) -> list[MeasuredEval]:
        """The measurements of a prompt in all runs, the oldest first."""
        columns = ", ".join(f's."{name}"' for name in _EVAL)
        rows = self._rows(
            f"SELECT {columns}, r.started_at FROM regauge_evals s"  # noqa: S608 - names of ours
            " JOIN regauge_runs r ON r.id = s.run WHERE s.prompt = ?"
            " ORDER BY r.started_at, r.finished_at, r.id, s.number",
            (prompt,),
        )
        evals: list[MeasuredEval] = []
        for values in rows:
            eval_ = dict(zip((*_EVAL, "started_at"), values, strict=True))
            eval_["dirty"] = bool(eval_["dirty"])  # SQLite has no booleans
            evals.append(MeasuredEval(**eval_))
        return evals

    def _read(self, text: str) -> Any:
        try:
            return read_json(text)
        except ValueError as error:
            problem = f"a run in it is not JSON: {error}"
            raise StoreError(self._place.display, problem, self._place.damage_fix) from error

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with explain_errors(self._place), closing(self._place.connect()) as connection:
            return list(
                connection.execute(query.replace("?", self._place.placeholder), values).fetchall()
            )

    def _insert(self, connection: Any, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        left = iter(rows)
        first = next(left, None)
        if first is None:
            return
        columns = ", ".join(f'"{name}"' for name in first)
        marks = ", ".join(self._place.placeholder for _ in first)
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - as above
        values = (tuple(row.values()) for row in chain([first], left))
        connection.cursor().executemany(statement, values)

    @contextmanager
    def _writing(self) -> Generator[Any]:
        """A writing transaction."""
        with closing(self._place.connect()) as connection:
            for statement in self._place.begin:
                connection.execute(statement)
            yield connection
            connection.commit()

    def _prepare(self) -> None:
        """Run missing steps of the schema; concurrent processes run them one after another."""
        with closing(self._place.connect()) as connection:
            step_count = self._steps_taken(connection)
        if step_count == len(self._steps):
            return
        with self._writing() as connection:
            if self._place.lock:
                connection.execute(self._place.lock)
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
        if connection.execute(self._place.schema_query).fetchone() is None:
            return 0
        (step_count,) = connection.execute("SELECT max(step) FROM regauge_schema").fetchone()
        if step_count is None:
            raise StoreError(
                self._place.display,
                "its table regauge_schema is empty",
                self._place.damage_fix,
            )
        if step_count > len(self._steps):
            raise StoreError(
                self._place.display,
                f"written by a newer regauge (schema {step_count}, this one knows"
                f" {len(self._steps)})",
                "install that version of regauge, or name another store in REGAUGE_STORE",
            )
        return int(step_count)
