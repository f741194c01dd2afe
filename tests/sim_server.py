"""The server of the simulated model on its own thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Self

from regauge.sim.server import Service, SimServerOptions


class SimServer:
    """The server on its own thread: `with SimServer() as server: ...`.

    Attributes:
        base_url: Up to and including `/v1`; empty before the server runs.
        counters: The counters so far.
    """

    def __init__(
        self, options: SimServerOptions | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._service = Service(options or SimServerOptions())
        self._host, self._port = host, port
        self._started = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]]()
        self._thread = threading.Thread(target=self._run, name="regauge-sim", daemon=True)
        self.counters = self._service.counters
        self.base_url = ""

    def _run(self) -> None:
        async def listen() -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()

            def ready(url: str) -> None:
                self._started.set_result((loop, stop, url))

            await self._service.serve(self._host, self._port, ready=ready, until=stop)

        try:
            asyncio.run(listen())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # raised where the server was started

    def __enter__(self) -> Self:
        self._thread.start()
        self.base_url = self._started.result()[2]
        return self

    def __exit__(self, *_: object) -> None:
        loop, stop, _url = self._started.result()
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()
