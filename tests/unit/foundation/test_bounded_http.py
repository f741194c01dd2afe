"""Responses with a limit: read up to the limit to the byte, and not a byte or a second beyond."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import time
from typing import TYPE_CHECKING

import httpx2
import pytest

from regauge.bounded_http import BODY_MAX, BodyTooLargeError, limit_body, send_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "http://models.example/v1"
LIMIT = 1000


def served(body: bytes, *, compressed: bool) -> httpx2.MockTransport:
    headers = {"content-encoding": "gzip"} if compressed else {}
    content = gzip.compress(body) if compressed else body
    return httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(content))
    )


def read(transport: httpx2.MockTransport) -> bytes:
    with httpx2.Client(transport=transport) as client, client.stream("GET", URL) as response:
        limited = limit_body(response)
        assert limited.bytes_max == BODY_MAX
        limited.bytes_max = LIMIT
        return limited.read()


def read_async(transport: httpx2.MockTransport) -> bytes:
    async def main() -> bytes:
        async with (
            httpx2.AsyncClient(transport=transport) as client,
            client.stream("GET", URL) as response,
        ):
            limited = limit_body(response)
            limited.bytes_max = LIMIT
            return await limited.aread()

    return asyncio.run(main())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("read_body", [read, read_async])
@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_a_body_up_to_the_limit_is_read(read_body, size, compressed):
    assert read_body(served(b"x" * size, compressed=compressed)) == b"x" * size


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("read_body", [read, read_async])
@pytest.mark.parametrize("size", [LIMIT + 1, 100 * LIMIT])
def test_a_body_beyond_the_limit_is_refused(read_body, size, compressed):
    with pytest.raises(BodyTooLargeError, match="MiB, decompressed"):
        read_body(served(b"x" * size, compressed=compressed))


class Trickle(httpx2.SyncByteStream):
    """A body of single bytes that does not end."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for _ in itertools.count():
            time.sleep(0.001)
            yield b"x"

    def close(self) -> None:
        self.closed = True


def test_a_body_that_does_not_end_is_left_at_its_deadline():
    body = Trickle()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=body))
    with (
        httpx2.Client(transport=transport) as client,
        pytest.raises(httpx2.ReadTimeout, match="does not end") as caught,
    ):
        send_bounded(client, client.build_request("GET", URL), seconds_max=0.01)
    # Also while the error is kept, and its frames with it.
    assert body.closed, caught


def test_a_body_that_ends_in_time_is_read():
    transport = served(b"{}", compressed=False)
    with httpx2.Client(transport=transport) as client:
        request = client.build_request("GET", URL)
        assert send_bounded(client, request, seconds_max=60).content == b"{}"
