"""The embedder over real HTTP on 127.0.0.1."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import ProviderError
from regauge.judges import means_like
from regauge.project import EndpointSettings
from regauge.providers.embeddings import OpenAIEmbedder
from tests.served import JsonHandler, Served
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from collections.abc import Iterator

Replies = list[tuple[int, Any]]


class Server(Served):
    """Gives the replies it was given, the last one for good."""

    def __init__(self) -> None:
        self.replies: Replies = []
        self.asked: list[Any] = []
        server = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                server.asked.append(self.given())
                replies = server.replies
                status, body = replies.pop(0) if len(replies) > 1 else replies[0]
                self.say(body, status=status, headers={"Retry-After": "0"})

        super().__init__(Handler)


@pytest.fixture
def server(socket_enabled: None) -> Iterator[Server]:
    with Server() as made:
        yield made


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
    url = f"{server.address}/v1"
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
