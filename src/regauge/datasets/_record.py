"""What every reader makes of a file, whatever its format: records with places, and faults."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import Fault
from regauge.regular_file import read_regular
from regauge.wording import closest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEYS", "Record", "Source", "decode_lines", "is_known"]

# A mapping, since it keeps the order that messages show and is asked for every key of every case.
KEYS = dict.fromkeys(
    (
        "id",
        "inputs",
        "expected",
        "tags",
        "tier",
        "split",
        "source",
        "licence",
        "note",
        "checks",
        "pass_at",
    )
)

_MARKS_OF_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True, kw_only=True)
class Record:
    """One case as its file states it, before anything was checked.

    Attributes:
        line: Where it starts, counted from 1; the row of a parquet file.
        values: The values by key.
        lines: The line of a key, where the format can tell; the case's own line otherwise.
    """

    line: int
    values: dict[str, object]
    lines: dict[str, int] = field(default_factory=dict[str, int])

    def line_of(self, key: str) -> int:
        """The line to name when `key` is at fault."""
        return self.lines.get(key, self.line)


@dataclass(slots=True, kw_only=True)
class Source:
    """A file being read, and all that is found wrong with it.

    Attributes:
        path: The file on this machine.
        shown: The file as faults name it.
        unit: What places of this file are counted in: `line`, or `row` for parquet.
        holds: What one record of it is, in words.
    """

    path: Path
    shown: Path
    unit: str = "line"
    holds: str = "a case"
    faults: list[Fault] = field(default_factory=list[Fault])

    def fault(self, line: int | None, message: str, fix: str = "") -> None:
        """Note that something is wrong at `line` and go on."""
        self.faults.append(Fault(path=self.shown, line=line, message=message, fix=fix))


def decode_lines(source: Source) -> str | None:
    """The text of the file, without byte order mark; None, and a fault per line, if not UTF-8.

    Line ends stay as they are.
    """
    data = read_regular(source.path)
    if data.startswith(_MARKS_OF_UTF16):
        source.fault(1, "the file is UTF-16, not UTF-8", "save it as UTF-8")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        for number, raw in enumerate(data.split(b"\n"), 1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                source.fault(
                    number,
                    f"not UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}",
                    "save the file as UTF-8",
                )
        return None


def is_known(key: str, source: Source, line: int | None, *, word: str = "key") -> bool:
    """Whether a case can have this key; a fault with the nearest known one if not."""
    if key in KEYS:
        return True
    shown = {name: name for name in KEYS}
    if word == "column":
        shown["inputs"] = "inputs.<name>"
    near = closest(key, KEYS)
    known = f"known {word}s: {', '.join(shown.values())}"
    fix = f"did you mean {shown[near]!r}?" if near else known
    source.fault(line, f"unknown {word} {key!r}", fix)
    return False
