"""Models that are asked over a network or by other packages: retries, pace, breaker and prices.

`_http.py` makes one attempt over HTTP; a package may make it by other means.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from regauge.errors import ProviderError
from regauge.providers._breaker import Breaker
from regauge.providers._cost import cost_of, price_of
from regauge.providers._endpoint import Endpoint
from regauge.providers._failure import AttemptError
from regauge.providers._http import HttpApi
from regauge.providers._rate import AdaptiveLimit, window_for
from regauge.providers._retry import Ledger, retried
from regauge.providers._support import supported
from regauge.providers._types import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from regauge.project import EndpointSettings
    from regauge.providers._quota import Quota
    from regauge.providers._rate import Permit, Window
    from regauge.providers._types import CompletionRequest, Provider

__all__ = ["Calls", "RemoteProvider"]

_TIMEOUT_S: Final = 60.0
# Failures after which it is plain that a server is there and reads what is sent.
_ANSWERS: Final = frozenset({"bad-request", "not-found", "permission"})


@dataclass(slots=True)
class Calls:
    """What a provider did so far.

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


class _Api(Protocol):
    """Makes one attempt to answer a request."""

    @property
    def sent(self) -> int:
        """How many attempts there were."""
        ...

    async def open(self) -> None:
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
            raise AttemptError(
                f"{self._where} did not answer within {timeout_s:g} s\n"
                "  fix: raise timeout_s, or look after the server",
                kind="timeout",
                transient=True,
            ) from error
        except Exception as error:
            raise ProviderError(
                f"{self._where} raised {type(error).__name__}: {error}\n"
                "  fix: correct the provider; a failed attempt raises AttemptError",
                kind="malformed",
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
    ) -> None:
        self._settings = endpoint
        self._endpoint = Endpoint(name=name, settings=endpoint, environ=environ)
        self._timeout_s = endpoint.timeout_s or timeout_s
        self._limit = AdaptiveLimit(window_for(concurrency))
        self._breaker = Breaker(patience_s=endpoint.deadline_s)
        self.calls = Calls()
        # A pool smaller than the window would make requests wait unseen, inside their timeout.
        self._api: _Api = (
            HttpApi(
                self._endpoint,
                timeout_s=self._timeout_s,
                connections=self._limit.window.ceiling + 1,
                transport=transport,
            )
            if registered is None
            else _Registered(registered, self._endpoint)
        )

    @property
    def window(self) -> Window:
        """How many requests may be in flight now."""
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
            raise AttemptError(trip.message, kind=trip.kind, status=trip.status, transient=False)
        # Opened before the clock starts: the first request would pay for loading the SDK.
        await self._api.open()
        began = time.perf_counter()
        timeout_s = min(self._timeout_s, ledger.left_s)
        try:
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
            ledger.spent_s += time.perf_counter() - began
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
            self._breaker = self._breaker.after_failure(
                time.monotonic(),
                kind=error.kind,
                message=str(error),
                status=error.status,
                gave_up=gave_up,
            )
            if self._breaker.trip is not None:
                self._limit.lift()
