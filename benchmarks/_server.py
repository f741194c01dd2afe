"""A chat completions endpoint that only waits, in a separate process.

It returns the same response to every request after a fixed latency and uses little processor time,
so that the client is measured. It may refuse requests with 429, or be unreachable for a while.
`GET /traffic` reports the requests since the last read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["ANSWER", "Endpoint", "Traffic", "endpoint"]

ANSWER = {"label": "a", "reason": "it says so"}
# What judges are asked for: a score with its reason, and the steps to it.
_JUDGED = {
    "reason": "The note names a full disk, and that is what the label stands for.",
    "reasoning": "The note names a full disk, and that is what the label stands for.",
    "score": 4,
    "steps": ["Read the answer.", "See whether the note says so."],
}
# In the request for a label, and in no other.
_LABEL_SCHEMA = b'"label":'


def _completion(said: Mapping[str, object]) -> bytes:
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "waiter-1",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": json.dumps(said)},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52},
        }
    ).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the endpoint saw: requests, those it refused, and seconds from the first request to
    the last answer.
    """

    requests: int
    refused: int
    span_s: float


class Endpoint:
    """A running endpoint."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._traffic_url = f"http://127.0.0.1:{port}/traffic"

    def traffic(self) -> Traffic:
        """The traffic since this was last called; limits start again."""
        with urllib.request.urlopen(self._traffic_url) as reply:
            return Traffic(**json.load(reply))

    def calls(self) -> int:
        """How many completions it was asked for since the last time this was called."""
        return self.traffic().requests


@contextmanager
def endpoint(latency_ms: float, *options: str) -> Generator[Endpoint]:
    """An endpoint for the time of the block; `options` as on the command line of this file."""
    command = [sys.executable, str(Path(__file__)), "--latency-ms", str(latency_ms), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield Endpoint(int(server.stdout.readline()))
        finally:
            server.terminate()


def _refusal(retry_after_s: float | None) -> bytes:
    body = b'{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}'
    head = f"HTTP/1.1 429 Too Many Requests\r\nContent-Length: {len(body)}\r\n"
    if retry_after_s is not None:
        head += f"Retry-After: {retry_after_s:g}\r\n"
    return head.encode() + b"\r\n" + body


@dataclass(slots=True, kw_only=True)
class _Service:
    """Which requests are granted: by a bucket, by chance, or all."""

    rate: float
    burst: float
    refuse: float
    left: float = 0.0
    at: float = 0.0
    requests: int = 0
    refused: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0
    runs: int = 0
    chance: random.Random = field(default_factory=random.Random)

    def reset(self) -> None:
        self.left, self.at = self.burst, asyncio.get_running_loop().time()
        self.requests = self.refused = 0
        self.began_at = self.ended_at = 0.0
        self.runs += 1  # each run has its own luck, and a repeated benchmark the same
        self.chance = random.Random(self.runs)

    def grants(self) -> bool:
        now = asyncio.get_running_loop().time()
        self.began_at = self.began_at or now
        self.requests += 1
        granted = self.chance.random() >= self.refuse
        if self.rate:
            self.left = min(self.burst, self.left + (now - self.at) * self.rate)
            self.at = now
            granted = self.left >= 1
            self.left -= granted
        self.refused += not granted
        return granted


def _http(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class _Connection(asyncio.Protocol):
    label = _http(_completion(ANSWER))
    judged = _http(_completion(_JUDGED))

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            head, found, rest = self._received.partition(b"\r\n\r\n")
            if not found:
                return
            length = 0
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(head, rest[:length])

    def _answer(self, head: bytes, body: bytes) -> None:
        service = self._server.service
        if head.startswith(b"GET /traffic"):
            span_s = service.ended_at - service.began_at
            traffic = {"requests": service.requests, "refused": service.refused, "span_s": span_s}
            self._transport.write(_http(json.dumps(traffic).encode()))
            service.reset()
            return
        if not service.grants():
            self._transport.write(self._server.refusal)
            return
        reply = self.label if _LABEL_SCHEMA in body else self.judged
        loop = asyncio.get_running_loop()
        loop.call_later(self._server.latency_s, self._send, reply)
        self._server.count()

    def _send(self, reply: bytes) -> None:
        self._server.service.ended_at = asyncio.get_running_loop().time()
        self._transport.write(reply)


class _Server:
    def __init__(self, options: argparse.Namespace) -> None:
        rate, _, burst = options.bucket.partition(",")
        self.service = _Service(rate=float(rate), burst=float(burst or rate), refuse=options.refuse)
        self.service.reset()
        self.refusal = _refusal(options.retry_after)
        self.latency_s = options.latency_ms / 1000
        self.open: set[asyncio.Transport] = set()
        self._away_at = options.away_after
        self._away_s = options.away_s
        self._leave = asyncio.Event()

    def count(self) -> None:
        if self.service.requests == self._away_at:
            self._leave.set()

    async def serve(self) -> None:
        server = await self._listen(0)
        port: int = server.sockets[0].getsockname()[1]
        print(port, flush=True)
        while True:
            await self._leave.wait()
            self._leave.clear()
            server.close()
            for transport in tuple(self.open):
                transport.abort()
            await asyncio.sleep(self._away_s)
            server = await self._listen(port)

    async def _listen(self, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=1024)


async def _serve(options: argparse.Namespace) -> None:
    await _Server(options).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, required=True)
    parser.add_argument("--bucket", default="0", help="requests per second, and burst: 100,20")
    parser.add_argument("--refuse", type=float, default=0.0, help="share of refused requests")
    parser.add_argument("--retry-after", type=float, help="seconds that a 429 names")
    parser.add_argument("--away-after", type=int, default=0, help="requests before it goes away")
    parser.add_argument("--away-s", type=float, default=20.0, help="how long it stays away")
    asyncio.run(_serve(parser.parse_args()))
