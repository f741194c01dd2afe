"""What may reach a terminal: no control characters of others, and colour only where wanted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

__all__ = ["echo", "printable", "short"]

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Text without the characters that move a cursor or change a title.

    >>> printable("a\x1b[31mb\r\n")
    'a\\x1b[31mb\n'
    """
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def echo(text: str = "", *, style: str = "", bold: bool = False) -> None:
    """Print text of others; coloured on a terminal unless `NO_COLOR` is set."""
    text = printable(text)
    if (style or bold) and not os.environ.get("NO_COLOR"):
        text = click.style(text, fg=style or None, bold=bold or None)
    click.echo(text)


def short(path: Path) -> Path:
    """A path as people write it: relative to the working directory where it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
