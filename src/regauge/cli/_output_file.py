"""Options that name a file to write: `-` is standard output."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.errors import UsageError
from regauge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["STDOUT", "OutputFile", "write_output", "writing"]

STDOUT = "-"


class OutputFile(click.Path):
    """A file that a command writes at its end; what cannot be written is refused at once."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the directory of the file."""
        path = str(super().convert(value, param, ctx))
        if path != STDOUT and not Path(path).absolute().parent.is_dir():
            raise UsageError(
                f"{path} cannot be written: there is no {Path(path).parent}\n"
                "  fix: name a file in an existing directory"
            )
        return path


def write_output(text: str, output: str) -> None:
    """Write to a file, or to standard output."""
    if output == STDOUT:
        # A terminal obeys control characters of an output; a program gets the bytes.
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    else:
        with writing(output) as path:
            path.write_text(text, encoding="utf-8")


@contextmanager
def writing(output: str) -> Generator[Path]:
    """The path of the file, for a block that writes it; an error names the file and the cause."""
    try:
        yield Path(output)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}\n"
            "  fix: name a file in an existing directory that you may write to"
        ) from error
