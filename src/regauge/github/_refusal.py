"""What GitHub's refusals mean: whether to wait, how long, and what to do about the others."""

from __future__ import annotations

import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import GitHubError
from regauge.printable import printable
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx2

__all__ = ["refused", "wait_s"]

_UNAUTHORISED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_GONE: Final = 410
_INVALID: Final = 422
_TOO_MANY: Final = 429
_SERVER: Final = 500
_KINDS: Final = {
    _UNAUTHORISED: "authentication",
    _FORBIDDEN: "permission",
    _NOT_FOUND: "not-found",
    _GONE: "disabled",
    _INVALID: "invalid",
    _TOO_MANY: "rate-limit",
}
# A secondary limit that names no time asks for a minute at least.
_SECONDARY_S: Final = 60.0
_SERVER_WAITS_S: Final = (1.0, 4.0)
_WORDS_MAX: Final = 300
_NO_PULLS: Final = "not permitted to create or approve pull requests"
_LET_PULL: Final = (
    "turn on `Allow GitHub Actions to create and approve pull requests` in the settings of the"
    " repository (Actions, General), or hand over the token of a person or an app"
)


def wait_s(
    response: httpx2.Response,
    attempt: int,
    *,
    again: bool,
    now: Callable[[], float] = time.time,
) -> float | None:
    """How long to wait before the same request, in seconds; None when it is no use.

    Args:
        response: What was answered.
        attempt: How many requests were made, from 1.
        again: Whether the request may be made twice where it is not known what came of it.
        now: Seconds since 1970.
    """
    status, headers = response.status_code, response.headers
    if status >= _SERVER:
        waits = _SERVER_WAITS_S if again else ()
        return waits[attempt - 1] if attempt <= len(waits) else None
    if status not in {_FORBIDDEN, _TOO_MANY}:
        return None
    named = _retry_after_s(headers, now)
    if named is not None:
        return named
    if headers.get("x-ratelimit-remaining") == "0":
        reset = _number(headers.get("x-ratelimit-reset"))
        return _SECONDARY_S if reset is None else max(reset - now(), 0.0) + 1.0
    secondary = status == _TOO_MANY or "secondary rate limit" in _words(response).lower()
    return _SECONDARY_S * 2.0 ** (attempt - 1) if secondary else None


def refused(
    response: httpx2.Response, *, what: str, permission: str, limited: bool = False
) -> GitHubError:
    """The error for an answer that is none.

    Args:
        response: What was answered.
        what: What was asked for, such as `comment on pull request 12 of o/n`.
        permission: What the token needs, such as `pull-requests: write`.
        limited: Whether GitHub asks to wait, for longer than anyone would.
    """
    status = response.status_code
    kind = _KINDS.get(status, "server" if status >= _SERVER else "refused")
    if limited:
        kind = "rate-limit"
    fixes = {
        "authentication": "the token is wrong or has expired; hand over another as GITHUB_TOKEN",
        "permission": (
            f"give the job `permissions: {permission}`; a fork's pull request never gets it, so"
            " comment from a workflow_run workflow"
        ),
        "not-found": (
            "check the repository and the number; GitHub also says so to a token that lacks"
            f" `{permission}`"
        ),
        "disabled": "turn issues on in the settings of the repository",
        "rate-limit": "wait, or use a token with a larger limit",
        "server": "run the same command again",
    }
    words = _words(response)
    if _NO_PULLS in words:
        fixes[kind] = _LET_PULL
    fix = f"\n  fix: {fixes[kind]}" if kind in fixes else ""
    return GitHubError(
        f"cannot {what}: GitHub answered {status}: {words}{fix}",
        kind=kind,
        status=status,
    )


def _words(response: httpx2.Response) -> str:
    """GitHub's own words: the message, then each error of a 422."""
    try:
        document: Any = read_json(response.content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        text = " ".join(response.text.split())[:_WORDS_MAX] or response.reason_phrase
        return printable(text)
    table = cast("dict[str, Any]", document)
    words = [str(table.get("message") or "no reason")]
    errors: Any = table.get("errors")
    for error in cast("Sequence[Any]", errors) if isinstance(errors, list) else ():
        if isinstance(error, dict):
            one = cast("dict[str, Any]", error)
            told = one.get("message") or " ".join(
                str(one[name]) for name in ("resource", "field", "code") if name in one
            )
            words.append(str(told))
        else:
            words.append(str(error))
    return printable("; ".join(words))[:_WORDS_MAX]


def _retry_after_s(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    value = headers.get("retry-after")
    seconds = _number(value)
    if value is None or seconds is not None:
        return seconds
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now(), 0.0)


def _number(value: str | None) -> float | None:
    """A count of seconds; None for anything else."""
    return float(value) if value is not None and value.isascii() and value.isdigit() else None
