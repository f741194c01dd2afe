"""Requests to GitHub's REST API: pages, redirects and rate limits."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast
from urllib.parse import urljoin, urlsplit

from regauge.errors import GitHubError, UsageError
from regauge.strict_json import read_json
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import httpx2

_API_URL: Final = "https://api.github.com"
_REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# GitHub ends a request after 10 s. Limits for a slow connection, a whole response, and the waits of
# one request for rate limits.
_TIMEOUT_S: Final = 30.0
_WHOLE_S: Final = 120.0
_PATIENCE_S: Final = 300.0
# The most that GitHub returns per page.
_PER_PAGE: Final = 100
# The most pages that GitHub returns of any list.
_PAGES_MAX: Final = 300
_REDIRECTS_MAX: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_KINDS: Final = {
    **dict.fromkeys(("id", "number"), int),
    **dict.fromkeys(("body", "title", "html_url"), str),
    **dict.fromkeys(("user", "head", "base"), dict),
}

_ERROR_KINDS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "authentication",
    HTTPStatus.FORBIDDEN: "permission",
    HTTPStatus.NOT_FOUND: "not-found",
    HTTPStatus.GONE: "disabled",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "rate-limit",
}
# GitHub requires at least a minute after a secondary limit without a time.
_SECONDARY_S: Final = 60.0
_SERVER_WAITS_S: Final = (1.0, 4.0)
_WORDS_MAX: Final = 300
_NO_PULLS: Final = "not permitted to create or approve pull requests"
_LET_PULL: Final = (
    "turn on `Allow GitHub Actions to create and approve pull requests` in the settings of the"
    " repository (Actions, General), or use the token of a user or an app"
)
_REMOTE: Final = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?[^/]+/|[^@/]*@[^:/]+:)"
    r"(?P<repo>[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+?)(?:\.git)?/?"
)

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubAccess:
    """A repository on a GitHub server, with the token's rights.

    Attributes:
        repo: `owner/name`.
        token: Never shown.
        api_url: The address of the API, without a slash at its end.
    """

    repo: str
    token: str
    api_url: str = _API_URL

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo):
            fix = "write it as OWNER/NAME, with --repo or GITHUB_REPOSITORY"
            raise UsageError(f"{self.repo!r} is not a repository", fix=fix)
        parts = urlsplit(self.api_url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            message = f"GITHUB_API_URL: the token would go to {self.api_url!r} for anyone to read"
            raise UsageError(message, fix="use an https address")

    def __repr__(self) -> str:
        return f"GitHubAccess(repo={self.repo!r}, api_url={self.api_url!r})"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, repo: str | None = None) -> Self:
        """Read the variables that GitHub Actions sets; `repo` has precedence.

        Raises:
            UsageError: There is no token, or no repository.
        """
        repo = repo or environ.get("GITHUB_REPOSITORY", "")
        if not repo:
            fix = "use --repo OWNER/NAME, or set GITHUB_REPOSITORY"
            raise UsageError("no repository is named", fix=fix)
        token = (environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or "").strip()
        if not token:
            fix = "set GITHUB_TOKEN; in a workflow: env: GITHUB_TOKEN: ${{ github.token }}"
            raise UsageError("there is no token for GitHub", fix=fix)
        api_url = (environ.get("GITHUB_API_URL") or _API_URL).rstrip("/")
        return cls(repo=repo, token=token, api_url=api_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """The purpose of a request, for error messages.

    Attributes:
        action: The action, to follow "cannot".
        permission: The permission that the token needs for it.
    """

    action: str
    permission: str = "pull-requests: write"


class Api:
    """A client of GitHub's API for one repository.

    Args:
        access: The server, repository and token.
        sleep: Waits for a number of seconds.
        on_wait: Called with a line before each wait.
    """

    def __init__(
        self,
        access: GitHubAccess,
        *,
        sleep: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        import httpx2

        from regauge.bounded_http import certificates_for

        self.access = access
        self._sleep = sleep
        self._on_wait = on_wait
        self._client = httpx2.Client(
            timeout=_TIMEOUT_S,
            verify=certificates_for(access.api_url),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {access.token}",
                "User-Agent": "regauge",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def request(
        self,
        method: Method,
        path: str,
        purpose: Purpose,
        document: Mapping[str, Any] | None = None,
        *,
        is_repeatable: bool | None = None,
        required_keys: Sequence[str] = (),
    ) -> Any:
        """Send a request; return the JSON of the response, or None for an empty body.

        Args:
            method: The HTTP method.
            path: The path below the repository, or below the API if it begins with `/`.
            purpose: The purpose, for errors.
            document: The body, sent as JSON.
            is_repeatable: Whether a request of unknown outcome may be repeated; None for all
                methods but POST.
            required_keys: Keys that the response must have.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        is_repeatable = method != "POST" if is_repeatable is None else is_repeatable
        response = self._response(
            method, self._url(path), purpose, document, is_repeatable=is_repeatable
        )
        answer = self._document(response, purpose)
        return self._check(answer, purpose, required_keys) if required_keys else answer

    def pages(
        self,
        path: str,
        purpose: Purpose,
        *,
        query: Mapping[str, str | int] | None = None,
        required_keys: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """The elements of a list on all pages.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        import httpx2

        parameters = httpx2.QueryParams({"per_page": _PER_PAGE, **(query or {})})
        url: str | None = f"{self._url(path)}?{parameters}"
        for _ in range(_PAGES_MAX):
            if url is None:
                return
            response = self._response("GET", url, purpose)
            document: Any = self._document(response, purpose)
            if not isinstance(document, list):
                raise self._malformed_error(purpose, "no list")
            for element in cast("list[object]", document):
                yield self._check(element, purpose, required_keys)
            following = response.links.get("next", {}).get("url")
            url = self._own_url(following, purpose) if following else None

    def _url(self, path: str) -> str:
        if path.startswith("/"):
            return f"{self.access.api_url}{path}"
        return f"{self.access.api_url}/repos/{self.access.repo}/{path}"

    def _response(
        self,
        method: Method,
        url: str,
        purpose: Purpose,
        document: Mapping[str, Any] | None = None,
        *,
        is_repeatable: bool = True,
    ) -> httpx2.Response:
        """The final response, after redirects and waits."""
        waited_s, redirects, attempt = 0.0, 0, 0
        while True:
            attempt += 1
            response = self._send(method, url, purpose, document, is_repeatable=is_repeatable)
            if response.status_code in _REDIRECTS and redirects < _REDIRECTS_MAX:
                # A renamed repository; the method stays the same.
                redirects += 1
                url = self._own_url(response.headers.get("location", ""), purpose, base=url)
                continue
            if response.status_code < HTTPStatus.BAD_REQUEST:
                return response
            wait = _wait_s(response, attempt, is_repeatable=is_repeatable)
            if wait is None or waited_s + wait > _PATIENCE_S:
                raise _refused_error(response, purpose, limited=wait is not None)
            if self._on_wait is not None:
                self._on_wait(f"GitHub returned {response.status_code}; retrying in {wait:.0f} s")
            waited_s += wait
            self._sleep(wait)

    def _send(
        self,
        method: Method,
        url: str,
        purpose: Purpose,
        document: Mapping[str, Any] | None,
        *,
        is_repeatable: bool,
    ) -> httpx2.Response:
        """Send a request; repeat it once after a connection error if it is repeatable."""
        import httpx2

        from regauge.bounded_http import BodyTooLargeError, send_bounded

        while True:
            try:
                request = self._client.build_request(method, url, json=document)
                return send_bounded(self._client, request, seconds_max=_WHOLE_S)
            except (BodyTooLargeError, httpx2.InvalidURL) as error:
                raise self._malformed_error(purpose, str(error)) from error
            except httpx2.RequestError as error:
                if not is_repeatable:
                    raise GitHubError(
                        f"cannot {purpose.action}: {self.access.api_url} cannot be reached:"
                        f" {error or type(error).__name__}\n  fix: check the network and"
                        " GITHUB_API_URL, then run the same command again",
                        kind="connection",
                    ) from error
                is_repeatable = False

    def _own_url(self, link: str, purpose: Purpose, *, base: str = "") -> str:
        """The URL of a link; other hosts than the API's are an error, to protect the token."""
        try:
            url = urljoin(base, link)
            api, target = urlsplit(self.access.api_url), urlsplit(url)
        except ValueError as error:
            raise self._malformed_error(purpose, f"it points to {link!r}") from error
        if (api.scheme, api.netloc) != (target.scheme, target.netloc):
            raise self._malformed_error(purpose, f"it points to {target.netloc!r}")
        return url

    def _document(self, response: httpx2.Response, purpose: Purpose) -> Any:
        if not response.content:
            return None
        try:
            return read_json(response.content)
        except ValueError as error:
            raise self._malformed_error(purpose, "no JSON") from error

    def _check(
        self, document: object, purpose: Purpose, required_keys: Sequence[str]
    ) -> dict[str, Any]:
        """An object of a response, after a check of required keys and types of values."""
        if not isinstance(document, dict):
            raise self._malformed_error(purpose, "no object")
        table = cast("dict[str, Any]", document)
        for key, kind in _KINDS.items():
            value: object = table.get(key)
            if not isinstance(value, kind) and (value is not None or key in required_keys):
                raise self._malformed_error(purpose, f"no {key}")
        return table

    def _malformed_error(self, purpose: Purpose, reason: str) -> GitHubError:
        message = (
            f"cannot {purpose.action}: {self.access.api_url} does not respond as GitHub does:"
            f" {reason}"
        )
        return GitHubError(message, fix="check GITHUB_API_URL", kind="malformed")


def repo_of_remote(url: str) -> str | None:
    """`owner/name` of a remote's address; None for another form of address.

    >>> repo_of_remote("git@github.com:acme/prompts.git")
    'acme/prompts'
    >>> repo_of_remote("https://github.com/acme/prompts")
    'acme/prompts'
    >>> repo_of_remote("/srv/git/prompts.git")
    """
    match = _REMOTE.fullmatch(url.strip())
    return match["repo"] if match else None


def _wait_s(response: httpx2.Response, attempt: int, *, is_repeatable: bool) -> float | None:
    """Seconds to wait before a retry; None for no retry.

    Args:
        response: The response of GitHub.
        attempt: The number of requests so far, from 1.
        is_repeatable: Whether a request of unknown outcome may be repeated.
    """
    status, headers = response.status_code, response.headers
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        waits = _SERVER_WAITS_S if is_repeatable else ()
        return waits[attempt - 1] if attempt <= len(waits) else None
    if status not in {HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}:
        return None
    retry_after_s = _retry_after_s(headers)
    if retry_after_s is not None:
        # Doubled, so that a limit that stays ends within the patience.
        return max(retry_after_s, 2.0 ** (attempt - 1))
    if headers.get("x-ratelimit-remaining") == "0":
        reset = _number(headers.get("x-ratelimit-reset"))
        return _SECONDARY_S if reset is None else max(reset - time.time(), 0.0) + 1.0
    secondary = (
        status == HTTPStatus.TOO_MANY_REQUESTS or "secondary rate limit" in _words(response).lower()
    )
    return _SECONDARY_S * 2.0 ** (attempt - 1) if secondary else None


def _refused_error(response: httpx2.Response, purpose: Purpose, *, limited: bool) -> GitHubError:
    """The error for an error response.

    Args:
        response: The response of GitHub.
        purpose: The purpose of the request.
        limited: Whether a rate limit requires a wait that is too long.
    """
    status = response.status_code
    other = "server" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
    kind = _ERROR_KINDS.get(status, other)
    if limited:
        kind = "rate-limit"
    fixes = {
        "authentication": "the token is wrong or has expired; set another as GITHUB_TOKEN",
        "permission": (
            f"give the job `permissions: {purpose.permission}`; a fork's pull request never gets"
            " it, so comment from a workflow_run workflow"
        ),
        "not-found": (
            "check the repository and the number; GitHub also reports this to a token without"
            f" `{purpose.permission}`"
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
        f"cannot {purpose.action}: GitHub returned {status}: {words}{fix}",
        kind=kind,
        status=status,
    )


def _words(response: httpx2.Response) -> str:
    """GitHub's message, then each error of a 422."""
    document: Any = None
    with suppress(ValueError):
        document = read_json(response.content)
    if not isinstance(document, dict):
        text = " ".join(response.text.split())[:_WORDS_MAX] or response.reason_phrase
        return printable(text)
    table = cast("dict[str, Any]", document)
    errors: Any = table.get("errors")
    errors = cast("Sequence[Any]", errors) if isinstance(errors, list) else ()
    words = [str(table.get("message") or "no reason"), *map(_reason, errors)]
    return printable("; ".join(words))[:_WORDS_MAX]


def _reason(error: object) -> str:
    """One error of a 422: its message, or the field and the code."""
    if not isinstance(error, dict):
        return str(error)
    details = cast("dict[str, Any]", error)
    names = (name for name in ("resource", "field", "code") if name in details)
    return str(details.get("message") or " ".join(str(details[name]) for name in names))


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after")
    seconds = _number(value)
    if value is None or seconds is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time.time(), 0.0)


def _number(value: str | None) -> float | None:
    """A count of seconds; None for anything else."""
    return float(value) if value is not None and value.isascii() and value.isdigit() else None
