"""Models behind a network or in other packages: retries, pace, breaker and prices."""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from regauge.errors import ProviderError
from regauge.providers._cost import cost_of, price_of
from regauge.providers._endpoint import Endpoint
from regauge.providers._failure import AttemptError, Ledger, call_with_retries, timeout_error
from regauge.providers._http import HttpApi
from regauge.providers._rate import AdaptiveLimit, window_for
from regauge.providers._types import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx2

    from regauge.project import EndpointSettings
    from regauge.providers._rate import Permit, Quota, Window
    from regauge.providers._types import CompletionRequest, Provider

# Simultaneous failures are one event: every request in flight meets the same server restart.
_IN_A_ROW: Final = 8
_COLD_GRACE_S: Final = 2.0
# These are permanent; a second request would fail in the same way.
_FINAL_KINDS: Final = frozenset({"authentication", "quota"})
# One request that always fails may be invalid; three of them are not.
_GIVEN_UP: Final = 3
_PASSING_KINDS: Final = frozenset({"connection", "timeout", "server", "rate-limit"})
_GATEWAY: Final = frozenset({502, 503, 504})
_TRANSPORT_KINDS: Final = frozenset({"connection", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The health of one provider; the caller passes the clock, in seconds.

    It trips on a rejected key, on three requests that were given up before any success, and on 429s
    only for `patience_s`. It also trips on 8 consecutive failed connections over 2 seconds, or over
    `patience_s` after a success. A success resets it.

    Attributes:
        patience_s: Maximum time for which a server that worked before may be away, in seconds.
        refused_since: The time of the first 429 after the last success; None without one.
        trip: The failure for which the provider is given up.
    """

    patience_s: float = 120.0
    has_succeeded: bool = False
    failures: int = 0
    given_up: int = 0
    failing_since: float = 0.0
    refused_since: float | None = None
    trip: AttemptError | None = None

    def after_success(self) -> Breaker:
        """Return the breaker after a success."""
        has_failures = self.failures or self.given_up or self.refused_since is not None or self.trip
        if self.has_succeeded and not has_failures:
            return self
        return Breaker(patience_s=self.patience_s, has_succeeded=True)

    @property
    def outage(self) -> bool:
        """Return whether a server that worked before is unreachable, for several requests."""
        return self.has_succeeded and self.failures >= _IN_A_ROW

    def after_failure(self, now: float, error: AttemptError, *, gave_up: bool) -> Breaker:
        """Return the breaker after an attempt that failed.

        Args:
            now: The time, in seconds of any monotonic clock.
            error: The failure.
            gave_up: Whether this attempt used up the request's attempts or deadline.
        """
        kind = error.kind
        if self.trip is not None:
            return self
        # A gateway in front of an unreachable server.
        transport = kind in _TRANSPORT_KINDS or (self.has_succeeded and error.status in _GATEWAY)
        failures = self.failures + transport
        since = now if failures == 1 else self.failing_since
        given_up = self.given_up + (gave_up and kind in _PASSING_KINDS)
        grace_s = self.patience_s if self.has_succeeded else _COLD_GRACE_S
        is_lasting = transport and failures >= _IN_A_ROW and now - since >= grace_s
        refused_since = self.refused_since
        if kind == "rate-limit" and refused_since is None:
            refused_since = now
        is_stalled = refused_since is not None and now - refused_since >= self.patience_s
        is_hopeless = given_up >= _GIVEN_UP and not self.has_succeeded
        return replace(
            self,
            refused_since=refused_since,
            failures=failures,
            given_up=given_up,
            failing_since=since,
            trip=error if kind in _FINAL_KINDS or is_lasting or is_hopeless or is_stalled else None,
        )


_DEFAULT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A parameter that some endpoints do not support.

    Attributes:
        apis: The APIs of these endpoints.
        url: A regular expression that is searched in the endpoint's URL.
        model: A regular expression that is matched with the model.
        names: Parameters, `response_format`, `json_object` (a response format), `strict` (of a tool
            or a schema), or `image` and `pdf` (attachments).
        does: Whether the endpoint ignores them silently or returns an error.
        instead: The fix.
    """

    apis: tuple[str, ...]
    url: str = ""
    model: str = ""
    names: tuple[str, ...]
    does: Literal["ignores", "rejects"]
    instead: str


@cache
def load_gaps() -> tuple[Gap, ...]:
    """Load the known gaps, from `gaps.toml`."""
    text = files("regauge.providers").joinpath("gaps.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["gap"]
    return tuple(
        Gap(apis=tuple(row.pop("apis")), names=tuple(row.pop("names").split()), **row)
        for row in rows
    )


def drop_unsupported(request: CompletionRequest, endpoint: Endpoint) -> CompletionRequest:
    """Return a request without its optional parameters that the endpoint does not support.

    Raises:
        ProviderError: The endpoint does not support a required parameter.
    """
    gaps = _gaps_of(endpoint.settings.api, endpoint.url, request.model)
    if not gaps:
        return request
    features = set(_features_of(request)) - set(endpoint.settings.accepts)
    left_out: set[str] = set()
    for gap in gaps:
        missing = [name for name in gap.names if name in features]
        left_out.update(missing)
        name = next((name for name in missing if name not in request.optional), None)
        if name is None:
            continue
        place = f"{request.provider}:{request.model}" if gap.model else str(endpoint)
        raise ProviderError(
            f"{request.origin or 'the prompt'} needs `{name}`, which {place} {gap.does}; no request"
            f" was sent\n  fix: {gap.instead}; if the endpoint takes it by now, add"
            f" accepts = [{name!r}] to [tool.regauge.providers.{request.provider}]",
            kind="bad-request",
        )
    if not left_out:
        return request
    parameters = {name: value for name, value in request.parameters.items() if name not in left_out}
    return replace(request, parameters=parameters)


@cache
def _gaps_of(api: str, url: str, model: str) -> tuple[Gap, ...]:
    return tuple(
        gap
        for gap in load_gaps()
        if api in gap.apis and re.search(gap.url, url) and re.match(gap.model, model)
    )


def _features_of(request: CompletionRequest) -> Iterator[str]:
    for name, value in request.parameters.items():
        if name in {"temperature", "top_p"} and value == _DEFAULT:
            continue
        if value is not None and value is not False:
            yield name
    yield from {part.kind for message in request.messages for part in message.attachments}
    response_format = request.response_format
    if response_format is not None and response_format.get("type") != "text":
        yield "response_format"
        if response_format.get("type") == "json_object":
            yield "json_object"
        schema = response_format.get("json_schema")
        if isinstance(schema, dict) and schema.get("strict"):
            yield "strict"
    for tool in request.tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("strict"):
            yield "strict"


# The default of the endpoint's `timeout_s`; reasoning models need a higher setting.
_TIMEOUT_S: Final = 60.0
# Failures that prove a working server.
_ANSWERS: Final = frozenset({"bad-request", "not-found", "permission"})


@dataclass(slots=True)
class Calls:
    """The calls of a provider so far.

    Attributes:
        requests: Number of requests.
        completed: Requests with a completion.
        attempts: HTTP requests for them.
        failures: Failed attempts, by kind, including those of requests that succeeded later.
    """

    requests: int = 0
    completed: int = 0
    attempts: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])


class AttemptApi(Protocol):
    """The attempts at an endpoint: one per call."""

    @property
    def attempt_count(self) -> int:
        """The number of attempts."""
        ...

    async def open(self) -> object:
        """Load and open the client."""
        ...

    async def call(
        self, request: CompletionRequest, *, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """Complete one request; return the completion and the limits that the server states."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class _Registered:
    """The provider of another package, which makes its own attempts."""

    def __init__(self, provider: Provider, endpoint: Endpoint) -> None:
        self._provider = provider
        self._endpoint_text = str(endpoint)
        self.attempt_count = 0

    async def open(self) -> None:
        """Do nothing; the provider opens its own connections."""

    async def call(
        self, request: CompletionRequest, *, timeout_s: float | None
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """Call the provider, within the time of an attempt."""
        self.attempt_count += 1
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                completion = await self._provider.complete(request)
        except ProviderError:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and timeout_s is not None:
                raise timeout_error(self._endpoint_text, timeout_s) from error
            fix = "correct the provider; a failed attempt raises AttemptError"
            raise ProviderError(
                f"{self._endpoint_text} raised {type(error).__name__}: {error}",
                fix=fix,
                kind="malformed",
            ) from error
        # Code of another package may return anything.
        if not isinstance(cast("object", completion), Completion):
            raise ProviderError(
                f"{self._endpoint_text} returned {type(completion).__name__}, not a Completion",
                kind="malformed",
            )
        try:
            Completion.from_json(completion.to_json())
        except (ValueError, TypeError, AttributeError) as error:
            raise ProviderError(f"{self._endpoint_text}: {error}", kind="malformed") from error
        latency_s = completion.latency_s or round(time.perf_counter() - began, 4)
        return replace(completion, latency_s=latency_s), ()

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


class LocalProvider:
    """A registered provider in this process, called without retries, pace and time limit."""

    def __init__(self, provider: Provider, endpoint: Endpoint) -> None:
        self._attempts = _Registered(provider, endpoint)

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete one request.

        Raises:
            ProviderError: The provider raised, or returned no completion.
        """
        return (await self._attempts.call(request, timeout_s=None))[0]

    async def aclose(self) -> None:
        """Close the provider."""
        await self._attempts.aclose()


def open_api(
    endpoint: Endpoint,
    *,
    timeout_s: float,
    connections: int,
    transport: httpx2.AsyncBaseTransport | None = None,
    registered: Provider | None = None,
) -> AttemptApi:
    """Return the API of an endpoint: HTTP, or a registered provider."""
    if registered is not None:
        return _Registered(registered, endpoint)
    return HttpApi(endpoint, timeout_s=timeout_s, connections=connections, transport=transport)


class RemoteProvider:
    """A provider behind one endpoint. For one event loop.

    Args:
        endpoint: `[tool.regauge.providers.<name>]`.
        name: The name of that table, `openai` or `anthropic`.
        environ: The environment with the key.
        transport: Replaces the network; None for the network.
        concurrency: Requests in flight at once, or `auto`.
        timeout_s: Default time limit of one attempt, in seconds.
        registered: The provider that makes the attempts, if `api` names one of a package.
        attempts: Makes the attempts instead, such as on the workers of a cluster.
        limit: A shared rate limit; by default one for `concurrency`.
    """

    def __init__(
        self,
        endpoint: EndpointSettings,
        *,
        name: str,
        environ: Mapping[str, str],
        transport: httpx2.AsyncBaseTransport | None = None,
        concurrency: int | Literal["auto"] = "auto",
        timeout_s: float = _TIMEOUT_S,
        registered: Provider | None = None,
        attempts: AttemptApi | None = None,
        limit: AdaptiveLimit | None = None,
    ) -> None:
        self._settings = endpoint
        self._endpoint = Endpoint(name=name, settings=endpoint, environ=environ)
        self._timeout_s = endpoint.timeout_s or timeout_s
        self._limit = limit or AdaptiveLimit(window_for(concurrency))
        self._breaker = Breaker(patience_s=endpoint.deadline_s)
        self.calls = Calls()
        # With a pool smaller than the window, requests would wait inside their timeout.
        self._api = attempts or open_api(
            self._endpoint,
            timeout_s=self._timeout_s,
            connections=self._limit.window.ceiling + 1,
            transport=transport,
            registered=registered,
        )

    @property
    def window(self) -> Window:
        """The current limit of requests in flight."""
        return self._limit.window

    def check(self) -> None:
        """Check the settings without a request.

        Raises:
            ProviderError: A variable that holds the key or a header is not set.
        """
        self._endpoint.check()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Complete one request, with retries.

        Raises:
            ProviderError: The request failed. Its kind is `connection`, `timeout`, `rate-limit`,
                `quota`, `authentication`, `permission`, `not-found`, `bad-request`, `server` or
                `malformed`.
        """
        self.calls.requests += 1
        if isinstance(self._api, HttpApi):
            try:
                request = drop_unsupported(request, self._endpoint)
            except ProviderError:
                self._endpoint.check()  # a missing key is reported first
                raise
        ledger = Ledger(
            max_attempts=self._settings.max_attempts, deadline_s=self._settings.deadline_s
        )

        async def attempt(ledger: Ledger) -> Completion:
            async with self._limit.permit(request.model, is_retry=ledger.attempts > 1) as permit:
                return await self._attempt(request, ledger, permit)

        try:
            completion = await call_with_retries(attempt, ledger)
        except AttemptError as error:
            if error.transient:
                self._note(error, gave_up=True)
            raise
        self.calls.completed += 1
        return completion

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    async def _attempt(
        self, request: CompletionRequest, ledger: Ledger, permit: Permit
    ) -> Completion:
        if (trip := self._breaker.trip) is not None:
            raise AttemptError(str(trip), kind=trip.kind, status=trip.status, transient=False)
        # Opened before the clock starts: the time of loading the SDK does not count.
        await self._api.open()
        timeout_s = min(self._timeout_s, ledger.left_s)
        try:
            with ledger.clock():
                completion, quotas = await self._api.call(request, timeout_s=timeout_s)
        except AttemptError as error:
            self.calls.failures[error.kind] += 1
            if error.kind == "rate-limit":
                permit.on_rate_limit(error.quotas)
            self._note(error, gave_up=False)
            if self._breaker.has_succeeded and (error.never_sent or self._breaker.outage):
                error.mark_outage()
            raise
        finally:
            self.calls.attempts = self._api.attempt_count
        permit.on_success(quotas)
        self._breaker = self._breaker.after_success()
        cost_usd = completion.cost_usd
        if cost_usd is None and completion.usage != Usage():
            price = price_of(
                self._settings.prices,
                request.model,
                reported_model=completion.model,
                url=self._endpoint.url,
            )
            cost_usd = cost_of(completion.usage, price)
        return replace(
            completion,
            provider=self._endpoint.name,
            cost_usd=cost_usd,
            attempts=ledger.attempts,
        )

    def _note(self, error: AttemptError, *, gave_up: bool) -> None:
        if error.kind in _ANSWERS:
            self._breaker = self._breaker.after_success()
        else:
            self._breaker = self._breaker.after_failure(time.monotonic(), error, gave_up=gave_up)
            if self._breaker.trip is not None:
                self._limit.lift()
