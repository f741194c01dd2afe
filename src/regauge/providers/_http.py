"""One attempt of a request over HTTP, through the SDK of the API's vendor."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from regauge.errors import ProviderError
from regauge.providers._client import connection_error
from regauge.providers._endpoint import OPENAI_URL
from regauge.providers._failure import AttemptError, status_error, timeout_error
from regauge.providers._rate import quotas_in
from regauge.providers._wire import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import httpx2

    from regauge.providers._client import Sdk
    from regauge.providers._endpoint import Endpoint
    from regauge.providers._rate import Quota
    from regauge.providers._types import Completion, CompletionRequest

Done = TypeVar("Done")

_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
).encode


class _ApiModule(Protocol):
    """A module that writes the requests of an API and reads its responses."""

    def body_of(
        self, request: CompletionRequest, *, limit_key: str, vary_seed: bool
    ) -> dict[str, Any]: ...

    def read_completion(self, content: bytes, *, endpoint: str) -> Completion: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiSpec:
    """The requests and responses of an API.

    Attributes:
        module: The module that translates.
        path: The path below the URL of the endpoint.
        limit_keys: The names of `max_tokens`, the usual one first.
    """

    module: str
    path: str
    limit_keys: tuple[str, ...]


# A client reads all variables of the environment. pytest deletes one after each test, in another
# thread, and Python fails if a variable is gone before it is read.
_ENVIRONMENT_READS: Final = 100

_API_SPECS: Final[Mapping[str, _ApiSpec]] = {
    "openai": _ApiSpec(
        module="_chat",
        path="chat/completions",
        limit_keys=("max_tokens", "max_completion_tokens"),
    ),
    "responses": _ApiSpec(module="_responses", path="responses", limit_keys=("max_output_tokens",)),
    "anthropic": _ApiSpec(module="_messages", path="messages", limit_keys=("max_tokens",)),
}


class HttpApi:
    """The attempts at one endpoint. For one event loop.

    Args:
        endpoint: The endpoint.
        timeout_s: Time limit of an attempt, in seconds.
        connections: Maximum number of open connections.
        transport: Replaces the network; None for the network.

    Attributes:
        attempt_count: Number of requests sent.
        path: The path of the API in batch files.
        limit_keys: The names of `max_tokens`, the usual one first.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        connections: int,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> None:
        wire = _API_SPECS[endpoint.settings.api]
        self._endpoint = endpoint
        self._endpoint_text = str(endpoint)
        self._translation = cast("_ApiModule", import_module(f"regauge.providers.{wire.module}"))
        # The full URL: the SDK would parse and join it for each request.
        self._url = f"{endpoint.url}/{wire.path}"
        self.path = f"/v1/{wire.path}"
        self.limit_keys = wire.limit_keys
        if endpoint.url == OPENAI_URL:
            self.limit_keys = wire.limit_keys[::-1]
        self._models_with_other_limit: set[str] = set()
        self._timeout_s = timeout_s
        self._connections = connections
        self._transport = transport
        self._opening = asyncio.Lock()
        self._open_sdk: Sdk | None = None
        self._key = ""
        self._no_key: ProviderError | None = None
        self.attempt_count = 0

    async def open(self) -> Sdk:
        """Open the client, with the key of the endpoint.

        Raises:
            ProviderError: There is no key, or the client cannot be set up.
        """
        if self._open_sdk is not None:
            return self._open_sdk
        async with self._opening:
            if self._open_sdk is None:
                self._key = await self._fetch_key()
                self._open_sdk = self._open_client()
            return self._open_sdk

    def _open_client(self, attempts: int = _ENVIRONMENT_READS) -> Sdk:
        from regauge.providers._client import open_client

        try:
            return open_client(
                self._endpoint,
                key=self._key,
                timeout_s=self._timeout_s,
                connections=self._connections,
                transport=self._transport,
            )
        except KeyError:
            if attempts == 1:
                raise
            return self._open_client(attempts - 1)

    async def aclose(self) -> None:
        """Close the connections."""
        sdk, self._open_sdk = self._open_sdk, None
        if sdk is not None:
            await sdk.client.close()

    async def call(
        self, request: CompletionRequest, *, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        """Complete one request; a rejected key of a command is renewed once.

        Raises:
            AttemptError: The attempt failed.
            ProviderError: The request cannot be sent.
        """
        key = self._key
        try:
            return await self._call(request, timeout_s)
        except AttemptError as error:
            if error.kind != "authentication" or not await self._renew_key(key):
                raise
        return await self._call(request, timeout_s)

    async def _fetch_key(self) -> str:
        """Return the key; a command that failed is not run again for every request."""
        if self._no_key is not None:
            raise self._no_key
        try:
            return await self._endpoint.fetch_key()
        except ProviderError as error:
            self._no_key = error
            raise

    async def _renew_key(self, refused_key: str) -> bool:
        """Return whether the key is now another one than the rejected key."""
        if not self._endpoint.settings.api_key_command:
            return False
        async with self._opening:
            if self._key == refused_key and self._open_sdk is not None:
                self._key = await self._fetch_key()
                self._open_sdk.use_key(self._key)
        return self._key != refused_key

    async def _call(
        self, request: CompletionRequest, timeout_s: float
    ) -> tuple[Completion, tuple[Quota, ...]]:
        began = time.perf_counter()
        response = await self._post(request, timeout_s)
        latency_s = round(time.perf_counter() - began, 4)
        headers = response.headers
        completion = self.read(request, response.content, headers=headers, latency_s=latency_s)
        return completion, quotas_in(headers)

    def read(
        self,
        request: CompletionRequest,
        content: bytes,
        *,
        headers: Mapping[str, str],
        latency_s: float | None = None,
    ) -> Completion:
        """Return the completion in the body of a response.

        Raises:
            AttemptError: There is none.
        """
        try:
            completion = self._translation.read_completion(
                self._clean(content), endpoint=self._endpoint_text
            )
        except EmbeddedError as error:
            raise self.status_error(
                request,
                headers=headers,
                status=error.status,
                body=error.body,
                status_text="200 with an error",
            ) from error
        model, provider = completion.model or request.model, self._endpoint.name
        return replace(completion, model=model, provider=provider, latency_s=latency_s)

    def body(self, request: CompletionRequest, *, other_limit: bool = False) -> bytes:
        """Return the body of a request as it is sent.

        Args:
            request: The request.
            other_limit: Whether `max_tokens` has its less usual name.

        Raises:
            ProviderError: The API does not support the request.
        """
        document = self._translation.body_of(
            request,
            limit_key=self.limit_keys[-1 if other_limit else 0],
            vary_seed=self._endpoint.settings.vary_seed,
        )
        return _ENCODE(document).encode("utf-8", "backslashreplace")

    async def _post(self, request: CompletionRequest, timeout_s: float) -> httpx2.Response:
        # The limit has two names; which one a model accepts is found by trying.
        other = request.model in self._models_with_other_limit
        try:
            return await self._send(request, timeout_s, other_limit=other)
        except AttemptError as error:
            if error.param not in self.limit_keys or "max_tokens" not in request.parameters:
                raise
            if len(self.limit_keys) == 1:
                raise
        response = await self._send(request, timeout_s, other_limit=not other)
        # Stored only after success: a limit may be wrong under both names.
        if other:
            self._models_with_other_limit.remove(request.model)
        else:
            self._models_with_other_limit.add(request.model)
        return response

    async def _send(
        self, request: CompletionRequest, timeout_s: float, *, other_limit: bool
    ) -> httpx2.Response:
        body = self.body(request, other_limit=other_limit)
        await self.open()
        self.attempt_count += 1
        return await self.perform(
            lambda sdk: sdk.post(self._url, body), request=request, timeout_s=timeout_s
        )

    async def perform(
        self,
        work: Callable[[Sdk], Awaitable[Done]],
        *,
        request: CompletionRequest,
        timeout_s: float,
    ) -> Done:
        """Use the SDK once.

        Args:
            work: Called with the SDK.
            request: The request that errors refer to.
            timeout_s: Time limit in seconds.

        Raises:
            AttemptError: It failed.
        """
        sdk = await self.open()
        try:
            # The SDK's timeout restarts with every chunk; a slow stream would never reach it.
            async with asyncio.timeout(timeout_s):
                return await work(sdk)
        except sdk.status_error as error:
            raise self.status_error(
                request,
                headers=error.response.headers,
                status=error.status_code,
                body=error.response.text,
            ) from error
        except TimeoutError as error:
            raise timeout_error(self._endpoint_text, timeout_s) from error
        except sdk.connection_error as error:
            # With aiohttp, a refused connection is also a timeout of the SDK.
            raise connection_error(
                error, endpoint=self._endpoint_text, provider=self._endpoint.name
            ) from error
        except sdk.error as error:
            raise AttemptError(
                f"{self._endpoint_text}: {error}", kind="malformed", transient=False
            ) from error

    def status_error(
        self,
        request: CompletionRequest,
        *,
        headers: Mapping[str, str],
        status: int,
        body: str,
        status_text: str = "",
    ) -> AttemptError:
        """Return the failure that an HTTP status other than 2xx stands for."""
        return status_error(
            request,
            status=status,
            body=self._clean(body.encode("utf-8", "backslashreplace")).decode("utf-8", "replace"),
            headers=headers,
            endpoint=self._endpoint_text,
            key_fix=self._endpoint.key_fix,
            status_text=status_text,
        )

    def _clean(self, content: bytes) -> bytes:
        """Remove the key that a command printed from a response; no redactor knows that key."""
        if not self._endpoint.settings.api_key_command or not self._key:
            return content
        return content.replace(self._key.encode(), b"[redacted by regauge]")
