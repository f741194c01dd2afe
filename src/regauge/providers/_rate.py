"""How many requests may be in flight at once, learned from what the provider objects to."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["AdaptiveLimit", "Permit", "Window", "window_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many requests may be in flight, and what is known about it.

    Attributes:
        size: Requests in flight at once, at least 1.
        ceiling: What `size` never exceeds.
        doubling: Whether a clean round doubles the size; after the first objection it adds 1.
        epoch: How often the size was cut. A request remembers the epoch it began in.
        clean: Answers since the size last changed.
    """

    size: int
    ceiling: int
    doubling: bool
    epoch: int = 0
    clean: int = 0

    def answered(self, epoch: int) -> Window:
        """After an answer to a request that began in `epoch`."""
        if epoch != self.epoch or self.size >= self.ceiling:
            return self
        if self.clean + 1 < self.size:
            return replace(self, clean=self.clean + 1)
        size = self.size * 2 if self.doubling else self.size + 1
        return replace(self, size=min(size, self.ceiling), clean=0)

    def objected(self, epoch: int) -> Window:
        """After a 429 to a request that began in `epoch`.

        All requests in flight hit the same wall, so only the first of an epoch cuts the size.
        """
        if epoch != self.epoch:
            return self
        return replace(
            self, size=max(1, self.size // 2), doubling=False, epoch=self.epoch + 1, clean=0
        )


def window_for(concurrency: int | Literal["auto"]) -> Window:
    """The window a run starts with: a number as given, `auto` from 16 towards 64."""
    if concurrency == "auto":
        return Window(size=16, ceiling=64, doubling=True)
    return Window(size=concurrency, ceiling=concurrency, doubling=False)


class Permit:
    """Leave to have one request in flight; says to the limit how it went."""

    __slots__ = ("_epoch", "_limit")

    def __init__(self, limit: AdaptiveLimit, epoch: int) -> None:
        self._limit = limit
        self._epoch = epoch

    def answered(self) -> None:
        """The provider answered."""
        self._limit.on_success(self._epoch)

    def objected(self, retry_after_s: float) -> None:
        """The provider answered 429 and asks to wait; nobody asks it anything before that."""
        self._limit.on_rate_limit(retry_after_s, self._epoch)


class AdaptiveLimit:
    """Holds requests back until the window has room. For one event loop.

    Whoever waits again after an objection goes before those who never had a turn, so that no
    request starves behind a long queue.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._in_flight = 0
        self._closed_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def window(self) -> Window:
        """The window as it is now."""
        return self._window

    @property
    def in_flight(self) -> int:
        """How many permits are out."""
        return self._in_flight

    def permit(self, *, again: bool = False) -> _PermitContext:
        """Wait for room: `async with limit.permit() as permit`.

        Args:
            again: The request was refused before and goes to the front of the queue.
        """
        return _PermitContext(self, again=again)

    async def acquire(self, *, again: bool) -> Permit:
        """Wait for room; every permit is given back with `release`."""
        loop = asyncio.get_running_loop()
        if self._waiting or not self._open(loop.time()):
            turn: asyncio.Future[None] = loop.create_future()
            if again:
                self._waiting.appendleft(turn)
            else:
                self._waiting.append(turn)
            self._admit()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.release()
                elif turn in self._waiting:
                    self._waiting.remove(turn)
                raise
        else:
            self._in_flight += 1
        return Permit(self, self._window.epoch)

    def release(self) -> None:
        """Give one permit back."""
        self._in_flight -= 1
        self._admit()

    def on_success(self, epoch: int) -> None:
        """An answer came to a request that began in `epoch`."""
        self._window = self._window.answered(epoch)
        self._admit()

    def on_rate_limit(self, retry_after_s: float, epoch: int) -> None:
        """A 429 came to a request that began in `epoch`; all wait for `retry_after_s` seconds."""
        self._window = self._window.objected(epoch)
        until = asyncio.get_running_loop().time() + retry_after_s
        self._closed_until = max(self._closed_until, until)

    def _open(self, now: float) -> bool:
        return self._in_flight < self._window.size and now >= self._closed_until

    def _admit(self) -> None:
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self._open(now):
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
        if self._waiting and now < self._closed_until and self._timer is None:
            self._timer = loop.call_at(self._closed_until, self._reopen)

    def _reopen(self) -> None:
        self._timer = None
        self._admit()


class _PermitContext:
    __slots__ = ("_again", "_limit")

    def __init__(self, limit: AdaptiveLimit, *, again: bool) -> None:
        self._limit = limit
        self._again = again

    async def __aenter__(self) -> Permit:
        return await self._limit.acquire(again=self._again)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limit.release()
