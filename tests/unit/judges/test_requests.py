"""Requests of judges and targets to services: their headers, and what each response becomes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import ProviderError
from regauge.judges.external_calls import OUTPUT_MAX, _ExternalCalls, build_headers, send
from regauge.prompts import Message
from regauge.providers import CompletionRequest, Usage
from regauge.providers._failure import AttemptError
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

REQUEST = CompletionRequest(
    provider="http", model="judge", messages=(Message(role="user", content="x"),), parameters={}
)


def test_headers_have_the_values_of_their_variables():
    variables = {"Authorization": "TOKEN", "X-Team": "TEAM"}
    values = {"TOKEN": "Bearer abc ~", "TEAM": "", "OTHER": "x"}
    assert build_headers(variables, values) == {"Authorization": "Bearer abc ~", "X-Team": ""}
    assert build_headers({}, values) == {}


@pytest.mark.parametrize("value", ["Zoë", "two\nlines", "a\tb", "\x7f", "a\u2028b"])
def test_a_value_that_is_no_line_of_ascii_text_is_an_error_without_it(value: str):
    with pytest.raises(
        ProviderError, match=r"value of \$TEAM cannot be sent as the header"
    ) as caught:
        build_headers({"Authorization": "TOKEN", "X-Team": "TEAM"}, {"TOKEN": "a", "TEAM": value})
    assert caught.value.kind == "bad-request"
    assert value not in str(caught.value)


class Service(JsonHandler):
    """Answers `/STATUS` with this status, and keeps the headers of the last request."""

    last: dict[str, str]

    def answer(self) -> None:
        Service.last = {name.lower(): value for name, value in self.headers.items()}
        self.given()
        status, _, end = self.path[1:].partition("/")
        if end == "early":
            self.send_response(int(status))
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{")
            return
        headers = {"Location": "/200"} if end == "away" else {"Retry-After": "7"}
        self.say(b"a body of text", status=int(status), headers=headers)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Served(Service) as served:
        yield served.address


def sent(
    url: str, body: bytes | None = b"{}", accepted: Container[int] = range(200, 300), **headers: str
) -> bytes:
    return asyncio.run(
        send("POST", url, body=body, headers=headers, timeout_s=5, output_max=99, accepted=accepted)
    )


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"{}", {}, {"content-type": "application/json"}),
        (None, {}, {"content-type": None}),
        (b"{}", {"Content-Type": "text/plain"}, {"content-type": "text/plain"}),
        (b"{}", {"User-Agent": "own/1", "Accept": "*/*"}, {"user-agent": "own/1", "accept": "*/*"}),
    ],
)
def test_a_request_names_regauge_and_the_types_unless_its_headers_do(
    address: str, body: bytes | None, headers: dict[str, str], expected: dict[str, str | None]
):
    assert sent(f"{address}/200", body, **headers) == b"a body of text"
    usual = {"user-agent": "regauge", "accept": "application/json, text/plain"}
    expected = {**usual, **expected}
    assert {name: Service.last.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "kind", "transient", "fix"),
    [
        (400, "bad-request", False, "make the service accept this JSON document"),
        (401, "bad-request", False, "name the variable with the credentials in `headers`"),
        (403, "bad-request", False, "check the credentials"),
        (404, "bad-request", False, "check the address"),
        (405, "bad-request", False, "set `method`"),
        (408, "server", True, "raise timeout_s"),
        (422, "bad-request", False, "make the service accept this JSON document"),
        (429, "rate-limit", True, "lower --concurrency"),
        (500, "server", True, ""),
        (503, "server", True, ""),
    ],
)
def test_a_refused_request_is_repeated_where_it_may_succeed_later(
    address: str, *, status: int, kind: str, transient: bool, fix: str
):
    with pytest.raises(AttemptError) as caught:
        sent(f"{address}/{status}")
    error = caught.value
    assert (error.kind, error.status, error.transient) == (kind, status, transient)
    assert error.retry_after_s == 7
    text, _, rest = str(error).partition("\n  fix: ")
    assert text.endswith(f"POST {address}/{status}: status {status}: a body of text")
    assert rest.startswith(fix)
    assert bool(rest) == bool(fix)


@pytest.mark.parametrize(
    ("path", "accepted", "problem", "kind", "transient"),
    [
        ("302/away", {200}, "redirects are not followed, this one goes to /200", "redirect", False),
        ("302", {200}, "redirects are not followed, this one goes to elsewhere", "redirect", False),
        ("300/away", {200}, "redirects are not followed", "redirect", False),
        ("399/away", {200}, "redirects are not followed", "redirect", False),
        ("200/early", {200}, "the response ended early", "connection", True),
        ("200", {201}, "status 200, which `status` does not name", "server", False),
    ],
)
def test_a_response_that_is_not_the_expected_one_is_an_error(
    address: str, *, path: str, accepted: Container[int], problem: str, kind: str, transient: bool
):
    with pytest.raises(AttemptError, match=f"{path}: (status [0-9]+: )?{problem}") as caught:
        sent(f"{address}/{path}", accepted=accepted)
    assert (caught.value.kind, caught.value.transient) == (kind, transient)


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_an_accepted_status_is_no_error(address: str, status: int):
    assert sent(f"{address}/{status}", accepted={status}) == b"a body of text"


@pytest.mark.parametrize(("limit", "size"), [(5, 6), (13, 14), (14, 14), (99, 14)])
def test_a_body_is_read_up_to_one_byte_more_than_its_limit(address: str, limit: int, size: int):
    call: Any = send("GET", f"{address}/200", body=None, headers={}, timeout_s=5, output_max=limit)
    assert min(len(asyncio.run(call)), limit + 1) == size


def test_a_service_that_is_down_may_come_back():
    with Served(Service) as served:
        url = f"{served.address}/200"
    with pytest.raises(
        AttemptError, match=r"no connection: .*\n  fix: start the service"
    ) as caught:
        sent(url)
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


class _Calls(_ExternalCalls):
    """The shared part alone."""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"pass", "pass"),
        (b" \n pass \n", "pass"),
        (b"\xef\xbb\xbfpass", "pass"),
        ("tschüß".encode(), "tschüß"),
        (b"the key is hunter22", "the key is [removed]"),
        (b"x" * OUTPUT_MAX, "x" * OUTPUT_MAX),
    ],
)
def test_a_response_is_a_completion_without_secrets(body: bytes, text: str):
    calls = _Calls(timeout_s=1, check=lambda _: None)
    completion = calls._completion(REQUEST, body, ["hunter22"], began=time.monotonic() - 7)
    assert completion.text == text
    assert 7 <= completion.latency_s < 60
    assert (completion.model, completion.provider, completion.cost_usd) == ("judge", "http", 0.0)
    assert (completion.finish_reason, completion.usage) == ("stop", Usage())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            b"x" * (OUTPUT_MAX + 1),
            "the response is longer than 1,000,000 bytes\n  fix: respond with",
        ),
        (b"\xff", "the response is not UTF-8: "),
        (b"no verdict in hunter22", "no verdict in '[removed]'"),
    ],
)
def test_a_response_without_a_verdict_is_malformed(body: bytes, problem: str):
    def check(text: str) -> None:
        raise ValueError(f"no verdict in {'hunter22'!r} of {text}")

    calls = _Calls(timeout_s=1, check=check)
    with pytest.raises(ProviderError) as caught:
        calls._completion(REQUEST, body, ["hunter22"], began=time.monotonic())
    assert str(caught.value).startswith(problem)
    assert caught.value.kind == "malformed"
    assert "hunter22" not in str(caught.value)
