"""HTTP on 127.0.0.1, from a thread of its own: what the servers of tests have in common."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


class JsonHandler(BaseHTTPRequestHandler):
    """Reads JSON, answers with JSON, and keeps quiet."""

    def answer(self) -> None:
        """Answer the request, whatever its method is."""
        raise NotImplementedError

    def _answer(self) -> None:
        self.answer()

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class calls them so

    def given(self) -> Any:
        """What the request says; None where it says nothing."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(raw) if raw else None

    def say(
        self, said: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer; bytes go out as they are, and None is an answer without a body."""
        made = (
            b"" if said is None else said if isinstance(said, bytes) else json.dumps(said).encode()
        )
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(made)))
        self.end_headers()
        self.wfile.write(made)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


class Served:
    """A server, while a `with` lasts.

    Attributes:
        address: Where it is, as `http://127.0.0.1:PORT`.
    """

    def __init__(self, handler: type[JsonHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Be down from now on; the second time nothing happens."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
