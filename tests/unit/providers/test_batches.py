"""Lines of files of results, and the keys in them: untrusted text."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st

from regauge.errors import ProviderError
from regauge.maintenance.batch_files import key_of, result_id
from regauge.project import EndpointSettings
from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.providers.batches import (
    BatchClient,
    BatchTag,
    NoBatchesError,
    RemoteBatch,
    ResultLine,
)
from regauge.recordings import RecordingKey
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["custom_id", "response", "status_code", "body", "error", "result", "type", "message", "code"]
)
_LINES = st.recursive(
    _JSON | st.sampled_from(["succeeded", "errored", "expired", 200, 400]),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    digest=st.binary(min_size=32, max_size=32).map(bytes.hex),
    trial=st.integers(min_value=0, max_value=10**15 - 1),
)
def test_a_key_goes_through_its_id(digest: str, trial: int):
    """Anthropic takes 64 characters of this alphabet."""
    custom_id = result_id(RecordingKey(digest, trial))
    assert len(custom_id) <= 64
    assert set(custom_id) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert key_of(custom_id) == RecordingKey(digest, trial)


@given(st.text())
def test_other_ids_are_no_keys(text: str):
    key = key_of(text)
    assert key is None or result_id(key)[:42] == text[:42]


@given(st.binary() | _LINES.map(lambda line: json.dumps(line).encode()))
def test_any_line_is_a_result_or_is_refused(line: bytes):
    with suppress(ValueError):
        result = ResultLine.parse(line)
        assert result.custom_id
        assert bool(result.body) != bool(result.problem)


def batch(number: int, created_at: int) -> dict[str, Any]:
    return {"id": f"b{number}", "status": "completed", "created_at": created_at}


class Account(Served):
    """Lists the batches of an account, page by page."""

    def __init__(self, *pages: object) -> None:
        self.after: list[str] = []
        account = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                account.after.append(parse_qs(urlsplit(self.path).query).get("after", [""])[0])
                self.say(pages[min(len(account.after), len(pages)) - 1])

        super().__init__(Handler)


def listed(account: Account, since: float) -> list[str]:
    async def ask() -> list[str]:
        settings = EndpointSettings(base_url=f"{account.address}/v1")
        client = BatchClient(settings, name="x", environ={})
        try:
            return [found.id for found in await client.list_since(since)]
        finally:
            await client.aclose()

    return asyncio.run(ask())


MORE = {"has_more": True}


@pytest.mark.parametrize(
    ("pages", "after", "ids"),
    [
        ([{"data": [batch(1, 90), batch(2, 50)]}], [""], ["b1", "b2"]),
        ([{"data": [batch(1, 90), batch(2, 49)]}], [""], ["b1"]),
        ([[batch(1, 90)]], [""], ["b1"]),
        ([{"data": []} | MORE], [""], []),
        (
            [{"data": [batch(1, 90)]} | MORE, {"data": [batch(2, 80)]}],
            ["", "b1"],
            ["b1", "b2"],
        ),
        (
            [{"data": [batch(1, 90)], "last_id": "x"} | MORE, {"data": [batch(2, 80)]}],
            ["", "x"],
            ["b1", "b2"],
        ),
        ([{"data": [batch(1, 90), batch(2, 40)]} | MORE, {"data": [batch(3, 30)]}], [""], ["b1"]),
        (
            [{"data": [batch(1, 90)]} | MORE, {"data": [batch(1, 90)]} | MORE],
            ["", "b1"],
            ["b1"] * 2,
        ),
    ],
)
def test_batches_are_listed_until_they_are_too_old(
    socket_enabled: None, pages: list[object], after: list[str], ids: list[str]
):
    with Account(*pages) as account:
        assert listed(account, 50) == ids
    assert account.after == after


def test_an_account_with_very_many_batches_is_listed_in_part(socket_enabled: None):
    pages = [{"data": [batch(number, 90)]} | MORE for number in range(30)]
    with Account(*pages) as account:
        assert len(listed(account, 50)) == 20


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"custom_id": "a", "response": {"status_code": 200, "body": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "response": {"body": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "response": {"status_code": 299, "body": {}}}, ({}, "")),
        ({"custom_id": "a", "response": {"status_code": 300, "body": {"error": {"message": "m", "code": "c"}}}}, (None, "300: c: m")),
        ({"custom_id": "a", "response": {"status_code": 199, "body": {}}}, (None, '199: {"error": {}}')),
        ({"custom_id": "a", "error": {"message": "m", "code": "c"}}, (None, "c: m")),
        ({"custom_id": "a", "error": {"error": {"message": "the code c", "code": "c"}}}, (None, "the code c")),
        ({"custom_id": "a", "result": {"type": "succeeded", "message": {"id": "x"}}}, ({"id": "x"}, "")),
        ({"custom_id": "a", "result": {"type": "errored", "error": {"type": "t", "message": "m"}}}, (None, "t: m")),
        ({"custom_id": "a", "result": {"type": "expired"}}, (None, "batch_expired")),
        ({"custom_id": "a", "result": {"type": "canceled"}}, (None, "batch_canceled")),
        ({"custom_id": "a", "result": {"type": "succeeded", "message": {}}}, "a line without a message"),
        ({"custom_id": "a", "result": {"type": "odd", "message": {"id": "x"}}}, "a line without a message"),
        ({"custom_id": "a", "response": {"body": "x"}}, "a line without a response"),
        ({"custom_id": "a"}, "a line without a response"),
        ({"custom_id": ""}, "a line without custom_id"),
        ({"custom_id": 3}, "a line without custom_id"),
        ([], "a line without custom_id"),
    ],
)  # fmt: skip
def test_a_line_of_either_form_is_a_body_or_a_problem(line: object, expected: Any):
    data = json.dumps(line).encode()
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            ResultLine.parse(data)
        return
    result = ResultLine.parse(data)
    body = json.loads(result.body) if result.body else None
    assert (result.custom_id, body, result.problem) == ("a", *expected)


class Files(Served):
    """Answers each path with the replies that a test gives; a missing one is 404."""

    def __init__(self, replies: dict[str, object]) -> None:
        self.paths: list[str] = []
        files = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                path = self.path.removeprefix("/v1/")
                files.paths.append(path)
                reply = replies.get(path)
                self.say(reply if reply is not None else {}, status=404 if reply is None else 200)

        super().__init__(Handler)


def with_client(files: Files, work: Callable[[BatchClient], Any], **settings: Any) -> Any:
    """What a client does, or the error it ends with."""

    async def run() -> Any:
        given = {"base_url": f"{files.address}/v1", "max_attempts": 1, **settings}
        client = BatchClient(EndpointSettings(**given), name="x", environ={"KEY": "k"})
        try:
            return await work(client)
        except ProviderError as error:
            return error
        finally:
            await client.aclose()

    return asyncio.run(run())


def test_the_state_of_a_batch_is_read_in_either_form(socket_enabled: None):
    described: dict[str, object] = {
        "batches/b1": {
            "id": "b1", "status": "COMPLETED", "created_at": 50, "input_file_id": "in",
            "output_file_id": "out", "error_file_id": "err", "completion_window": "24h",
            "request_counts": {"total": 3, "completed": 2},
            "metadata": {"regauge_project": "p", "regauge_batch": "n"},
        },
        "batches/b2": {
            "job": {
                "id": "b2", "status": "failed", "created_at": "2026-01-01T00:00:00+00:00",
                "input_file_id": "in", "metadata": {"regauge_project": "p"},
                "errors": {"data": [{"message": "m", "line": 3}, {"code": "c", "message": "n"}]},
                "error": {"message": "whole"},
            }
        },
        "batches/b3": {"id": "b3", "status": "in_progress", "created_at": "soon"},
        "batches/b4": {"id": "", "status": "failed"},
        "batches/b5": {"id": "b5", "status": "completed", "results": []},
    }  # fmt: skip
    with Files(described) as files:
        first, second, running, unnamed, inline, missing = (
            with_client(files, lambda client, name=f"b{number}": client.fetch(name))
            for number in range(1, 7)
        )
    assert (first.status, first.is_finished, first.requests, first.completed) == (
        "completed",
        True,
        3,
        2,
    )
    assert (first.results, first.input_file, first.tagged) == (("out", "err"), "in", True)
    assert (first.tag, second.tag) == (BatchTag(project="p", name="n"), None)
    assert second.problems == ("m (line 3)", "c: n", "whole")
    assert (second.created_at, second.results, second.requests) == (1767225600.0, (), None)
    assert (running.is_finished, running.created_at, running.tagged) == (False, 0.0, False)
    assert str(unnamed) == "the provider returned no id"
    assert (len(inline.results), inline.input_file) == (1, "")
    assert isinstance(missing, NoBatchesError)


def test_a_batch_of_anthropic_counts_its_requests_by_outcome(socket_enabled: None):
    described: dict[str, object] = {
        "messages/batches/b1": {
            "id": "b1", "processing_status": "ended", "created_at": "2026-01-01T00:00:00Z",
            "request_counts": {"succeeded": 2, "errored": 1, "expired": None},
        },
        "messages/batches/b1/results": b'{"custom_id": "a"}\n',
        "messages/batches/b2": {"id": "b2", "processing_status": "in_progress"},
    }  # fmt: skip
    with Files(described) as files:

        async def work(client: BatchClient) -> Any:
            batch = await client.fetch("b1")
            return batch, await client.first_bytes(batch), await client.fetch("b2")

        batch, first, running = with_client(files, work, api="anthropic", api_key_env="KEY")
    assert (batch.requests, batch.completed, batch.is_finished) == (3, 2, True)
    assert (batch.results, batch.tagged, batch.created_at) == (("results",), False, 1767225600.0)
    assert first == b'{"custom_id": "a"}\n'
    assert (running.is_finished, running.results) == (False, ())


def remote(**changes: Any) -> RemoteBatch:
    return RemoteBatch(**{"id": "b1", "status": "completed", "is_finished": True, **changes})


def test_the_beginning_of_a_batch_is_that_of_its_results_or_its_requests(socket_enabled: None):
    replies: dict[str, object] = {"files/out/content": b"r" * 100_000, "files/in/content": b"q\n"}
    with Files(replies) as files:

        def first(batch: RemoteBatch) -> Any:
            return with_client(files, lambda client: client.first_bytes(batch))

        results = first(remote(results=("out",), input_file="in"))
        assert set(results) == {ord("r")}
        assert 4096 <= len(results) < 100_000
        assert first(remote(input_file="in")) == b"q\n"
        assert first(remote()) == b""
    assert files.paths == ["files/out/content", "files/in/content"]


def test_the_requests_of_a_batch_are_kept_only_whole(socket_enabled: None, tmp_path: Path):
    replies: dict[str, object] = {
        "files/in": {"bytes": 2},
        "files/in/content": b"q\n",
        "files/cut": {"bytes": 3},
        "files/cut/content": b"q\n",
        "files/none": {"bytes": 3},
        "files/bare/content": b"q\n",
        "files/odd": b"<html>",
        "files/odd/content": b"q\n",
    }
    with Files(replies) as files:

        def saved(name: str) -> tuple[Any, bytes | None]:
            path = tmp_path / f"{name}.jsonl"
            batch = remote(input_file=name)
            kept = with_client(files, lambda client: client.save_requests(batch, path))
            return kept, path.read_bytes() if path.exists() else None

        assert saved("in") == (True, b"q\n")
        assert saved("cut") == (False, b"q\n")
        assert saved("none") == (False, None)
        assert saved("bare") == (True, b"q\n")
        assert saved("odd") == (True, b"q\n")
        assert saved("") == (False, None)
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_a_result_without_tokens_has_no_cost(socket_enabled: None):
    prices = {"m": {"input_per_million": 1.0, "output_per_million": 2.0}}
    settings = EndpointSettings(base_url="http://127.0.0.1:9/v1", prices=prices, batch_price=0.25)
    client = BatchClient(settings, name="x", environ={})
    request = CompletionRequest(provider="x", model="m", messages=(), parameters={})

    def cost(**usage: int) -> float | None:
        message = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
        body = json.dumps(message | {"usage": usage}).encode()
        completion = client.read(request, body)
        assert (completion.text, completion.model, completion.provider) == ("a", "m", "x")
        return completion.cost_usd

    assert cost() is None
    assert cost(prompt_tokens=1_000_000, completion_tokens=500_000) == 0.5
    asyncio.run(client.aclose())


def test_results_are_written_file_by_file_with_the_reason_of_a_missing_part(
    socket_enabled: None, tmp_path: Path
):
    replies: dict[str, object] = {
        "files/out": {"bytes": 9},
        "files/out/content": b"r\n",
        "files/err/content": b"e\n",
        "batches/b1": {
            "id": "b1", "status": "completed", "results": [{"custom_id": "ü"}, {"custom_id": "b"}],
        },
    }  # fmt: skip
    with Files(replies) as files:

        def downloaded(batch: RemoteBatch) -> tuple[Any, list[bytes]]:
            paths = [tmp_path / f"{number}.jsonl" for number in range(2)]
            trouble = with_client(files, lambda client: client.download(batch, paths.__getitem__))
            data = [path.read_bytes() for path in paths if path.exists()]
            for path in paths:
                path.unlink(missing_ok=True)
            return trouble, data

        assert downloaded(remote()) == ("", [])
        assert downloaded(remote(results=("err",))) == ("", [b"e\n"])
        for results in (("out", "err"), ("err", "out")):
            trouble, data = downloaded(remote(results=results))
            assert "the file is truncated, 2 of 9 bytes" in trouble
            assert sorted(data) == [b"e\n", b"r\n"]
        error, data = downloaded(remote(results=("err", "none")))
        assert isinstance(error, ProviderError)
        assert data == [b"e\n"]

        async def inline(client: BatchClient) -> tuple[str, bytes]:
            batch = await client.fetch("b1")
            path = tmp_path / "inline.jsonl"
            assert await client.download(batch, lambda _: path) == ""
            return await client.first_bytes(batch), path.read_bytes()

        first, all_lines = with_client(files, inline)
    assert first == '{"custom_id":"ü"}\n'.encode()
    assert all_lines == first + b'{"custom_id":"b"}\n'
    assert files.paths.count("batches/b1") == 1


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://127.0.0.1:9/v1", "/v1/chat/completions"),
        ("https://x.openai.azure.com/openai/v1", "/chat/completions"),
    ],
)
def test_a_line_is_a_call_with_the_body_of_a_live_one(url: str, path: str):
    client = BatchClient(EndpointSettings(base_url=url), name="x", environ={"OPENAI_API_KEY": "k"})
    request = CompletionRequest(
        provider="x", model="m", messages=(), parameters={"max_tokens": 7}, origin="p"
    )
    line = client.line("id", request, other_limit=False)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "custom_id": "id",
        "method": "POST",
        "url": path,
        "body": {"model": "m", "messages": [], "max_tokens": 7},
    }
    other = json.loads(client.line("id", request, other_limit=True))
    assert other["body"] == {"model": "m", "messages": [], "max_completion_tokens": 7}
    assert client.is_limit_error("use max_completion_tokens instead")
    assert not client.is_limit_error("no")
    asyncio.run(client.aclose())


def test_a_line_of_anthropic_holds_parameters_alone():
    settings = EndpointSettings(api="anthropic", base_url="http://127.0.0.1:9")
    client = BatchClient(settings, name="x", environ={})
    message = Message(role="user", content="?")
    request = CompletionRequest(provider="x", model="m", messages=(message,), parameters={})
    document = json.loads(client.line("id", request, other_limit=False))
    assert document.keys() == {"custom_id", "params"}
    assert document["params"]["messages"] == [{"role": "user", "content": "?"}]
    asyncio.run(client.aclose())
