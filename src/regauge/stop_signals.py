"""SIGTERM and SIGHUP end a run as Ctrl-C does, and a second signal leaves its end alone.

Handlers that a user has set are left alone, and so is a signal that is ignored, such as SIGHUP
under nohup. `end_group` and `end_tree` end programs that regauge started, with all that they
started.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
    from types import FrameType
    from typing import Any


def end_group(pid: int) -> None:
    """End a process that was started in a session of its own, and every process of its group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            os.kill(pid, signal.SIGTERM)  # there are no groups; this ends the process at once
        else:
            os.killpg(pid, signal.SIGKILL)


def end_tree(pid: int) -> None:
    """End a process as `end_group` does, and on Linux its descendants in other groups, too."""
    descendants = _descendants(pid)
    end_group(pid)
    for each in descendants:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the program, in parentheses, may hold anything.
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    descendants = children.get(pid, [])[:]
    for each in descendants:
        descendants += children.get(each, [])
    return descendants


Result = TypeVar("Result")

# Ending takes a moment; a signal that comes later than this finds an end that hangs.
_HELD_S: Final = 10.0
_SIGTERM_AND_SIGHUP: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_ALL: Final = (signal.SIGINT, *_SIGTERM_AND_SIGHUP)


class _AsCtrlC:
    """Raises KeyboardInterrupt for the first signal, and leaves further ones without effect."""

    def __init__(self, is_ours: Callable[[], bool]) -> None:
        self._is_own = is_ours
        self._deciding = False
        self._came = False

    def check(self) -> None:
        """Raise KeyboardInterrupt again: code of a user may have swallowed it."""
        if self._came:
            raise KeyboardInterrupt

    def __call__(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True  # pytest shows where the run was
        # Another signal may come while this one is handled, such as in the middle of an import.
        if self._deciding:
            return
        self._deciding = True
        ctrl_c = signal.getsignal(signal.SIGINT)
        try:
            if not self._is_own():
                if number == signal.SIGINT:
                    raise KeyboardInterrupt
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            _take(_ALL, _Held())  # nothing disturbs the end of this process, which has begun
            self._came = True
        finally:
            self._deciding = False
        if callable(ctrl_c) and not isinstance(ctrl_c, _AsCtrlC):
            # It may be that of an event loop, which cancels what is under way first.
            ctrl_c(number, frame)
            return
        raise KeyboardInterrupt


class _Once(_AsCtrlC):
    """Ends a process that is ours: it stays with the first signal."""


class _Held:
    """Leaves a signal without effect while results are written."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _HELD_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() > self._until_s:
            signal.default_int_handler(number, frame)


class _Cancelling:
    """Cancels a task for the first signal; for 10 seconds, further ones have no effect."""

    cancel: Callable[[], object] | None = None
    held: _Held | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.held is not None:
            self.held(number, frame)
            return
        self.held = _Held()
        if self.cancel is not None:
            self.cancel()


_Handler = _AsCtrlC | _Held | _Cancelling


@contextmanager
def interrupted_once() -> Generator[None]:
    """Within the block, the first of Ctrl-C, SIGTERM and SIGHUP raises KeyboardInterrupt.

    For 10 seconds, further ones leave the end of the process alone, wherever the first one came.
    """
    # Python gives back what it has without our handlers.
    atexit.register(_take, _ALL, signal.SIG_IGN)
    with _handle(_ALL, _Once(lambda: True)):
        yield


@contextmanager
def held() -> Generator[None]:
    """Within the block, for 10 seconds, Ctrl-C, SIGTERM and SIGHUP have no effect."""
    with _handle(_ALL, _Held()):
        yield


def run_stoppable(
    work: Coroutine[Any, Any, Result], runner: asyncio.Runner | None = None
) -> Result:
    """Run a coroutine as `asyncio.run` does; a signal cancels it, and a second one has no effect.

    A KeyboardInterrupt between two steps of an event loop can lose the step that is due, and a task
    that waits for it never ends. So none is raised before the loop has ended.

    Args:
        work: The coroutine.
        runner: A runner that stays open; a new one by default.

    Raises:
        KeyboardInterrupt: A signal came. Further ones have no effect on what follows, either.
    """
    import asyncio

    async def cancellable() -> Result:
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        cancelling.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if cancelling.held is not None:
            task.cancel()
        try:
            return await work
        finally:
            cancelling.cancel = None

    cancelling = _Cancelling()
    ending = isinstance(signal.getsignal(signal.SIGINT), _Held)
    before = _take(() if ending else (signal.SIGINT,), cancelling)
    try:
        return asyncio.run(cancellable()) if runner is None else runner.run(cancellable())
    finally:
        _put_back(before, cancelling)
        if cancelling.held is not None:
            _take(_ALL, cancelling.held)
            raise KeyboardInterrupt


def _drop_frames_without_line(error: BaseException) -> None:
    """Take frames that pytest cannot show out of a traceback.

    Some instructions belong to no line. Where a signal comes at one, pytest subtracts from a number
    that is None, and the run ends as if regauge had failed.
    """
    trace = error.__traceback__
    while trace is not None and (below := trace.tb_next) is not None:
        if cast("int | None", below.tb_lineno) is None:
            trace.tb_next = below.tb_next
        else:
            trace = below


@contextmanager
def stoppable(
    at_end: Callable[[Callable[[], None]], object],
    *,
    calls: bool = True,
    is_ours: Callable[[], bool] = lambda: True,
) -> Generator[Callable[[], None]]:
    """Run the block so that signals can end it, and a second one disturbs no end.

    Args:
        at_end: Takes what puts the handlers back, and calls it when an interrupted run has ended.
        calls: Whether models are called in the block; else only Ctrl-C is handled.
        is_ours: Whether the run is ours to end so; else the signal does what it did before.

    Yields:
        Raises KeyboardInterrupt again where a signal came and the block has swallowed it.
    """
    handlers = ExitStack()
    # The first signal leaves all of them without effect.
    handlers.callback(_put_back, {number: signal.getsignal(number) for number in _ALL})
    handler = _AsCtrlC(is_ours)
    handlers.enter_context(_handle(_ALL if calls else (signal.SIGINT,), handler))
    try:
        yield handler.check
        handler.check()
    except KeyboardInterrupt as stopped:
        _drop_frames_without_line(stopped)
        handlers.enter_context(held())
        # The process of an interrupted run is about to end, and what it gives back takes a while.
        atexit.register(_take, _ALL, signal.SIG_IGN)
        at_end(handlers.close)
        raise
    except BaseException:
        handlers.close()
        raise
    handlers.close()


@contextmanager
def _handle(numbers: Sequence[int], handler: _Handler) -> Generator[None]:
    """Within the block, `handler` takes the signals that have no handler of a user."""
    before = _take(numbers, handler)
    try:
        yield
    finally:
        _put_back(before, handler)


def _put_back(before: Mapping[int, Any], handler: _Handler | None = None) -> None:
    """Restore handlers where `handler` has taken over, or any of this module by default."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number, previous in before.items():
        now = signal.getsignal(number)
        if isinstance(now, _Held) and isinstance(previous, _Once):
            continue
        if now is handler or (handler is None and isinstance(now, _Handler)):
            signal.signal(number, previous)


def _take(numbers: Sequence[int], handler: _Handler | signal.Handlers) -> Mapping[int, Any]:
    """Give signals to `handler`; returns who had them, without those that stay as they are."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in numbers}
    defaults = {signal.SIG_DFL, signal.default_int_handler}
    taken = {
        number: previous
        for number, previous in before.items()
        if previous in defaults or isinstance(previous, _Handler)
    }
    for number in taken:
        signal.signal(number, handler)
    return taken
