"""Files of one line each, as all recordings are: reading them, and writing them anew."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from regauge.errors import Fault, RecordingError, explain_os_error
from regauge.recordings._atomic import exclusive
from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

__all__ = ["lines_of", "rewriting"]


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1; none of a file that is not there.

    Raises:
        RecordingError: The file cannot be read.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordingError([Fault.unreadable(path, error)]) from error
    for number, ended in enumerate(content.split(b"\n"), 1):
        line = ended.rstrip(b"\r")
        if line.strip():
            yield number, line


@contextmanager
def rewriting(path: Path, *, safe: str = "") -> Generator[None]:
    """Keep other processes from a file, whose directory is made, while the block writes it.

    Args:
        path: The file.
        safe: What is kept elsewhere where it cannot be written, as a clause.

    Raises:
        RecordingError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(path.parent):
            yield
    except OSError as error:
        what, own_fix = explain_os_error(error)
        fix = own_fix or "make room or give write permission, then run again"
        fault = Fault(
            path=path,
            line=None,
            message=f"cannot be written: {what}",
            fix=f"{fix}; {safe}" if safe else fix,
        )
        raise RecordingError([fault]) from error
