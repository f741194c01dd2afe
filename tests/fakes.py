"""What tests use in place of the world: an endpoint that answers, counts and misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Endpoint", "severity_of"]


def severity_of(text: str) -> str:
    """The answer that `text` asks for: what stands before its first colon."""
    return json.dumps({"severity": text.split(":", maxsplit=1)[0], "reason": "it says so itself"})


class Endpoint:
    """An OpenAI-compatible endpoint on 127.0.0.1, served by a thread of its own.

    Attributes:
        calls: How often each text was asked about, whatever came of it.
        answered: How often each text was answered, to the last byte.
        answer: What is said of a text, or the whole message as the wire has it.
        answer_of: What single models say instead, by name.
        latency_s: How long every answer takes, in seconds.
        latency_of: How long answers to single texts take, in seconds.
        object_to_each: Every n-th request is answered with 429; 0 is none.
        objections: How many requests were answered with 429.
    """

    def __init__(
        self,
        *,
        answer: Callable[[str], str | dict[str, Any]] = severity_of,
        latency_s: float = 0.0,
        object_to_each: int = 0,
    ) -> None:
        self.calls: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.latency_s = latency_s
        self.latency_of: dict[str, float] = {}
        self.objections = 0
        self.models: Counter[str] = Counter()
        self.base_url = ""
        self.answer = answer
        self.answer_of: dict[str, Callable[[str], str | dict[str, Any]]] = {}
        self.object_to_each = object_to_each
        self.usage: dict[str, int] | None = {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
        }
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="endpoint", daemon=True)

    @property
    def total(self) -> int:
        """How many requests came."""
        return self.calls.total()

    @property
    def twice(self) -> dict[str, int]:
        """What was answered more than once."""
        return {text: count for text, count in self.answered.items() if count > 1}

    def forget(self) -> None:
        """Count from nothing again."""
        self.calls.clear()
        self.answered.clear()
        self.models.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.base_url = f"http://{host}:{port}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                status, document = await self._reply(json.loads(await reader.readexactly(length)))
                body = json.dumps(document).encode()
                later = "retry-after: 0.05\r\n" if status == 429 else ""
                writer.write(
                    f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{later}"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _reply(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        text = asked["messages"][-1]["content"]
        self.calls[text] += 1
        self.models[asked["model"]] += 1
        if self.object_to_each and self.total % self.object_to_each == 0:
            self.objections += 1
            return 429, {"error": {"message": "slow down", "type": "requests", "code": "rate"}}
        await asyncio.sleep(self.latency_of.get(text, self.latency_s))
        self.answered[text] += 1
        said = self.answer_of.get(asked["model"], self.answer)(text)
        message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": None}
        if isinstance(said, dict):
            message.update(said)
        return 200, {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": self.usage,
        }
