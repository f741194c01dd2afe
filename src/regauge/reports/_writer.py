"""Writes a run as it happens: rows are appended, the record closes it."""

from __future__ import annotations

import json
import os
import platform
import shutil
from datetime import UTC, datetime
from importlib.metadata import version
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from regauge.atomic import write_whole
from regauge.errors import MachineError
from regauge.recordings import map_texts
from regauge.reports._rows import rows_of
from regauge.reports._tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from io import FileIO
    from pathlib import Path

    from regauge.reports._decision import DecisionDocument
    from regauge.reports._schema import GitState, RunRecord, Suggestion
    from regauge.runner import EvalResult

__all__ = ["RunWriter"]

_ROWS = "trials.jsonl"
# Rows written one after the other take half as long as rows here and there; a run that is killed
# loses those that wait.
_WAIT_MAX = 64
_WAIT_MAX_S = 1.0
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class RunWriter:
    """Appends the rows of one process to a run.

    Args:
        directory: Of the run; made with the first row, so a run without rows leaves nothing.
        redact: Takes secrets out of a text before it is written.
        worker: The name of a worker process that shares the run with others; its rows go to a
            file of their own, which `gather` joins.

    Attributes:
        unwritten: Rows that the disk did not take, as lines; they count all the same.
        trouble: What could not be written and why; empty where all was.
    """

    def __init__(
        self, directory: Path, *, redact: Callable[[str], str], worker: str | None = None
    ) -> None:
        self.directory = directory
        self.tally = Tally()
        self._redact = redact
        self.unwritten: list[str] = []
        self.trouble = ""
        self._shared = worker is not None
        self._path = directory / (f"trials.{worker}.jsonl" if worker else _ROWS)
        self._file: FileIO | None = None
        self._waiting: list[tuple[EvalResult, str | None]] = []
        self._written_s = monotonic()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self._waiting or self.tally.suites())

    def add(self, result: EvalResult, *, arm: str | None = None) -> None:
        """Write the trials of one case; in a run that gates, `arm` says whose they are."""
        if self._shared or not result.suite.judged_by_own_rules:
            # What others say may not be fit to be written; then it is this case that breaks.
            self._write(self._waiting)
            self._write([(result, arm)])
            return
        self._waiting.append((result, arm))
        waited_s = monotonic() - self._written_s
        if len(self._waiting) == _WAIT_MAX or waited_s > _WAIT_MAX_S:
            self._write(self._waiting)

    def _write(self, results: Sequence[tuple[EvalResult, str | None]]) -> None:
        """Write results, all that wait or one of its own; none is lost to who interrupts this."""
        rows = [row for result, arm in results for row in rows_of(result, arm=arm)]
        for row in rows:
            self._clean_row(row)
        lines = [f"{_encoded(row)}\n" for row in rows]
        self._waiting = []
        self._written_s = monotonic()
        self._append(self._path, lines)
        for row in rows:
            self.tally.add(row)

    def _append(self, path: Path, lines: Sequence[str]) -> None:
        """Write as many whole lines as the disk takes; the others are `unwritten`."""
        if not lines:
            return
        content = "".join(lines).encode("utf-8", "backslashreplace")
        whole = written = 0
        try:
            if self.trouble:
                return
            if self._file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("ab", buffering=0)
            end = os.fstat(self._file.fileno()).st_size
            try:
                while written < len(content):
                    written += self._file.write(content[written:])
            finally:
                whole = content.rfind(b"\n", 0, written) + 1
                if whole < written:
                    self._file.truncate(end + whole)
        except OSError as error:
            self._note(error, path)
        finally:
            self.unwritten += lines[content.count(b"\n", 0, whole) :]

    def _clean_row(self, row: dict[str, Any]) -> None:
        """Take secrets out of what models, judges and providers said; the rest is our own."""
        for name in ("answer", "refusal", "cause", "answered_by", "fingerprint"):
            row[name] = map_texts(row[name], self._redact)
        for verdict in row["verdicts"]:
            for name in ("reason", "expected", "actual", "details"):
                if name in verdict:
                    verdict[name] = map_texts(verdict[name], self._redact)

    def close(self) -> None:
        """Write what waits."""
        self._write(self._waiting)
        if self._file is not None:
            self._file.close()
            self._file = None

    def gather(self, unwritten: Sequence[str] = ()) -> None:
        """Join the rows of worker processes, in the order of their items, and count them.

        Args:
            unwritten: Rows that workers could not write.
        """
        parts = sorted(self.directory.glob("trials.*.jsonl"))
        if not parts and not unwritten:
            return
        keyed: list[tuple[str, int, str]] = []
        for lines in (*map(_lines_of, parts), unwritten):
            for line in lines:
                row = json.loads(line)
                keyed.append((row["node"], row["trial"], line))
                self.tally.add(row)
        self._append(self.directory / _ROWS, [line for _, _, line in sorted(keyed)])
        if not self.unwritten:
            for part in parts:
                part.unlink()

    def finish(
        self,
        *,
        started_at: datetime,
        interrupted: bool,
        command: Sequence[str],
        options: Mapping[str, Any],
        git: GitState | None,
        decision: DecisionDocument | None = None,
        suggestions: Sequence[Suggestion] = (),
    ) -> RunRecord:
        """Close the run with its record; `decision` is that of a gate, without secrets already.

        Where it cannot be written, `trouble` says so.
        """
        from regauge.reports._schema import RunRecord  # only now: pydantic takes its time for it

        self.close()
        record = RunRecord(
            id=self.directory.name,
            started_at=started_at.isoformat(),
            # With its fraction, which tells runs apart that began in one second.
            finished_at=datetime.now(UTC).isoformat(),
            status="interrupted" if interrupted else "finished",
            regauge_version=version("regauge"),
            python_version=platform.python_version(),
            command=list(command),
            git=git,
            options=dict(options),
            suites=self.tally.suites(options.get("models") or ()),
            suggestions=list(suggestions),
        )
        record = map_texts(record, self._redact).model_copy(update={"decision": decision})
        path = self.directory / "run.json"
        try:
            write_whole(path, f"{record.model_dump_json(indent=2)}\n".encode())
        except OSError as error:
            self._note(error, path)
        return record

    def _note(self, error: OSError, path: Path) -> None:
        """Keep the first reason why the record of the run is not whole."""
        what = MachineError.explaining(error, path)
        self.trouble = self.trouble or f"the record of this run is incomplete: {what}"

    def export(self, target: Path) -> None:
        """Copy the run to a directory, for CI to keep."""
        shutil.copytree(self.directory, target, dirs_exist_ok=True)


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from lines


def _encoded(row: dict[str, Any]) -> str:
    """A row as JSON, which has no word for NaN or infinity; judges and prices may state them."""
    try:
        return _ENCODE(row)
    except ValueError:
        for name in ("latency_s", "cost_usd"):
            row[name] = row[name] if row[name] is None or isfinite(row[name]) else None
        row["verdicts"] = [_finite(verdict) for verdict in row["verdicts"]]
        return _ENCODE(row)


def _finite(value: object) -> object:
    """A value with numbers that JSON does not know as texts.

    >>> _finite({"a": [1.5, float("nan")]})
    {'a': [1.5, 'nan']}
    """
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_finite(one) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in cast("dict[str, object]", value).items()}
    return value
