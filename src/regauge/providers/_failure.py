"""Failed attempts: the kind, the fix, and retries: after which failures, when, and how long."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from regauge.errors import ProviderError
from regauge.providers._rate import quotas_in, seconds_in
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from regauge.providers._rate import Quota
    from regauge.providers._types import CompletionRequest


# A longer wait is a wrong clock or a daily quota; runs do not wait for it.
_RETRY_AFTER_MAX_S: Final = 3600.0
_EXCERPT: Final = 300
_TRANSIENT: Final = {408: "timeout", 409: "server", 425: "server", 429: "rate-limit"}
_PERMANENT: Final = {401: "authentication", 403: "permission", 404: "not-found"}
_QUOTA: Final = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
# Anthropic has no status of its own for an account without credit.
_NO_CREDIT: Final = re.compile(r"credit balance is too low", re.IGNORECASE)
_UNPAID: Final = {429: _QUOTA, 400: _NO_CREDIT}
# Gemini and xAI reject a key with 400.
_REJECTED_KEY: Final = re.compile(
    r"api[ _]key[ _](is )?(not valid|invalid|expired)|(invalid|incorrect|expired) api[ _]key",
    re.IGNORECASE,
)
_RETRY: Final = re.compile(r"retry in|retry after|retryDelay|per minute", re.IGNORECASE)
_NAMED: Final = re.compile(r"['\"`]([a-z][a-z0-9_.]*)['\"`]")
# The keys of prompt files, if the API has another name.
_KEY_OF: Final = {
    "max_tokens": "maxTokens",
    "max_completion_tokens": "maxCompletionTokens",
    "top_p": "topP",
}
Result = TypeVar("Result")
# Waits double from the first to the longest: 6 attempts without `Retry-After` reach it. Shorter
# ones meet the same overload again; longer ones delay every run with one lost request.
_WAIT_FIRST_S: Final = 0.25
_WAIT_MAX_S: Final = 8.0
# A restarting server is tried more often: a refused connection costs nothing. After a 429 the
# pace of all requests limits the load, so that the wait of one need not grow.
_OUTAGE_WAIT_MAX_S: Final = 2.0
# The first wait if the provider states a delay.
_WAIT_FIRST_STATED_S: Final = 0.05
_DOUBLINGS_MAX: Final = 10


class AttemptError(ProviderError):
    """One attempt that failed.

    Attributes:
        transient: Whether the same request may succeed later.
        retry_after_s: The delay that the provider requests, in seconds; None if not stated.
        param: The parameter that the provider rejects, or "".
        never_sent: Whether the request never reached a server.
        outage: Whether a server that worked before is unreachable at the moment.
        quotas: The limits that the response stated.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        transient: bool,
        retry_after_s: float | None = None,
        param: str = "",
        never_sent: bool = False,
        quotas: tuple[Quota, ...] = (),
        fix: str = "",
    ) -> None:
        super().__init__(message, kind=kind, status=status, fix=fix)
        self.transient = transient
        self.retry_after_s = retry_after_s
        self.param = param
        self.never_sent = never_sent
        self.outage = False
        self.quotas = quotas

    def mark_outage(self) -> None:
        """Note that the server worked before."""
        self.outage = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """The error in a response: OpenAI's `{"error": {...}}` or any other text."""

    message: str
    code: str = ""
    param: str = ""


def read_error_response(body: str) -> ErrorResponse:
    """Find the provider's message in the body of an error response."""
    try:
        document: Any = read_json(body)
    except ValueError:
        return ErrorResponse(message=_excerpt(re.sub(r"<[^>]*>", " ", body)))
    return parse_error_response(document)


def parse_error_response(document: object) -> ErrorResponse:
    """Find the provider's message in a decoded body."""
    error = document
    if isinstance(document, list):
        # Gemini sends errors in a list.
        items = cast("list[object]", document)
        error = items[0] if len(items) == 1 else items
    if isinstance(error, dict):
        table = cast("dict[str, Any]", error)
        error = table.get("error") or table.get("detail") or table.get("message") or table
    if isinstance(error, dict):
        fields = cast("dict[str, Any]", error)
        code = fields.get("code") or fields.get("type")
        return ErrorResponse(
            message=_excerpt(str(fields.get("message") or json.dumps(fields))),
            code=str(code or ""),
            param=str(fields.get("param") or ""),
        )
    return ErrorResponse(message=_excerpt(str(error)))


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the delay that a response requests, in seconds from 0 to 3600; None without one.

    `retry-after-ms` takes precedence over `Retry-After`, which is seconds, an HTTP date, or a
    duration such as `1m30s`. `x-ratelimit-timeremaining` (GitHub Models) comes last.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _clamp(milliseconds / 1000)
    value = headers.get("retry-after") or headers.get("x-ratelimit-timeremaining")
    if value is None:
        return None
    seconds = _number(value)
    seconds = seconds_in(value, now) if seconds is None else seconds
    if seconds is not None:
        return _clamp(seconds)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _clamp((moment - (now or datetime.now(UTC))).total_seconds())


def status_error(
    request: CompletionRequest,
    *,
    status: int,
    body: str,
    headers: Mapping[str, str],
    endpoint: str,
    key_fix: str,
    status_text: str = "",
) -> AttemptError:
    """Return the failure that an HTTP status other than 2xx stands for.

    Args:
        request: The request.
        status: The HTTP status.
        body: The body of the response.
        headers: The headers of the response, in lower case.
        endpoint: The name and URL of the endpoint.
        key_fix: The fix if the key is rejected.
        status_text: Replaces the status in the message; empty for `status`.
    """
    error = read_error_response(body)
    message = f"{endpoint} returned {status_text or status}: {error.message or 'no reason given'}"
    quota_words = _UNPAID.get(status)
    exhausted = quota_words is not None and quota_words.search(error.message)
    # Gemini has the same message for limits per minute, and adds when to retry.
    is_unpaid = status == HTTPStatus.PAYMENT_REQUIRED or _QUOTA.search(error.code)
    if is_unpaid or (exhausted and not _RETRY.search(body)):
        fix = f"the account has no quota left: add credit, or use {_other_model(request)}"
        return AttemptError(message, fix=fix, kind="quota", status=status, transient=False)
    if status in _TRANSIENT or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    ):
        fix = "run the same command again later; it makes only the calls that are missing"
        return AttemptError(
            message,
            fix=fix,
            kind=_TRANSIENT.get(status, "server"),
            status=status,
            transient=True,
            retry_after_s=retry_after_s(headers),
            quotas=quotas_in(headers),
        )
    kind = _PERMANENT.get(status, "bad-request")
    if status == HTTPStatus.BAD_REQUEST and _REJECTED_KEY.search(error.message):
        kind = "authentication"
    # The parameter of the request that the provider rejects.
    names = {*request.parameters, "response_format", "tools", "messages", "max_completion_tokens"}
    candidates = (error.param.split(".")[0], *_NAMED.findall(error.message))
    param = next((name for name in candidates if name in names), error.param)
    base_url = f"base_url of provider {request.provider!r}"
    is_path = kind == "not-found" and request.model not in error.message
    if status < HTTPStatus.BAD_REQUEST:
        # Redirects are not followed: the key and the messages are for the configured host only.
        location = _excerpt(headers.get("location", ""))
        fix = f"correct {base_url}" + (f"; the server redirects to {location}" if location else "")
    elif status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        fix = "put the user and the password of the proxy into HTTP_PROXY or HTTPS_PROXY"
    elif is_path and (host := re.search(r"\((https?://[^/\s()]+)/?\)", endpoint)) is not None:
        fix = f"set {base_url} to {host[1]}/v1, the path of most servers"
    else:
        fix = _fix(kind, param, request, key_fix)
    origin = f"{request.origin}: " if request.origin else ""
    message = f"{origin}{message}"
    return AttemptError(message, fix=fix, kind=kind, status=status, transient=False, param=param)


def timeout_error(endpoint: str, timeout_s: float) -> AttemptError:
    """Return the failure of an attempt that timed out."""
    return AttemptError(
        f"{endpoint} did not respond within {timeout_s:.3g} s",
        fix="raise timeout_s, or deadline_s of all attempts, or look after the server",
        kind="timeout",
        transient=True,
    )


def _fix(kind: str, param: str, request: CompletionRequest, key_fix: str) -> str:
    model = f"{request.provider}:{request.model}"
    file = request.origin or "the prompt file"
    if param in {"max_tokens", "max_completion_tokens"} or param in request.parameters:
        key = _KEY_OF.get(param, param)
        also = f" (or {param})" if key != param else ""
        return f"remove or change `{key}`{also} in modelParameters of {file}; {model} rejects it"
    if param == "response_format":
        return (
            f"{model} does not take this `responseFormat`: change it, or the jsonSchema, in {file},"
            " or use a model that does"
        )
    if request.origin == "batch" and kind != "authentication":
        return "to record live, leave out --batch"
    fixes = {
        "authentication": key_fix,
        "permission": f"the key may not use {model}: use another key, or {_other_model(request)}",
        "not-found": f"check the model {model!r}, named by {request.named_by or file}, and the"
        f" base_url of provider"
        f" {request.provider!r} (it ends in /v1 for most servers)",
        "bad-request": f"change {file}, or use {_other_model(request)}",
    }
    return fixes.get(kind, "")


def _other_model(request: CompletionRequest) -> str:
    """Words for another model; `--model` replaces that of prompts, not of judges."""
    is_prompt = not request.origin or ".prompt.yml" in request.origin
    return "another model with --model" if is_prompt else "another model"


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _EXCERPT else words[:_EXCERPT] + "..."


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and number == number else None  # noqa: PLR0124 - NaN


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), _RETRY_AFTER_MAX_S)


@dataclass(slots=True, kw_only=True)
class Ledger:
    """The attempts and time that one request has used so far.

    A 429 is the provider's queue, and an unreachable server that worked before is restarting: such
    attempts count against the deadline only. Waiting for a permit does not count.

    Attributes:
        max_attempts: Maximum number of attempts.
        deadline_s: Time limit of attempts and waits together, in seconds.
        attempts: All attempts, including those that count against the deadline only.
        failures: The attempts that count against `max_attempts`.
        spent_s: The used part of the deadline, in seconds.
    """

    max_attempts: int
    deadline_s: float
    attempts: int = 0
    failures: int = 0
    spent_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left until the deadline; at least 0.05."""
        return max(self.deadline_s - self.spent_s, 0.05)

    @contextmanager
    def clock(self) -> Generator[None]:
        """Count the time of an attempt against the deadline."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - began

    def wait_after(self, error: Exception, *, chance: float) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is none.

        Args:
            error: The exception of the last attempt.
            chance: A random number from 0 to 1, so that requests do not return all at once.
        """
        if not isinstance(error, AttemptError) or not error.transient:
            return None
        if error.kind != "rate-limit" and not error.outage:
            self.failures += 1
            if self.failures >= self.max_attempts:
                return None
        waits_short = error.outage or error.kind == "rate-limit"
        longest = _OUTAGE_WAIT_MAX_S if waits_short else _WAIT_MAX_S
        wait = wait_s(self.attempts, error.retry_after_s, chance=chance, longest_s=longest)
        if self.spent_s + wait >= self.deadline_s:
            return None
        self.spent_s += wait
        return wait


def wait_s(
    attempt: int, retry_after_s: float | None, *, chance: float, longest_s: float = _WAIT_MAX_S
) -> float:
    """Return the seconds to wait after attempt number `attempt` (from 1).

    The wait doubles from a quarter of a second to 8 seconds; `chance` (0 to 1) removes up to half
    of it. It is at least the delay that the provider requests, plus up to a tenth (at most half a
    second).
    """
    doublings = min(attempt - 1, _DOUBLINGS_MAX)
    if retry_after_s is None:
        return min(_WAIT_FIRST_S * 2.0**doublings, longest_s) * (1 - chance / 2)
    least = max(retry_after_s, min(_WAIT_FIRST_STATED_S * 2.0**doublings, longest_s))
    return least + chance * min(least / 10, 0.5)


async def call_with_retries(
    attempt: Callable[[Ledger], Awaitable[Result]], ledger: Ledger
) -> Result:
    """Call `attempt` until it succeeds, its failure is final, or the ledger is used up.

    Raises:
        AttemptError: The failure of the last attempt, with the number of attempts.
    """
    while True:
        ledger.attempts += 1
        try:
            return await attempt(ledger)
        except AttemptError as error:
            # Jitter spreads load; it needs no secure random numbers.
            wait_s = ledger.wait_after(error, chance=random.random())  # noqa: S311
            if wait_s is None:
                error.attempts = ledger.attempts
                raise
        await asyncio.sleep(wait_s)
