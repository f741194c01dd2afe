"""An endpoint on 127.0.0.1 that answers as a drill wants it to, and logs every request."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Logged", "Reply", "Request", "Stub", "completion", "stub"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: its key is a hash of its body, `before` how often it came earlier."""

    number: int
    key: str
    before: int
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All messages, one after the other."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def case(self) -> int:
        """The number of the case, or -1."""
        match = re.search(r"case (\d+):", self.text)
        return int(match[1]) if match else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to send, and how badly.

    Attributes:
        delay_s: Seconds before the first byte.
        sent: How many bytes of the body are sent before the connection is dropped; None for all.
        drip_s: Seconds over which the body is spread.
        drop: Close the connection without a byte.
        good: The client can use it, so it is never to be requested again.
    """

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    sent: int | None = None
    drip_s: float = 0.0
    drop: bool = False
    good: bool = True


@dataclass(slots=True, kw_only=True)
class Logged:
    """A request in the log: seconds of `time.monotonic`, 0 where it was never answered."""

    key: str
    model: str
    came_at: float
    answered_at: float = 0.0
    status: int = 0
    good: bool = True


def completion(text: str | None, **more: object) -> bytes:
    """The body of a chat completion; `more` overrides keys of its only choice or of itself."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    whole: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub-1",
        "choices": [choice],
        "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52},
    }
    return json.dumps({**whole, **more}).encode()


@dataclass(slots=True, kw_only=True)
class Stub:
    """A running endpoint; `behave` may be replaced at any time."""

    behave: Callable[[Request], Reply]
    port: int = 0
    log: list[Logged] = field(default_factory=list[Logged])
    seen: Counter[str] = field(default_factory=Counter[str])
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answered(self) -> Counter[str]:
        """How often each request was answered with a completion that the client can use."""
        used = (each for each in self.log if each.answered_at and each.status == 200 and each.good)
        return Counter(each.key for each in used)

    def paid_twice(self) -> int:
        """Answers beyond the first one of each request."""
        return sum(count - 1 for count in self.answered().values())

    def in_flight(self) -> int:
        return sum(not each.status for each in self.log)

    def down(self) -> None:
        """Refuse connections and drop those there are."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)

    def up(self) -> None:
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    def down_for(self, seconds: float) -> None:
        """Go away now and come back later; the caller does not wait."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._away(seconds)))

    async def _away(self, seconds: float) -> None:
        await self._close()
        await asyncio.sleep(seconds)
        await self._open()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(
            self._converse, "127.0.0.1", self.port, backlog=512, limit=2**24
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _stop(self) -> None:
        await self._close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        start = await reader.readexactly(1)
        if start == b"\x16":  # the beginning of TLS
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return False
        head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if head.startswith("GET"):
            listed = b'{"object":"list","data":[{"id":"m-1"},{"id":"j-1"}]}'
            return await self._send(writer, Reply(body=listed))
        length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
        raw = await reader.readexactly(int(length[1]) if length else 0)
        body = json.loads(raw)
        key = hashlib.sha256(raw).hexdigest()
        entry = Logged(key=key, model=body.get("model", ""), came_at=time.monotonic())
        request = Request(number=len(self.log), key=key, before=self.seen[key], body=body)
        self.seen[key] += 1
        self.log.append(entry)
        reply = self.behave(request)
        entry.good = reply.good and reply.sent is None
        await asyncio.sleep(reply.delay_s)
        if reply.drop:
            entry.status = -1
            return False
        sent = await self._send(writer, reply)
        entry.status = reply.status if sent else -1
        entry.answered_at = time.monotonic() if sent else 0.0
        return sent

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        lines = [f"HTTP/1.1 {reply.status} Drill", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in reply.headers]
        lines += [f"Content-Length: {len(reply.body)}", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1"))
        if reply.drip_s:
            for byte in range(0, len(reply.body), max(1, len(reply.body) // 20)):
                writer.write(reply.body[byte : byte + max(1, len(reply.body) // 20)])
                await writer.drain()
                await asyncio.sleep(reply.drip_s / 20)
        else:
            writer.write(reply.body[: reply.sent])
        await writer.drain()
        return reply.sent is None


@contextmanager
def stub(behave: Callable[[Request], Reply] | None = None) -> Generator[Stub]:
    """An endpoint for the time of the block; it repeats the request where nothing else is said."""
    server = Stub(behave=behave or (lambda request: Reply(body=completion(request.text))))
    thread = threading.Thread(target=server._loop.run_forever, daemon=True)  # noqa: SLF001
    thread.start()
    server.up()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server._stop(), server._loop).result(10)  # noqa: SLF001
        server._loop.call_soon_threadsafe(server._loop.stop)  # noqa: SLF001
        thread.join(10)
