"""Responses of HTTP servers, read up to a size and a time; loaded when a request is sent."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, cast

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

BODY_MAX: Final = 64 * 1024 * 1024
"""The bytes of a decompressed body above which a response is refused."""

_MIB: Final = 1024 * 1024


class BodyTooLargeError(httpx2.RequestError):
    """A response is larger than it may be, decompressed; the rest of it was not read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most // _MIB} MiB, decompressed")


class _BoundedResponse(httpx2.Response):
    """Counts the decompressed bytes of its body while they are read.

    Attributes:
        most: How many there may be.
        ends_at: When the last of them is to be there, by `time.monotonic`.
    """

    most: int = BODY_MAX
    ends_at: float = math.inf

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        left = self.most
        for part in super().iter_bytes(chunk_size):
            left -= len(part)
            if left < 0:
                raise BodyTooLargeError(self.most)
            if time.monotonic() > self.ends_at:
                raise httpx2.ReadTimeout("the response does not end")
            yield part

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        left = self.most
        async for part in super().aiter_bytes(chunk_size):
            left -= len(part)
            if left < 0:
                raise BodyTooLargeError(self.most)
            yield part


def bounded(response: httpx2.Response) -> _BoundedResponse:
    """The same response; to read more than `BODY_MAX` of it raises `BodyTooLargeError`."""
    # A second object would parse the headers of each response again.
    response.__class__ = _BoundedResponse
    return cast("_BoundedResponse", response)


def send_bounded(
    client: httpx2.Client, request: httpx2.Request, *, seconds_max: float
) -> httpx2.Response:
    """Send a request and read its response up to `BODY_MAX`.

    Args:
        client: Sends the request.
        request: The request.
        seconds_max: The time for the body; a server that drips meets no other timeout.

    Raises:
        httpx2.RequestError: There is no whole response, or it is too large.
    """
    response = bounded(client.send(request, stream=True))
    response.ends_at = time.monotonic() + seconds_max
    try:
        response.read()
    finally:
        response.close()
    return response
