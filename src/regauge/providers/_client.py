"""Opens the client of the openai SDK for an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.providers._endpoint import OPENAI_URL, Endpoint
from regauge.providers._network import cannot_open

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = ["open_client"]


def open_client(
    endpoint: Endpoint,
    *,
    timeout_s: float,
    connections: int,
    transport: httpx2.AsyncBaseTransport | None,
) -> AsyncOpenAI:
    """The client, which neither retries nor follows redirects.

    Args:
        timeout_s: How long an attempt may take; the attempt keeps this time itself.
        connections: The most that are open at a time.
        transport: Replaces the network; None for the network.

    Raises:
        AttemptError: The client cannot be set up on this machine.
        ProviderError: The key of the endpoint is missing.
    """
    import httpx2
    import openai

    options: dict[str, Any] = {
        "limits": httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        # What ends before twice the time of an attempt is a connection that failed.
        "timeout": httpx2.Timeout(2 * timeout_s),
        "follow_redirects": False,
    }
    if transport is not None:
        options["transport"] = transport
    try:
        client = openai.AsyncOpenAI(
            api_key=endpoint.key(),
            base_url=endpoint.url,
            default_headers=endpoint.headers(),
            max_retries=0,
            timeout=2 * timeout_s,
            # A third less work per call than over the SDK's default transport.
            http_client=openai.DefaultAioHttpClient(**options),
        )
    except (OSError, ValueError) as error:
        raise cannot_open(error, where=str(endpoint)) from error
    if endpoint.url != OPENAI_URL:
        # The SDK takes these from the environment; they are for OpenAI alone.
        client.organization = client.project = None
    return client
