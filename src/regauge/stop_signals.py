"""SIGTERM and SIGHUP end a run as Ctrl-C does, and a second signal leaves its end alone.

Handlers that a user has set are left alone, and so is a signal that is ignored, such as SIGHUP
under nohup.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from types import FrameType
    from typing import Any

__all__ = ["as_ctrl_c", "held", "hold_to_the_end", "stoppable"]

# Ending takes a moment; a signal that comes later than this finds an end that hangs.
_HELD_S: Final = 10.0
_SIGTERM_AND_SIGHUP: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_ALL: Final = (signal.SIGINT, *_SIGTERM_AND_SIGHUP)


class _AsCtrlC:
    """Does with a signal what Ctrl-C does, where the run is ours to end."""

    def __init__(self, ours: Callable[[], bool]) -> None:
        self._ours = ours

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._ours():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        ctrl_c = signal.getsignal(signal.SIGINT)
        if callable(ctrl_c):
            # It may be that of an event loop, which cancels what is under way first.
            ctrl_c(number, frame)
            return
        raise KeyboardInterrupt


class _Held:
    """Leaves a signal without effect while results are written."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _HELD_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() > self._until_s:
            signal.default_int_handler(number, frame)


@contextmanager
def as_ctrl_c(ours: Callable[[], bool] = lambda: True) -> Generator[None]:
    """Within the block, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread.

    Args:
        ours: Whether the run is ours to end so; else the signal does what it did before.
    """
    with _handled(_SIGTERM_AND_SIGHUP, _AsCtrlC(ours)):
        yield


@contextmanager
def held() -> Generator[None]:
    """Within the block, for 10 seconds, Ctrl-C, SIGTERM and SIGHUP have no effect."""
    with _handled(_ALL, _Held()):
        yield


def hold_to_the_end() -> None:
    """Let no further signal disturb the end of this process, which has begun."""
    _take(_ALL, _Held())


@contextmanager
def stoppable(
    at_end: Callable[[Callable[[], None]], object],
    *,
    calls: bool = True,
    ours: Callable[[], bool] = lambda: True,
) -> Generator[None]:
    """Run the block so that signals can end it, and a second one disturbs no end.

    Args:
        at_end: Takes what puts the handlers back, and calls it when an interrupted run has ended.
        calls: Whether models are called in the block; else only Ctrl-C is handled.
        ours: As for `as_ctrl_c`.
    """
    handlers = ExitStack()
    if calls:
        handlers.enter_context(as_ctrl_c(ours))
    try:
        yield
    except KeyboardInterrupt:
        handlers.enter_context(held())
        # The process of an interrupted run is about to end, and what it gives back takes a while.
        atexit.register(hold_to_the_end)
        at_end(handlers.close)
        raise
    except BaseException:
        handlers.close()
        raise
    handlers.close()


@contextmanager
def _handled(numbers: Sequence[int], handler: _AsCtrlC | _Held) -> Generator[None]:
    """Within the block, `handler` takes the signals that have no handler of a user."""
    before = _take(numbers, handler)
    try:
        yield
    finally:
        for number, known in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, known)


def _take(numbers: Sequence[int], handler: _AsCtrlC | _Held) -> Mapping[int, Any]:
    """Give signals to `handler`; returns who had them, without those that stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in numbers}
    taken = {number: known for number, known in before.items() if _is_default(known)}
    for number in taken:
        signal.signal(number, handler)
    return taken


def _is_default(handler: object) -> bool:
    """Whether a handler is Python's, or one of this module."""
    return handler in {signal.SIG_DFL, signal.default_int_handler} or isinstance(
        handler, _AsCtrlC | _Held
    )
