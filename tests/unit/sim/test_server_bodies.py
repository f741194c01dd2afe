"""The bodies of requests to the simulated model's server: by length, in chunks, and broken ones."""

from __future__ import annotations

import asyncio

import pytest

from regauge.sim.server import _BODY_MAX, _read_body


def read(data: bytes, **headers: str) -> bytes:
    async def main() -> bytes:
        reader = asyncio.StreamReader(limit=2 * _BODY_MAX)
        reader.feed_data(data)
        reader.feed_eof()
        return await _read_body(
            reader, {name.replace("_", "-"): value for name, value in headers.items()}
        )

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "headers", "body"),
    [
        (b"hello", {}, b""),
        (b"hello", {"content_length": "0"}, b""),
        (b"hello", {"content_length": "4"}, b"hell"),
        (b"3\r\nabc\r\n0\r\n\r\n", {"transfer_encoding": "Chunked"}, b"abc"),
        (b"3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", {"transfer_encoding": "chunked"}, b"abc0123456789"),
        (b"ab", {"transfer_encoding": "gzip", "content_length": "2"}, b"ab"),
    ],
)  # fmt: skip
def test_a_body_is_read_by_its_length_or_in_chunks(
    data: bytes, headers: dict[str, str], body: bytes
):
    assert read(data, **headers) == body


@pytest.mark.parametrize(
    ("data", "headers", "words"),
    [
        (b"x", {"content_length": "-1"}, "no length, or too large a body"),
        (b"x", {"content_length": "one"}, "no length, or too large a body"),
        (b"x", {"content_length": str(_BODY_MAX + 1)}, "no length, or too large a body"),
        (b"-1\r\nx", {"transfer_encoding": "chunked"}, "no length, or too large a body"),
        (b"3\r\nabcd\r\n0\r\n\r\n", {"transfer_encoding": "chunked"}, "a chunk has another length"),
        (b"1\r\na\r\n%x\r\n" % _BODY_MAX, {"transfer_encoding": "chunked"}, "too large a body"),
    ],
)
def test_a_body_that_is_broken_or_too_large_is_refused(
    data: bytes, headers: dict[str, str], words: str
):
    with pytest.raises(ValueError, match=words):
        read(data, **headers)


def test_the_largest_body_is_read():
    assert len(read(b"x" * _BODY_MAX, content_length=str(_BODY_MAX))) == _BODY_MAX
    with pytest.raises(asyncio.IncompleteReadError):
        read(b"x", content_length="2")
