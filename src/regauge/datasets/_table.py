"""Tabular datasets: reads CSV and parquet files within a memory limit.

A compressed kilobyte can hold a million rows, or one long text a thousand times. So texts are read
in batches as references to the distinct texts of their column, and their lengths are summed.
"""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import importlib
import io
import json
import math
import re
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from regauge.datasets._case import Record, Source, decode_lines, is_known
from regauge.datasets._formats import parse_json
from regauge.files import open_regular
from regauge.on_demand import find_missing, install_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


ROWS_MAX: Final = 1_000_000
"""The maximum number of rows of a file."""
BYTES_MAX: Final = 512 * 1024 * 1024
"""The maximum memory for the rows of a file."""

# Rows in memory at once; wide rows come in smaller batches.
_BATCH_ROWS: Final = 1024
# In CPython a list takes 56 bytes and 8 for each item, a text 49 and a small dictionary 184.
_ITEM_BYTES: Final = 8
_TEXT_BYTES: Final = 49
_LIST_BYTES: Final = 56
_DICT_BYTES: Final = 184
# How pandas stores an index without a name.
_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")


def count_rows_and_bytes(data: BinaryIO) -> tuple[int, int]:
    """Count the rows of a file and their bytes in memory, until one exceeds its maximum.

    Raises:
        OSError: It is not a parquet file; also ValueError and NotImplementedError.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    chunks = _Chunks(parquet.ParquetFile(data))
    size = max(chunks.stored_bytes, chunks.bytes_min)
    if chunks.rows > ROWS_MAX or size > BYTES_MAX:
        return chunks.rows, size
    file = parquet.ParquetFile(data, read_dictionary=chunks.referable)
    batch_rows = max(1, min(_BATCH_ROWS, BYTES_MAX // max(1, chunks.largest_bytes)))
    size = 0
    for batch in file.iter_batches(batch_size=batch_rows):
        size += sum(map(_count_bytes, batch.columns))
        if size > BYTES_MAX:
            break
    return chunks.rows, size


class _Chunks:
    """The columns of a file, from its metadata.

    Attributes:
        rows: The number of rows.
        stored_bytes: The bytes of all columns, decompressed.
        largest_bytes: The bytes of the largest column.
        bytes_min: The bytes to read the file with texts as references.
        referable: The columns whose texts can be read as references.
    """

    def __init__(self, file: Any) -> None:
        columns = [file.schema.column(number) for number in range(len(file.schema))]
        self.rows: int = file.metadata.num_rows
        self.stored_bytes = self.largest_bytes = self.bytes_min = 0
        referable = {column.path for column in columns if _is_text(column)}
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            for position, column in enumerate(columns):
                chunk = group.column(position)
                size = max(0, chunk.total_uncompressed_size)
                self.stored_bytes += size
                self.largest_bytes = max(self.largest_bytes, size)
                width = max(_ITEM_BYTES, column.length)
                if any(name.startswith("DELTA") for name in chunk.encodings):
                    # Such texts can share their beginnings, and cannot be read as references. In a
                    # list all of a row are read at once, and each may be as long as its column.
                    referable.discard(column.path)
                    nested = column.max_repetition_level > 0
                    width = size if nested and _is_text(column) else width
                self.bytes_min += chunk.num_values * width
        self.referable = sorted(referable)


def _is_text(column: Any) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL")


def _count_bytes(array: Any) -> int:
    """The bytes of an array's values in Python, with equal texts stored separately."""
    arrow: Any = importlib.import_module("pyarrow")
    kind, size = array.type, len(array) * _ITEM_BYTES
    if isinstance(array, arrow.ExtensionArray):
        return _count_bytes(array.storage)
    if arrow.types.is_dictionary(kind):
        return size + len(array) * _TEXT_BYTES + _sum_lengths(array.dictionary, array.indices)
    if arrow.types.is_struct(kind):
        return size + len(array) * _DICT_BYTES + sum(map(_count_bytes, array.flatten()))
    if arrow.types.is_map(kind):
        return (
            size + len(array) * _LIST_BYTES + _count_bytes(array.keys) + _count_bytes(array.items)
        )
    if arrow.types.is_nested(kind):
        return size + len(array) * _LIST_BYTES + _count_bytes(array.flatten())
    return size + int(array.nbytes)


def _sum_lengths(texts: Any, indices: Any) -> int:
    """The total length of the texts that indices refer to."""
    compute: Any = importlib.import_module("pyarrow.compute")
    lengths = compute.binary_length(texts.cast("large_binary")).cast("int64")
    return int(compute.sum(lengths.take(indices)).as_py() or 0)


# A cell may hold a whole document; the default limit of the csv module is 128 KiB.
_CELL_CHARS_MAX = 64 * 1024 * 1024
_SHOWN_CHARS = 60
_JSON_COLUMNS = ("checks", "turns", "max_turns", "max_steps")
_ONE_COLUMN_EACH = "one column `inputs.<name>` for each input, `expected.<key>` for each key"


def read_csv(source: Source) -> list[Record]:
    """Read the records of a CSV file with a header line; quoted cells may span lines.

    Python's csv module reads it because only that reports the line a row starts on.
    """
    text = decode_lines(source)
    if text is None:
        return []
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        source.add_error(line, "a NUL character in a table", "remove it, or save the table as CSV")
        return []
    limit = csv.field_size_limit(_CELL_CHARS_MAX)
    try:
        return _csv_records(source, text)
    finally:
        csv.field_size_limit(limit)


def _csv_records(source: Source, text: str) -> list[Record]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] | None = None
    records: list[Record] = []
    while True:
        line = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            source.add_error(line, f"not CSV: {error}", "double the quotes inside a quoted cell")
            return records
        if row is None:
            return records
        if not row:
            continue
        if columns is None:
            columns = [name.strip() for name in row]
            separator = next((mark for mark in ";\t|" if mark in columns[0]), "")
            if len(columns) == 1 and separator:
                problem = f"the columns are separated by {separator!r}, not by commas"
                source.add_error(line, problem, "save the table with commas between the columns")
                return []
            if not _columns_are_sound(source, columns, line):
                return []
        elif len(row) != len(columns):
            source.add_error(
                line,
                f"{len(row)} cells where the header has {len(columns)} columns",
                "put cells with commas or line ends in quotes",
            )
        elif any(row):
            cells = {
                name: _text_cell(source, line, name, cell)
                for name, cell in zip(columns, row, strict=True)
                if cell or name.startswith("inputs.")
            }
            records.append(_from_cells(cells, line))


# Inputs that name a file; every other input is plain text.
_FILES = ('{"file"', '{"image"', '{"pdf"')


def _text_cell(source: Source, line: int, column: str, cell: str) -> object:
    """The value of a CSV cell: inputs are plain text, `expected` may be JSON."""
    if column == "tags":
        return [tag for tag in (part.strip() for part in cell.split(";")) if tag]
    if (
        column in _JSON_COLUMNS
        or column.partition(".")[0] == "expected"
        or (column.startswith("inputs.") and cell.lstrip().startswith(_FILES))
    ):
        return _json_or_text(source, line, column, cell)
    return cell


def _json_or_text(source: Source, line: int, column: str, cell: str) -> object:
    """The value of a cell that is JSON or plain text; adds an error for invalid JSON."""
    try:
        return parse_json(cell)
    except ValueError as error:
        if cell.lstrip().startswith(("{", "[")):
            text = json.dumps(cell, ensure_ascii=False)
            preview = text if len(text) <= _SHOWN_CHARS else 'a JSON string, such as "[1] first"'
            source.add_error(
                line, f"{column}: {error}", f"correct the JSON; if it is text, write {preview}"
            )
        return cell


def read_parquet(source: Source) -> Iterator[Record]:
    """Yield the records of a parquet file; an empty cell (null) is an absent key."""
    if find_missing("parquet"):
        source.add_error(
            None, "parquet needs pyarrow, which is not installed", install_command("pyarrow")
        )
        return
    with open_regular(source.path) as file:
        number = 0
        names: list[str] = []
        try:
            if not _fits_in_memory(source, file):
                return
            for frame in _frames(file):
                if not number:
                    names = [str(name) for name in frame.columns]
                    if not _columns_are_sound(source, names, None):
                        return
                columns: list[list[object]] = [frame[name].tolist() for name in frame.columns]
                for row in zip(*columns, strict=True):
                    number += 1
                    cells = dict(zip(names, row, strict=True))
                    if not source.excludes(cells.get("id")):
                        yield _row(source, number, cells)
        except (OSError, ValueError, NotImplementedError):
            source.add_error(None, "not a parquet file, or a damaged one", "write it again")


def _frames(file: BinaryIO) -> Iterator[Any]:
    """Yield the rows of a parquet file as pandas frames; one empty frame if it has no rows."""
    import pandas as pd

    parquet: Any = importlib.import_module("pyarrow.parquet")
    arrow: Any = importlib.import_module("pyarrow")
    parquet_file = parquet.ParquetFile(file)
    empty = parquet_file.schema_arrow.empty_table().to_batches()
    has_rows = bool(parquet_file.metadata.num_rows)
    for batch in parquet_file.iter_batches(_BATCH_ROWS) if has_rows else empty[:1]:
        # Arrow's types distinguish null from NaN and whole numbers from floats; numpy's do not.
        # A column that was the index when the file was written is still a column.
        table = arrow.Table.from_batches([batch])
        frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
        yield frame[[name for name in frame.columns if not _UNNAMED_INDEX.fullmatch(str(name))]]


def _row(source: Source, number: int, cells: Mapping[str, object]) -> Record:
    import pandas as pd

    typed = {
        name: _typed_cell(source, number, name, cell)
        for name, cell in cells.items()
        if cell is not None and cell is not pd.NA
    }
    return _from_cells(typed, number)


def _fits_in_memory(source: Source, file: BinaryIO) -> bool:
    """Return whether the rows of a parquet file fit in memory; adds an error if not.

    A shard stores only its own rows.
    """
    rows, size = count_rows_and_bytes(file)
    file.seek(0)
    parts = source.shard.count if source.shard is not None else 1
    if rows > ROWS_MAX * parts:
        source.add_error(None, f"{rows:,} rows, and a dataset has at most {ROWS_MAX:,}")
    elif size > BYTES_MAX * parts:
        limit = BYTES_MAX // 1024 // 1024
        source.add_error(
            None, f"its rows need more than {limit} MiB of memory", "keep long texts in files"
        )
    return rows <= ROWS_MAX * parts and size <= BYTES_MAX * parts


def _typed_cell(source: Source, row: int, column: str, cell: object) -> object:
    if column in {"expected", *_JSON_COLUMNS} and isinstance(cell, str):
        return _json_or_text(source, row, column, cell)
    if column == "tags" and isinstance(cell, str):
        return _text_cell(source, row, column, cell)
    return _json_value(source, row, column, cell)


def _json_value(source: Source, row: int, column: str, cell: object) -> object:
    """A cell as JSON; None, with an error added, if it has no JSON value."""
    if isinstance(cell, dict):
        items = cast("dict[str, object]", cell).items()
        return {key: _json_value(source, row, column, item) for key, item in items}
    if isinstance(cell, list):
        return [_json_value(source, row, column, item) for item in cast("list[object]", cell)]
    if isinstance(cell, float) and not math.isfinite(cell):
        source.add_error(row, f"{column} is {cell}, which is not a JSON number")
        return None
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    kind = type(cell).__name__
    if isinstance(cell, dt.date | dt.time | dt.timedelta | decimal.Decimal):
        source.add_error(row, f"{column} is a {kind}, which JSON does not have", "store it as text")
    else:
        source.add_error(row, f"{column} is of type {kind}, which JSON does not have")
    return None


def _columns_are_sound(source: Source, columns: list[str], line: int | None) -> bool:
    before = len(source.diagnostics)
    for name in dict.fromkeys(name for name in columns if columns.count(name) > 1):
        source.add_error(line, f"the column {name!r} is given twice")
    for name in columns:
        head, dot, rest = name.partition(".")
        if head not in {"inputs", "expected"} or not dot:
            if name == "inputs":
                source.add_error(line, "the column 'inputs' names no input", _ONE_COLUMN_EACH)
            else:
                is_known(name, source, line, word="column")
        elif not rest:
            source.add_error(line, f"the column {name!r} names nothing", _ONE_COLUMN_EACH)
    if "expected" in columns and any(name.startswith("expected.") for name in columns):
        source.add_error(
            line, "both `expected` and `expected.<key>` columns", "keep one of the two"
        )
    if "id" not in columns:
        source.add_error(
            line, "there is no column `id`", f"columns found: {', '.join(columns)[:200]}"
        )
    return len(source.diagnostics) == before


def _from_cells(cells: dict[str, object], line: int) -> Record:
    """The record of one row, with dotted columns gathered into `inputs` and `expected`."""
    inputs: dict[str, object] = {}
    expected: dict[str, object] = {}
    values: dict[str, object] = {"inputs": inputs}
    for column, cell in cells.items():
        head, dot, rest = column.partition(".")
        if not dot:
            values[head] = cell
        elif head == "inputs":
            inputs[rest] = cell
        else:
            expected[rest] = cell
    if expected:
        values["expected"] = expected
    return Record(line=line, values=values)
