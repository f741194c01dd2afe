"""The embedder over real HTTP on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import ProviderError
from regauge.judges import means_like
from regauge.project import EndpointSettings
from regauge.providers.embeddings import OpenAIEmbedder
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from collections.abc import Iterator

Replies = list[tuple[int, Any]]


class Server(ThreadingHTTPServer):
    """Gives the replies it was given, the last one for good."""

    daemon_threads = True
    replies: Replies
    asked: list[Any]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.asked.append(json.loads(self.rfile.read(length)))
        replies = self.server.replies
        status, body = replies.pop(0) if len(replies) > 1 else replies[0]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


@pytest.fixture
def server(socket_enabled: None) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.asked = []
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def vectors(*parts: list[float]) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": place, "embedding": part}
        for place, part in enumerate(parts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": "small", "data": data[::-1], "usage": usage}


def embedded(server: Server, texts: list[str]) -> Any:
    async def run() -> Any:
        embedder = embedder_of(server)
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()

    return asyncio.run(run())


def embedder_of(server: Server) -> OpenAIEmbedder:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    settings = EndpointSettings(base_url=url, max_attempts=3, deadline_s=10)
    return OpenAIEmbedder(settings, name="local", model="small", environ={})


def test_vectors_come_in_the_order_of_the_texts(server: Server):
    server.replies = [(200, vectors([1.0, 0.0], [0.0, 1.0]))]
    assert embedded(server, ["a", "b"]) == [[1.0, 0.0], [0.0, 1.0]]
    assert server.asked[0]["input"] == ["a", "b"]
    assert server.asked[0]["model"] == "small"


def test_a_busy_server_is_asked_again(server: Server):
    server.replies = [(429, {}), (500, {}), (200, vectors([1.0]))]
    assert embedded(server, ["a"]) == [[1.0]]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "no"}}, "authentication"),
        (404, {}, "not-found"),
        (400, {}, "bad-request"),
        (503, {}, "server"),
        (200, vectors([1.0], [2.0]), "malformed"),
        (200, {"data": []}, "malformed"),
        (200, {"data": None}, "malformed"),
        (200, b"<html>", "malformed"),
    ],
)
def test_what_goes_wrong_has_a_kind(server: Server, status: int, body: Any, kind: str):
    server.replies = [(status, body)]
    with pytest.raises(ProviderError) as caught:
        embedded(server, ["a"])
    assert caught.value.kind == kind


def test_the_judge_asks_for_answer_and_reference(server: Server):
    server.replies = [(200, vectors([1.0, 0.1], [1.0, 0.0]))]

    async def run() -> Any:
        embedder = embedder_of(server)
        try:
            return await means_like(embedder).judge(completion("No space left."), CASE)
        finally:
            await embedder.aclose()

    verdict = asyncio.run(run())
    assert server.asked[0]["input"] == ["No space left.", "The disk is full."]
    assert verdict.outcome == "pass"
    assert verdict.reason.startswith("local:small: cosine 0.995")
