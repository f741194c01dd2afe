"""What the server does with a request: routes, faults, draws and counters, without sockets."""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import ProviderError
from regauge.sim._answer import answer
from regauge.sim._rules import CLERK_1, Rules
from regauge.sim.asked import BadParameterError, read_parameters
from regauge.sim.serving._faults import Bucket, Fault, FaultPlan, RateLimit
from regauge.sim.serving._http import HttpRequest, Reply
from regauge.sim.serving._wire import (
    WireError,
    chunks_of,
    completion_body,
    completion_id,
    error_body,
    models_body,
    read_request,
)
from regauge.sim.text import is_object

if TYPE_CHECKING:
    from regauge.providers import CompletionRequest

__all__ = ["Counters", "Service", "SimServerOptions"]

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
