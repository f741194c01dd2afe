"""What may reach a terminal: no control characters of others, and colour only where wanted."""

from __future__ import annotations

import os
from pathlib import Path

import click

from regauge.printable import printable

__all__ = ["echo", "short", "unreadable"]


def echo(text: str = "", *, style: str = "", bold: bool = False, err: bool = False) -> None:
    """Print text of others; coloured on a terminal unless `NO_COLOR` is set."""
    text = printable(text)
    if (style or bold) and not os.environ.get("NO_COLOR"):
        text = click.style(text, fg=style or None, bold=bold or None)
    click.echo(text, err=err)


def short(path: Path) -> Path:
    """A path as people write it: relative to the working directory where it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def unreadable(name: str, error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, and what to do."""
    if isinstance(error, UnicodeDecodeError):
        return f"{name} is not UTF-8\n  fix: save it as UTF-8"
    return f"{name} cannot be read: {error.strerror or error}\n  fix: name a file that is there"
