"""Datasets as rows of data: what is read of each file, or all that is wrong with it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from regauge.datasets import load_dataset
from regauge.errors import DatasetError
from tests.transcripts import DATA, held_rows, plain_value, read_rows

ROWS = DATA / "dataset_rows.jsonl"
FILES = {
    "texts/long.txt": "A long text.\r\n",
    "texts/empty.txt": "",
    "tools/look.yml": "look:\n  - {args: {q: a}, result: found}\n  - {error: it is down}\n",
    "tools/bad.yml": "look:\n  - {args: 3}\n  - {odd: 1}\n",
}


def write_files(folder: Path) -> None:
    """Write the files that the cases name."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    (folder / "golden").mkdir()


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is now: the cases with their digests, or all errors."""
    given = {"name": row["name"], "text": row["text"]}
    with tempfile.TemporaryDirectory() as project:
        folder = Path(project) / "fixtures"
        write_files(folder)
        path = folder / "golden" / row["name"]
        path.write_bytes(row["text"].encode())
        try:
            dataset = load_dataset(path, fixtures_dir=folder)
        except DatasetError as error:
            shown = [f"{one.line}: {one.message} | {one.fix}" for one in error.diagnostics]
            return {**given, "errors": shown}
    cases = [{**plain_value(case), "digest": case.digest[:8]} for case in dataset]
    return {**given, "cases": cases, "digest": dataset.digest[:8]}


@pytest.mark.parametrize(
    "row", held_rows(ROWS, lambda: map(row_of, read_rows(ROWS))), ids=lambda row: row["text"][:40]
)
def test_a_dataset_is_read_or_refused_as_its_row_has_it(row: dict[str, Any]):
    assert row_of(row) == row
