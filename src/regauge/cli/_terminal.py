"""Output to a terminal, with control characters escaped and optional colour."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

import click

from regauge.model_id import is_simulated
from regauge.wording import encodable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from regauge.reports import StyledLine


def echo(text: str = "", *, style: str = "", bold: bool = False, err: bool = False) -> None:
    """Print untrusted text; coloured on a terminal unless `NO_COLOR` is set."""
    text = printable(text)
    if (style or bold) and not os.environ.get("NO_COLOR"):
        text = click.style(text, fg=style or None, bold=bold or None)
    click.echo(text, err=err)


_TONES = {"plain": "", "quiet": "", "good": "green", "bad": "red", "warn": "yellow"}


def echo_lines(lines: Iterable[StyledLine], *, err: bool = False) -> None:
    """Print lines of a report, in the colours of their tones."""
    for line in lines:
        echo(line.text, style=_TONES[line.tone], err=err)


def echo_json(document: object) -> None:
    """Print a document as JSON."""
    click.echo(encodable(json.dumps(document, indent=2, ensure_ascii=False)))


def short_path(path: Path) -> Path:
    """A path for users: relative to the working directory if below it."""
    directory = Path.cwd()
    return path.relative_to(directory) if path.is_relative_to(directory) else path


# A terminal line is replaced; a log gets new lines, so fewer.
_TERMINAL_S = 0.5
_LOG_S = 10.0


class Meter:
    """A progress line on standard error, replaced on a terminal, else printed every 10 seconds.

    Args:
        line: Returns the current progress, called regularly within the block; None to call
            `update` instead.
    """

    def __init__(self, line: Callable[[], str] | None = None) -> None:
        self._line = line
        self._terminal = _on_terminal()
        self._every_s = _TERMINAL_S if self._terminal else _LOG_S
        self._next_s = time.monotonic() + self._every_s
        self._over = Event()
        self._thread: Thread | None = None
        self._is_shown = False
        self._writing = Lock()

    def __enter__(self) -> Self:
        if self._line is not None:
            # A thread, since a command may run several event loops.
            self._thread = Thread(target=self._renew, args=(self._line,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_shown:
            clear_line()

    def update(self, text: str) -> None:
        """Show a progress text, unless one was shown just before."""
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + self._every_s
        self._show(text)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Clear the line for other output on standard error within the block."""
        with self._writing:
            if self._is_shown:
                clear_line()
            yield

    def _renew(self, line: Callable[[], str]) -> None:
        while not self._over.wait(self._every_s):
            self._show(line())

    def _show(self, text: str) -> None:
        text = printable(text)
        with self._writing:
            if self._terminal:
                width = shutil.get_terminal_size().columns - 1
                sys.stderr.write(f"\r{text[:width]}\x1b[K")
                self._is_shown = True
            else:
                sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def clear_line() -> None:
    """Clear a progress line on a terminal."""
    if _on_terminal():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _on_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


_DIFF_STYLES = {"+++": "", "---": "", "@@ ": "cyan", "+": "green", "-": "red"}


def echo_diff(lines: Sequence[str], old: str, new: str) -> None:
    """Print a coloured unified diff, or that `old` and `new` are the same."""
    if not lines:
        click.echo(f"no difference between {old} and {new}", err=True)
    for line in lines:
        style = next((style for start, style in _DIFF_STYLES.items() if line.startswith(start)), "")
        echo(line, style=style, bold=line.startswith(("+++ ", "--- ")))


def model_text(model: str) -> str:
    """A model's name, marked if it is simulated."""
    return f"{model} (simulated)" if is_simulated(model) else model
