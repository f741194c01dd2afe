"""The number of requests in flight at once, and when the next one may be sent."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from regauge.providers._pace import Pace

if TYPE_CHECKING:
    from types import TracebackType

    from regauge.providers._quota import Quota

__all__ = ["AdaptiveLimit", "Permit", "Window", "window_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many requests may be in flight.

    Attributes:
        size: Requests in flight at once, at least 1.
        ceiling: The limit of `size`.
    """

    size: int
    ceiling: int

    def answered(self) -> Window:
        """After an answer: one more at a time, which doubles the window with each round."""
        return self if self.size >= self.ceiling else replace(self, size=self.size + 1)


def window_for(concurrency: int | Literal["auto"]) -> Window:
    """The window a run starts with: a number as given, `auto` from 16 towards 64."""
    if concurrency == "auto":
        return Window(size=16, ceiling=64)
    return Window(size=concurrency, ceiling=concurrency)


@dataclass(slots=True)
class _Lane:
    """The requests for one model: its pace, and those that wait, refused ones first."""

    pace: Pace = field(default_factory=Pace)
    again: deque[asyncio.Future[Permit]] = field(default_factory=deque["asyncio.Future[Permit]"])
    fresh: deque[asyncio.Future[Permit]] = field(default_factory=deque["asyncio.Future[Permit]"])

    @property
    def waiting(self) -> deque[asyncio.Future[Permit]]:
        return self.again or self.fresh


class Permit:
    """Leave to have one request in flight; reports the outcome to the limit."""

    __slots__ = ("_lane", "_limit", "_number", "_sent_at")

    def __init__(self, limit: AdaptiveLimit, lane: _Lane, sent_at: float) -> None:
        self._limit = limit
        self._lane = lane
        self._number = lane.pace.sent
        self._sent_at = sent_at

    def answered(self, quotas: tuple[Quota, ...] = ()) -> None:
        """The provider answered."""
        self._limit.on_answer(self._lane, quotas)

    def refused(self, quotas: tuple[Quota, ...] = ()) -> None:
        """The provider answered 429."""
        now = asyncio.get_running_loop().time()
        pace = self._lane.pace.after_refusal(self._number, sent_at=self._sent_at, now=now)
        self._lane.pace = pace.after_quotas(quotas, in_flight=self._limit.in_flight, now=now)


class AdaptiveLimit:
    """Holds requests back until the window has room and the pace of their model allows it.

    For one event loop. A request that was refused goes before those that never had a turn, so
    that no request starves behind a long queue.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._in_flight = 0
        self._lanes: dict[str, _Lane] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._lifted = False

    @property
    def window(self) -> Window:
        """The window as it is now."""
        return self._window

    @property
    def in_flight(self) -> int:
        """How many permits are out."""
        return self._in_flight

    def pace(self, model: str = "") -> Pace:
        """The pace of a model as it is now."""
        return self._lane(model).pace

    def permit(self, model: str = "", *, again: bool = False) -> _PermitContext:
        """Wait for room: `async with limit.permit(model) as permit`.

        Args:
            model: Limits are learned for each model.
            again: The request was refused before and goes to the front of the queue.
        """
        return _PermitContext(self, model, again=again)

    async def acquire(self, model: str, *, again: bool) -> Permit:
        """Wait for room; every permit is given back with `release`."""
        lane = self._lane(model)
        turn: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        (lane.again if again else lane.fresh).append(turn)
        self._admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                for queue in (lane.again, lane.fresh):
                    if turn in queue:
                        queue.remove(turn)
            raise

    def release(self) -> None:
        """Give one permit back."""
        self._in_flight -= 1
        self._admit()

    def lift(self) -> None:
        """Hold nothing back any more: the requests that wait are given up."""
        self._lifted = True
        self._admit()

    def on_answer(self, lane: _Lane, quotas: tuple[Quota, ...]) -> None:
        """An answer came for a model."""
        self._window = self._window.answered()
        if quotas:
            now = asyncio.get_running_loop().time()
            lane.pace = lane.pace.after_quotas(quotas, in_flight=self._in_flight, now=now)
        self._admit()

    def _lane(self, model: str) -> _Lane:
        lane = self._lanes.get(model)
        if lane is None:
            lane = self._lanes[model] = _Lane()
        return lane

    def _admit(self) -> None:
        """Let requests go, one of each model in turn, and come back when the next one may."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        lanes = [lane for lane in self._lanes.values() if lane.waiting]
        while lanes and (self._lifted or self._in_flight < self._window.size):
            lanes = [lane for lane in lanes if self._admit_one(lane, now)]
        held = [lane.pace.next_at for lane in self._lanes.values() if lane.waiting]
        if not held or self._in_flight >= self._window.size:
            return
        at = max(min(held), now)
        if self._timer is None or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._reopen)

    def _admit_one(self, lane: _Lane, now: float) -> bool:
        """Let one request of a lane go; whether there may be another."""
        queue = lane.waiting
        if not queue or not (self._lifted or self._in_flight < self._window.size):
            return False
        if not self._lifted and lane.pace.next_at > now:
            return False
        turn = queue.popleft()
        if not turn.done():
            self._in_flight += 1
            lane.pace = lane.pace.after_send(now)
            # Numbered here: several requests may be let go before the first of them wakes.
            turn.set_result(Permit(self, lane, now))
        return True

    def _reopen(self) -> None:
        self._timer = None
        self._admit()


class _PermitContext:
    __slots__ = ("_again", "_limit", "_model")

    def __init__(self, limit: AdaptiveLimit, model: str, *, again: bool) -> None:
        self._limit = limit
        self._model = model
        self._again = again

    async def __aenter__(self) -> Permit:
        return await self._limit.acquire(self._model, again=self._again)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limit.release()
