"""An OpenAI-compatible HTTP server for the simulated model, with faults on demand."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Self

from regauge.errors import UsageError
from regauge.sim.serving import (
    Connection,
    Counters,
    FaultPlan,
    RateLimit,
    Service,
    SimServerOptions,
    parse_faults,
    parse_rate,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = [
    "Counters",
    "FaultPlan",
    "RateLimit",
    "SimServer",
    "SimServerOptions",
    "parse_faults",
    "parse_rate",
    "serve",
]


async def _listen(
    service: Service, host: str, port: int, connections: set[Connection]
) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(
            lambda: Connection(service, connections), host, port, backlog=1024
        )
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}\n  fix: choose another "
            f"--port, or 0 for a free one"
        ) from error


def _base_url(server: asyncio.Server, host: str) -> str:
    port: int = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/v1"


async def serve(
    host: str,
    port: int,
    options: SimServerOptions,
    *,
    ready: Callable[[str], None] | None = None,
    until: asyncio.Event | None = None,
) -> Counters:
    """Serve until the event is set, or for ever.

    Args:
        host: Where to listen.
        port: 0 takes a free one.
        options: How to behave.
        ready: Is told the base URL once connections are accepted.
        until: Ends the server.

    Returns:
        What was seen.

    Raises:
        UsageError: The port is taken or not allowed.
    """
    service, connections = Service(options), set[Connection]()
    server = await _listen(service, host, port, connections)
    try:
        if ready is not None:
            ready(_base_url(server, host))
        await (until or asyncio.Event()).wait()
    finally:
        server.close()
        for connection in list(connections):
            connection.close()
        await server.wait_closed()
    return service.counters


class SimServer:
    """The server on a thread of its own, for tests: `with SimServer() as server: ...`."""

    def __init__(
        self, options: SimServerOptions | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._options = options or SimServerOptions()
        self._host = host
        self._port = port
        self._service = Service(self._options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._url = ""

    @property
    def base_url(self) -> str:
        """Up to and with `/v1`; empty before the server runs."""
        return self._url

    @property
    def counters(self) -> Counters:
        """What it has seen so far."""
        return self._service.counters

    async def _run(self) -> None:
        connections = set[Connection]()
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await _listen(self._service, self._host, self._port, connections)
        self._url = _base_url(server, self._host)
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in list(connections):
            connection.close()
        await server.wait_closed()

    def _thread_main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that started this one
            self._failure = error
        finally:
            self._started.set()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._thread_main, name="regauge-sim", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
