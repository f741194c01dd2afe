"""Open the client of an SDK for an endpoint, and explain a connection that failed."""

from __future__ import annotations

import os
import socket
import ssl
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import httpx2
import openai

from regauge.bounded_http import certificates_for, limit_body
from regauge.errors import ProviderError, explain_os_error, has_no_descriptor
from regauge.on_demand import install_command
from regauge.providers._endpoint import OPENAI_URL
from regauge.providers._failure import AttemptError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.providers._endpoint import Endpoint

_CERTIFICATE_FIX: Final = (
    "correct the server's certificate, or set SSL_CERT_FILE to its certificate authority"
)
# By OpenSSL's codes: expired, not yet valid, of another name, without a known issuer.
_CERTIFICATE_FIXES: Final = {
    10: "renew the server's certificate; it has expired",
    9: "check the clock of this machine; the server's certificate is not yet valid",
    **dict.fromkeys((62, 63, 64), "use the name that the certificate is for in {base_url}"),
    **dict.fromkeys(
        (2, 18, 19, 20, 21),
        "set SSL_CERT_FILE to a file with the certificate authority of the server",
    ),
}
# By the name of the HTTP client's exception: the server was reached, and its response is broken.
_RESPONSES: Final = {
    "ClientPayloadError": "broke off its response",
    "DecodingError": "sent a response that cannot be decompressed",
    "ClientResponseError": "sent a response that is not valid HTTP",
    "BodyTooLargeError": "sent a response that is too large",
}


def setup_error(
    error: Exception, *, endpoint: str, environ: Mapping[str, str] = os.environ
) -> AttemptError:
    """Return the failure of a client that could not be set up, before any request."""
    # The file is read first; a directory is only searched when a certificate is checked.
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if environ.get(name)), None)
    if has_no_descriptor(error):
        problem, fix = explain_os_error(error)
    elif name is not None and isinstance(error, OSError):
        problem = f"the certificates of {name} ({environ[name]}) cannot be read: {_words(error)}"
        fix = f"correct {name}, or unset it to use the default certificates"
    else:
        problem = f"the client cannot be set up: {_words(error)}"
        fix = "check base_url and the proxy variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
    return AttemptError(f"{endpoint}: {problem}", fix=fix, kind="connection", transient=False)


def connection_error(error: BaseException, *, endpoint: str, provider: str) -> AttemptError:
    """Return the failure of an attempt whose connection failed or broke off.

    Args:
        error: The exception of the SDK; its chain of causes is searched.
        endpoint: The name and URL of the endpoint.
        provider: The name of its table in the settings.
    """
    chain = _causes(error)
    cause = chain[-1]
    names = {type(step).__name__ for step in chain}
    reason = f"{endpoint} cannot be reached: {_words(cause)}"
    base_url = f"base_url of provider {provider!r}"
    if (descriptor_error := next(filter(has_no_descriptor, chain), None)) is not None:
        problem, fix = explain_os_error(descriptor_error)
        reason = f"{endpoint} cannot be reached: {problem}"
        return AttemptError(reason, fix=fix, kind="connection", transient=True, never_sent=True)
    if isinstance(cause, ssl.SSLError):
        fix = f"the server does not speak TLS here: use http:// or another port in {base_url}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            fix = _CERTIFICATE_FIXES.get(cause.verify_code, _CERTIFICATE_FIX)
        fix = fix.replace("{base_url}", base_url)
        return AttemptError(reason, fix=fix, kind="connection", transient=False)
    problem = next((text for name, text in _RESPONSES.items() if name in names), "")
    if problem:
        fix = "look at the server's log, or at that of a proxy before it; or correct " + base_url
        large = "BodyTooLargeError" in names
        kind = "malformed" if large else "connection"
        reason = f"{endpoint} {problem}: {_words(cause)}"
        return AttemptError(reason, fix=fix, kind=kind, transient=not large)
    never_sent = isinstance(cause, socket.gaierror | ConnectionRefusedError)
    if any("Proxy" in name for name in names):
        reason += " (through a proxy)"
        fix = "start the proxy, correct HTTP_PROXY or HTTPS_PROXY, or add the host to NO_PROXY"
        never_sent = False
    elif isinstance(cause, socket.gaierror):
        fix = f"check the host name in {base_url} and the network's DNS"
    elif isinstance(cause, ConnectionResetError) or "Disconnected" in type(cause).__name__:
        fix = f"look at the server's log: it closed the connection; or correct {base_url}"
    else:
        fix = f"start the server, or correct {base_url}"
    return AttemptError(reason, fix=fix, kind="connection", transient=True, never_sent=never_sent)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its chain of causes, the root cause last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _words(error: BaseException) -> str:
    # aiohttp adds an excerpt with a pointer below its message.
    words = str(getattr(error, "message", "") or error).partition("\n\n")[0]
    return " ".join(words.split()).rstrip(":.") or type(error).__name__


# A third less work per call than over the SDK's default transport.
class _BoundedClient(openai.DefaultAioHttpClient):
    """A client that limits the size of responses; every failure is an error of httpx2."""

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        try:
            response = limit_body(await super().send(request, stream=True, **options))
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

    __slots__ = ("_first_requests", "_http", "client", "connection_error", "error", "status_error")

    def __init__(
        self, client: Any, http: httpx2.AsyncClient, module: Any, error: type[Exception]
    ) -> None:
        self.client = client
        self._http = http
        self._first_requests: dict[str, tuple[httpx2.URL, httpx2.Headers]] = {}
        self.error = error
        # Both SDKs come from one generator: their errors have the same form.
        self.status_error: type[openai.APIStatusError] = module.APIStatusError
        self.connection_error: type[openai.APIConnectionError] = module.APIConnectionError

    def use_key(self, key: str) -> None:
        """Send another key from now on."""
        self.client.api_key = key
        self._first_requests.clear()

    async def post(self, url: str, body: bytes) -> httpx2.Response:
        """Send a body, with the headers that the SDK set for the first request to this URL.

        Building a request in the SDK takes longer than sending it.
        """
        first_request = self._first_requests.get(url)
        if first_request is None:
            response: httpx2.Response = await self.client.post(
                url, cast_to=httpx2.Response, content=body
            )
            headers = response.request.headers.copy()
            del headers["content-length"]
            self._first_requests[url] = response.request.url, headers
            return response
        request = httpx2.Request("POST", first_request[0], headers=first_request[1], content=body)
        try:
            response = await self._http.send(request)
        except Exception as error:
            raise self.connection_error(request=request) from error
        if not response.is_success:
            raise self.status_error(response.reason_phrase, response=response, body=None)
        return response


def open_client(
    endpoint: Endpoint,
    *,
    key: str,
    timeout_s: float,
    connections: int,
    transport: httpx2.AsyncBaseTransport | None,
) -> Sdk:
    """Open the client, which neither retries nor follows redirects.

    Args:
        endpoint: The endpoint.
        key: Its key.
        timeout_s: Time limit of an attempt in seconds; the caller enforces it.
        connections: Maximum number of open connections.
        transport: Replaces the network; None for the network.

    Raises:
        AttemptError: The client cannot be set up on this machine.
        ProviderError: A header of the endpoint, or the package of its SDK, is missing.
    """
    options: dict[str, Any] = {
        "limits": httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        # The caller enforces the time limit; aiohttp would also set a timer for each read.
        "timeout": None,
        "follow_redirects": False,
        "verify": certificates_for(endpoint.url),
    }
    if transport is not None:
        options["transport"] = transport
    try:
        http = _BoundedClient(**options)
        arguments: dict[str, Any] = {
            "api_key": key,
            "base_url": endpoint.url,
            "default_headers": endpoint.headers(),
            "max_retries": 0,
            # The caller's limit comes first; the SDK's is a fallback.
            "timeout": 2 * timeout_s,
            "http_client": http,
        }
        if endpoint.settings.api == "anthropic":
            anthropic = _anthropic(endpoint.name)
            client = anthropic.AsyncAnthropic(**arguments)
            return Sdk(client, http, anthropic, anthropic.AnthropicError)
        client = openai.AsyncOpenAI(**arguments)
    except (OSError, ValueError) as error:
        raise setup_error(error, endpoint=str(endpoint)) from error
    if endpoint.url != OPENAI_URL:
        # The SDK reads these from the environment; they are for OpenAI only.
        client.organization = client.project = None
    return Sdk(client, http, openai, openai.OpenAIError)


def _anthropic(provider: str) -> Any:
    try:
        return import_module("anthropic")
    except ModuleNotFoundError as error:
        message = f"provider {provider!r} needs the package {error.name!r}, which is not installed"
        fix = install_command("anthropic")
        raise ProviderError(message, fix=fix, kind="bad-request") from error
