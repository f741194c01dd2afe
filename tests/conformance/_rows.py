"""Rows of JSONL files that may hold odd ones, and a stdout that may close early."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
import zlib
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    Complain: TypeAlias = Callable[[str], None]

GZIP = b"\x1f\x8b"


class Complaints:
    """Says what is wrong on stderr, the same thing once.

    Attributes:
        said: What was said so far.
    """

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, message: str) -> None:
        if message not in self.said:
            self.said.add(message)
            sys.stderr.write(f"{message}\n")


def refuse(message: str) -> NoReturn:
    """The complaint of those who want no odd rows at all."""
    raise ValueError(message)


def rows_of(path: Path, complain: Complain = refuse) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, packed with gzip or not, whatever its name.

    Args:
        path: The file.
        complain: Told of each line that is not an object, by number, and of a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            packed = file.peek(len(GZIP)).startswith(GZIP)
            lines = gzip.GzipFile(fileobj=file) if packed else file
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield from _row(line, f"{path}:{number}", complain)
    except (OSError, EOFError, zlib.error) as error:
        complain(f"{path}: cannot be read: {error}")


def _row(line: bytes, at: str, complain: Complain) -> Iterator[dict[str, Any]]:
    try:
        row: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        complain(f"{at}: not JSON: {error}")
        return
    if isinstance(row, dict):
        yield cast("dict[str, Any]", row)
    else:
        complain(f"{at}: not an object")


@contextlib.contextmanager
def early_close() -> Generator[None]:
    """Let the reader of our stdout leave before the end, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
