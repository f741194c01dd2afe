"""Rate limits of a cluster: one pace for each endpoint and model, kept by the scheduler.

A driver leases the next turns from the scheduler, and reports refusals to it. A lease is
the time at which one request may be sent. It holds nothing: a driver or worker that ends keeps no
turn from others.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from regauge.providers._rate import PacedTurns, Quota


# Leases at once while no limit shows. More save requests to the scheduler, and are sent in a burst.
_LEASES: Final = 16
# A turn that was not used for so long is void, so that a pause is not followed by a burst.
_VOID_S: Final = 0.5
_RETRY_S: Final = 0.5


def install(dask_scheduler: Any = None) -> str:
    """Let a scheduler keep the limits; Dask calls this function there, by its name.

    Returns:
        The version of regauge there.
    """
    limits = dask_scheduler.extensions.setdefault("regauge", _ClusterLimits())
    dask_scheduler.handlers.update(regauge_lease=limits.lease, regauge_report=limits.report)
    return version("regauge")


class _ClusterLimits:
    """The paces, in the process of the scheduler."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], PacedTurns] = {}

    async def lease(self, text: str) -> str:
        """Lease the next turns of a model: their numbers, and the seconds until each."""
        asked = json.loads(text)
        turns, now = self._turns(asked), asyncio.get_running_loop().time()
        leases: list[tuple[int, float]] = []
        while len(leases) < asked["count"]:
            at = max(turns.next_at(now, waiting=1), now)
            # One turn that is due later: those after it at once would be sent in bursts, which
            # doubles refusals.
            if leases and at > now:
                break
            leases.append((turns.take(at), at - now))
        return json.dumps(leases)

    async def report(self, text: str) -> None:
        """Note a refusal, or the limits that a server stated."""
        from regauge.providers._rate import Quota

        noted = json.loads(text)
        turns, now = self._turns(noted), asyncio.get_running_loop().time()
        quotas = tuple(Quota(**quota) for quota in noted["quotas"])
        if noted["number"] is None:
            turns.note(quotas, in_flight=noted["in_flight"], now=now)
        else:
            turns.refuse(
                noted["number"],
                sent_at=now - noted["sent_s"],
                now=now,
                quotas=quotas,
                in_flight=noted["in_flight"],
            )

    def _turns(self, asked: dict[str, Any]) -> PacedTurns:
        from regauge.providers._rate import PacedTurns

        return self._paces.setdefault((asked["endpoint"], asked["model"]), PacedTurns())


class LeasedTurns:
    """The turns of one model that a driver leases. For one event loop.

    Without a scheduler the turns are free: the calls fail by themselves then.

    Args:
        endpoint: The server that has the limit.
        model: The model.
        ask: Sends an operation and its text to the scheduler.
        ready: Called when there are turns where there were none.
        begin: Performs work at the same time, until the run disconnects.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        ask: Callable[[str, str], Awaitable[Any]],
        ready: Callable[[], None],
        begin: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._names = {"endpoint": endpoint, "model": model}
        self._ask = ask
        self._ready = ready
        self._begin = begin
        self._leases: deque[tuple[int, float]] = deque()
        self._leasing = False

    def next_at(self, now: float, *, waiting: int) -> float:
        """The time of the next leased turn; infinite while none is leased."""
        while self._leases and self._leases[0][1] < now - _VOID_S:
            self._leases.popleft()
        if self._leases:
            return self._leases[0][1]
        if not self._leasing:
            self._leasing = True
            self._begin(self._lease(waiting))
        return math.inf

    def take(self, now: float) -> int:
        """Use a turn; returns the number of the request."""
        del now
        # Requests that are given up are let go without a turn.
        return self._leases.popleft()[0] if self._leases else 0

    def refuse(
        self,
        number: int,
        *,
        sent_at: float,
        now: float,
        quotas: tuple[Quota, ...],
        in_flight: int,
    ) -> None:
        """Report a refusal; the scheduler slows all down where they show a limit."""
        self._report(number, now - sent_at, quotas, in_flight)

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Report the limits that an answer stated."""
        del now
        self._report(None, 0.0, quotas, in_flight)

    async def _lease(self, waiting: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            asked = {**self._names, "count": max(1, min(waiting, _LEASES))}
            leases = json.loads(await self._ask("regauge_lease", json.dumps(asked)))
        except ProviderError:
            leases = [(0, 0.0)] * waiting
        except OSError:
            await asyncio.sleep(_RETRY_S)
            leases = [(0, 0.0)] * waiting
        now = loop.time()
        self._leases.extend((number, now + wait_s) for number, wait_s in leases)
        self._leasing = False
        self._ready()

    def _report(
        self, number: int | None, sent_s: float, quotas: tuple[Quota, ...], in_flight: int
    ) -> None:
        noted = {
            **self._names,
            "number": number,
            "sent_s": sent_s,
            "in_flight": in_flight,
            "quotas": [asdict(quota) for quota in quotas],
        }
        self._begin(self._send(json.dumps(noted)))

    async def _send(self, text: str) -> None:
        try:
            await self._ask("regauge_report", text)
        except (OSError, ProviderError):
            return  # a scheduler that starts again learns the limits again
