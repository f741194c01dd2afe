"""An OpenAI-compatible HTTP server for the simulated model, with injected faults.

`Service` answers requests over aiohttp and counts them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args

from aiohttp import web

from regauge.errors import UsageError
from regauge.prompts import Message, Role, tool_calls_of
from regauge.providers import CompletionRequest
from regauge.sim._answer import BadParameterError, complete, read_parameters
from regauge.sim._rules import CLERK_1, Rules
from regauge.sim._text import is_list, is_object, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.providers import Completion

STATUSES: Final = frozenset(str(status) for status in range(400, 600))
# Choices of one request have trial numbers far from those of later requests.
_CHOICE_STRIDE: Final = 1_000_003
_KINDS: Final = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_BODY_MAX: Final = 32 * 1024 * 1024
# Open responses are cut off this time after the server ends.
_END_S: Final = 0.01
_ROLES: Final[Mapping[str, Role]] = {
    **{role: role for role in get_args(Role)}, "function": "tool"
}  # fmt: skip
_PARAMETERS: Final = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "frequency_penalty", "presence_penalty", "top_logprobs", "tool_choice",
)  # fmt: skip
_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})
_PIECE_CHARS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """The share of requests that fails in each way, by seed and request number.

    Attributes:
        shares: Pairs of a fault (an HTTP status, `drop`, `truncate`, `timeout`) and its share, from
            0 to 1; together at most 1.
        seed: Selects the requests that fail.
    """

    shares: tuple[tuple[str, float], ...] = ()
    seed: int = 0

    def decide(self, number: int) -> str:
        """Return the fault of the request of this number; empty for none."""
        digest = hashlib.blake2b(f"{self.seed}:{number}".encode(), digest_size=7).digest()
        left = int.from_bytes(digest) / 2**56
        for fault, share in self.shares:
            if left < share:
                return fault
            left -= share
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A number of requests per number of seconds."""

    count: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimServerOptions:
    """The behaviour of the server.

    Attributes:
        latency_s: The duration of every response and fault, in seconds.
        faults: The injected faults and their shares.
        rate_limit: Requests above it get 429; None is no limit.
        api_key: Requests without it get 401; None accepts all.
        retry_after_s: The Retry-After of an injected 429, in seconds.
        rules: The behaviour of the model.
    """

    latency_s: float = 0.0
    faults: FaultPlan = field(default_factory=FaultPlan)
    rate_limit: RateLimit | None = None
    api_key: str | None = None
    retry_after_s: float = 1.0
    rules: Rules = CLERK_1


@dataclass(slots=True, kw_only=True)
class Counters:
    """The requests to the server.

    Attributes:
        requests: Chat completion requests, including failed ones.
        in_flight: Requests in progress now.
        in_flight_max: The maximum of `in_flight` so far.
        statuses: Responses by HTTP status.
        faults: Injected faults by name.
    """

    requests: int = 0
    in_flight: int = 0
    in_flight_max: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    faults: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """A response and, by `fault`, how to break it: `drop`, `timeout`, `truncate` or empty."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    fault: str = ""


class _RefusalError(Exception):
    """A request that the interface rejects with an error.

    Args:
        message: The reason.
        parameter: The wrong field, or None.
        status: The HTTP status.
        code: OpenAI's error code, or None.
        wait_s: Retry-After in seconds, or None.
        delay_s: The duration of the response, in seconds.

    Attributes:
        reply: The error in OpenAI's form.
    """

    def __init__(
        self, message: str, parameter: str | None = None, *, status: int = 400,
        code: str | None = None, wait_s: float | None = None, delay_s: float = 0.0,
    ) -> None:  # fmt: skip
        kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004 - server errors
        error = {"message": message, "type": kind, "param": parameter, "code": code}
        headers: dict[str, str] = {}
        if wait_s is not None:
            headers = {"Retry-After": f"{wait_s:g}", "retry-after-ms": f"{1000 * wait_s:.0f}"}
        body = _json({"error": error})
        self.reply = _Reply(status=status, body=body, headers=headers, delay_s=delay_s)
        super().__init__(message)


class Service:
    """Routes, injected faults, trial numbers and counters."""

    def __init__(self, options: SimServerOptions) -> None:
        self.options = options
        self.counters = Counters()
        self._seen: Counter[str] = Counter()
        self._tokens, self._refilled_at = math.inf, 0.0

    async def serve(
        self, host: str, port: int, *, ready: Callable[[str], None], until: asyncio.Event
    ) -> None:
        """Serve until the event is set.

        Args:
            host: The address to listen on.
            port: The port; 0 selects a free one.
            ready: Called with the base URL once connections are accepted.
            until: Ends the server.

        Raises:
            UsageError: The port is in use or not allowed.
        """
        app = web.Application(client_max_size=_BODY_MAX)
        app.router.add_route("*", "/{path:.*}", self._respond)
        runner = web.AppRunner(
            app,
            access_log=None,
            # Malformed HTTP is an error of the client, which gets 400.
            logger=logging.Logger("regauge.sim", logging.CRITICAL),  # noqa: LOG001 - no other uses it
            handler_cancellation=True,
            shutdown_timeout=_END_S,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, backlog=1024).start()
        except OSError as error:
            message = f"cannot listen on {host}:{port}: {error.strerror or error}"
            raise UsageError(message, fix="choose another --port, or 0 for a free one") from error
        else:
            host_text = f"[{host}]" if ":" in host else host
            ready(f"http://{host_text}:{runner.addresses[0][1]}/v1")
            await until.wait()
        finally:
            await runner.cleanup()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or break the response by its injected fault."""
        body, transport = await request.read(), request.transport
        counters = self.counters
        counters.in_flight += 1
        counters.in_flight_max = max(counters.in_flight_max, counters.in_flight)
        try:
            try:
                reply = self._route(request, body)
            except _RefusalError as error:
                reply = error.reply
            if reply.fault not in ("drop", "timeout"):
                counters.statuses[reply.status] += 1
            if reply.fault == "timeout":
                await asyncio.Event().wait()  # until the client gives up
            if reply.delay_s > 0:
                await asyncio.sleep(reply.delay_s)
        finally:
            counters.in_flight -= 1
        if reply.fault == "drop" and transport is not None:
            transport.abort()
        headers = {"Content-Type": reply.content_type, **reply.headers}
        if reply.fault != "truncate":
            return web.Response(status=reply.status, body=reply.body, headers=headers)
        headers["Content-Length"] = str(len(reply.body))
        cut_off = web.StreamResponse(status=reply.status, headers=headers)
        cut_off.force_close()
        await cut_off.prepare(request)
        await cut_off.write(reply.body[: len(reply.body) // 2])
        return cut_off

    def _route(self, request: web.Request, body: bytes) -> _Reply:
        path, key = request.raw_path.split("?", 1)[0].rstrip("/"), self.options.api_key
        if path == "/healthz":
            return _Reply(body=_json({"status": "ok", "simulated": True}))
        if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
            raise _RefusalError("Incorrect API key provided.", status=401, code="invalid_api_key")
        name = self.options.rules.model
        model = {"id": name, "object": "model", "created": 1735689600}
        model["owned_by"] = "regauge-simulated"
        match request.method, path:
            case "GET", "/v1/models":
                return _Reply(body=_json({"object": "list", "data": [model]}))
            case "POST", "/v1/chat/completions":
                return self._complete(body)
            case _, "/v1/models" | "/v1/chat/completions":
                raise _RefusalError(f"{request.method} is not supported here.", status=405)
            case "GET", _ if path == f"/v1/models/{name}":
                return _Reply(body=_json(model))
            case _:
                raise _RefusalError(f"Invalid URL ({request.method} {path})", status=404)

    def _wait_s(self, limit: RateLimit) -> float:
        """Return 0 if the token bucket admits a request; else the seconds until it does."""
        rate, now = limit.count / limit.per_s, time.monotonic()
        self._tokens = min(limit.count, self._tokens + (now - self._refilled_at) * rate)
        self._refilled_at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return max(0.001, round((1 - self._tokens) / rate, 3))

    def _complete(self, body: bytes) -> _Reply:
        options, number = self.options, self.counters.requests
        self.counters.requests += 1
        wait_s = self._wait_s(options.rate_limit) if options.rate_limit is not None else 0.0
        if wait_s > 0:
            message, code = "Rate limit reached for requests.", "rate_limit_exceeded"
            raise _RefusalError(message, status=429, code=code, wait_s=wait_s)
        fault = options.faults.decide(number)
        if fault:
            self.counters.faults[fault] += 1
        if fault in ("drop", "timeout"):
            return _Reply(fault=fault, delay_s=options.latency_s)
        if fault in STATUSES:
            raise _RefusalError(
                f"Injected fault {fault}.", status=int(fault),
                code="rate_limit_exceeded" if fault == "429" else None,
                wait_s=options.retry_after_s if fault in ("429", "503") else None,
                delay_s=options.latency_s,
            )  # fmt: skip
        request, fields = _read_request(body, options.rules.model)
        trial, completions = self._answer(request, fields, counts=not fault)
        digest = hashlib.blake2b(f"{request.digest}:{trial}".encode(), digest_size=12).hexdigest()
        streams = fields.get("stream") is True
        head = {
            "id": f"chatcmpl-sim-{digest}",
            "object": "chat.completion.chunk" if streams else "chat.completion",
            "created": int(time.time()),
            "model": completions[0].model,
            "system_fingerprint": completions[0].fingerprint,
        }
        if streams:
            with_usage = bool(table_of(fields.get("stream_options")).get("include_usage"))
            chunks = _chunks(completions, head, with_usage=with_usage)
            data = b"".join(b"data: " + _json(chunk) + b"\n\n" for chunk in chunks)
            data += b"data: [DONE]\n\n"
        else:
            data = _json({**head, "choices": _choices(completions), "usage": _usage(completions)})
        return _Reply(
            body=data,
            content_type="text/event-stream" if streams else "application/json",
            delay_s=options.latency_s,
            fault=fault,
        )

    def _answer(
        self, request: CompletionRequest, fields: dict[str, Any], *, counts: bool
    ) -> tuple[int, list[Completion]]:
        """Return the trial of a request (0 with a seed, else counted) and its choices."""
        try:
            choices = read_parameters(request.parameters).n
            is_counted = fields.get("seed") is None
            trial = self._seen[request.digest] if is_counted else 0
            if counts and is_counted:
                self._seen[request.digest] += 1
            numbers = (trial + choice * _CHOICE_STRIDE for choice in range(choices))
            rules = self.options.rules
            return trial, [complete(request.for_trial(n), rules=rules) for n in numbers]
        except BadParameterError as error:
            raise _RefusalError(str(error), error.parameter, code="invalid_value") from error


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _content(value: Any, location: str) -> str:
    if isinstance(value, str):
        return value
    parts: Any = [] if value is None else value
    if not is_list(parts):
        message = f"Invalid type for '{location}': expected a string or a list of parts."
        raise _RefusalError(message, location)
    texts: list[str] = []
    for part in parts:
        text: Any = table_of(part).get("text", table_of(part).get("refusal"))
        if not isinstance(text, str):
            message = f"Invalid content: only text parts are supported by {location}."
            raise _RefusalError(message, location)
        texts.append(text)
    return "\n".join(texts)


def _messages(value: Any) -> tuple[Message, ...]:
    if not is_list(value) or not value:
        raise _RefusalError("Missing required parameter: 'messages'.", "messages")
    messages: list[Message] = []
    for index, fields in enumerate(map(table_of, value)):
        location = f"messages[{index}]"
        role = _ROLES.get(str(fields.get("role")))
        if role is None:
            message = f"Invalid value for '{location}.role': {fields.get('role')!r}."
            raise _RefusalError(message, f"{location}.role")
        content = _content(fields.get("content"), f"{location}.content")
        try:
            calls = tool_calls_of(fields["tool_calls"]) if fields.get("tool_calls") else ()
        except ValueError as error:
            raise _RefusalError(str(error), f"{location}.tool_calls") from error
        call_id = str(fields.get("tool_call_id") or "")
        messages.append(Message(role=role, content=content, tool_calls=calls, tool_call_id=call_id))
    return tuple(messages)


def _read_request(body: bytes, served_model: str) -> tuple[CompletionRequest, dict[str, Any]]:
    """Return the request in a body, and the body itself as JSON."""
    try:
        fields: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RefusalError("We could not parse the JSON body of your request.") from error
    if not is_object(fields):
        raise _RefusalError("The body of the request must be a JSON object.")
    model = fields.get("model")
    if not isinstance(model, str):
        raise _RefusalError("you must provide a model parameter", "model")
    if model != served_model:
        message = f"The model '{model}' does not exist here; this simulated endpoint serves"
        message = f"{message} {served_model}."
        raise _RefusalError(message, "model", status=404, code="model_not_found")
    shape: Any = fields.get("response_format")
    if shape is not None and not (is_object(shape) and shape.get("type") in _FORMATS):
        name = "response_format.type"
        raise _RefusalError(f"Invalid value for '{name}'.", name)
    tools: Any = fields.get("tools") or []
    if not is_list(tools):
        raise _RefusalError("Invalid type for 'tools': expected a list.", "tools")
    request = CompletionRequest(
        provider="sim",
        model=model,
        messages=_messages(fields.get("messages")),
        parameters={k: fields[k] for k in _PARAMETERS if fields.get(k) is not None},
        response_format=shape,
        tools=tuple(tools),
    )
    return request, fields


def _usage(completions: Sequence[Completion]) -> dict[str, int]:
    # The prompt counts once for all choices.
    prompt = completions[0].usage.input_tokens
    output = sum(completion.usage.output_tokens for completion in completions)
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _choices(completions: Sequence[Completion]) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "message": {
                "role": "assistant",
                "content": None if c.tool_calls else c.text or "",
                "refusal": c.refusal,
                **({"tool_calls": _tool_calls(c)} if c.tool_calls else {}),
            },
            "logprobs": None,
            "finish_reason": c.finish_reason,
        }
        for index, c in enumerate(completions)
    ]


def _tool_calls(completion: Completion) -> list[dict[str, Any]]:
    calls = (
        (call.id, {"name": call.name, "arguments": call.arguments})
        for call in completion.tool_calls
    )
    return [{"id": key, "type": "function", "function": function} for key, function in calls]


def _chunks(
    completions: Sequence[Completion], head: dict[str, Any], *, with_usage: bool
) -> list[dict[str, Any]]:
    """Return the `chat.completion.chunk` objects of a stream."""
    chunks: list[dict[str, Any]] = []
    for index, completion in enumerate(completions):
        text = completion.text or ""
        starts = range(0, len(text), _PIECE_CHARS)
        calls = [{"index": i, **call} for i, call in enumerate(_tool_calls(completion))]
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            *({"content": text[start : start + _PIECE_CHARS]} for start in starts),
            *([{"tool_calls": calls}] if calls else []),
            {},
        ]
        for number, delta in enumerate(deltas, start=1):
            reason = completion.finish_reason if number == len(deltas) else None
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
            chunks.append({**head, "choices": [choice], **({"usage": None} if with_usage else {})})
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _usage(completions)})
    return chunks
