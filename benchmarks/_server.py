"""A chat completions endpoint that does nothing but wait, in a process of its own.

It answers every request alike after a fixed latency and takes as little of the processor as it
can, so that what is measured is the client. `GET /calls` says how many completions it was asked
for since it was last asked that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["ANSWER", "Endpoint", "endpoint"]

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


class Endpoint:
    """A running endpoint."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._calls_url = f"http://127.0.0.1:{port}/calls"

    def calls(self) -> int:
        """How many completions it was asked for since the last time this was called."""
        with urllib.request.urlopen(self._calls_url) as reply:
            return int(json.load(reply))


@contextmanager
def endpoint(latency_ms: float) -> Generator[Endpoint]:
    """An endpoint for the time of the block."""
    command = [sys.executable, str(Path(__file__)), "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield Endpoint(int(server.stdout.readline()))
        finally:
            server.terminate()


def _http(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class _Connection(asyncio.Protocol):
    label = _http(_completion(ANSWER))
    judged = _http(_completion(_JUDGED))
    calls = 0

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

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
        if head.startswith(b"GET /calls"):
            self._transport.write(_http(str(_Connection.calls).encode()))
            _Connection.calls = 0
            return
        _Connection.calls += 1
        reply = self.label if _LABEL_SCHEMA in body else self.judged
        loop = asyncio.get_running_loop()
        loop.call_later(self._latency_s, self._transport.write, reply)


async def _serve(latency_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(latency_s), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, required=True)
    asyncio.run(_serve(parser.parse_args().latency_ms / 1000))
