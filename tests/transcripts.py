"""Holds long texts and rows of data in files under `tests/data`, as the code makes them.

`TRANSCRIPTS=write pytest tests/unit tests/e2e/test_gate_decisions.py -n 0` writes the files again;
review the diff as you would review the words and numbers of a report.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DATA = Path(__file__).parent / "data"
_WRITES = os.environ.get("TRANSCRIPTS") == "write"


def assert_as_written(text: str, name: str) -> None:
    """Compare a text, word for word, with the file of transcripts that holds it."""
    file_name = re.sub(r"[^\w/]+", "-", name)
    path = DATA / "transcripts" / f"{file_name}.txt"
    if _WRITES:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


def page_lines(text: str) -> list[str]:
    """The elements of a page, a line each, without its styles, scripts and their digests."""
    text = re.sub(r"sha256-[\w+/]+=*", "sha256", text)
    text = re.sub(r"(?s)<(script|style)\b(?![^>]*json).*?</\1>", "", text)
    return re.sub(r"(?<=>)\s*(?=<)", "\n", text).splitlines()


def plain_value(value: Any) -> Any:
    """A value as JSON; of a dataclass what differs from its defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: (getattr(value, one.name), one.default) for one in fields(value)}
        return {name: plain_value(part) for name, (part, usual) in parts.items() if part != usual}
    if isinstance(value, dict):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple | frozenset):
        ordered = sorted(value) if isinstance(value, frozenset) else value
        return [plain_value(part) for part in ordered]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def read_rows(path: Path) -> list[Any]:
    """The rows of a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def held_rows(path: Path, make: Callable[[], Iterable[Any]]) -> list[Any]:
    """The rows that a file of JSON Lines holds; written again, those of `make`.

    Args:
        path: The file.
        make: Makes all rows of the file; where they hold the inputs of tests, of `read_rows`.
    """
    if _WRITES:
        rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in make()]
        path.write_text("".join(rows), "utf-8")
    return read_rows(path)
