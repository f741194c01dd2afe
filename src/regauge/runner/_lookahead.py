"""Runs trials ahead of the cases that are judged."""

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

    from regauge.runner._plan import PlannedTrial

# Finished trials ahead of a delayed one, in windows; their completions are stored in any case.
_FINISHED_MAX: Final = 4

TrialResult = TypeVar("TrialResult")

# Calls are cancelled first; a target that ignores it delays the end of the run by this at most.
_STOP_TIMEOUT_S = 10.0
# For calls in progress when all cases of this process are judged: another xdist worker may wait for
# them, and would pay again. Longer delays the end of a run; 0 cancels them at once.
_LAST_CALLS_S = 8.0
# Only one thread at a time runs Python, and judging delays the next requests. So the event loop
# first handles the completions that arrived, for at most this time.
_GIVE_WAY_S = 0.02
# Cases judged within this time give way once: a change of threads takes about as long as judging
# a case. Longer: the next requests wait longer while cases are judged.
_GIVE_WAY_EVERY_S = 0.004
# The steps of the event loop from a response to the next request.
_STEPS = 4
# A trial awaited for longer is delayed, such as by a 429, and does not delay later trials. Shorter:
# trials start further ahead of cases that are judged fast.
_HELD_UP_S = 0.05


class Lookahead(Generic[TrialResult]):
    """Runs trials in order, at most a window ahead of the caller.

    Args:
        planned_trials: The trials, in the order of `take`.
        perform: Called with each trial; `take` returns its result or raises its error.
        width: Called for the most trials that run or wait for `take`.
        fixed: Whether the window stays the same behind a delayed trial, for a run that may stop at
            its first failure.
        close: Called to close connections at the end.
    """

    def __init__(
        self,
        planned_trials: Sequence[PlannedTrial],
        *,
        perform: Callable[[PlannedTrial], Coroutine[Any, Any, TrialResult]],
        width: Callable[[], int],
        close: Callable[[], Coroutine[Any, Any, None]],
        fixed: bool = False,
    ) -> None:
        self._planned_trials = planned_trials
        self._perform = perform
        self._width = width
        self._fixed = fixed
        # Set when the window may have room; for the event loop alone.
        self._has_room = asyncio.Event()
        self._close = close
        self._position = {planned_trial.id: n for n, planned_trial in enumerate(planned_trials)}
        self._futures: dict[tuple[int, int], Future[TrialResult]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_position = 0
        self._untaken = 0
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
        """Stop: an error cancels calls in progress, which otherwise have some seconds to end."""
        self._last_calls_s = _LAST_CALLS_S if kind is None else 0.0
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_TIMEOUT_S)

    def __contains__(self, planned_trial: PlannedTrial) -> bool:
        return planned_trial.id in self._position

    def take(
        self, planned_trial: PlannedTrial, *, waiting: Callable[[], None], every_s: float
    ) -> TrialResult:
        """Wait for the result of one trial, and start it if it is not running.

        Args:
            planned_trial: The trial.
            waiting: Called every `every_s` seconds until the result is there.
            every_s: The interval in seconds.

        Raises:
            Exception: The error of `perform`.
        """
        future = self._future(planned_trial)
        self._next_position = max(self._next_position, self._position[planned_trial.id] + 1)
        try:
            if not future.done():
                self._wait(future, waiting, every_s)
            if time.monotonic() - self._gave_way_at >= _GIVE_WAY_EVERY_S:
                self._give_way()
            return future.result()
        finally:
            with self._lock:
                if self._futures.pop(planned_trial.id, None) is not None:
                    self._untaken -= 1

    def _future(self, planned_trial: PlannedTrial) -> Future[TrialResult]:
        """The future of a trial, which is started out of turn if it has none."""
        with self._lock:
            future = self._futures.get(planned_trial.id)
            if future is not None:
                return future
            future = self._futures[planned_trial.id] = Future()
        self._loop.call_soon_threadsafe(self._start, planned_trial, future)
        return future

    def _wait(
        self, future: Future[TrialResult], waiting: Callable[[], None], every_s: float
    ) -> None:
        self._loop.call_soon_threadsafe(self._has_room.set)
        wait([future], timeout=_HELD_UP_S)
        if future.done():
            return
        self._held_up = True
        self._loop.call_soon_threadsafe(self._has_room.set)
        while wait([future], timeout=every_s).not_done:
            waiting()
        self._held_up = False

    def _give_way(self) -> None:
        """Start trials in the window, and let the event loop handle arrived completions."""
        idle = threading.Event()
        self._loop.call_soon_threadsafe(self._step, _STEPS, idle)
        idle.wait(_GIVE_WAY_S)
        self._gave_way_at = time.monotonic()

    def _step(self, steps: int, idle: threading.Event) -> None:
        if steps == _STEPS:
            self._has_room.set()
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
        for position, planned_trial in enumerate(self._planned_trials):
            while position >= self._next_position + self._max_ahead():
                self._has_room.clear()
                await self._has_room.wait()
            with self._lock:
                if planned_trial.id in self._futures or position < self._next_position:
                    continue
                future = self._futures[planned_trial.id] = Future()
            self._start(planned_trial, future)
            # Let completions arrive between starts.
            await asyncio.sleep(0)

    def _max_ahead(self) -> int:
        """The most trials ahead of the caller; finished trials behind a delayed one are extra."""
        width = self._width()
        extra = self._untaken if self._held_up and not self._fixed else 0
        return width + min(extra, _FINISHED_MAX * width)

    def _start(self, planned_trial: PlannedTrial, future: Future[TrialResult]) -> None:
        task = self._loop.create_task(self._settle(planned_trial, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, planned_trial: PlannedTrial, future: Future[TrialResult]) -> None:
        try:
            result = await self._perform(planned_trial)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - `take` raises it
            future.set_exception(error)
        else:
            future.set_result(result)
        with self._lock:
            self._untaken += 1
        if self._held_up:
            self._has_room.set()
