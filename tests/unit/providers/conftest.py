"""A real HTTP endpoint on 127.0.0.1 that answers, or misbehaves, as a test says."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from regauge.project import EndpointSettings
from regauge.prompts import Message
from regauge.providers import Completion, CompletionRequest
from regauge.providers.remote import RemoteProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def chat(content: Any = "yes", *, finish: Any = "stop", **changes: Any) -> dict[str, Any]:
    """A chat completion as OpenAI sends it; `changes` replace keys of the message."""
    message = {"role": "assistant", "content": content, "refusal": None, **changes}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-9-2031-01-01",
        "system_fingerprint": "fp_7",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


@dataclass
class Reply:
    """What goes back. `cut` bytes of the body are held back, then the connection closes.

    `wire` goes out as it is, instead of all else.
    """

    document: Any = field(default_factory=chat)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    wire: bytes = b""
    cut: int = 0
    wait_s: float = 0.0
    drop: bool = False

    def head(self, body: bytes) -> bytes:
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        lines = [f"{name}: {value}" for name, value in {**headers, **self.headers}.items()]
        return ("\r\n".join([f"HTTP/1.1 {self.status} X", *lines]) + "\r\n\r\n").encode()


class Endpoint:
    """The server. `script` says what the n-th request (from 0) gets; default: an answer."""

    def __init__(self, script: Callable[[int, dict[str, Any]], Reply] | list[Reply]) -> None:
        self._script = script
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.base_url = ""
        self._writers: list[asyncio.StreamWriter] = []

    def reset(self) -> None:
        """Reset all open connections."""
        for writer in self._writers:
            writer.transport.abort()

    def reply(self, body: dict[str, Any]) -> Reply:
        number = len(self.bodies)
        self.bodies.append(body)
        if callable(self._script):
            return self._script(number, body)
        return self._script[number] if number < len(self._script) else Reply()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    int(line.split(":")[1])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length")
                )
                body = json.loads(await reader.readexactly(length))
                self.heads.append(head)
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    reply = self.reply(body)
                    await asyncio.sleep(reply.wait_s)
                finally:
                    self.in_flight -= 1
                if reply.drop:
                    return
                if reply.wire:
                    writer.write(reply.wire)
                    await writer.drain()
                    return
                content = json.dumps(reply.document).encode() if reply.raw is None else reply.raw
                writer.write(reply.head(content) + content[: len(content) - reply.cut])
                await writer.drain()
                if reply.cut:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def endpoint(
    script: Callable[[int, dict[str, Any]], Reply] | list[Reply],
) -> AsyncIterator[Endpoint]:
    served = Endpoint(script)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    served.base_url = f"http://{host}:{port}/v1"
    try:
        yield served
    finally:
        server.close()
        # The handlers of open connections end by themselves, one turn of the loop later.
        await asyncio.sleep(0.01)


def ask(**changes: Any) -> CompletionRequest:
    given = {
        "model": "gpt-9",
        "provider": "local",
        "messages": (
            Message(role="system", content="Be brief."),
            Message(role="user", content="?"),
        ),
        "parameters": {},
        "origin": "prompts/alert.prompt.yml",
    }
    return CompletionRequest(**{**given, **changes})


@dataclass
class Talk:
    """What came of some requests: completions or errors, in the order asked."""

    results: list[Completion | BaseException]
    endpoint: Endpoint
    provider: RemoteProvider

    @property
    def completion(self) -> Completion:
        (result,) = self.results
        if isinstance(result, BaseException):
            raise result
        return result


class Kit:
    """What tests of providers need, without an import from a module that is not installed."""

    Reply = Reply
    chat = staticmethod(chat)
    ask = staticmethod(ask)
    endpoint = staticmethod(endpoint)

    @staticmethod
    def talk(
        script: Callable[[int, dict[str, Any]], Reply] | list[Reply],
        *requests: CompletionRequest,
        environ: dict[str, str] | None = None,
        name: str = "local",
        concurrency: Any = "auto",
        **settings: Any,
    ) -> Talk:
        async def main() -> Talk:
            async with endpoint(script) as served:
                given = EndpointSettings(**{"base_url": served.base_url, **settings})
                provider = RemoteProvider(
                    given, name=name, environ=environ or {}, concurrency=concurrency
                )
                try:
                    results = await asyncio.gather(
                        *[provider.complete(request) for request in requests or (ask(),)],
                        return_exceptions=True,
                    )
                finally:
                    await provider.aclose()
                return Talk(results, served, provider)

        return asyncio.run(main())


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
