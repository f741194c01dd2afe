"""The server of the simulated model, over real HTTP: raw, and through the openai SDK."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.cli.sim import parse_faults, parse_rate
from regauge.errors import UsageError
from regauge.prompts import Message, ToolCall
from regauge.providers import CompletionRequest
from regauge.sim import complete
from regauge.sim.server import _BODY_MAX, SimServerOptions
from tests.sim_server import SimServer

ASK = {
    "model": "clerk-1",
    "temperature": 0,
    "messages": [
        {"role": "system", "content": 'Answer with JSON only, with the keys "title" and "impact".'},
        {"role": "user", "content": "<report>\n# Door stuck\n\nImpact: nobody got in\n</report>"},
    ],
}


class Client:
    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)

    def send(self, method, path, body=None, **headers):
        text = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self.connection.request(method, path, text, headers)
        reply = self.connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()

    def ask(self, **changes):
        status, headers, body = self.send("POST", "/v1/chat/completions", {**ASK, **changes})
        return status, headers, json.loads(body)


@pytest.fixture
def server():
    with SimServer() as running:
        yield running


@pytest.fixture
def connect():
    """Clients by base URL, closed when the test is over."""
    clients = []

    def made(url):
        clients.append(Client(url))
        return clients[-1]

    yield made
    for client in clients:
        client.connection.close()


@pytest.fixture
def client(server, connect):
    return connect(server.base_url)


def test_it_answers_in_the_shape_of_the_interface_and_over_one_connection(client, server):
    for _ in range(3):
        status, _, body = client.ask(seed=0)
        assert status == 200
    assert body["object"] == "chat.completion"
    assert body["system_fingerprint"].startswith("simulated-")
    choice = body["choices"][0]
    assert (choice["index"], choice["finish_reason"], choice["message"]["role"]) == (
        0,
        "stop",
        "assistant",
    )
    assert json.loads(choice["message"]["content"]) == {
        "title": "Door stuck",
        "impact": "nobody got in",
    }
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert server.counters.requests == 3
    assert server.counters.statuses == {200: 3}


def test_it_gives_the_same_answers_as_the_embedded_model(client):
    messages = tuple(Message(role=m["role"], content=m["content"]) for m in ASK["messages"])
    for trial in range(4):
        request = CompletionRequest(
            provider="sim",
            model="clerk-1",
            messages=messages,
            parameters={"temperature": 1.5},
            trial=trial,
        )
        _, _, body = client.ask(temperature=1.5)
        assert body["choices"][0]["message"]["content"] == complete(request).text


@pytest.mark.parametrize("content", ["registry/shop:v7", '{"image": "registry/shop:v7"}'])
def test_results_of_tools_are_filled_in_as_the_embedded_model_does(client, content):
    user = (
        "<request>Deploy the service shop.</request>\n<skeleton>\nimage: {{lookup_image}} {{image}}\n"
        "</skeleton>\n"
    )
    call = ToolCall(id="call_7", name="lookup_image", arguments={"service": "shop"})
    messages = (
        Message(role="system", content="Fill the slots of the skeleton. Answer with it only."),
        Message(role="user", content=user),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content=content, tool_call_id="call_7"),
    )
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    calls = [{"id": call.id, "type": "function", "function": function}]
    sent = [{"role": m.role, "content": m.content} for m in messages]
    sent[2] |= {"content": None, "tool_calls": calls}
    sent[3]["tool_call_id"] = call.id
    request = CompletionRequest(
        provider="sim", model="clerk-1", messages=messages, parameters={"temperature": 0}, trial=0
    )
    _, _, body = client.ask(messages=sent, seed=0)
    text = body["choices"][0]["message"]["content"]
    assert text == complete(request).text
    assert "registry/shop:v7" in text


def test_a_seed_repeats_a_draw_and_no_seed_draws_afresh(client):
    def texts(**changes):
        return [
            client.ask(temperature=2, **changes)[2]["choices"][0]["message"]["content"]
            for _ in range(12)
        ]

    assert len(set(texts(seed=7))) == 1
    assert len(set(texts())) > 1


def test_n_gives_so_many_choices_and_counts_the_prompt_once(client):
    one = client.ask(seed=1)[2]["usage"]
    body = client.ask(n=3, seed=1)[2]
    assert [c["index"] for c in body["choices"]] == [0, 1, 2]
    assert body["usage"]["prompt_tokens"] == one["prompt_tokens"]


def test_a_stream_adds_up_to_the_whole_answer(client):
    whole = client.ask(seed=3)[2]["choices"][0]["message"]["content"]
    status, headers, body = client.send(
        "POST",
        "/v1/chat/completions",
        {**ASK, "seed": 3, "stream": True, "stream_options": {"include_usage": True}},
    )
    events = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert (status, headers["Content-Type"], events[-1]) == (200, "text/event-stream", "[DONE]")
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]]
    assert "".join(deltas) == whole
    assert chunks[-1]["usage"]["total_tokens"] > 0


def test_models_and_health(client):
    status, _, body = client.send("GET", "/v1/models")
    assert (status, json.loads(body)["data"][0]["id"]) == (200, "clerk-1")
    assert client.send("GET", "/v1/models/clerk-1")[0] == 200
    assert json.loads(client.send("GET", "/healthz")[2]) == {"status": "ok", "simulated": True}


@pytest.mark.parametrize(
    ("changes", "status", "parameter"),
    [
        ({"model": "gpt-9"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "messages[0].content",
        ),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "messages[0].tool_calls"),
        ({"tools": "none"}, 400, "tools"),
        ({"temperature": 3}, 400, "temperature"),
        ({"n": 0}, 400, "n"),
        ({"max_tokens": 1.5}, 400, "max_tokens"),
        ({"response_format": {"type": "xml"}}, 400, "response_format.type"),
    ],
)
def test_a_wrong_request_gets_an_error_in_the_shape_of_the_interface(
    client, changes, status, parameter
):
    got, _, body = client.ask(**changes)
    assert got == status
    assert body["error"]["param"] == parameter
    assert set(body["error"]) == {"message", "type", "param", "code"}


def test_a_body_that_is_no_json_and_a_path_that_is_none(client):
    assert client.send("POST", "/v1/chat/completions", b"{oops")[0] == 400
    assert client.send("POST", "/v1/chat/completions", b"[]")[0] == 400
    assert client.send("GET", "/v1/nothing")[0] == 404
    assert client.send("DELETE", "/v1/models")[0] == 405


def test_content_in_parts_null_content_tools_and_unknown_fields_are_accepted(client):
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "Say something."}]},
        {"role": "assistant", "content": None},
    ]
    assert (
        client.ask(
            messages=[*parts, parts[0]], tools=[{"type": "function"}], user="x", store=False
        )[0]
        == 200
    )


def test_a_wrong_key_is_turned_away(connect):
    with SimServer(SimServerOptions(api_key="right")) as server:
        client = connect(server.base_url)
        assert client.ask()[0] == 401
        assert client.send("GET", "/v1/models", Authorization="Bearer right")[0] == 200


def test_injected_faults_come_as_often_as_asked_and_the_same_each_time(connect):
    def statuses(seed):
        with SimServer(
            SimServerOptions(faults=parse_faults("429=0.2,500=0.1", seed=seed))
        ) as server:
            client = connect(server.base_url)
            return [client.ask()[0] for _ in range(200)]

    first = statuses(1)
    assert first == statuses(1)
    assert first != statuses(2)
    assert 20 <= first.count(429) <= 60
    assert 8 <= first.count(500) <= 35


def test_429_says_when_to_come_back(connect):
    with SimServer(SimServerOptions(faults=parse_faults("429=1"), retry_after_s=2)) as server:
        status, headers, body = connect(server.base_url).ask()
    assert (status, headers["Retry-After"], body["error"]["code"]) == (
        429,
        "2",
        "rate_limit_exceeded",
    )


def test_drop_closes_without_a_word_and_truncate_in_mid_body(connect):
    with (
        SimServer(SimServerOptions(faults=parse_faults("drop=1"))) as server,
        pytest.raises(ConnectionError),
    ):
        connect(server.base_url).ask()
    with (
        SimServer(SimServerOptions(faults=parse_faults("truncate=1"))) as server,
        pytest.raises(http.client.IncompleteRead),
    ):
        connect(server.base_url).ask()


def test_timeout_hangs(connect):
    with SimServer(SimServerOptions(faults=parse_faults("timeout=1"))) as server:
        client = connect(server.base_url)
        client.connection.timeout = 0.2
        with pytest.raises(TimeoutError):
            client.ask()


def test_faults_do_not_change_which_draw_a_retry_gets(connect):
    with SimServer(SimServerOptions(faults=parse_faults("500=0.5", seed=3))) as server:
        client = connect(server.base_url)
        answers = [
            body
            for status, _, body in (client.ask(temperature=2) for _ in range(12))
            if status == 200
        ]
    with SimServer() as server:
        client = connect(server.base_url)
        expected = [client.ask(temperature=2)[2] for _ in answers]
    assert [a["id"] for a in answers] == [e["id"] for e in expected]


def test_a_rate_limit_turns_away_what_is_too_much(connect):
    with SimServer(SimServerOptions(rate_limit=parse_rate("5/m"))) as server:
        client = connect(server.base_url)
        statuses = [client.ask()[0] for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3


@pytest.mark.parametrize("text", ["429", "429=2", "nap=0.1", "429=0.9,500=0.9", "429=x"])
def test_a_fault_that_is_none_is_an_error(text):
    with pytest.raises(UsageError):
        parse_faults(text)


def test_requests_at_once_wait_together(server, connect):
    with SimServer(SimServerOptions(latency_s=1)) as slow, ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: connect(slow.base_url).ask()[0], range(16)))
        assert statuses == [200] * 16
        assert slow.counters.in_flight_max > 8


def test_requests_in_pieces_in_chunks_and_pipelined_are_understood(server):
    parts = urlsplit(server.base_url)
    body = json.dumps(ASK).encode()
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as raw:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        raw.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % 10 + body[:10])
        time.sleep(0.05)
        raw.sendall(b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 10, body[10:]))
        raw.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        got = b""
        while piece := raw.recv(65536):
            got += piece
    assert got.count(b"HTTP/1.1 200 OK") == 3


def test_what_is_no_http_is_answered_with_400(server):
    parts = urlsplit(server.base_url)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as raw:
        raw.sendall(b"hello\r\n\r\n")
        assert re.match(rb"HTTP/1\.[01] 400 ", raw.recv(100))


def test_a_body_that_is_too_large_is_refused(client):
    assert client.send("POST", "/v1/chat/completions", b"x" * _BODY_MAX)[0] == 400
    assert client.send("POST", "/v1/chat/completions", b"x" * (_BODY_MAX + 1))[0] == 413


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300)
    | st.from_regex(rb"GET /healthz HTTP/1\.[01]\r\nHost: x\r\n[^\x00]{0,60}")
)
def test_any_bytes_are_answered_or_met_with_silence(server, data):
    parts = urlsplit(server.base_url)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        got = raw.recv(100)
    assert got == b"" or re.match(rb"HTTP/1\.[01] (?:100|200|400|404) ", got)


def test_a_port_that_is_taken_is_a_clear_error(server):
    port = urlsplit(server.base_url).port
    with pytest.raises(UsageError, match="choose another --port"), SimServer(port=port):
        pass


def test_the_openai_sdk_reads_its_answers(server):
    import openai

    async def run():
        async with openai.AsyncOpenAI(
            base_url=server.base_url, api_key="none", max_retries=0
        ) as client:
            completion = await client.chat.completions.create(**ASK, seed=0)
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(**{**ASK, "model": "gpt-9"})
            pieces = [
                chunk.choices[0].delta.content or ""
                async for chunk in await client.chat.completions.create(**ASK, seed=0, stream=True)
            ]
            return (
                completion.choices[0].message.content,
                "".join(pieces),
                [m.id async for m in client.models.list()],
            )

    whole, streamed, models = asyncio.run(run())
    assert whole == streamed
    assert models == ["clerk-1"]


def test_the_openai_sdk_reads_calls_of_tools_and_returns_results(server):
    import openai

    tool = {
        "type": "function",
        "function": {
            "name": "lookup_order",
            "parameters": {"properties": {"order_id": {"type": "integer"}}},
        },
    }
    messages = [{"role": "user", "content": "Where is my order? The order id is 4711."}]

    async def run():
        async with openai.AsyncOpenAI(
            base_url=server.base_url, api_key="none", max_retries=0
        ) as client:
            create = client.chat.completions.create
            first = await create(model="clerk-1", messages=messages, tools=[tool], seed=0)
            streamed = [
                call
                async for chunk in await create(
                    model="clerk-1", messages=messages, tools=[tool], seed=0, stream=True
                )
                for call in chunk.choices[0].delta.tool_calls or []
            ]
            turn = first.choices[0].message.model_dump(exclude_none=True)
            [call] = first.choices[0].message.tool_calls
            result = {"role": "tool", "tool_call_id": call.id, "content": '{"status": "lost"}'}
            second = await create(
                model="clerk-1", messages=[*messages, turn, result], tools=[tool], seed=0
            )
            return first.choices[0], streamed, second.choices[0]

    first, streamed, second = asyncio.run(run())
    [call] = first.message.tool_calls
    assert first.finish_reason == "tool_calls"
    assert json.loads(call.function.arguments) == {"order_id": 4711}
    assert [part.function.name for part in streamed] == ["lookup_order"]
    assert "lost" in second.message.content


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_what_it_serves_and_stops_on_ctrl_c(connect, as_json):
    code = "from regauge.cli.sim import command; command()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0", "--latency-ms", "1", *(["--json"] if as_json else [])],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
        assert url is not None
        assert connect(url[0]).ask()[0] == 200
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    assert process.returncode == 0
    assert err == ""
    if as_json:
        assert json.loads(line) == {"url": url[0], "model": "clerk-1", "simulated": True}
        counted = {"requests": 1, "statuses": {"200": 1}, "faults": {}, "in_flight_max": 1}
        assert json.loads(out) == counted
        return
    assert "not a language model" in out
    assert f'base_url = "{url[0]}"' in out
    assert "Stopped after 1 requests" in out


def test_the_command_explains_a_wrong_option():
    words = [sys.executable, "-m", "regauge", "sim", "--fault", "nap=0.1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: 'nap' is not a fault\n  fix: use an HTTP status")
