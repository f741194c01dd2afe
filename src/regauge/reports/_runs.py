"""Find and read the runs of a project; export their trials."""

from __future__ import annotations

import csv
import json
import os
import unicodedata
from collections import defaultdict
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from itertools import islice
from math import isfinite
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pydantic import ValidationError

from regauge.digests import digest_of
from regauge.errors import Diagnostic, InvalidFileError, UsageError
from regauge.files import open_regular
from regauge.on_demand import require
from regauge.reports._documents import SCHEMA_VERSION, RunRecord, TrialRow
from regauge.strict_json import explain_format, refuse_constant
from regauge.wording import encodable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from regauge.project import Project


_SECOND = len("20260131-235959")
# Digits of a 64-bit count; longer ones would overflow in computed shares.
_DIGITS_MAX = 19
_WHY_CHARS = 300
_MIB = 1024 * 1024
# A run of 100,000 cases writes about 200 MiB of rows; a record may be an artifact of a fork.
_BYTES_MAX = {"run.json": 128 * _MIB, "trials.jsonl": 512 * _MIB}


def list_runs(project: Project) -> list[Path]:
    """The directories of all runs, the newest first."""
    runs = project.state_dir / "runs"
    if not runs.is_dir():
        return []
    return sorted(
        (path for path in runs.iterdir() if (path / "run.json").is_file()),
        # Runs of the same second are sorted by their end.
        key=lambda path: (path.name[:_SECOND], (path / "run.json").stat().st_mtime_ns),
        reverse=True,
    )


def find_run(project: Project, name: str) -> Path:
    """The directory of one run.

    Args:
        project: The project.
        name: A run's id, the beginning of exactly one id, `latest`, or a directory.

    Raises:
        UsageError: The number of matching runs is not 1.
    """
    if os.path.lexists(Path(name) / "run.json"):
        # Reading it reports its errors.
        return Path(name)
    runs = list_runs(project)
    if name == "latest" and runs:
        return runs[0]
    matches = [run for run in runs if run.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not runs:
        fix = f"{project.run_command} makes one"
        raise UsageError(f"there are no runs in {project.state_dir / 'runs'}", fix=fix)
    if matches:
        several = ", ".join(run.name for run in matches[:5])
        fix = "give more of its id"
        raise UsageError(f"{len(matches)} runs begin with {name!r}: {several}", fix=fix)
    raise UsageError(f"there is no run {name!r}\n  fix: `regauge runs list` lists them")


def read_record(run: Path) -> RunRecord:
    """The record of one run.

    Raises:
        InvalidFileError: It does not parse, or has an unknown schema version.
    """
    path = run / "run.json"
    document = _parse(path, _read(path), "run record")
    version: object = document.get("schema_version")
    if version != SCHEMA_VERSION:
        message = f"schema version {version!r}; this regauge reads {SCHEMA_VERSION}"
        fix = f"read it with the regauge that wrote it, or delete it: rm -r {quote(str(run))}"
        raise InvalidFileError.at_place(path, message, fix)
    try:
        return RunRecord.model_validate(document)
    except ValidationError as error:
        raise _not_a(path, None, "run record", error) from error


def read_rows(run: Path) -> Iterator[dict[str, Any]]:
    """The rows of one run, in the shape of `TrialRow`.

    Raises:
        InvalidFileError: A line does not parse, or is not a row, or rows are missing.
    """
    path = run / "trials.jsonl"
    number = 0
    for number, line in row_lines(path, parts=_parts(run)):
        yield parse_row(path, number, line)[0].model_dump()
    # A killed run has no record.
    is_recorded = os.path.lexists(run / "run.json")
    trials = sum(eval_.trials for eval_ in read_record(run).evals) if is_recorded else 0
    if number < trials:
        fix = "copy its directory again, or repeat the run"
        raise InvalidFileError.at_place(path, f"it has {number} of {trials} trials", fix)


def _parts(run: Path) -> int:
    """The number of shards of a run merged on this machine; 1 for any other run."""
    if run.resolve().parent.name != "runs" or run.resolve().parents[1].name != ".regauge":
        return 1
    try:
        merged = read_record(run).merged
    except InvalidFileError:
        return 1
    return merged.count if merged is not None else 1


def row_lines(path: Path, *, parts: int = 1) -> Iterator[tuple[int, bytes]]:
    """The lines of a file of rows, with their numbers from 1.

    Args:
        path: The file.
        parts: The number of merged runs; the size limit applies to each.

    Raises:
        InvalidFileError: It is not a regular file, is too large, or cannot be read.
    """
    if not os.path.lexists(path):
        return
    with _open(path, parts=parts) as file:
        for number, line in enumerate(file, 1):
            yield number, line.rstrip(b"\n")


def parse_row(path: Path, number: int, line: bytes) -> tuple[TrialRow, dict[str, Any]]:
    """The row of a line, and its JSON.

    Raises:
        InvalidFileError: It does not parse, or is not a row.
    """
    document = _parse(path, line, "row", number)
    try:
        # Strict: counts are made from the JSON, where pydantic would turn "9" into 9.
        return TrialRow.model_validate(document, strict=True), document
    except ValidationError as error:
        raise _not_a(path, number, "row", error) from error


@contextmanager
def _open(path: Path, *, parts: int = 1) -> Generator[BinaryIO]:
    """Open a file of a run, which is untrusted: a link could lead to any file.

    Raises:
        InvalidFileError: It is not a regular file, is too large, or cannot be read.
    """
    if path.is_symlink():
        raise InvalidFileError.at_place(path, "a link; a run has a file there")
    try:
        with open_regular(path, bytes_max=_BYTES_MAX[path.name] * parts) as file:
            yield file
    except OSError as error:
        raise InvalidFileError([Diagnostic.unreadable(path, error)]) from error


def _read(path: Path) -> bytes:
    with _open(path) as file:
        return file.read()


def _parse(path: Path, data: bytes, kind: str, line: int | None = None) -> dict[str, Any]:
    """Parse an object from a run's JSON.

    Raises:
        InvalidFileError: It is invalid JSON or no object.
    """
    try:
        document: object = json.loads(
            data, parse_int=_integer, parse_float=_finite, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise _not_a(path, line, kind, error) from error
    if not isinstance(document, dict):
        raise _not_a(path, line, kind, TypeError("not a JSON object"))
    return cast("dict[str, Any]", document)


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _not_a(path: Path, line: int | None, kind: str, error: Exception) -> InvalidFileError:
    """The error for a file with invalid content, in one line."""
    fix = "copy its directory again in case it was cut off, or repeat the run"
    match error:
        case ValidationError():
            reason = explain_format(error.errors()[0])
            directory = quote(str(path.parent))
            fix = f"read it with the regauge that wrote it, or delete it: rm -r {directory}"
        case RecursionError():
            reason = "nested too deeply"
        case _:
            reason = str(error)
    prefix = "" if isinstance(error, ValidationError) else f"not a {kind}: "
    message = f"{prefix}{printable(reason)[:_WHY_CHARS]}"
    return InvalidFileError.at_place(path, message, fix, line=line)


# Letters and symbols of Unicode that look blank: Hangul fillers and the empty Braille cell.
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


_NESTED = frozenset({"verdicts", "cause", "lost_usage"})


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a flat line of a table."""
    line = {key: value for key, value in row.items() if key not in _NESTED}
    line["tags"] = ";".join(row["tags"])
    cause = row["cause"]
    line["cause"] = f"{cause['kind']}: {cause['message']}" if cause else None
    for verdict in row["verdicts"]:
        judge = verdict["judge"]
        line[f"outcome.{judge}"] = verdict["outcome"]
        line[f"score.{judge}"] = verdict["score"]
        line[f"reason.{judge}"] = verdict["reason"]
        if verdict.get("status_reason"):  # an LLM judge
            line[f"blocking.{judge}"] = verdict.get("blocking", True)
            usage: Mapping[str, Any] = verdict.get("usage") or {}
            for key in ("calls", "cost_usd", "latency_s"):
                line[f"{key}.{judge}"] = usage.get(key)
    return line


def write_csv(read: Callable[[], Iterable[dict[str, Any]]], path: Path) -> None:
    """Write the rows as CSV: UTF-8, a heading, one line per trial.

    Args:
        read: Reads the rows; called twice, first for the columns.
        path: The file.
    """
    columns = {name: None for row in read() for name in _flat(row)}
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in read():
            line = _flat(row)
            writer.writerow({name: _spreadsheet_safe(value) for name, value in line.items()})


# Rows in memory at once.
_BATCH = 5000


def write_parquet(read: Callable[[], Iterable[dict[str, Any]]], path: Path) -> None:
    """Write the rows as parquet, with lists and objects as JSON.

    Args:
        read: Reads the rows; called twice, first for the columns.
        path: The file.

    Raises:
        UsageError: The extra `parquet` is not installed.
    """
    require("pyarrow", use="a parquet file")
    pa: Any = import_module("pyarrow")  # it has no types
    parquet: Any = import_module("pyarrow.parquet")
    kinds: dict[str, set[str]] = {}
    for row in read():
        for name, value in _flat(row).items():
            kinds.setdefault(name, set()).add(_kind(value))
    types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    common = {name: _common_kind(value_kinds) for name, value_kinds in kinds.items()}
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in common.items()])
    with parquet.ParquetWriter(path, schema) as writer:
        lines = map(_flat, read())
        while batch := list(islice(lines, _BATCH)):
            for line in batch:
                for name, value in line.items():
                    if isinstance(value, (list, dict)):
                        line[name] = json.dumps(value)
                    elif common[name] == "float" and value is not None:
                        line[name] = float(value)
                    elif isinstance(value, str):
                        line[name] = encodable(value)
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


_INT64 = 2**63


def _kind(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "bool"
        case int():
            return "int" if -_INT64 <= value < _INT64 else "float"
        case float():
            return "float"
        case _:
            return "text"


def _common_kind(kinds: set[str]) -> str:
    """The kind of a column from the kinds of its values."""
    kinds = kinds - {""}
    if kinds == {"int", "float"}:
        return "float"
    return next(iter(kinds)) if len(kinds) == 1 else "text"


def _spreadsheet_safe(value: object) -> object:
    r"""A cell that no spreadsheet interprets as a formula; model output is untrusted.

    >>> _spreadsheet_safe("=1+1"), _spreadsheet_safe("text"), _spreadsheet_safe(-1)
    ("'=1+1", 'text', -1)
    >>> _spreadsheet_safe("\n \u200b\uff1d1+1").startswith("'")
    True
    """
    if isinstance(value, str):
        return f"'{value}" if _may_be_formula(value) else value
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _may_be_formula(text: str) -> bool:
    """Return whether a text begins with a tab, CR or formula sign.

    Full-width and other forms of the signs count, as do signs after blanks, line feeds and
    invisible characters.
    """
    if text[:1] in {"\t", "\r"}:
        return True
    seen = next((character for character in text if not _is_unseen(character)), "")
    return seen == "\u2212" or unicodedata.normalize("NFKC", seen)[:1] in {"=", "+", "-", "@"}


def _is_unseen(character: str) -> bool:
    """Return whether a character is a blank, a control or format character, or a mark."""
    return (
        character.isspace() or unicodedata.category(character)[0] in "CMZ" or character in _FILLERS
    )


_SPANS_AT_ONCE = 512  # events a request, as the SDK's own processor sends them


def verdict_events(record: RunRecord, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The attributes of an event per verdict and per unmeasured trial.

    Args:
        record: The run.
        rows: Its rows, from `read_rows`.
    """
    cases: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cases[row["dataset"]][row["case"]] = row["case_digest"]
    datasets = {name: digest_of(dict(sorted(digests.items()))) for name, digests in cases.items()}
    for row in rows:
        provider, _, model = row["model"].partition(":")
        shared: dict[str, Any] = {
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "regauge.run.id": record.id,
            "regauge.prompt.name": row["prompt"],
            "regauge.prompt.version": row["version"] or "",
            "regauge.prompt.digest": row["prompt_digest"],
            "regauge.dataset.name": row["dataset"],
            "regauge.dataset.digest": datasets[row["dataset"]],
            "regauge.case.id": row["case"],
            "regauge.case.digest": row["case_digest"],
            "regauge.trial": row["trial"],
            "regauge.side": row.get("side") or "",
        }
        for verdict in row["verdicts"]:
            yield shared | {
                "gen_ai.evaluation.name": verdict["judge"],
                "gen_ai.evaluation.score.value": verdict["score"],
                "gen_ai.evaluation.score.label": verdict["outcome"],
                "gen_ai.evaluation.explanation": verdict["reason"],
                "regauge.judge.digest": verdict["judge_digest"],
                "regauge.judge.blocking": verdict["blocking"],
            }
        if not row["verdicts"] and row["cause"]:
            yield shared | {
                "gen_ai.evaluation.name": "regauge",
                "gen_ai.evaluation.score.label": "unmeasured",
                "gen_ai.evaluation.explanation": row["cause"]["message"],
                "error.type": row["cause"]["kind"],
            }


def export_run(directory: Path) -> tuple[int, str]:
    """Send the verdicts of a run to the endpoint of the `OTEL_EXPORTER_OTLP_*` variables.

    Returns:
        The number of events, and the endpoint.

    Raises:
        UsageError: The extra `otel` is not installed, or the endpoint does not take the events.
    """
    require("opentelemetry.exporter.otlp.proto.http", use="report --otel")
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    record = read_record(directory)
    resource = Resource.create(_resource(record))
    scope = InstrumentationScope("regauge", record.regauge_version)
    time_ns = int(datetime.fromisoformat(record.finished_at).timestamp() * 1e9)
    events = [
        ReadableLogRecord(
            log_record=LogRecord(
                timestamp=time_ns,
                observed_timestamp=time_ns,
                severity_number=SeverityNumber.INFO,
                event_name="gen_ai.evaluation.result",
                attributes=attributes,
            ),
            resource=resource,
            instrumentation_scope=scope,
        )
        for attributes in verdict_events(record, list(read_rows(directory)))
    ]
    exporter = OTLPLogExporter()
    endpoint = (
        os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
        or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or "http://localhost:4318"
    )
    try:
        for start in range(0, len(events), _SPANS_AT_ONCE):
            result = exporter.export(events[start : start + _SPANS_AT_ONCE])
            if result is not LogRecordExportResult.SUCCESS:
                raise UsageError(
                    f"{endpoint} did not take the events of run {record.id}",
                    fix="start a collector, or set OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS",
                )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return len(events), endpoint


def _resource(record: RunRecord) -> Mapping[str, str]:
    values = {"service.name": "regauge", "service.version": record.regauge_version}
    if record.git is not None:
        values["vcs.ref.head.revision"] = record.git.commit
    return values
