"""Faults that the server injects on purpose, and its rate limit."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from regauge.errors import ProviderError, UsageError
from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.sim._answer import BadParameterError, answer, read_parameters
from regauge.sim._rules import CLERK_1, Rules
from regauge.sim._text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from regauge.prompts import Role
    from regauge.providers import Completion, Usage

__all__ = [
    "Counters",
    "FaultPlan",
    "RateLimit",
    "SimServer",
    "SimServerOptions",
    "parse_faults",
    "parse_rate",
    "serve",
]

Fault = int | Literal["drop", "truncate", "timeout"]

_NAMED: Final[Mapping[str, Literal["drop", "truncate", "timeout"]]] = {
    "drop": "drop",
    "truncate": "truncate",
    "timeout": "timeout",
}
_STATUSES: Final = range(400, 600)
_RATE: Final = re.compile(r"(?P<count>\d+)\s*/\s*(?P<unit>s|m|min|h)")
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Which share of the requests fails in which way, decided by seed and request number.

    Attributes:
        shares: Pairs of a fault and its share, from 0 to 1; together at most 1.
        seed: Another seed fails other requests.
    """

    shares: tuple[tuple[Fault, float], ...] = ()
    seed: int = 0

    def decide(self, number: int) -> Fault | None:
        """What goes wrong with the request of this number, if anything."""
        if not self.shares:
            return None
        digest = hashlib.blake2b(f"{self.seed}:{number}".encode(), digest_size=7).digest()
        left = int.from_bytes(digest) / 2**56
        for fault, share in self.shares:
            if left < share:
                return fault
            left -= share
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """So many requests per so many seconds."""

    count: int
    per_s: float


class Bucket:
    """A rate limit at work: full at first, refilled steadily."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._left = float(limit.count)
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """0 when a request may pass, which it then has; else the seconds until one may."""
        rate = self._limit.count / self._limit.per_s
        if self._at is not None:
            self._left = min(self._limit.count, self._left + (now - self._at) * rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / rate


def parse_faults(text: str, *, seed: int = 0) -> FaultPlan:
    """Read `429=0.2,500=0.05,drop=0.01`.

    Raises:
        UsageError: A name is no fault, a share is no number from 0 to 1, or they exceed 1.

    >>> parse_faults("429=0.2,drop=0.01").shares
    ((429, 0.2), ('drop', 0.01))
    """
    shares: list[tuple[Fault, float]] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = piece.partition("=")
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if not equals or not 0 <= share <= 1:
            raise UsageError(
                f"{piece!r} is not a fault with a share\n  fix: write NAME=SHARE with a share "
                f"from 0 to 1, such as 429=0.2"
            )
        name = name.strip()
        if name.isdecimal() and int(name) in _STATUSES:
            shares.append((int(name), share))
        elif name in _NAMED:
            shares.append((_NAMED[name], share))
        else:
            raise UsageError(
                f"{name!r} is no fault\n  fix: use an HTTP status from 400 to 599, drop, "
                f"truncate or timeout"
            )
    if sum(share for _, share in shares) > 1 + 1e-9:
        raise UsageError(f"the shares of {text!r} add up to more than 1")
    return FaultPlan(shares=tuple(shares), seed=seed)


def parse_rate(text: str) -> RateLimit:
    """Read `100/s`, `600/m` or `1000/h`.

    Raises:
        UsageError: The text says something else.

    >>> parse_rate("600/m").per_s
    60.0
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or int(match["count"]) < 1:
        raise UsageError(f"{text!r} is not a rate\n  fix: write such as 100/s, 600/m or 1000/h")
    return RateLimit(count=int(match["count"]), per_s=_UNIT_S[match["unit"]])


_HEAD_MAX: Final = 64 * 1024
_BODY_MAX: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; header names are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to answer, and how to spoil it.

    Attributes:
        delay_s: How long to wait first, in seconds.
        drop: Close the connection without a word.
        hang: Never answer.
        sent: How many bytes of the body go out before the connection is closed; None is all.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    drop: bool = False
    hang: bool = False
    sent: int | None = None


class Handler(Protocol):
    """What stands behind the connections."""

    def handle(self, request: HttpRequest) -> Reply:
        """The reply to one request."""
        ...

    def began(self) -> None:
        """A request is in flight."""
        ...

    def ended(self) -> None:
        """It is no longer."""
        ...


class _BadRequestError(Exception):
    pass


class _Incomplete(Exception):  # noqa: N818 - no error: the rest is on its way
    pass


def _chunked(data: bytes, at: int) -> tuple[bytes, int]:
    """A chunked body that begins at a position, and where it ends."""
    body = bytearray()
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            raise _Incomplete
        try:
            size = int(data[at:line_end].split(b";")[0], 16)
        except ValueError as error:
            raise _BadRequestError from error
        start = line_end + 2
        if size > _BODY_MAX:
            raise _BadRequestError
        if len(data) < start + size + 2:
            raise _Incomplete
        if size == 0:
            return bytes(body), start + 2
        body += data[start : start + size]
        at = start + size + 2


def parse(data: bytes) -> tuple[HttpRequest, int]:
    """The first request of a buffer, and how many bytes it took.

    Raises:
        _Incomplete: There is more to come.
        _BadRequestError: This is no HTTP request, or too large a one.
    """
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        if len(data) > _HEAD_MAX:
            raise _BadRequestError
        raise _Incomplete
    lines = data[:head_end].decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - a small count that says itself
        raise _BadRequestError
    headers: dict[str, str] = {"": words[2]}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise _BadRequestError
        headers[name.lower()] = value.strip()
    start = head_end + 4
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, end = _chunked(data, start)
    else:
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _BODY_MAX:
            raise _BadRequestError
        end = start + int(length)
        if len(data) < end:
            raise _Incomplete
        body = data[start:end]
    return HttpRequest(method=words[0], path=words[1], headers=headers, body=body), end


class Connection(asyncio.Protocol):
    """One client connection: requests are answered in order, one after the other."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._open.discard(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._done()

    def close(self) -> None:
        """Close at once, whatever is in flight."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _done(self) -> None:
        if self._busy:
            self._busy = False
            self._handler.ended()

    def _next(self) -> None:
        if self._busy or self._transport is None or not self._buffer:
            return
        try:
            request, used = parse(self._buffer)
        except _Incomplete:
            if b"100-continue" in self._buffer[:_HEAD_MAX] and b"\r\n\r\n" in self._buffer:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        except _BadRequestError:
            self._send(
                Reply(status=400, body=b'{"error":{"message":"bad HTTP request"}}'), close=True
            )
            return
        self._buffer = self._buffer[used:]
        self._busy = True
        self._handler.began()
        reply = self._handler.handle(request)
        if reply.hang:
            return
        close = (
            request.headers.get("connection", "").lower() == "close"
            or request.headers[""] == "HTTP/1.0"
        )
        loop = asyncio.get_running_loop()
        if reply.delay_s > 0:
            self._timer = loop.call_later(reply.delay_s, self._answer, reply, close)
        else:
            self._answer(reply, close)

    def _answer(self, reply: Reply, close: bool) -> None:  # noqa: FBT001 - call_later passes positions
        self._timer = None
        self._done()
        if self._transport is None:
            return
        if reply.drop:
            self._transport.abort()
            return
        self._send(reply, close=close or reply.sent is not None)
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._next)

    def _send(self, reply: Reply, *, close: bool) -> None:
        assert self._transport is not None
        try:
            phrase = HTTPStatus(reply.status).phrase
        except ValueError:
            phrase = "Unknown"
        head = [
            f"HTTP/1.1 {reply.status} {phrase}",
            f"Content-Type: {reply.content_type}",
            f"Content-Length: {len(reply.body)}",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
        ]
        if close:
            head.append("Connection: close")
        body = reply.body if reply.sent is None else reply.body[: reply.sent]
        self._transport.write("\r\n".join((*head, "", "")).encode("latin-1") + body)
        if close:
            self._transport.close()


# Roles that this model does not know are read as what the user side brought along.
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "user",
    "function": "user",
}
_PARAMETERS: Final = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "frequency_penalty", "presence_penalty", "top_logprobs",
)  # fmt: skip
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_PIECE_CHARS: Final = 24


class WireError(Exception):
    """A request that the interface answers with an error.

    Attributes:
        status: The HTTP status.
        parameter: Which field is at fault, or None.
        code: OpenAI's word for it, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        parameter: str | None = None,
        code: str | None = None,
    ) -> None:
        self.status = status
        self.parameter = parameter
        self.code = code
        super().__init__(message)


def _content(value: Any, at: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if is_list(value):
        texts: list[str] = []
        for part in value:
            fields: dict[str, Any] = part if is_object(part) else {}
            text = fields.get("text", fields.get("refusal"))
            if not isinstance(text, str):
                raise WireError(
                    f"Invalid content: only text parts are supported by {at}.", parameter=at
                )
            texts.append(text)
        return "\n".join(texts)
    raise WireError(f"Invalid type for '{at}': expected a string or a list of parts.", parameter=at)


def _messages(value: Any) -> tuple[Message, ...]:
    if not is_list(value) or not value:
        raise WireError("Missing required parameter: 'messages'.", parameter="messages")
    messages: list[Message] = []
    for index, entry in enumerate(value):
        fields: dict[str, Any] = entry if is_object(entry) else {}
        at = f"messages[{index}]"
        role = _ROLES.get(str(fields.get("role")))
        if role is None:
            raise WireError(
                f"Invalid value for '{at}.role': {fields.get('role')!r}.", parameter=f"{at}.role"
            )
        messages.append(
            Message(role=role, content=_content(fields.get("content"), f"{at}.content"))
        )
    return tuple(messages)


def read_request(body: bytes, models: Sequence[str]) -> tuple[CompletionRequest, dict[str, Any]]:
    """The request in a body, and the body itself as JSON.

    Raises:
        WireError: It is no such request, or it names a model that is not served.
    """
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError("We could not parse the JSON body of your request.") from error
    if not is_object(parsed):
        raise WireError("The body of the request must be a JSON object.")
    fields = parsed
    model = fields.get("model")
    if not isinstance(model, str):
        raise WireError("you must provide a model parameter", parameter="model")
    if model not in models:
        raise WireError(
            f"The model '{model}' does not exist here; this simulated endpoint serves "
            f"{', '.join(models)}.",
            status=404,
            parameter="model",
            code="model_not_found",
        )
    response_format: Any = fields.get("response_format")
    if response_format is not None and not (
        is_object(response_format) and response_format.get("type") in _FORMATS
    ):
        raise WireError(
            "Invalid value for 'response_format.type'.", parameter="response_format.type"
        )
    tools: Any = fields.get("tools") or []
    if not is_list(tools):
        raise WireError("Invalid type for 'tools': expected a list.", parameter="tools")
    return (
        CompletionRequest(
            provider="sim",
            model=model,
            messages=_messages(fields.get("messages")),
            parameters={k: fields[k] for k in _PARAMETERS if fields.get(k) is not None},
            response_format=response_format,
            tools=tuple(tools),
        ),
        fields,
    )


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _total(completions: Sequence[Completion]) -> dict[str, Any]:
    usage = completions[0].usage
    for further in completions[1:]:
        # The prompt is read once, however many answers are drawn.
        usage += type(usage)(output_tokens=further.usage.output_tokens)
    return _usage(usage)


def completion_id(request: CompletionRequest, trial: int) -> str:
    """An id that the same request and trial get again."""
    digest = hashlib.blake2b(f"{request.digest}:{trial}".encode(), digest_size=12).hexdigest()
    return f"chatcmpl-sim-{digest}"


def completion_body(
    completions: Sequence[Completion], *, identity: str, created: int
) -> dict[str, Any]:
    """A `chat.completion` object with one choice for each completion."""
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": completions[0].model,
        "system_fingerprint": completions[0].fingerprint,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": c.text or "", "refusal": c.refusal},
                "logprobs": None,
                "finish_reason": c.finish_reason,
            }
            for index, c in enumerate(completions)
        ],
        "usage": _total(completions),
    }


def chunks_of(
    completions: Sequence[Completion], *, identity: str, created: int, with_usage: bool
) -> list[dict[str, Any]]:
    """The same as `chat.completion.chunk` objects, for a stream."""
    head: dict[str, Any] = {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": created,
        "model": completions[0].model,
        "system_fingerprint": completions[0].fingerprint,
    }

    def chunk(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**head, "choices": [choice], **({"usage": None} if with_usage else {})}

    chunks: list[dict[str, Any]] = []
    for index, completion in enumerate(completions):
        text = completion.text or ""
        chunks.append(chunk(index, {"role": "assistant", "content": ""}))
        chunks += [
            chunk(index, {"content": text[at : at + _PIECE_CHARS]})
            for at in range(0, len(text), _PIECE_CHARS)
        ]
        chunks.append(chunk(index, {}, completion.finish_reason))
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _total(completions)})
    return chunks


def error_body(
    message: str, *, kind: str, parameter: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def models_body(models: Sequence[str]) -> dict[str, Any]:
    """What `GET /v1/models` answers."""
    return {
        "object": "list",
        "data": [
            {"id": model, "object": "model", "created": 1735689600, "owned_by": "regauge-simulated"}
            for model in models
        ],
    }


_SEEN_MAX: Final = 200_000
# Choices of one request are draws far away from those that later requests get by counting.
_CHOICE_STRIDE: Final = 1_000_003
_KINDS: Final = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimServerOptions:
    """How the server behaves.

    Attributes:
        latency_s: How long every answer takes, in seconds; faults take as long.
        faults: What goes wrong, and how often.
        rate_limit: Beyond it requests get 429; None is no limit.
        api_key: Requests without it get 401; None lets everybody in.
        retry_after_s: What an injected 429 says in Retry-After, in seconds.
        rules: The behaviour that is served.
    """

    latency_s: float = 0.0
    faults: FaultPlan = field(default_factory=FaultPlan)
    rate_limit: RateLimit | None = None
    api_key: str | None = None
    retry_after_s: float = 1.0
    rules: Rules = CLERK_1


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )


@dataclass(slots=True, kw_only=True)
class Counters:
    """What the server has seen.

    Attributes:
        requests: Chat completion requests, those that failed included.
        in_flight: How many are being answered now, and at most at one time.
        statuses: Answers by HTTP status.
        faults: Injected faults by name.
    """

    requests: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    faults: Counter[str] = field(default_factory=Counter[str])


class Service:
    """Routes, faults and counters; knows nothing of sockets."""

    def __init__(self, options: SimServerOptions) -> None:
        self.options = options
        self.counters = Counters()
        self._models = (options.rules.model,)
        self._bucket = Bucket(options.rate_limit) if options.rate_limit is not None else None
        self._seen: OrderedDict[str, int] = OrderedDict()

    def began(self) -> None:
        self.counters.in_flight += 1
        self.counters.in_flight_max = max(self.counters.in_flight_max, self.counters.in_flight)

    def ended(self) -> None:
        self.counters.in_flight -= 1

    def handle(self, request: HttpRequest) -> Reply:
        path = request.path.split("?", 1)[0].rstrip("/")
        if path == "/healthz":
            return Reply(body=_json({"status": "ok", "simulated": True}))
        try:
            reply = self._route(request, path)
        except WireError as error:
            reply = self._error(
                error.status, str(error), parameter=error.parameter, code=error.code
            )
        except Exception as error:  # noqa: BLE001 - a server goes on, whatever one request does
            reply = self._error(500, f"the simulated model failed: {error!r}")
        if not (reply.drop or reply.hang):
            self.counters.statuses[reply.status] += 1
        return reply

    def _route(self, request: HttpRequest, path: str) -> Reply:
        key = self.options.api_key
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            raise WireError("Incorrect API key provided.", status=401, code="invalid_api_key")
        match path, request.method:
            case "/v1/models", "GET":
                return Reply(body=_json(models_body(self._models)))
            case "/v1/chat/completions", "POST":
                return self._complete(request.body)
            case "/v1/models" | "/v1/chat/completions", _:
                raise WireError(f"{request.method} is not supported here.", status=405)
            case _:
                name = path.removeprefix("/v1/models/")
                if name in self._models and request.method == "GET":
                    return Reply(body=_json(models_body((name,))["data"][0]))
                raise WireError(f"Invalid URL ({request.method} {path})", status=404)

    def _error(
        self, status: int, message: str, *, parameter: str | None = None, code: str | None = None,
        retry_after_s: float | None = None,
    ) -> Reply:  # fmt: skip
        kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004 - a small count that says itself
        headers: dict[str, str] = {}
        if retry_after_s is not None:
            headers = {
                "Retry-After": f"{retry_after_s:g}",
                "retry-after-ms": f"{1000 * retry_after_s:.0f}",
            }
        return Reply(
            status=status,
            body=_json(error_body(message, kind=kind, parameter=parameter, code=code)),
            headers=headers,
        )

    def _complete(self, body: bytes) -> Reply:
        options = self.options
        number = self.counters.requests
        self.counters.requests += 1
        if self._bucket is not None:
            wait_s = self._bucket.wait_s(time.monotonic())
            if wait_s > 0:
                return self._error(
                    429,
                    "Rate limit reached for requests.",
                    code="rate_limit_exceeded",
                    retry_after_s=max(0.001, round(wait_s, 3)),
                )
        fault = options.faults.decide(number)
        if fault is not None:
            self.counters.faults[str(fault)] += 1
            if fault != "truncate":
                return self._fault(fault)
        request, fields = read_request(body, self._models)
        reply = self._answered(request, fields, counts=fault is None)
        if fault == "truncate":
            return Reply(body=reply.body, delay_s=options.latency_s, sent=len(reply.body) // 2)
        return reply

    def _fault(self, fault: Fault) -> Reply:
        delay_s = self.options.latency_s
        if fault == "drop":
            return Reply(drop=True, delay_s=delay_s)
        if fault == "timeout":
            return Reply(hang=True)
        status = int(fault)
        wait_s = self.options.retry_after_s if status in (429, 503) else None
        code = "rate_limit_exceeded" if status == 429 else None  # noqa: PLR2004 - a small count that says itself
        made = self._error(status, f"Injected fault {status}.", code=code, retry_after_s=wait_s)
        return Reply(status=status, body=made.body, headers=made.headers, delay_s=delay_s)

    def _trial(self, request: CompletionRequest, fields: dict[str, Any], *, counts: bool) -> int:
        """Which draw a request gets: its seed's, else how often it was answered before."""
        if fields.get("seed") is not None:
            return 0
        before = self._seen.get(request.digest, 0)
        if counts:
            self._seen[request.digest] = before + 1
            self._seen.move_to_end(request.digest)
            if len(self._seen) > _SEEN_MAX:
                self._seen.popitem(last=False)
        return before

    def _answered(
        self, request: CompletionRequest, fields: dict[str, Any], *, counts: bool
    ) -> Reply:
        try:
            sampling = read_parameters(request.parameters)
            trial = self._trial(request, fields, counts=counts)
            completions = [
                answer(request.for_trial(trial + choice * _CHOICE_STRIDE), rules=self.options.rules)
                for choice in range(sampling.n)
            ]
        except BadParameterError as error:
            raise WireError(str(error), parameter=error.parameter, code="invalid_value") from error
        except ProviderError as error:
            raise WireError(str(error), status=error.status or 400) from error
        identity, created = completion_id(request, trial), int(time.time())
        delay_s = self.options.latency_s
        if fields.get("stream") is True:
            wanted: Any = fields.get("stream_options") or {}
            with_usage = is_object(wanted) and bool(wanted.get("include_usage"))
            chunks = chunks_of(
                completions, identity=identity, created=created, with_usage=with_usage
            )
            stream = b"".join(b"data: " + _json(chunk) + b"\n\n" for chunk in chunks)
            return Reply(
                body=stream + b"data: [DONE]\n\n", content_type="text/event-stream", delay_s=delay_s
            )
        body = completion_body(completions, identity=identity, created=created)
        return Reply(body=_json(body), delay_s=delay_s)


async def _listen(
    service: Service, host: str, port: int, connections: set[Connection]
) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(
            lambda: Connection(service, connections), host, port, backlog=1024
        )
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}\n  fix: choose another "
            f"--port, or 0 for a free one"
        ) from error


def _base_url(server: asyncio.Server, host: str) -> str:
    port: int = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/v1"


async def serve(
    host: str,
    port: int,
    options: SimServerOptions,
    *,
    ready: Callable[[str], None] | None = None,
    until: asyncio.Event | None = None,
) -> Counters:
    """Serve until the event is set, or for ever.

    Args:
        host: Where to listen.
        port: 0 takes a free one.
        options: How to behave.
        ready: Is told the base URL once connections are accepted.
        until: Ends the server.

    Returns:
        What was seen.

    Raises:
        UsageError: The port is taken or not allowed.
    """
    service, connections = Service(options), set[Connection]()
    server = await _listen(service, host, port, connections)
    try:
        if ready is not None:
            ready(_base_url(server, host))
        await (until or asyncio.Event()).wait()
    finally:
        server.close()
        for connection in list(connections):
            connection.close()
        await server.wait_closed()
    return service.counters


class SimServer:
    """The server on a thread of its own, for tests: `with SimServer() as server: ...`."""

    def __init__(
        self, options: SimServerOptions | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._options = options or SimServerOptions()
        self._host = host
        self._port = port
        self._service = Service(self._options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._url = ""

    @property
    def base_url(self) -> str:
        """Up to and with `/v1`; empty before the server runs."""
        return self._url

    @property
    def counters(self) -> Counters:
        """What it has seen so far."""
        return self._service.counters

    async def _run(self) -> None:
        connections = set[Connection]()
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await _listen(self._service, self._host, self._port, connections)
        self._url = _base_url(server, self._host)
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in list(connections):
            connection.close()
        await server.wait_closed()

    def _thread_main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that started this one
            self._failure = error
        finally:
            self._started.set()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._thread_main, name="regauge-sim", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()
