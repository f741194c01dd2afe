"""Any endpoint that speaks OpenAI's chat completions, through the openai SDK."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from regauge.providers._breaker import Breaker
from regauge.providers._cost import cost_of, price_of
from regauge.providers._endpoint import OPENAI_URL, Endpoint
from regauge.providers._failure import AttemptError, refused
from regauge.providers._network import cannot_connect
from regauge.providers._quota import quotas_in
from regauge.providers._rate import AdaptiveLimit, window_for
from regauge.providers._retry import Ledger, retried
from regauge.providers._types import Completion, Usage
from regauge.providers._wire import EmbeddedError, body_of, read_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from openai import AsyncOpenAI

    from regauge.project import EndpointSettings
    from regauge.providers._rate import Permit, Window
    from regauge.providers._types import CompletionRequest
    from regauge.providers._wire import Answer

__all__ = ["Calls", "OpenAIProvider"]

_TIMEOUT_S: Final = 60.0
# Failures after which it is plain that somebody is there and reads what is sent.
_ANSWERS: Final = frozenset({"bad-request", "not-found", "permission"})
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
).encode


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


class OpenAIProvider:
    """A provider behind one OpenAI-compatible endpoint. For one event loop.

    Args:
        endpoint: `[tool.regauge.providers.<name>]`.
        name: The name of that table, or `openai`.
        environ: Where the key is looked up.
        transport: What HTTP goes through; None is the network.
        concurrency: Requests in flight at once, or `auto`.
        timeout_s: How long one attempt may take where the endpoint does not say, in seconds.
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
    ) -> None:
        self._settings = endpoint
        self._endpoint = Endpoint(name=name, settings=endpoint, environ=environ)
        self._where = str(self._endpoint)
        # Whole: the SDK would parse and join it anew for every request.
        self._completions = f"{self._endpoint.url.rstrip('/')}/chat/completions"
        self._transport = transport
        self._timeout_s = endpoint.timeout_s or timeout_s
        self._limit = AdaptiveLimit(window_for(concurrency))
        self._breaker = Breaker(patience_s=endpoint.deadline_s)
        self._opened: AsyncOpenAI | None = None
        self._limit_names: dict[str, str] = {}
        self.calls = Calls()

    @property
    def window(self) -> Window:
        """How many requests may be in flight now."""
        return self._limit.window

    def check(self) -> None:
        """Look at the settings without asking anybody.

        Raises:
            ProviderError: A variable that holds the key or a header is not set.
        """
        self._endpoint.key()
        self._endpoint.headers()

    async def complete(self, request: CompletionRequest) -> Completion:
        """Answer one request, trying again where that may help.

        Raises:
            ProviderError: There is no answer. Its kind is `connection`, `timeout`, `rate-limit`,
                `quota`, `authentication`, `permission`, `not-found`, `bad-request`, `server` or
                `malformed`.
        """
        self.calls.requests += 1
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
        client, self._opened = self._opened, None
        if client is not None:
            await client.close()

    async def _attempt(
        self, request: CompletionRequest, ledger: Ledger, permit: Permit
    ) -> Completion:
        if (trip := self._breaker.trip) is not None:
            raise AttemptError(trip.message, kind=trip.kind, status=trip.status, transient=False)
        # Opened before the clock starts: the first request would pay for loading the SDK.
        self._client()
        began = time.perf_counter()
        try:
            response = await self._post(request, ledger)
            latency_s = time.perf_counter() - began
            answer = self._answer(request, response)
        except AttemptError as error:
            self.calls.failures[error.kind] += 1
            if error.kind == "rate-limit":
                permit.refused(error.quotas)
            self._note(error, gave_up=False)
            error.outage = self._breaker.answered and (error.never_sent or self._breaker.outage)
            raise
        finally:
            ledger.spent_s += time.perf_counter() - began
        permit.answered(quotas_in(response.headers))
        self._breaker = self._breaker.after_answer()
        price = price_of(self._settings.prices, request.model, reported=answer.model)
        return Completion(
            text=answer.text,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
            tool_calls=answer.tool_calls,
            logprobs=answer.logprobs,
            usage=answer.usage or Usage(),
            model=answer.model or request.model,
            fingerprint=answer.fingerprint,
            provider=self._endpoint.name,
            latency_s=round(latency_s, 4),
            cost_usd=cost_of(answer.usage, price) if answer.usage else None,
            attempts=ledger.attempts,
        )

    def _answer(self, request: CompletionRequest, response: httpx2.Response) -> Answer:
        try:
            return read_answer(response.content, where=self._where)
        except EmbeddedError as error:
            raise refused(
                request,
                status=error.status,
                body=error.body,
                headers=response.headers,
                where=self._where,
                key_env=self._endpoint.key_env,
                answered="200 with an error",
            ) from error

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

    async def _post(self, request: CompletionRequest, ledger: Ledger) -> httpx2.Response:
        # One limit, two names: which one a model takes is between it and us.
        usual = _LIMITS[self._endpoint.url == OPENAI_URL]
        name = self._limit_names.get(request.model, usual)
        try:
            return await self._send(request, ledger, limit_key=name)
        except AttemptError as error:
            if error.param not in _LIMITS or "max_tokens" not in request.parameters:
                raise
        other = _LIMITS[name == "max_tokens"]
        response = await self._send(request, ledger, limit_key=other)
        # Remembered once it worked, so that a limit wrong under both names is not.
        self._limit_names[request.model] = other
        return response

    async def _send(
        self, request: CompletionRequest, ledger: Ledger, *, limit_key: str
    ) -> httpx2.Response:
        import httpx2
        import openai

        body = body_of(
            request,
            limit_key=limit_key,
            vary_seed=self._settings.vary_seed,
        )
        client = self._client()
        self.calls.attempts += 1
        timeout_s = min(self._timeout_s, ledger.left_s)
        try:
            # The SDK's timeout starts anew with every chunk; a server that drips never meets it.
            async with asyncio.timeout(timeout_s):
                # Raw: building the SDK's models costs more time than all of our own code.
                return await client.post(
                    self._completions,
                    cast_to=httpx2.Response,
                    content=_ENCODE(body).encode("utf-8", "backslashreplace"),
                )
        except openai.APIStatusError as error:
            raise refused(
                request,
                status=error.status_code,
                body=error.response.text,
                headers=error.response.headers,
                where=self._where,
                key_env=self._endpoint.key_env,
            ) from error
        except TimeoutError as error:
            raise AttemptError(
                f"{self._where} did not answer within {timeout_s:g} s\n"
                "  fix: raise timeout_s, or look after the server",
                kind="timeout",
                transient=True,
            ) from error
        except openai.APIConnectionError as error:
            # Over aiohttp a refused connection, too, arrives as a timeout of the SDK.
            raise cannot_connect(error, where=self._where, provider=self._endpoint.name) from error
        except openai.OpenAIError as error:
            raise AttemptError(
                f"{self._where}: {error}", kind="malformed", transient=False
            ) from error

    def _client(self) -> AsyncOpenAI:
        if self._opened is None:
            from regauge.providers._client import open_client

            # A pool smaller than the window would make requests wait unseen, inside their timeout.
            self._opened = open_client(
                self._endpoint,
                timeout_s=self._timeout_s,
                connections=self._limit.window.ceiling + 1,
                transport=self._transport,
            )
        return self._opened
