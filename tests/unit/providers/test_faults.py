"""Every way an endpoint can fail, over real HTTP: what is tried again, and what is said."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import socket
import time
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from regauge.errors import ProviderError
from regauge.project import EndpointSettings
from regauge.providers.embeddings import OpenAIEmbedder
from regauge.providers.remote import RemoteProvider


def error_of(talk) -> ProviderError:
    (error,) = talk.results
    assert isinstance(error, ProviderError), error
    return error


def refusal(message="no", code=None, param=None):
    return {"error": {"message": message, "type": "x", "code": code, "param": param}}


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
def test_a_passing_fault_is_tried_again(kit, status):
    talk = kit.talk([kit.Reply(status=status, document=refusal())])
    assert talk.completion.attempts == 2
    assert sum(talk.provider.calls.failures.values()) == 1
    assert talk.provider.calls.completed == 1


def test_a_dropped_connection_is_tried_again(kit):
    talk = kit.talk([kit.Reply(drop=True), kit.Reply(drop=True)])
    assert talk.completion.attempts == 3
    assert talk.provider.calls.failures == {"connection": 2}


def test_a_body_that_breaks_off_is_tried_again(kit):
    assert kit.talk([kit.Reply(cut=20)]).completion.attempts == 2


def test_json_that_breaks_off_is_tried_again(kit):
    talk = kit.talk([kit.Reply(raw=b'{"choices": [{"message": {"con')])
    assert talk.completion.attempts == 2
    assert talk.provider.calls.failures == {"malformed": 1}


def test_an_answer_without_choices_is_tried_again_and_then_malformed(kit):
    empty = kit.chat() | {"choices": []}
    assert kit.talk([kit.Reply(document=empty)]).completion.attempts == 2
    error = error_of(kit.talk([kit.Reply(document=empty)] * 2, max_attempts=2))
    assert (error.kind, error.attempts) == ("malformed", 2)


@pytest.mark.parametrize("body", [b"<!doctype html><p>Welcome", b"OK", b"[1]", b'"text"'])
def test_what_is_no_completion_is_malformed_at_once(kit, body):
    talk = kit.talk([kit.Reply(raw=body)], max_attempts=1)
    error = error_of(talk)
    assert error.kind == "malformed"
    assert talk.endpoint.base_url in str(error)


def test_a_web_page_points_at_the_base_url(kit):
    error = error_of(kit.talk([kit.Reply(raw=b"<html><title>nginx</title>")]))
    assert error.attempts == 1
    assert "web page" in str(error)
    assert "base_url" in str(error)


def test_an_error_under_status_200_is_read_as_an_error(kit):
    gateway = {"error": {"message": "upstream is overloaded", "code": 502}}
    talk = kit.talk([kit.Reply(document=gateway)])
    assert talk.completion.attempts == 2
    limited = {"error": {"message": "slow down", "code": 429}}
    assert kit.talk([kit.Reply(document=limited)]).provider.calls.failures == {"rate-limit": 1}


def test_a_slow_server_is_a_timeout(kit):
    began = time.perf_counter()
    talk = kit.talk([kit.Reply(wait_s=0.8)], timeout_s=0.1)
    assert talk.completion.attempts == 2
    assert talk.provider.calls.failures == {"timeout": 1}
    error = error_of(kit.talk([kit.Reply(wait_s=0.5)], timeout_s=0.1, max_attempts=1))
    assert error.kind == "timeout"
    assert time.perf_counter() - began < 30


def test_a_server_that_drips_meets_the_timeout_too():
    async def main():
        async def drip(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            try:
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = EndpointSettings(
            base_url=f"http://127.0.0.1:{port}/v1", timeout_s=0.3, max_attempts=1
        )
        provider = RemoteProvider(settings, name="local", environ={})
        try:
            with pytest.raises(ProviderError) as caught:
                await provider.complete(kit_ask())
            assert caught.value.kind == "timeout"
        finally:
            await provider.aclose()
            server.close()
            await asyncio.sleep(0.1)

    from regauge.prompts import Message
    from regauge.providers import CompletionRequest

    def kit_ask():
        message = Message(role="user", content="?")
        return CompletionRequest(model="m", provider="local", messages=(message,), parameters={})

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad-request"),
        (401, "authentication"),
        (402, "quota"),
        (403, "permission"),
        (404, "not-found"),
        (413, "bad-request"),
        (422, "bad-request"),
        (501, "bad-request"),
    ],
)
def test_a_lasting_fault_is_asked_once(kit, status, kind):
    talk = kit.talk([kit.Reply(status=status, document=refusal("because"))] * 2)
    error = error_of(talk)
    assert (error.kind, error.status, error.attempts) == (kind, status, 1)
    assert "because" in str(error)
    assert "\n  fix: " in str(error)
    assert len(talk.endpoint.bodies) == 1


def test_no_quota_left_is_not_a_rate_limit(kit):
    document = refusal("You exceeded your current quota", code="insufficient_quota")
    error = error_of(kit.talk([kit.Reply(status=429, document=document)]))
    assert (error.kind, error.attempts) == ("quota", 1)


@pytest.mark.parametrize(
    ("status", "error", "kind", "fix"),
    [
        (400, {"message": "API key not valid. Please pass a valid API key."}, "authentication", "MY_KEY"),
        (400, {"message": "API key expired. Please renew the API key."}, "authentication", "MY_KEY"),
        (400, {"message": "Incorrect API key provided: ab***"}, "authentication", "MY_KEY"),
        (400, {"message": "Your credit balance is too low to access the API."}, "quota", "add credit"),
        (400, {"message": "The schema 'billing' is invalid"}, "bad-request", "use another model"),
        (200, {"message": "policy", "code": "invalid_prompt"}, "bad-request", "use another model"),
    ],
)  # fmt: skip
def test_a_lasting_error_has_the_kind_and_the_fix_of_its_cause(kit, status, error, kind, fix):
    replies = [kit.Reply(status=status, document={"error": error})] * 2
    shown = error_of(kit.talk(replies, api_key_env="MY_KEY", environ={"MY_KEY": "a-key"}))
    assert (shown.kind, shown.attempts) == (kind, 1)
    assert fix in str(shown)


def test_a_body_in_another_encoding_is_not_called_truncated(kit):
    body = json.dumps(kit.chat("grün"), ensure_ascii=False).encode("latin-1")
    assert "is not UTF-8" in str(error_of(kit.talk([kit.Reply(raw=body)] * 2, max_attempts=2)))


def test_a_timeout_by_the_deadline_names_it(kit):
    error = error_of(kit.talk([kit.Reply(wait_s=0.5)] * 3, timeout_s=9, deadline_s=0.3))
    assert "deadline_s" in str(error)


@pytest.mark.parametrize("setting", [{"api_key_env": "MY_KEY"}, {"headers_env": {"x-a": "MY_KEY"}}])
@pytest.mark.parametrize("value", ["schlüssel-1", "sk-abc…", "one\nkey"])
def test_a_key_that_no_header_can_hold_is_named_and_nothing_is_sent(kit, setting, value):
    talk = kit.talk([], environ={"MY_KEY": value}, **setting)
    (error,) = talk.results
    assert isinstance(error, ProviderError)
    assert (error.kind, talk.endpoint.bodies) == ("authentication", [])
    assert "MY_KEY is not one line of ASCII text" in str(error)
    assert value not in str(error)


def test_a_refused_key_names_the_variable(kit):
    reply = kit.Reply(status=401, document=refusal("Incorrect API key"))
    error = error_of(kit.talk([reply], api_key_env="MY_KEY", environ={"MY_KEY": "wrong-key-1"}))
    assert "MY_KEY" in str(error)
    assert "wrong-key-1" not in str(error)


@pytest.mark.parametrize(
    ("parameters", "param", "message", "words"),
    [
        ({"temperature": 0}, "temperature", "Unsupported value: 'temperature'", "`temperature`"),
        ({"temperature": 0}, None, "'temperature' is not supported with this model", "`temperat"),
        ({"top_p": 1}, "top_p", "no", "`topP` (or top_p)"),
        ({}, "response_format", "Invalid schema", "responseFormat"),
        ({}, None, "`response_format` is unavailable", "responseFormat"),
    ],
)
def test_a_rejected_parameter_names_the_prompt_file_and_the_fix(
    kit, parameters, param, message, words
):
    reply = kit.Reply(status=400, document=refusal(message, param=param))
    error = error_of(kit.talk([reply], kit.ask(parameters=parameters)))
    assert error.kind == "bad-request"
    assert str(error).startswith("prompts/alert.prompt.yml: ")
    assert words in str(error).partition("fix:")[2]


def test_a_limit_rejected_under_both_names_names_the_prompt_file(kit):
    def script(_, body):
        used = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        return kit.Reply(status=400, document=refusal(f"{used} too large", param=used))

    talk = kit.talk(script, kit.ask(parameters={"max_tokens": 10**9}))
    assert len(talk.endpoint.bodies) == 2
    assert "`maxCompletionTokens` (or max_completion_tokens)" in str(error_of(talk))


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"<h1>Bad Gateway</h1>", b'{"detail": [1]}'])
def test_an_error_body_of_any_kind_is_no_crash(kit, body):
    error = error_of(kit.talk([kit.Reply(status=400, raw=body)]))
    assert error.kind == "bad-request"


def test_a_rate_limit_is_waited_out_for_as_long_as_it_says(kit):
    began = time.perf_counter()
    reply = kit.Reply(status=429, document=refusal(), headers={"Retry-After": "0.4"})
    talk = kit.talk([reply])
    assert talk.completion.attempts == 2
    assert time.perf_counter() - began >= 0.4
    assert talk.provider.calls.failures == {"rate-limit": 1}


def test_retry_after_may_be_a_date(kit):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    began = time.perf_counter()
    talk = kit.talk([kit.Reply(status=429, document=refusal(), headers={"Retry-After": soon})])
    assert talk.completion.attempts == 2
    assert time.perf_counter() - began >= 0.9


def test_a_wait_beyond_the_deadline_is_not_begun(kit):
    reply = kit.Reply(status=429, document=refusal("wait"), headers={"Retry-After": "90"})
    began = time.perf_counter()
    error = error_of(kit.talk([reply], deadline_s=60))
    assert (error.kind, error.attempts) == ("rate-limit", 1)
    assert time.perf_counter() - began < 45


def test_one_429_holds_back_its_own_request_alone(kit):
    times = {}

    def script(number, body):
        seed = body["seed"]
        times.setdefault(seed, []).append(time.perf_counter())
        if number == 0:
            return kit.Reply(status=429, document=refusal(), headers={"Retry-After": "1"})
        return kit.Reply()

    requests = [kit.ask(trial=n, parameters={"seed": n}) for n in range(6)]
    talk = kit.talk(script, *requests, concurrency=1)
    assert all(not isinstance(result, BaseException) for result in talk.results)
    refused = next(tries for tries in times.values() if len(tries) == 2)
    assert refused[1] - refused[0] >= 1
    assert all(tries[0] <= refused[1] for tries in times.values())


@pytest.mark.parametrize("value", ["1e99", "-5", "nan", "inf", "9" * 400, "Thu, 01 Jan 9999"])
def test_no_retry_after_makes_a_run_hang(kit, value):
    reply = kit.Reply(status=429, document=refusal("wait"), headers={"Retry-After": value})
    began = time.perf_counter()
    requests = [kit.ask(trial=n) for n in range(30)]
    talk = kit.talk(lambda *_: reply, *requests, deadline_s=2)
    assert {error.kind for error in talk.results} == {"rate-limit"}
    assert time.perf_counter() - began < 15


def test_a_fifth_of_429_loses_no_request(kit):
    def script(number, _):
        if number % 5 == 4:
            return kit.Reply(status=429, document=refusal(), headers={"Retry-After": "0.01"})
        return kit.Reply(wait_s=0.005)

    talk = kit.talk(script, *[kit.ask(trial=n) for n in range(200)], max_attempts=2)
    assert all(not isinstance(result, BaseException) for result in talk.results)
    assert talk.provider.calls.completed == 200


def test_a_server_that_is_down_fails_a_whole_run_soon_and_with_one_message(kit):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    async def main():
        provider = RemoteProvider(EndpointSettings(base_url=url), name="local", environ={})
        requests = [kit.ask(trial=n) for n in range(200)]
        results = await asyncio.gather(
            *[provider.complete(request) for request in requests], return_exceptions=True
        )
        await provider.aclose()
        return results

    began = time.perf_counter()
    errors = asyncio.run(main())
    assert time.perf_counter() - began < 15
    assert {(type(error).__mro__[1], error.kind) for error in errors} == {
        (ProviderError, "connection")
    }
    (message,) = {str(error) for error in errors}
    assert "cannot be reached" in message
    assert "base_url of provider 'local'" in message


def test_a_refused_key_fails_a_whole_run_at_once(kit):
    reply = kit.Reply(status=401, document=refusal("Incorrect API key"))
    requests = [kit.ask(trial=n) for n in range(100)]
    talk = kit.talk(lambda *_: reply, *requests, concurrency=4)
    assert {error.kind for error in talk.results} == {"authentication"}
    assert len(talk.endpoint.bodies) <= 8


def test_a_cancelled_request_gives_its_place_back(kit):
    async def main():
        async with kit.endpoint(lambda *_: kit.Reply(wait_s=0.2)) as served:
            settings = EndpointSettings(base_url=served.base_url)
            provider = RemoteProvider(settings, name="local", environ={}, concurrency=1)
            tasks = [asyncio.create_task(provider.complete(kit.ask(trial=n))) for n in range(3)]
            await asyncio.sleep(0.1)
            tasks[0].cancel()
            tasks[1].cancel()
            completion = await asyncio.wait_for(tasks[2], 5)
            await asyncio.gather(*tasks[:2], return_exceptions=True)
            await provider.aclose()
            return completion

    assert asyncio.run(main()).text == "yes"


def test_a_limit_per_minute_that_speaks_of_quota_is_no_exhausted_quota(kit):
    message = "You exceeded your current quota, please check your plan. Please retry in 0.1s."
    document = {"error": {"message": message, "code": 429, "status": "RESOURCE_EXHAUSTED"}}
    talk = kit.talk([kit.Reply(status=429, document=document)])
    assert talk.completion.attempts == 2


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_an_exhausted_quota_ends_a_whole_run_at_once(kit, code):
    document = {"error": {"message": "no", "type": code, "code": None}}
    reply = kit.Reply(status=429, document=document, headers={"Retry-After": "60"})
    talk = kit.talk(lambda *_: reply, *[kit.ask(trial=n) for n in range(100)], concurrency=4)
    assert {error.kind for error in talk.results} == {"quota"}
    assert len(talk.endpoint.bodies) <= 8


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "not HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "not valid HTTP: Bad status line"),
    "two lengths": (
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "not valid HTTP: Duplicate Content-Length",
    ),
    "a length too short": (HEAD + b'Content-Length: 1\r\n\r\n{"a": 1}', "not valid HTTP"),
    "a length too long": (HEAD + b"Content-Length: 50\r\n\r\n{}", "broke off its response"),
    "a header too long": (HEAD + b"X: " + b"x" * 60_000 + b"\r\n\r\n{}", "not valid HTTP"),
    "a chunk that stops": (CHUNKED + b"ff\r\n{", "broke off its response"),
    "a chunk without a size": (CHUNKED + b"zz\r\n{}\r\n", "not valid HTTP"),
    "no gzip": (
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        "cannot be decompressed",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_response_is_tried_again_and_named_in_one_sentence(kit, name):
    wire, words = BROKEN[name]
    assert kit.talk([kit.Reply(wire=wire)]).completion.attempts == 2
    error = error_of(kit.talk([kit.Reply(wire=wire)] * 2, max_attempts=2))
    assert (error.kind, error.attempts) == ("connection", 2)
    what, fix = str(error).split("\n")
    assert words in what
    assert "base_url of provider 'local'" in fix


def test_a_compressed_answer_is_read(kit):
    body = gzip.compress(json.dumps(kit.chat()).encode())
    assert kit.talk([kit.Reply(raw=body, headers={"content-encoding": "gzip"})]).completion.text


@functools.cache
@functools.cache
def _bomb(encoding: str) -> bytes:
    """More than 64 MiB, compressed as its `Content-Encoding` names it."""
    large = bytes(65 * 2**20)
    for name in encoding.split(", "):
        match name:
            case "gzip":
                large = gzip.compress(large, 1)
            case "deflate":
                large = zlib.compress(large, 1)
    return large


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip", "gzip, deflate", "identity"])
def test_a_response_that_is_too_large_is_refused_once(kit, encoding, status):
    reply = kit.Reply(status=status, raw=_bomb(encoding), headers={"content-encoding": encoding})
    talk = kit.talk(lambda *_: reply)
    error = error_of(talk)
    assert (error.kind, len(talk.endpoint.bodies)) == ("malformed", 1)
    assert "sent a response that is too large: more than 64 MiB, decompressed" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_named_and_never_followed(kit, status):
    """The key and the messages are for the configured host only."""
    talk = kit.talk(
        lambda *_: kit.Reply(status=status, headers={"Location": "/elsewhere"}, raw=b""),
        environ={"KEY": "value"},
        api_key_env="KEY",
    )
    error = error_of(talk)
    assert len(talk.endpoint.bodies) == 1
    assert f"returned {status}" in str(error)
    assert "base_url of provider 'local'; the server redirects to /elsewhere" in str(error)


@pytest.mark.parametrize(
    ("value", "least_s"),
    [("0.3", 0.3), ("300ms", 0.3), ("0.3s", 0.3), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("-3", 0)],
)
def test_retry_after_may_be_a_duration_or_over(kit, value, least_s):
    began = time.perf_counter()
    talk = kit.talk([kit.Reply(status=429, document=refusal(), headers={"Retry-After": value})])
    assert talk.completion.attempts == 2
    assert time.perf_counter() - began >= least_s


def test_retry_after_in_milliseconds_is_not_taken_for_none(kit):
    reply = kit.Reply(status=429, document=refusal(), headers={"Retry-After": "60000ms"})
    error = error_of(kit.talk([reply], deadline_s=5))
    assert (error.kind, error.attempts) == ("rate-limit", 1)


@pytest.mark.parametrize(
    "choice",
    [
        None,
        "yes",
        {"finish_reason": "stop"},
        {"message": None, "finish_reason": "stop"},
        {"message": "yes", "finish_reason": "stop"},
        {"message": {"content": None, "tool_calls": 5}, "finish_reason": "stop"},
        {"message": {"content": None, "refusal": 5}, "finish_reason": "stop"},
    ],
)
def test_a_choice_without_a_message_is_no_empty_answer(kit, choice):
    """An empty text would pass many a judge."""
    reply = kit.Reply(document=kit.chat() | {"choices": [choice]})
    error = error_of(kit.talk([reply] * 2, max_attempts=2))
    assert (error.kind, error.attempts) == ("malformed", 2)
    assert "without a message" in str(error)


@pytest.mark.parametrize(
    ("error", "kind", "attempts"),
    [
        ({"message": "upstream died", "code": 502}, "server", 2),
        ({"message": "slow down", "type": "rate_limit_error"}, "rate-limit", 2),
        ({"message": "bad key", "code": 401}, "authentication", 1),
        ({"message": "no", "code": "insufficient_quota"}, "quota", 1),
    ],
)
@pytest.mark.parametrize("place", ["body", "choice", "list"])
def test_an_error_under_status_200_is_never_an_answer(kit, error, kind, attempts, place):
    documents = {
        "body": {"error": error},
        "choice": kit.chat() | {"choices": [{"error": error, "message": {"content": ""}}]},
        "list": [{"error": error}],
    }
    talk = kit.talk([kit.Reply(document=documents[place])])
    assert talk.provider.calls.failures == {kind: 1}
    (result,) = talk.results
    assert result.attempts == attempts
    assert isinstance(result, ProviderError) == (attempts == 1)


@pytest.mark.parametrize("body", [b"", b" ", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_a_body_that_cannot_be_read_is_named(kit, body):
    error = error_of(kit.talk([kit.Reply(raw=body)] * 2, max_attempts=2))
    assert error.kind == "malformed"
    assert "\n" not in str(error)
    assert "empty body" in str(error) or "JSON that cannot be read" in str(error)


def test_a_connection_reset_between_requests_costs_nothing(kit):
    async def main():
        async with kit.endpoint(lambda *_: kit.Reply()) as served:
            settings = EndpointSettings(base_url=served.base_url)
            provider = RemoteProvider(settings, name="local", environ={})
            texts = []
            for number in range(3):
                texts.append((await provider.complete(kit.ask(trial=number))).text)
                served.reset()
                await asyncio.sleep(0.02)
            await provider.aclose()
            return texts, len(served.bodies)

    assert asyncio.run(main()) == (["yes"] * 3, 3)


_VECTOR = b'{"data":[{"index":0,"embedding":[%b]}]}'
_NO_VECTORS = {
    "not HTTP": ({"wire": b"SSH-2.0-OpenSSH_9.6\r\n"}, "not valid HTTP"),
    "too large": ({"headers": {"content-encoding": "gzip"}}, "more than 64 MiB"),
    "too deep": ({"raw": b"[" * 200_000}, "gave no vectors"),
    "an integer that is no float": ({"raw": _VECTOR % (b"1" + b"0" * 400)}, "gave no vectors"),
    "NaN": ({"raw": _VECTOR % b"NaN"}, "broken ones"),
    "an error with 200": ({"document": {"error": {"message": "x"}}}, "without vectors"),
}


@pytest.mark.parametrize("name", _NO_VECTORS)
def test_vectors_that_cannot_be_read_are_an_error_of_the_provider(kit, name):
    reply, words = _NO_VECTORS[name]
    if name == "too large":
        reply |= {"raw": _bomb("gzip")}

    async def main():
        async with kit.endpoint(lambda *_: kit.Reply(**reply)) as served:
            settings = EndpointSettings(base_url=served.base_url, max_attempts=2)
            embedder = OpenAIEmbedder(settings, name="local", model="e", environ={})
            try:
                await embedder.embed(["x"])
            finally:
                await embedder.aclose()

    with pytest.raises(ProviderError, match=words):
        asyncio.run(main())


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 400},
        {"status": 401},
        {"status": 302, "headers": {"location": "http://127.0.0.1:9/"}},
        {"status": 500, "raw": b"oops"},
        {"raw": b"not json"},
        {"raw": b"not gzip", "headers": {"content-encoding": "gzip"}},
        {"raw": gzip.compress(bytes(70_000_000)), "headers": {"content-encoding": "gzip"}},
        {"cut": 10},
        {"drop": True},
        {"wire": b"SSH-2.0-x\r\n\r\n"},
    ],
    ids=lambda fault: ",".join(map(str, fault)) + str(fault.get("status", "")),
)
def test_a_later_request_fails_like_the_first(kit, fault):
    """Only the first goes through all of the SDK."""

    async def errors(*replies):
        async with kit.endpoint([*replies, kit.Reply(**fault)]) as served:
            settings = EndpointSettings(base_url=served.base_url, max_attempts=1)
            provider = RemoteProvider(settings, name="local", environ={})
            for _ in replies:
                await provider.complete(kit.ask())
            with pytest.raises(ProviderError) as caught:
                await provider.complete(kit.ask())
            await provider.aclose()
            return [type(caught.value).__name__, caught.value.kind, *str(caught.value).split()]

    def words(*replies):
        return [word for word in asyncio.run(errors(*replies)) if "127.0.0.1" not in word]

    assert words(kit.Reply()) == words()


def test_a_later_answer_is_decompressed(kit):
    packed = kit.Reply(
        raw=gzip.compress(json.dumps(kit.chat("packed")).encode()),
        headers={"content-encoding": "gzip"},
    )

    async def texts():
        async with kit.endpoint([kit.Reply(), packed]) as served:
            settings = EndpointSettings(base_url=served.base_url)
            provider = RemoteProvider(settings, name="local", environ={})
            answers = [await provider.complete(kit.ask()) for _ in range(2)]
            await provider.aclose()
            return [answer.text for answer in answers]

    assert asyncio.run(texts()) == ["yes", "packed"]
