"""Opens the client of an SDK for an endpoint; loaded when there is something to send."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
import openai

from regauge.bounded_http import bounded
from regauge.errors import ProviderError
from regauge.extras import install_command
from regauge.providers._endpoint import OPENAI_URL
from regauge.providers._network import cannot_open

if TYPE_CHECKING:
    from regauge.providers._endpoint import Endpoint

__all__ = ["Sdk", "open_client"]


# A third less work per call than over the SDK's default transport.
class _BoundedClient(openai.DefaultAioHttpClient):
    """Reads responses up to a size; all that goes wrong is an error of httpx2."""

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        try:
            response = bounded(await super().send(request, stream=True, **options))
            if not stream:
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except aiohttp.ClientError as error:
            # Such as for a response that is not HTTP.
            raise httpx2.RemoteProtocolError(str(error), request=request) from error
        return response


class Sdk:
    """The open client of one SDK, and the errors that it raises."""

    __slots__ = ("client", "connection_error", "error", "status_error")

    def __init__(self, client: Any, module: Any, error: type[Exception]) -> None:
        self.client = client
        self.error = error
        # The SDKs have one maker: their errors are of one form.
        self.status_error: type[openai.APIStatusError] = module.APIStatusError
        self.connection_error: type[Exception] = module.APIConnectionError


def open_client(
    endpoint: Endpoint,
    *,
    key: str,
    timeout_s: float,
    connections: int,
    transport: httpx2.AsyncBaseTransport | None,
) -> Sdk:
    """The client, which neither retries nor follows redirects.

    Args:
        endpoint: The endpoint.
        key: Its key.
        timeout_s: How long an attempt may take; the attempt keeps this time itself.
        connections: The most that are open at a time.
        transport: Replaces the network; None for the network.

    Raises:
        AttemptError: The client cannot be set up on this machine.
        ProviderError: A header of the endpoint, or the package of its SDK, is missing.
    """
    options: dict[str, Any] = {
        "limits": httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        # What ends before twice the time of an attempt is a connection that failed.
        "timeout": httpx2.Timeout(2 * timeout_s),
        "follow_redirects": False,
    }
    if transport is not None:
        options["transport"] = transport
    try:
        given: dict[str, Any] = {
            "api_key": key,
            "base_url": endpoint.url,
            "default_headers": endpoint.headers(),
            "max_retries": 0,
            "timeout": 2 * timeout_s,
            "http_client": _BoundedClient(**options),
        }
        if endpoint.settings.api == "anthropic":
            anthropic = _anthropic(endpoint.name)
            return Sdk(anthropic.AsyncAnthropic(**given), anthropic, anthropic.AnthropicError)
        client = openai.AsyncOpenAI(**given)
    except (OSError, ValueError) as error:
        raise cannot_open(error, where=str(endpoint)) from error
    if endpoint.url != OPENAI_URL:
        # The SDK takes these from the environment; they are for OpenAI alone.
        client.organization = client.project = None
    return Sdk(client, openai, openai.OpenAIError)


def _anthropic(provider: str) -> Any:
    try:
        return import_module("anthropic")
    except ModuleNotFoundError as error:
        raise ProviderError(
            f"provider {provider!r} needs the package {error.name!r}, which is not installed\n"
            f"  fix: {install_command('anthropic')}",
            kind="bad-request",
        ) from error
