"""SIGTERM and SIGHUP end a run as Ctrl-C does; a second signal does not disturb the end.

Handlers of a user stay, and so does an ignored signal, such as SIGHUP under nohup. `end_group` and
`end_tree` end programs that regauge started, with their child processes.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
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
    """End a process that leads its own session, and every process of its group."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)  # there are no groups; this ends the process at once
        else:
            os.killpg(pid, signal.SIGKILL)


def end_tree(pid: int) -> None:
    """End a process and its group; on Linux, also descendants in other groups."""
    descendants = _descendants(pid)
    end_group(pid)
    for descendant in descendants:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                os.kill(descendant, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The program's name, in parentheses, may hold any character.
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    descendants = children.get(pid, [])[:]
    for descendant in descendants:
        descendants += children.get(descendant, [])
    return descendants


Result = TypeVar("Result")

# Seconds in which a run normally ends; a later signal interrupts an end that hangs.
_IGNORE_S: Final = 10.0
_SIGTERM_AND_SIGHUP: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_ALL: Final = (signal.SIGINT, *_SIGTERM_AND_SIGHUP)


class _InterruptHandler:
    """A handler that raises KeyboardInterrupt for the first signal and ignores further ones."""

    def __init__(self, is_ours: Callable[[], bool]) -> None:
        self._is_ours = is_ours
        self._is_handling = False
        self._is_interrupted = False

    def check(self) -> None:
        """Raise KeyboardInterrupt again if user code has swallowed it."""
        if self._is_interrupted:
            raise KeyboardInterrupt

    def __call__(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True  # pytest shows where the run was
        # Another signal may come while this one is handled, such as in the middle of an import.
        if self._is_handling:
            return
        self._is_handling = True
        ctrl_c = signal.getsignal(signal.SIGINT)
        try:
            if not self._is_ours():
                if number == signal.SIGINT:
                    raise KeyboardInterrupt
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            _install(_ALL, _IgnoreHandler())  # the end of this process has begun
            self._is_interrupted = True
        finally:
            self._is_handling = False
        if callable(ctrl_c) and not isinstance(ctrl_c, _InterruptHandler):
            # It may be that of an event loop, which first cancels its running tasks.
            ctrl_c(number, frame)
            return
        raise KeyboardInterrupt


class _ProcessHandler(_InterruptHandler):
    """The handler of a process that is ours; it stays installed after the first signal."""


class _IgnoreHandler:
    """A handler that ignores signals while results are written."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _IGNORE_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() > self._until_s:
            signal.default_int_handler(number, frame)


class _CancelHandler:
    """A handler that cancels a task for the first signal and ignores others for 10 seconds."""

    cancel: Callable[[], object] | None = None
    ignore: _IgnoreHandler | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.ignore is not None:
            self.ignore(number, frame)
            return
        self.ignore = _IgnoreHandler()
        if self.cancel is not None:
            self.cancel()


_Handler = _InterruptHandler | _IgnoreHandler | _CancelHandler


@contextmanager
def interrupt_once() -> Generator[None]:
    """Raise KeyboardInterrupt for the first of Ctrl-C, SIGTERM and SIGHUP within the block.

    Further signals have no effect for 10 seconds.
    """
    # Python finalises the process without our handlers. Only commands call this, once a process.
    atexit.register(_install, _ALL, signal.SIG_IGN)
    with _handle(_ALL, _ProcessHandler(lambda: True)):
        yield


@contextmanager
def ignore_signals() -> Generator[None]:
    """Ignore Ctrl-C, SIGTERM and SIGHUP within the block, for 10 seconds."""
    with _handle(_ALL, _IgnoreHandler()):
        yield


def run_stoppable(
    work: Coroutine[Any, Any, Result], runner: asyncio.Runner | None = None
) -> Result:
    """Run a coroutine as `asyncio.run` does; a signal cancels it, and a second one has no effect.

    A KeyboardInterrupt between two steps of an event loop can lose a step, and a task that awaits
    it never ends. So KeyboardInterrupt is raised only after the loop has ended.

    Args:
        work: The coroutine.
        runner: A runner that stays open; a new one by default.

    Raises:
        KeyboardInterrupt: A signal was received; further ones are ignored.
    """
    import asyncio

    async def cancellable() -> Result:
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        cancelling.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if cancelling.ignore is not None:
            task.cancel()
        try:
            return await work
        finally:
            cancelling.cancel = None

    cancelling = _CancelHandler()
    ending = isinstance(signal.getsignal(signal.SIGINT), _IgnoreHandler)
    before = _install(() if ending else (signal.SIGINT,), cancelling)
    try:
        return asyncio.run(cancellable()) if runner is None else runner.run(cancellable())
    finally:
        _restore(before, cancelling)
        if cancelling.ignore is not None:
            _install(_ALL, cancelling.ignore)
            raise KeyboardInterrupt


def _drop_frames_without_line(error: BaseException) -> None:
    """Remove frames without a line from a traceback.

    Some instructions belong to no line. For a signal at such an instruction, pytest would fail to
    show the traceback, and the run would end as if regauge had failed.
    """
    trace = error.__traceback__
    while trace is not None and (below := trace.tb_next) is not None:
        if cast("int | None", below.tb_lineno) is None:
            trace.tb_next = below.tb_next
        else:
            trace = below


@contextmanager
def stop_on_signals(
    at_end: Callable[[Callable[[], None]], object],
    *,
    calls: bool = True,
    is_ours: Callable[[], bool] = lambda: True,
) -> Generator[Callable[[], None]]:
    """Let signals end the block; a second signal does not disturb its end.

    Args:
        at_end: Called with a function that restores the handlers, to call when an interrupted run
            has ended.
        calls: Whether the block calls models; else only Ctrl-C is handled.
        is_ours: Returns whether signals end the run so; else they have their former effect.

    Yields:
        A function that raises KeyboardInterrupt again if the block has swallowed it.
    """
    handlers = ExitStack()
    # The first signal replaces all of them.
    handlers.callback(_restore, {number: signal.getsignal(number) for number in _ALL})
    handler = _InterruptHandler(is_ours)
    handlers.enter_context(_handle(_ALL if calls else (signal.SIGINT,), handler))
    try:
        yield handler.check
        handler.check()
    except KeyboardInterrupt as stopped:
        _drop_frames_without_line(stopped)
        handlers.enter_context(ignore_signals())
        # The process of an interrupted run is about to end, which takes a while; a run that was not
        # interrupted registers nothing.
        atexit.register(_install, _ALL, signal.SIG_IGN)
        at_end(handlers.close)
        raise
    except BaseException:
        handlers.close()
        raise
    handlers.close()


@contextmanager
def _handle(numbers: Sequence[int], handler: _Handler) -> Generator[None]:
    """Install `handler` within the block, for signals without a handler of a user."""
    before = _install(numbers, handler)
    try:
        yield
    finally:
        _restore(before, handler)


def _restore(before: Mapping[int, Any], handler: _Handler | None = None) -> None:
    """Restore handlers that `handler` replaced; without it, any handler of this module."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number, previous in before.items():
        now = signal.getsignal(number)
        if isinstance(now, _IgnoreHandler) and isinstance(previous, _ProcessHandler):
            continue
        if now is handler or (handler is None and isinstance(now, _Handler)):
            signal.signal(number, previous)


def _install(numbers: Sequence[int], handler: _Handler | signal.Handlers) -> Mapping[int, Any]:
    """Install `handler`; return the replaced handlers, without those that stay."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in numbers}
    defaults = {signal.SIG_DFL, signal.default_int_handler}
    replaceable = {
        number: previous
        for number, previous in before.items()
        if previous in defaults or isinstance(previous, _Handler)
    }
    for number in replaceable:
        signal.signal(number, handler)
    return replaceable
