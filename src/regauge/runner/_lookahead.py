"""Calls models ahead of the cases that are judged."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType
    from typing import Any, Self

    from regauge.runner._plan import Draw

# What landed is kept, so that it is paid for once, whenever it is judged.
_LANDED_MAX: Final = 4

Landed = TypeVar("Landed")

# Calls are cancelled first; a target that ignores it delays the end of the run by this at most.
_STOP_TIMEOUT_S = 10.0
# For calls under way when all cases of this process are judged: another xdist worker may wait for
# them, and would pay again. Longer holds up the end of a run; 0 cancels them at once.
_LAST_CALLS_S = 8.0
# Only one thread at a time runs Python. A case that is judged while answers arrive would keep the
# next requests from being sent, so the loop first works off what has arrived, for at most so long.
_GIVE_WAY_S = 0.02
# Cases that are judged within this time give way once: to change threads takes about as long as
# to judge a case. Longer: the next requests wait longer while cases are judged.
_GIVE_WAY_EVERY_S = 0.004
# The steps of the loop from an answer that arrives to the next request that is sent.
_STEPS = 4
# A draw awaited for longer is held up, such as by a 429; it holds back no draw behind those that
# landed. Shorter: draws start further ahead of cases that are only judged fast.
_HELD_UP_S = 0.05


class Lookahead(Generic[Landed]):
    """Performs draws in order, never more than a window ahead of what was taken.

    Args:
        draws: In the order they will be taken.
        perform: Does what one draw takes; what it raises reaches the caller that takes that draw.
        width: How many draws may be under way or waiting to be taken; asked again each time.
        fixed: Whether no more are while one is held up, for a run that may stop at its first
            failure.
        close: Gives back connections when the run is over.
    """

    def __init__(
        self,
        draws: Sequence[Draw],
        *,
        perform: Callable[[Draw], Coroutine[Any, Any, Landed]],
        width: Callable[[], int],
        close: Callable[[], Coroutine[Any, Any, None]],
        fixed: bool = False,
    ) -> None:
        self._draws = draws
        self._perform = perform
        self._width = width
        self._fixed = fixed
        # Set when there may be room where there was none; for the event loop alone.
        self._moved = asyncio.Event()
        self._close = close
        self._position = {draw.id: n for n, draw in enumerate(draws)}
        self._futures: dict[tuple[int, int], Future[Landed]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._landed = 0
        self._held_up = False
        self._last_calls_s = 0.0
        self._gave_way_at = -_GIVE_WAY_EVERY_S
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="regauge-lookahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop: an error cancels calls under way; otherwise they get some seconds to end."""
        self._last_calls_s = _LAST_CALLS_S if kind is None else 0.0
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_TIMEOUT_S)

    def __contains__(self, draw: Draw) -> bool:
        return draw.id in self._position

    def take(self, draw: Draw, *, waiting: Callable[[], None], every_s: float) -> Landed:
        """Wait for the result of one trial, and start it if it is not under way.

        Args:
            draw: One of the draws given.
            waiting: Called each time `every_s` seconds have passed without it.
            every_s: In seconds.

        Raises:
            Exception: What `perform` raised for it.
        """
        future = self._future(draw)
        self._taken = max(self._taken, self._position[draw.id] + 1)
        try:
            if not future.done():
                self._wait(future, waiting, every_s)
            if time.monotonic() - self._gave_way_at >= _GIVE_WAY_EVERY_S:
                self._give_way()
            return future.result()
        finally:
            with self._lock:
                if self._futures.pop(draw.id, None) is not None:
                    self._landed -= 1

    def _future(self, draw: Draw) -> Future[Landed]:
        """The future of a draw; a draw that has none yet is started, out of its turn."""
        with self._lock:
            future = self._futures.get(draw.id)
            if future is not None:
                return future
            future = self._futures[draw.id] = Future()
        self._loop.call_soon_threadsafe(self._start, draw, future)
        return future

    def _wait(self, future: Future[Landed], waiting: Callable[[], None], every_s: float) -> None:
        self._loop.call_soon_threadsafe(self._moved.set)
        wait([future], timeout=_HELD_UP_S)
        if future.done():
            return
        self._held_up = True
        self._loop.call_soon_threadsafe(self._moved.set)
        while wait([future], timeout=every_s).not_done:
            waiting()
        self._held_up = False

    def _give_way(self) -> None:
        """Start what there is room for, and let the loop work off what has arrived."""
        idle = threading.Event()
        self._loop.call_soon_threadsafe(self._step, _STEPS, idle)
        idle.wait(_GIVE_WAY_S)
        self._gave_way_at = time.monotonic()

    def _step(self, steps: int, idle: threading.Event) -> None:
        if steps == _STEPS:
            self._moved.set()
        if steps:
            self._loop.call_soon(self._step, steps - 1, idle)
        else:
            idle.set()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        walker = asyncio.ensure_future(self._walk())
        await self._stopping.wait()
        walker.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=self._last_calls_s)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.wait({walker, *self._tasks})
        await self._close()

    async def _walk(self) -> None:
        for position, draw in enumerate(self._draws):
            while position >= self._taken + self._reach():
                self._moved.clear()
                await self._moved.wait()
            with self._lock:
                if draw.id in self._futures or position < self._taken:
                    continue
                future = self._futures[draw.id] = Future()
            self._start(draw, future)
            # Let answers land between starts, however long the list of draws is.
            await asyncio.sleep(0)

    def _reach(self) -> int:
        """The limit of trials ahead; those that landed behind one that is held up come on top."""
        width = self._width()
        landed = self._landed if self._held_up and not self._fixed else 0
        return width + min(landed, _LANDED_MAX * width)

    def _start(self, draw: Draw, future: Future[Landed]) -> None:
        task = self._loop.create_task(self._settle(draw, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, draw: Draw, future: Future[Landed]) -> None:
        try:
            answer = await self._perform(draw)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to the caller that takes this draw
            future.set_exception(error)
        else:
            future.set_result(answer)
        with self._lock:
            self._landed += 1
        if self._held_up:
            self._moved.set()
