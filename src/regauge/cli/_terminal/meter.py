"""How far long work has come, on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from regauge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

__all__ = ["Meter", "clear_line"]

_TERMINAL_S = 0.5
_LOG_S = 10.0


class Meter:
    """A line that renews itself in place on a terminal; elsewhere a line every ten seconds.

    Standard output is left to what the command has to say, so a pipe gets nothing of it.

    Args:
        line: Says how far the work has come, for as long as the meter is entered; None where
            `say` is told.
    """

    def __init__(self, line: Callable[[], str] | None = None) -> None:
        self._line = line
        self._terminal = _on_terminal()
        self._every_s = _TERMINAL_S if self._terminal else _LOG_S
        self._next_s = time.monotonic() + self._every_s
        self._over = Event()
        self._thread: Thread | None = None
        self._shown = False
        self._writing = Lock()

    def __enter__(self) -> Self:
        if self._line is not None:
            # A thread: event loops come and go while a command works.
            self._thread = Thread(target=self._renew, args=(self._line,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown:
            clear_line()

    def say(self, text: str) -> None:
        """Show where the work is, unless it was shown just now."""
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + self._every_s
        self._show(text)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Leave the line to something else that is printed on standard error."""
        with self._writing:
            if self._shown:
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
                self._shown = True
            else:
                sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def clear_line() -> None:
    """Remove what a meter left on the terminal, where there is one, before other words."""
    if _on_terminal():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _on_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
