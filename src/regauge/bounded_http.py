"""HTTP responses with a limit of size and time; imported when a request is sent."""

from __future__ import annotations

import math
import ssl
import time
from typing import TYPE_CHECKING, Final, cast
from urllib.request import getproxies

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

BODY_MAX: Final = 64 * 1024 * 1024
"""The bytes of a decompressed body above which a response is refused."""

_MIB: Final = 1024 * 1024


class BodyTooLargeError(httpx2.RequestError):
    """A decompressed response is too large; the rest was not read."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"more than {bytes_max // _MIB} MiB, decompressed")


class _BoundedResponse(httpx2.Response):
    """A response that counts the decompressed bytes of its body while they are read.

    Attributes:
        bytes_max: The limit.
        ends_at: The deadline of the last byte, by `time.monotonic`.
    """

    bytes_max: int = BODY_MAX
    ends_at: float = math.inf

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        remaining = self.bytes_max
        for part in super().iter_bytes(chunk_size):
            remaining -= len(part)
            if remaining < 0:
                raise BodyTooLargeError(self.bytes_max)
            if time.monotonic() > self.ends_at:
                raise httpx2.ReadTimeout("the response does not end")
            yield part

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        remaining = self.bytes_max
        async for part in super().aiter_bytes(chunk_size):
            remaining -= len(part)
            if remaining < 0:
                raise BodyTooLargeError(self.bytes_max)
            yield part


def certificates_for(url: str) -> ssl.SSLContext | bool:
    """The `verify` of a client for one server: those of the system, none for plain HTTP.

    To read the certificates of the system takes longer than all else that a client does before
    its first request. A proxy may need them whatever the server is.
    """
    if url.startswith("http://") and not getproxies():
        # Trusts no certificate.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True


def limit_body(response: httpx2.Response) -> _BoundedResponse:
    """Limit the body of a response: to read more than `BODY_MAX` raises `BodyTooLargeError`."""
    # A second object would parse the headers of each response again.
    response.__class__ = _BoundedResponse
    return cast("_BoundedResponse", response)


def send_bounded(
    client: httpx2.Client, request: httpx2.Request, *, seconds_max: float
) -> httpx2.Response:
    """Send a request and read its response up to `BODY_MAX`.

    Args:
        client: The client.
        request: The request.
        seconds_max: Seconds for the body; a slow stream of bytes triggers no other timeout.

    Raises:
        httpx2.RequestError: The response is incomplete or too large.
    """
    response = limit_body(client.send(request, stream=True))
    response.ends_at = time.monotonic() + seconds_max
    try:
        response.read()
    finally:
        response.close()
    return response
