"""Providers that misbehave: each case without a result has one sentence with its cause.

An answer that arrived is neither lost nor requested again. `unmeasured` states how many cases may
be left: none where waiting or trying again helps, all where it cannot.
"""

from __future__ import annotations

import gzip
import json
import random
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, Literal

from ._project import Project, stub_project
from ._stub import Reply, Request, Stub, completion, stub
from ._try import Drill, Try

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PROVIDERS"]

Behaviour = Callable[[Request], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scenario:
    """How an endpoint fails.

    Attributes:
        behave: Makes a behaviour with a state of its own.
        code: The exit code where it is not 0 or 1.
        away_s: Seconds for which the endpoint is away, once half of the cases are answered.
    """

    behave: Callable[[], Behaviour] = field(default=lambda: _fine)
    unmeasured: Literal["none", "some", "all"] = "none"
    cases: int = 40
    provider: str = ""
    base_url: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])
    away_s: float = 0.0
    code: int | None = None
    said: str = ""


def _fine(request: Request) -> Reply:
    return Reply(body=completion(f"case {request.case}: fine"), delay_s=0.05)


def _error(
    status: int, message: str = "no", *, code: str = "bad", headers: dict[str, str] | None = None
) -> Reply:
    body = json.dumps({"error": {"message": message, "code": code, "type": code}}).encode()
    return Reply(body=body, status=status, headers=tuple((headers or {}).items()), delay_s=0.02)


def _of(body: bytes, **more: object) -> Callable[[], Behaviour]:
    reply = Reply(body=body, good=False, **more)  # type: ignore[arg-type]
    return lambda: lambda _: reply


def _always(reply: Reply) -> Callable[[], Behaviour]:
    return lambda: lambda _: reply


def _sometimes(share: float, reply: Callable[[Request], Reply]) -> Callable[[], Behaviour]:
    def make() -> Behaviour:
        chance = random.Random(1)
        return lambda request: reply(request) if chance.random() < share else _fine(request)

    return make


def _first(reply: Reply) -> Callable[[], Behaviour]:
    """Each request is answered badly once, and well when it comes again."""
    return lambda: lambda request: _fine(request) if request.before else reply


def _bucket(rate: float, burst: float, *, retry_after: bool) -> Callable[[], Behaviour]:
    def make() -> Behaviour:
        left, at = burst, time.monotonic()
        headers = {"Retry-After": "1"} if retry_after else None

        def behave(request: Request) -> Reply:
            nonlocal left, at
            now = time.monotonic()
            left, at = min(burst, left + (now - at) * rate), now
            if left < 1:
                return _error(
                    429, "Rate limit reached", code="rate_limit_exceeded", headers=headers
                )
            left -= 1
            return _fine(request)

        return behave

    return make


def _quota(reset: str) -> Reply:
    """A good completion with headers of a quota of which nothing is left."""
    names = ("limit", "remaining", "reset")
    values = zip(names, ("1000", "0", reset), strict=True)
    headers = tuple((f"x-ratelimit-{name}-requests", value) for name, value in values)
    return Reply(body=completion("fine"), delay_s=0.02, headers=headers)


def _whole(**more: object) -> bytes:
    return completion("fine", **more)


def _broken(_: Request) -> Reply:
    return Reply(body=completion("fine")[:-20], good=False)


def _dropped(_: Request) -> Reply:
    return Reply(body=b"", drop=True)


def _four(request: Request) -> Reply:
    return (_error(429), _error(500), _dropped(request), _broken(request))[request.number % 4]


_SHORT = "max_attempts = 3\ndeadline_s = 8\ntimeout_s = 2"
_CHOICE = {"index": 0, "finish_reason": "stop"}

_SCENARIOS: dict[str, _Scenario] = {
    "no fault": _Scenario(),
    "20 % 429": _Scenario(behave=_sometimes(0.2, lambda _: _error(429))),
    "20 % 429, Retry-After 0": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"Retry-After": "0"}))
    ),
    "20 % 429, Retry-After 1": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"Retry-After": "1"}))
    ),
    "429 with a date": _Scenario(
        behave=_sometimes(
            0.1, lambda _: _error(429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
        )
    ),
    "429 with a strange Retry-After": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"Retry-After": "-5 soon"}))
    ),
    "429 with an hour of Retry-After": _Scenario(
        behave=_always(_error(429, headers={"Retry-After": "3600"})),
        unmeasured="all",
        provider=_SHORT,
    ),
    "429 always": _Scenario(behave=_always(_error(429)), unmeasured="all", provider=_SHORT),
    "no quota left": _Scenario(
        behave=_always(_error(429, "You exceeded your quota", code="insufficient_quota")),
        unmeasured="all",
        said="quota",
    ),
    "10 % 500": _Scenario(behave=_sometimes(0.1, lambda _: _error(500))),
    "10 % 503 with HTML": _Scenario(
        behave=_sometimes(0.1, lambda _: Reply(body=b"<html>Bad gateway</html>", status=503))
    ),
    "500 always": _Scenario(behave=_always(_error(500)), unmeasured="all", provider=_SHORT),
    "408 and 409 once": _Scenario(behave=_first(_error(408))),
    "5 % dropped": _Scenario(behave=_sometimes(0.05, _dropped)),
    "all dropped": _Scenario(
        behave=_always(Reply(body=b"", drop=True)), unmeasured="all", provider=_SHORT
    ),
    "5 % broken JSON": _Scenario(behave=_sometimes(0.05, _broken)),
    "body cut off once": _Scenario(behave=_first(Reply(body=_whole(), sent=60, good=False))),
    "four faults at once": _Scenario(behave=_sometimes(0.2, _four)),
    "some hang": _Scenario(
        behave=_sometimes(0.1, lambda _: Reply(body=_whole(), delay_s=30, good=False)),
        provider="timeout_s = 2",
    ),
    "drip over 2 s": _Scenario(
        behave=_always(Reply(body=completion("fine"), drip_s=2)), provider="timeout_s = 20"
    ),
    "drip over 8 s, timeout 2 s": _Scenario(
        behave=_of(completion("fine"), drip_s=8), unmeasured="all", provider=_SHORT, cases=12
    ),
    "away for 5 s": _Scenario(away_s=5, cases=200),
    "away for 20 s": _Scenario(away_s=20, cases=200),
    "nothing at the address": _Scenario(
        base_url="http://127.0.0.1:9/v1", unmeasured="all", said="127.0.0.1:9"
    ),
    "no such host": _Scenario(
        base_url="http://drill.invalid/v1", unmeasured="all", said="drill.invalid"
    ),
    "TLS to a server without it": _Scenario(base_url="https", unmeasured="all", said="TLS"),
    "SSL_CERT_FILE that is missing": _Scenario(
        environ={"SSL_CERT_FILE": "/nonexistent/ca.pem"}, unmeasured="all", said="SSL_CERT_FILE"
    ),
    "credentials in base_url": _Scenario(
        base_url="http://user:password@127.0.0.1:9/v1", code=2, unmeasured="all"
    ),
    "bucket of 20/s": _Scenario(behave=_bucket(20, 5, retry_after=False), cases=100),
    "bucket of 20/s, Retry-After 1": _Scenario(behave=_bucket(20, 5, retry_after=True), cases=100),
    "bucket of 4/s": _Scenario(behave=_bucket(4, 4, retry_after=False), cases=40),
    "401": _Scenario(behave=_always(_error(401)), unmeasured="all", said="key"),
    "403": _Scenario(behave=_always(_error(403)), unmeasured="all"),
    "404 for the model": _Scenario(
        behave=_always(_error(404, "The model m-1 does not exist", code="model_not_found")),
        unmeasured="all",
        said="m-1",
    ),
    "400 for some": _Scenario(
        behave=lambda: (
            lambda request: (
                _error(400, "too long", code="context_length_exceeded")
                if request.case % 5 == 0
                else _fine(request)
            )
        ),
        unmeasured="some",
        said="too long",
    ),
    "302": _Scenario(
        behave=_always(Reply(body=b"", status=302, headers=(("Location", "/v1/elsewhere"),))),
        unmeasured="all",
        provider=_SHORT,
    ),
    "HTML with 200": _Scenario(
        behave=_of(b"<html>Sign in to the guest network</html>"),
        unmeasured="all",
        provider=_SHORT,
    ),
    "an error with 200": _Scenario(
        behave=_of(b'{"error": {"message": "overloaded"}}'), unmeasured="all", provider=_SHORT
    ),
    "an empty body": _Scenario(behave=_of(b""), unmeasured="all", provider=_SHORT),
    "null": _Scenario(behave=_of(b"null"), unmeasured="all", provider=_SHORT),
    "a list": _Scenario(behave=_of(b"[1, 2]"), unmeasured="all", provider=_SHORT),
    "JSON that is too deep": _Scenario(
        behave=_of(b"[" * 100_000), unmeasured="all", provider=_SHORT, cases=5
    ),
    "no choices": _Scenario(behave=_of(_whole(choices=[])), unmeasured="all", provider=_SHORT),
    "choices of null": _Scenario(
        behave=_of(_whole(choices=None)), unmeasured="all", provider=_SHORT
    ),
    "a choice without a message": _Scenario(
        behave=_of(_whole(choices=[_CHOICE])), unmeasured="all", provider=_SHORT
    ),
    "a message that is a text": _Scenario(
        behave=_of(_whole(choices=[{**_CHOICE, "message": "fine"}])),
        unmeasured="all",
        provider=_SHORT,
    ),
    "bytes that are no UTF-8": _Scenario(
        behave=_of(completion("fine").replace(b"fine", b"\xff\xfe")),
        unmeasured="all",
        provider=_SHORT,
    ),
    "a wrong encoding": _Scenario(
        behave=_of(completion("fine"), headers=(("Content-Encoding", "gzip"),)),
        unmeasured="all",
        provider=_SHORT,
    ),
    "usage of null": _Scenario(behave=_always(Reply(body=_whole(usage=None)))),
    "usage of texts": _Scenario(
        behave=_always(Reply(body=_whole(usage={"prompt_tokens": "x"}), good=False)),
        unmeasured="some",
        provider=_SHORT,
    ),
    "negative usage": _Scenario(
        behave=_always(Reply(body=_whole(usage={"prompt_tokens": -5, "completion_tokens": -1}))),
        unmeasured="some",
        provider=_SHORT,
    ),
    "a header of 60 kB": _Scenario(
        behave=_of(_whole(), headers=(("X-Long", "x" * 60_000),)),
        unmeasured="some",
        provider=_SHORT,
    ),
    "a choice that is an error": _Scenario(
        behave=_of(
            _whole(choices=[{"error": {"message": "upstream died"}, "message": {"content": ""}}])
        ),
        unmeasured="all",
        provider=_SHORT,
        said="upstream died",
    ),
    "tool calls that are a number": _Scenario(
        behave=_of(_whole(choices=[{**_CHOICE, "message": {"content": None, "tool_calls": 5}}])),
        unmeasured="all",
        provider=_SHORT,
    ),
    "529 once": _Scenario(behave=_first(_error(529, "overloaded"))),
    "429 with a duration": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"Retry-After": "300ms"}))
    ),
    "a redirect to itself": _Scenario(
        behave=_always(_error(307, headers={"Location": "/v1/chat/completions"})),
        unmeasured="all",
        said="redirects to",
    ),
    "two lengths": _Scenario(
        behave=_of(_whole(), headers=(("Content-Length", "5"),)),
        unmeasured="all",
        provider=_SHORT,
        said="not valid HTTP",
    ),
    "a response that is not HTTP once": _Scenario(
        behave=_first(Reply(body=b"", headers=((" ", " "),), good=False))
    ),
    "usage that is infinite": _Scenario(
        behave=_always(Reply(body=_whole(usage={"prompt_tokens": float("inf")})))
    ),
    "429 until a date in a second": _Scenario(
        behave=_sometimes(
            0.2,
            lambda _: _error(
                429, headers={"Retry-After": formatdate(time.time() + 1, usegmt=True)}
            ),
        )
    ),
    "429 with retry-after-ms": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"retry-after-ms": "200"}))
    ),
    "429 with a negative retry-after-ms": _Scenario(
        behave=_sometimes(0.2, lambda _: _error(429, headers={"retry-after-ms": "-5"}))
    ),
    "429 with retry-after-ms that is no number": _Scenario(
        behave=_sometimes(
            0.2, lambda _: _error(429, headers={"retry-after-ms": "soon", "Retry-After": "1"})
        )
    ),
    "429 with an endless Retry-After for some": _Scenario(
        behave=_sometimes(0.1, lambda _: _error(429, headers={"Retry-After": "9" * 30})),
        unmeasured="some",
    ),
    "429 with a completion in its body": _Scenario(
        behave=_sometimes(0.2, lambda _: Reply(body=_whole(), status=429, good=False))
    ),
    "a rate limit under 200": _Scenario(
        behave=_sometimes(
            0.2,
            lambda _: Reply(
                body=b'{"error": {"message": "Rate limit", "code": "rate_limit_exceeded"}}',
                good=False,
            ),
        )
    ),
    **{
        f"a quota that is reset in {reset!r}": _Scenario(behave=_always(_quota(reset)))
        for reset in ("1ms", "500us", "PT1S", "-1s", "0", "NaN", "1e3", "4102444800")
    },
    "a gzip bomb": _Scenario(
        behave=_of(gzip.compress(bytes(2**27)), headers=(("Content-Encoding", "gzip"),)),
        unmeasured="all",
        cases=8,
        said="more than 64 MiB",
    ),
    "a deflate bomb with 400": _Scenario(
        behave=_always(
            Reply(
                body=zlib.compress(bytes(2**27)),
                status=400,
                headers=(("Content-Encoding", "deflate"),),
            )
        ),
        unmeasured="all",
        cases=8,
        said="more than 64 MiB",
    ),
    "more than JSON": _Scenario(behave=_of(_whole() + b"x"), unmeasured="all", provider=_SHORT),
    "a stream of events": _Scenario(
        behave=_of(b"data: {}\n\ndata: [DONE]\n\n"), unmeasured="all", provider=_SHORT
    ),
    "204": _Scenario(
        behave=_always(Reply(body=b"", status=204)), unmeasured="all", provider=_SHORT
    ),
    "a number of 6,000 digits": _Scenario(
        behave=_of(_whole().replace(b'"created": 1', b'"created": ' + b"9" * 6000)),
        unmeasured="all",
        provider=_SHORT,
    ),
    "a redirect to no address": _Scenario(
        behave=_always(_error(302, headers={"Location": "http://["})), unmeasured="all"
    ),
    "an error that is a list in a list": _Scenario(
        behave=_always(Reply(body=b"[" * 100_000, status=400)), unmeasured="all", cases=5
    ),
    "an error of 1 MB": _Scenario(
        behave=_always(_error(400, "x" * 1_000_000)), unmeasured="all", cases=5
    ),
}


def _tries(_: Path) -> Iterator[Try]:
    for name, scenario in _SCENARIOS.items():
        yield Try(name=name, failure=partial(_unexplained, scenario))


def _unexplained(scenario: _Scenario, root: Path) -> str:
    with stub() as server:
        behave = scenario.behave()
        server.behave = _leaving(server, behave, scenario) if scenario.away_s else behave
        base_url = scenario.base_url or server.base_url
        if base_url == "https":
            base_url = server.base_url.replace("http", "https")
        project = stub_project(
            root,
            base_url,
            inputs=["x"] * scenario.cases,
            judges="lambda output, case: True",
            provider=scenario.provider,
        )
        project.environ.update(scenario.environ)
        ended = project.pytest("evals", "-q", "--concurrency", "16")
        if "Traceback (most recent call last)" in ended.text or "INTERNALERROR" in ended.text:
            return f"traceback: {ended.tail(2)}"
        if scenario.code is not None:
            return "" if ended.code == scenario.code else f"exit code {ended.code}"
        if scenario.said not in ended.text:
            return f"{scenario.said!r} is not named: {ended.tail(3)}"
        if server.paid_twice():
            return f"{server.paid_twice()} answers paid twice"
        return _rows(project, scenario, ended.code) or _lost(project, server)


def _leaving(server: Stub, behave: Behaviour, scenario: _Scenario) -> Behaviour:
    left = False

    def until_half(request: Request) -> Reply:
        nonlocal left
        if not left and request.number >= scenario.cases // 2:
            left = True
            server.down_for(scenario.away_s)
        return behave(request)

    return until_half


def _rows(project: Project, scenario: _Scenario, code: int) -> str:
    rows = project.last_rows()
    if len(rows) != scenario.cases:
        return f"{len(rows)} rows of {scenario.cases} cases"
    without = [row for row in rows if row["outcome"] not in {"passed", "failed"}]
    for row in without:
        cause = row["cause"]
        message = str(cause.get("message", "")) if isinstance(cause, dict) else str(cause or "")
        if len(message.split()) < 4 or len(message) > 2000:
            return f"{row['case']} is unmeasured and its cause is {message[:300]!r}"
    if code != (1 if without else 0):
        return f"exit code {code} with {len(without)} cases unmeasured"
    count = len(without)
    fits = {"none": count == 0, "some": count <= len(rows), "all": count == len(rows)}
    return "" if fits[scenario.unmeasured] else f"{count} of {len(rows)} cases unmeasured"


def _lost(project: Project, server: Stub) -> str:
    """Each good answer is in the recordings."""
    path = project.root / "fixtures" / "recordings" / "notes.jsonl"
    recorded = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
    good = len(server.answered())
    return f"{good} good answers, {recorded} recorded" if recorded < good else ""


PROVIDERS = Drill(
    name="providers",
    about="misbehaving providers that left a case without a cause, lost or paid twice",
    tries=_tries,
    quick=8,
)
