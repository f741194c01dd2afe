"""Lets an event loop have its turn before the thread that waits for what it brings."""

from __future__ import annotations

import asyncio
import selectors
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selectors import SelectorKey

__all__ = ["Turns"]


class Turns:
    """An event loop, and a way to wait until it has nothing to do but wait.

    Only one thread at a time runs Python. Whoever judges an answer while others land keeps the
    next requests from being sent, and the model idles meanwhile; what is judged a moment later
    costs nothing, since the next answer is not there yet.
    """

    def __init__(self) -> None:
        self._idle = threading.Event()
        self.loop = asyncio.SelectorEventLoop(_Selector(self._idle))

    def give_way(self, at_most_s: float) -> None:
        """Wait until the loop is idle, or for this long."""
        self._idle.wait(at_most_s)


class _Selector(selectors.DefaultSelector):
    """Says when its loop sleeps."""

    def __init__(self, idle: threading.Event) -> None:
        super().__init__()
        self._sleeps = idle

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, Any]]:
        if timeout is not None and timeout <= 0:  # there is more to do
            return super().select(timeout)
        self._sleeps.set()
        try:
            return super().select(timeout)
        finally:
            self._sleeps.clear()
