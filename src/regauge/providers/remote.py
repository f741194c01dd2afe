"""Models that are asked over a network or by other packages: retries, pace, breaker and prices."""

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
from regauge.providers._failure import AttemptError, timed_out
from regauge.providers._http import HttpApi
from regauge.providers._rate import AdaptiveLimit, window_for
from regauge.providers._retry import Ledger, retried
from regauge.providers._types import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx2

    from regauge.project import EndpointSettings
    from regauge.providers._rate import Permit, Quota, Window
    from regauge.providers._types import CompletionRequest, Provider

# Failures at once are one event: every request in flight sees the same restart of a server.
_IN_A_ROW: Final = 8
_COLD_GRACE_S: Final = 2.0
# These do not pass by waiting; a second request would get the same.
_FINAL_KINDS: Final = frozenset({"authentication", "quota"})
# One request that always fails may be at fault itself; three of them are not.
_GIVEN_UP: Final = 3
_PASSING_KINDS: Final = frozenset({"connection", "timeout", "server", "rate-limit"})
_GATEWAY: Final = frozenset({502, 503, 504})
_TRANSPORT_KINDS: Final = frozenset({"connection", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The health of one provider; the time is passed in, in seconds.

    It trips on a refused key, on 8 failed connections in a row over 2 seconds (`patience_s` where
    there were answers before), on three requests given up where nothing ever answered, and where
    nothing but 429 came for `patience_s`. An answer resets it.

    Attributes:
        patience_s: How long a server that answered may be away, in seconds.
        refused_since: When the first 429 after the last answer came; None where there is none.
        trip: The failure for which the provider is given up.
    """

    patience_s: float = 120.0
    answered: bool = False
    failures: int = 0
    given_up: int = 0
    failing_since: float = 0.0
    refused_since: float | None = None
    trip: AttemptError | None = None

    def after_answer(self) -> Breaker:
        """After an answer."""
        ailing = self.failures or self.given_up or self.refused_since is not None or self.trip
        if self.answered and not ailing:
            return self
        return Breaker(patience_s=self.patience_s, answered=True)

    @property
    def outage(self) -> bool:
        """Return whether a server that answered before is away, and not one request at fault."""
        return self.answered and self.failures >= _IN_A_ROW

    def after_failure(self, now: float, error: AttemptError, *, gave_up: bool) -> Breaker:
        """After an attempt that failed.

        Args:
            now: The time, in seconds of any steady clock.
            error: The failure.
            gave_up: Whether the request used up its attempts or its deadline with this one.
        """
        kind = error.kind
        if self.trip is not None:
            return self
        # A gateway that answers for a server that is away.
        transport = kind in _TRANSPORT_KINDS or (self.answered and error.status in _GATEWAY)
        failures = self.failures + transport
        since = now if failures == 1 else self.failing_since
        given_up = self.given_up + (gave_up and kind in _PASSING_KINDS)
        grace_s = self.patience_s if self.answered else _COLD_GRACE_S
        lasting = transport and failures >= _IN_A_ROW and now - since >= grace_s
        refused_since = self.refused_since
        if kind == "rate-limit" and refused_since is None:
            refused_since = now
        stalled = refused_since is not None and now - refused_since >= self.patience_s
        hopeless = given_up >= _GIVEN_UP and not self.answered
        return replace(
            self,
            refused_since=refused_since,
            failures=failures,
            given_up=given_up,
            failing_since=since,
            trip=error if kind in _FINAL_KINDS or lasting or hopeless or stalled else None,
        )


_DEFAULT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A parameter that some endpoints do not take.

    Attributes:
        apis: The APIs it holds for.
        url: A regular expression that is searched in the endpoint's URL.
        model: A regular expression that is matched with the model.
        names: Parameters, `response_format`, `json_object` (a response format), `strict` (of a
            tool or a schema), or `image` and `pdf` (attachments).
        does: Whether the endpoint drops them in silence or answers with an error.
        instead: What to do.
    """

    apis: tuple[str, ...]
    url: str = ""
    model: str = ""
    names: tuple[str, ...]
    does: Literal["ignores", "rejects"]
    instead: str


@cache
def load_gaps() -> tuple[Gap, ...]:
    """The known gaps, from `gaps.toml`."""
    text = files("regauge.providers").joinpath("gaps.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["gap"]
    return tuple(
        Gap(apis=tuple(row.pop("apis")), names=tuple(row.pop("names").split()), **row)
        for row in rows
    )


def supported(request: CompletionRequest, endpoint: Endpoint) -> CompletionRequest:
    """A request without its optional parameters that the endpoint does not take.

    Raises:
        ProviderError: The request needs what the endpoint does not take.
    """
    gaps = _gaps_of(endpoint.settings.api, endpoint.url, request.model)
    if not gaps:
        return request
    needs = set(_needs(request)) - set(endpoint.settings.accepts)
    left_out: set[str] = set()
    for gap in gaps:
        lacking = [name for name in gap.names if name in needs]
        left_out.update(lacking)
        name = next((name for name in lacking if name not in request.optional), None)
        if name is None:
            continue
        where = f"{request.provider}:{request.model}" if gap.model else str(endpoint)
        raise ProviderError(
            f"{request.origin or 'the prompt'} needs `{name}`, which {where} {gap.does}; no request"
            f" was sent\n  fix: {gap.instead}; if the endpoint takes it by now, add"
            f" accepts = [{name!r}] to [tool.regauge.providers.{request.provider}]",
            kind="bad-request",
        )
    if not left_out:
        return request
    kept = {name: value for name, value in request.parameters.items() if name not in left_out}
    return replace(request, parameters=kept)


@cache
def _gaps_of(api: str, url: str, model: str) -> tuple[Gap, ...]:
    return tuple(
        gap
        for gap in load_gaps()
        if api in gap.apis and re.search(gap.url, url) and re.match(gap.model, model)
    )


def _needs(request: CompletionRequest) -> Iterator[str]:
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


# Without `timeout_s` of the endpoint; reasoning models need more, which the setting gives.
_TIMEOUT_S: Final = 60.0
# Failures after which it is plain that a server is there and reads what is sent.
_ANSWERS: Final = frozenset({"bad-request", "not-found", "permission"})


@dataclass(slots=True)
class Calls:
    """The calls of a provider so far.

    Attributes:
        requests: Requests that were asked for.
        answered: Requests that got an answer.
        attempts: HTTP requests made for them.
        failures: Attempts that failed, by kind; a request that was answered in the end may
            have some.
    """

    requests: int = 0
    answered: int = 0
    attempts: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])


class AttemptApi(Protocol):
    """Makes one attempt to answer a request."""

    @property
    def sent(self) -> int:
        """The number of attempts."""
        ...

    async def open(self) -> object:
        """Load and open what an attempt needs."""
        ...

    async def call(
        self, request: CompletionRequest, *, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """Answer one request, with the limits that the server states."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class _Registered:
    """The provider of another package, which makes attempts by its own means."""

    def __init__(self, provider: Provider, endpoint: Endpoint) -> None:
        self._provider = provider
        self._where = str(endpoint)
        self.sent = 0

    async def open(self) -> None:
        """Nothing to open; the provider does so by itself."""

    async def call(
        self, request: CompletionRequest, *, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """Have the provider answer, within the time of an attempt."""
        self.sent += 1
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                completion = await self._provider.complete(request)
        except ProviderError:
            raise
        except TimeoutError as error:
            raise timed_out(self._where, timeout_s) from error
        except Exception as error:
            fix = "correct the provider; a failed attempt raises AttemptError"
            raise ProviderError(
                f"{self._where} raised {type(error).__name__}: {error}", fix=fix, kind="malformed"
            ) from error
        # Anything can come back from code of another package.
        if not isinstance(cast("object", completion), Completion):
            raise ProviderError(
                f"{self._where} returned {type(completion).__name__}, not a Completion",
                kind="malformed",
            )
        latency_s = completion.latency_s or round(time.perf_counter() - began, 4)
        return replace(completion, latency_s=latency_s), ()

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


def open_api(
    endpoint: Endpoint,
    *,
    timeout_s: float,
    connections: int,
    transport: httpx2.AsyncBaseTransport | None = None,
    registered: Provider | None = None,
) -> AttemptApi:
    """The attempts at an endpoint: by HTTP, or by a registered provider."""
    if registered is not None:
        return _Registered(registered, endpoint)
    return HttpApi(endpoint, timeout_s=timeout_s, connections=connections, transport=transport)


class RemoteProvider:
    """A provider behind one endpoint. For one event loop.

    Args:
        endpoint: `[tool.regauge.providers.<name>]`.
        name: The name of that table, `openai` or `anthropic`.
        environ: Where the key is looked up.
        transport: What HTTP goes through; None is the network.
        concurrency: Requests in flight at once, or `auto`.
        timeout_s: How long one attempt may take where the endpoint does not say, in seconds.
        registered: Makes the attempts, where `api` names a package's provider.
        attempts: Makes the attempts instead, such as on the workers of a cluster.
        limit: Holds requests back, where others share it; by default one for `concurrency`.
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
        # A pool smaller than the window would make requests wait unseen, inside their timeout.
        self._api = attempts or open_api(
            self._endpoint,
            timeout_s=self._timeout_s,
            connections=self._limit.window.ceiling + 1,
            transport=transport,
            registered=registered,
        )

    @property
    def window(self) -> Window:
        """The present limit of requests in flight."""
        return self._limit.window

    def check(self) -> None:
        """Look at the settings without asking anybody.

        Raises:
            ProviderError: A variable that holds the key or a header is not set.
        """
        self._endpoint.check()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Answer one request, trying again where that may help.

        Raises:
            ProviderError: There is no answer. Its kind is `connection`, `timeout`, `rate-limit`,
                `quota`, `authentication`, `permission`, `not-found`, `bad-request`, `server` or
                `malformed`.
        """
        self.calls.requests += 1
        if isinstance(self._api, HttpApi):
            try:
                request = supported(request, self._endpoint)
            except ProviderError:
                self._endpoint.check()  # a missing key is reported first
                raise
        ledger = Ledger(
            max_attempts=self._settings.max_attempts, deadline_s=self._settings.deadline_s
        )

        async def attempt(ledger: Ledger) -> Completion:
            async with self._limit.permit(request.model, again=ledger.attempts > 1) as permit:
                return await self._attempt(request, ledger, permit)

        try:
            completion = await retried(attempt, ledger)
        except AttemptError as error:
            if error.transient:
                self._note(error, gave_up=True)
            raise
        self.calls.answered += 1
        return completion

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    async def _attempt(
        self, request: CompletionRequest, ledger: Ledger, permit: Permit
    ) -> Completion:
        if (trip := self._breaker.trip) is not None:
            raise AttemptError(str(trip), kind=trip.kind, status=trip.status, transient=False)
        # Opened before the clock starts: the first request would pay for loading the SDK.
        await self._api.open()
        timeout_s = min(self._timeout_s, ledger.left_s)
        try:
            with ledger.clock():
                completion, quotas = await self._api.call(request, timeout_s=timeout_s)
        except AttemptError as error:
            self.calls.failures[error.kind] += 1
            if error.kind == "rate-limit":
                permit.refused(error.quotas)
            self._note(error, gave_up=False)
            error.outage = self._breaker.answered and (error.never_sent or self._breaker.outage)
            raise
        finally:
            self.calls.attempts = self._api.sent
        permit.answered(quotas)
        self._breaker = self._breaker.after_answer()
        cost_usd = completion.cost_usd
        if cost_usd is None and completion.usage != Usage():
            price = price_of(
                self._settings.prices,
                request.model,
                reported=completion.model,
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
            self._breaker = self._breaker.after_answer()
        else:
            self._breaker = self._breaker.after_failure(time.monotonic(), error, gave_up=gave_up)
            if self._breaker.trip is not None:
                self._limit.lift()
