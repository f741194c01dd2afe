"""Rate limits of a cluster: one pace for each endpoint and model, kept by the scheduler.

A driver leases its next turns from the scheduler, and reports refusals to it. A lease is the time
at which one request may be sent. A driver or worker that ends blocks no other turns.
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

    from regauge.providers import PacedTurns, Quota


# Leases at once without a known limit. More save requests to the scheduler, and are sent in bursts.
_LEASES: Final = 16
# The lifetime of an unused turn, so that a pause is not followed by a burst.
_VOID_S: Final = 0.5
_RETRY_S: Final = 0.5


def install(dask_scheduler: Any = None) -> str:
    """Install the limits in a scheduler; Dask calls this function there by name.

    Returns:
        The scheduler's version of regauge.
    """
    limits = dask_scheduler.extensions.setdefault("regauge", _ClusterLimits())
    dask_scheduler.handlers.update(regauge_lease=limits.lease, regauge_report=limits.report)
    return version("regauge")


class _ClusterLimits:
    """The pace of each endpoint and model, in the process of the scheduler."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], PacedTurns] = {}

    async def lease(self, text: str) -> str:
        """Lease the next turns of a model; returns the number and delay in seconds of each."""
        request = json.loads(text)
        turns, now = self._turns(request), asyncio.get_running_loop().time()
        leases: list[tuple[int, float]] = []
        while len(leases) < request["count"]:
            turn_at = max(turns.next_at(now, waiting=1), now)
            # Only one turn that is due later: more would be sent in bursts, which doubles refusals.
            if leases and turn_at > now:
                break
            leases.append((turns.take(turn_at), turn_at - now))
        return json.dumps(leases)

    async def report(self, text: str) -> None:
        """Note a refusal, or the limits in a response."""
        from regauge.providers import Quota

        report = json.loads(text)
        turns, now = self._turns(report), asyncio.get_running_loop().time()
        quotas = tuple(Quota(**quota) for quota in report["quotas"])
        if report["number"] is None:
            turns.note(quotas, in_flight=report["in_flight"], now=now)
        else:
            turns.refuse(
                report["number"],
                sent_at=now - report["sent_s"],
                now=now,
                quotas=quotas,
                in_flight=report["in_flight"],
            )

    def _turns(self, document: dict[str, Any]) -> PacedTurns:
        from regauge.providers import PacedTurns

        return self._paces.setdefault((document["endpoint"], document["model"]), PacedTurns())


class LeasedTurns:
    """The leased turns of one model in a driver. For one event loop.

    Without a scheduler the turns are free, as the calls fail anyway.

    Args:
        endpoint: The server with the limit.
        model: The model.
        call_scheduler: Called with an operation and its text; returns the scheduler's response.
        ready: Called when new turns arrive.
        begin: Called with each coroutine to run until the run disconnects.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        call_scheduler: Callable[[str, str], Awaitable[Any]],
        ready: Callable[[], None],
        begin: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._names = {"endpoint": endpoint, "model": model}
        self._call_scheduler = call_scheduler
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
        # Abandoned requests need no turn.
        return self._leases.popleft()[0] if self._leases else 0

    def refuse(
        self, number: int, *, sent_at: float, now: float, quotas: tuple[Quota, ...], in_flight: int
    ) -> None:
        """Report a refusal; the scheduler slows all drivers down if refusals show a limit."""
        self._report(number, now - sent_at, quotas, in_flight)

    def note(self, quotas: tuple[Quota, ...], *, in_flight: int, now: float) -> None:
        """Report the limits in a response."""
        del now
        self._report(None, 0.0, quotas, in_flight)

    async def _lease(self, waiting: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            request = {**self._names, "count": max(1, min(waiting, _LEASES))}
            leases = json.loads(await self._call_scheduler("regauge_lease", json.dumps(request)))
        except ProviderError:
            leases = [(0, 0.0)] * waiting
        except Exception:  # noqa: BLE001 - calls wait for leases, and report their own errors
            await asyncio.sleep(_RETRY_S)
            leases = [(0, 0.0)] * waiting
        now = loop.time()
        self._leases.extend((number, now + wait_s) for number, wait_s in leases)
        self._leasing = False
        self._ready()

    def _report(
        self, number: int | None, sent_s: float, quotas: tuple[Quota, ...], in_flight: int
    ) -> None:
        report = {
            **self._names,
            "number": number,
            "sent_s": sent_s,
            "in_flight": in_flight,
            "quotas": [asdict(quota) for quota in quotas],
        }
        self._begin(self._send(json.dumps(report)))

    async def _send(self, text: str) -> None:
        try:
            await self._call_scheduler("regauge_report", text)
        except (OSError, ProviderError):
            return  # a restarted scheduler finds the limits again
