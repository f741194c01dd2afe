"""The memory that the rows of a parquet file need, counted before any of it is taken.

A kilobyte can hold a million rows, or one long text a thousand times. So texts are read as
references to the distinct texts of their column, in batches, and their lengths are summed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

__all__ = ["BYTES_MAX", "ROWS_MAX", "count_rows_and_bytes"]

ROWS_MAX: Final = 1_000_000
"""The rows above which a file is refused."""
BYTES_MAX: Final = 512 * 1024 * 1024
"""The memory above which the rows of a file are refused."""

_BATCH_ROWS: Final = 1024
# In CPython a list takes 56 bytes and 8 for each item, a text 49 and a small dictionary 184.
_ITEM_BYTES: Final = 8
_TEXT_BYTES: Final = 49
_LIST_BYTES: Final = 56
_DICT_BYTES: Final = 184


def count_rows_and_bytes(data: io.BytesIO) -> tuple[int, int]:
    """The rows of a file, and the bytes they need; counting ends where one exceeds its maximum.

    Raises:
        OSError: It is no parquet file; ValueError and NotImplementedError alike.
    """
    parquet: Any = importlib.import_module("pyarrow.parquet")
    chunks = _Chunks(parquet.ParquetFile(data))
    size = max(chunks.stored, chunks.needed_at_least)
    if chunks.rows > ROWS_MAX or size > BYTES_MAX:
        return chunks.rows, size
    file = parquet.ParquetFile(data, read_dictionary=chunks.referable)
    batch_rows = max(1, min(_BATCH_ROWS, BYTES_MAX // max(1, chunks.largest)))
    size = 0
    for batch in file.iter_batches(batch_size=batch_rows):
        size += sum(map(_needed, batch.columns))
        if size > BYTES_MAX:
            break
    return chunks.rows, size


class _Chunks:
    """What the metadata of a file states of its columns.

    Attributes:
        rows: Of the file.
        stored: The bytes of all columns, decompressed.
        largest: The bytes of the largest column.
        needed_at_least: The bytes to read the file with texts as references.
        referable: The columns whose texts can be read as references.
    """

    def __init__(self, file: Any) -> None:
        columns = [file.schema.column(number) for number in range(len(file.schema))]
        self.rows: int = file.metadata.num_rows
        self.stored = self.largest = self.needed_at_least = 0
        referable = {one.path for one in columns if _is_text(one)}
        for group in _row_groups(file):
            for column, chunk in zip(columns, group, strict=True):
                size = max(0, chunk.total_uncompressed_size)
                self.stored += size
                self.largest = max(self.largest, size)
                width = max(_ITEM_BYTES, column.length)
                if any(name.startswith("DELTA") for name in chunk.encodings):
                    # Such texts can share their beginnings, and cannot be read as references. In a
                    # list all of a row are read at once, and each may be as long as its column.
                    referable.discard(column.path)
                    nested = column.max_repetition_level > 0
                    width = size if nested and _is_text(column) else width
                self.needed_at_least += chunk.num_values * width
        self.referable = sorted(referable)


def _row_groups(file: Any) -> Iterator[Sequence[Any]]:
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        yield [group.column(column) for column in range(group.num_columns)]


def _is_text(column: Any) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL")


def _needed(array: Any) -> int:
    """The bytes of an array's values in Python, where equal texts are not shared."""
    arrow: Any = importlib.import_module("pyarrow")
    kind, size = array.type, len(array) * _ITEM_BYTES
    if isinstance(array, arrow.ExtensionArray):
        return _needed(array.storage)
    if arrow.types.is_dictionary(kind):
        return size + len(array) * _TEXT_BYTES + _sum_lengths(array.dictionary, array.indices)
    if arrow.types.is_struct(kind):
        return size + len(array) * _DICT_BYTES + sum(map(_needed, array.flatten()))
    if arrow.types.is_map(kind):
        return size + len(array) * _LIST_BYTES + _needed(array.keys) + _needed(array.items)
    if arrow.types.is_nested(kind):
        return size + len(array) * _LIST_BYTES + _needed(array.flatten())
    return size + int(array.nbytes)


def _sum_lengths(texts: Any, indices: Any) -> int:
    """The summed length of the texts that indices refer to."""
    compute: Any = importlib.import_module("pyarrow.compute")
    lengths = compute.binary_length(texts.cast("large_binary")).cast("int64")
    return int(compute.sum(lengths.take(indices)).as_py() or 0)
