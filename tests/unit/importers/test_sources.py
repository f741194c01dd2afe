"""Entries of files have the lines where they begin, whatever is on the lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.importers._source import Items, SourceTree, Table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.json", '[{"a": 1}, {"a": 2}]', [1, 1]),
        ("a.json", '\n[\n{"a": 1},\n\n{"a": 2}\n]\n', [3, 5]),
        ("a.json", '[\n {\n  "a": [\n1\n]\n }, {"a": 2},\n "x"]', [2, 6, 7]),
        ("a.json", "[]", []),
        ("a.jsonl", '\n{"a": 1}\n\n\n{"a": 2}', [2, 5]),
        ("a.csv", 'a,b\n1,2\n"3\n4",5\n6,7\n', [2, 3, 5]),
        ("a.yml", "\n- a: 1\n  b:\n  - 2\n-\n  a: 3\n", [2, 6]),
    ],
)
def test_entries_have_their_lines(tmp_path: Path, name: str, text: str, lines: list[int]):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    tree = SourceTree(tmp_path)
    read = {
        ".json": tree.read_json,
        ".jsonl": tree.read_json_lines,
        ".csv": tree.read_csv,
        ".yml": tree.read_yaml,
    }
    items = read[path.suffix](path)
    assert isinstance(items, Items)
    assert items.lines == lines
    for item, line in zip(items, lines, strict=True):
        if isinstance(item, Table):
            assert item.place.line == line
            assert item.place.path == name
