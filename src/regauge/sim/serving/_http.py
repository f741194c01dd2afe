"""As much HTTP/1.1 as a test server needs: keep-alive, lengths, chunks, one reply at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Connection", "Handler", "HttpRequest", "Reply"]

_HEAD_MAX: Final = 64 * 1024
_BODY_MAX: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; header names are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to answer, and how to spoil it.

    Attributes:
        delay_s: How long to wait first, in seconds.
        drop: Close the connection without a word.
        hang: Never answer.
        sent: How many bytes of the body go out before the connection is closed; None is all.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    drop: bool = False
    hang: bool = False
    sent: int | None = None


class Handler(Protocol):
    """What stands behind the connections."""

    def handle(self, request: HttpRequest) -> Reply:
        """The reply to one request."""
        ...

    def began(self) -> None:
        """A request is in flight."""
        ...

    def ended(self) -> None:
        """It is no longer."""
        ...


class _BadRequestError(Exception):
    pass


class _Incomplete(Exception):  # noqa: N818 - no error: the rest is on its way
    pass


def _chunked(data: bytes, at: int) -> tuple[bytes, int]:
    """A chunked body that begins at a position, and where it ends."""
    body = bytearray()
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            raise _Incomplete
        try:
            size = int(data[at:line_end].split(b";")[0], 16)
        except ValueError as error:
            raise _BadRequestError from error
        start = line_end + 2
        if size > _BODY_MAX:
            raise _BadRequestError
        if len(data) < start + size + 2:
            raise _Incomplete
        if size == 0:
            return bytes(body), start + 2
        body += data[start : start + size]
        at = start + size + 2


def parse(data: bytes) -> tuple[HttpRequest, int]:
    """The first request of a buffer, and how many bytes it took.

    Raises:
        _Incomplete: There is more to come.
        _BadRequestError: This is no HTTP request, or too large a one.
    """
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        if len(data) > _HEAD_MAX:
            raise _BadRequestError
        raise _Incomplete
    lines = data[:head_end].decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - a small count that says itself
        raise _BadRequestError
    headers: dict[str, str] = {"": words[2]}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise _BadRequestError
        headers[name.lower()] = value.strip()
    start = head_end + 4
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, end = _chunked(data, start)
    else:
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _BODY_MAX:
            raise _BadRequestError
        end = start + int(length)
        if len(data) < end:
            raise _Incomplete
        body = data[start:end]
    return HttpRequest(method=words[0], path=words[1], headers=headers, body=body), end


class Connection(asyncio.Protocol):
    """One client connection: requests are answered in order, one after the other."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._open.discard(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._done()

    def close(self) -> None:
        """Close at once, whatever is in flight."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _done(self) -> None:
        if self._busy:
            self._busy = False
            self._handler.ended()

    def _next(self) -> None:
        if self._busy or self._transport is None or not self._buffer:
            return
        try:
            request, used = parse(self._buffer)
        except _Incomplete:
            if b"100-continue" in self._buffer[:_HEAD_MAX] and b"\r\n\r\n" in self._buffer:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        except _BadRequestError:
            self._send(
                Reply(status=400, body=b'{"error":{"message":"bad HTTP request"}}'), close=True
            )
            return
        self._buffer = self._buffer[used:]
        self._busy = True
        self._handler.began()
        reply = self._handler.handle(request)
        if reply.hang:
            return
        close = (
            request.headers.get("connection", "").lower() == "close"
            or request.headers[""] == "HTTP/1.0"
        )
        loop = asyncio.get_running_loop()
        if reply.delay_s > 0:
            self._timer = loop.call_later(reply.delay_s, self._answer, reply, close)
        else:
            self._answer(reply, close)

    def _answer(self, reply: Reply, close: bool) -> None:  # noqa: FBT001 - call_later passes positions
        self._timer = None
        self._done()
        if self._transport is None:
            return
        if reply.drop:
            self._transport.abort()
            return
        self._send(reply, close=close or reply.sent is not None)
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._next)

    def _send(self, reply: Reply, *, close: bool) -> None:
        assert self._transport is not None
        try:
            phrase = HTTPStatus(reply.status).phrase
        except ValueError:
            phrase = "Unknown"
        head = [
            f"HTTP/1.1 {reply.status} {phrase}",
            f"Content-Type: {reply.content_type}",
            f"Content-Length: {len(reply.body)}",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
        ]
        if close:
            head.append("Connection: close")
        body = reply.body if reply.sent is None else reply.body[: reply.sent]
        self._transport.write("\r\n".join((*head, "", "")).encode("latin-1") + body)
        if close:
            self._transport.close()
