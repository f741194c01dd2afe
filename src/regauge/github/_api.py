"""Requests to GitHub's REST API: pages, redirects and waiting where GitHub asks for it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast
from urllib.parse import urljoin, urlsplit

from regauge.errors import GitHubError, UsageError
from regauge.github._refusal import refused, wait_s
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    import httpx2

__all__ = ["Api", "GitHubAccess", "Request"]

_API_URL: Final = "https://api.github.com"
_REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_TIMEOUT_S: Final = 30.0
_WHOLE_S: Final = 120.0
_PATIENCE_S: Final = 300.0
_PER_PAGE: Final = 100
# GitHub lists no more than this of anything.
_PAGES_MAX: Final = 300
_REDIRECTS_MAX: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_BAD: Final = 400
_KINDS: Final = {
    **dict.fromkeys(("id", "number"), int),
    **dict.fromkeys(("body", "title", "html_url"), str),
    **dict.fromkeys(("user", "head", "base"), dict),
}

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubAccess:
    """Which repository, at which GitHub, with whose rights.

    Attributes:
        repo: `owner/name`.
        token: Never shown.
        api_url: Without a slash at its end.
    """

    repo: str
    token: str
    api_url: str = _API_URL

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo):
            raise UsageError(
                f"{self.repo!r} is not a repository\n  fix: write it as OWNER/NAME, with --repo or"
                " GITHUB_REPOSITORY"
            )
        parts = urlsplit(self.api_url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise UsageError(
                f"GITHUB_API_URL: the token would go to {self.api_url!r} for anyone to read\n"
                "  fix: use an https address"
            )

    def __repr__(self) -> str:
        return f"GitHubAccess(repo={self.repo!r}, api_url={self.api_url!r})"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, repo: str | None = None) -> Self:
        """What GitHub Actions puts into the environment, with the repository named or not.

        Raises:
            UsageError: There is no token, or no repository.
        """
        repo = repo or environ.get("GITHUB_REPOSITORY", "")
        if not repo:
            raise UsageError(
                "no repository is named\n  fix: say --repo OWNER/NAME, or set GITHUB_REPOSITORY"
            )
        token = (environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or "").strip()
        if not token:
            raise UsageError(
                "there is no token for GitHub\n"
                "  fix: set GITHUB_TOKEN; in a workflow: env: GITHUB_TOKEN: ${{ github.token }}"
            )
        api_url = (environ.get("GITHUB_API_URL") or _API_URL).rstrip("/")
        return cls(repo=repo, token=token, api_url=api_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One thing that is asked of GitHub.

    Attributes:
        path: Below the repository; one that begins with `/` is below the API itself.
        what: In words, to follow on "cannot".
        permission: What the token needs for it.
        again: Whether it may be asked twice where it is not known what came of it.
        needs: Keys that each object of the response has.
    """

    method: Method
    path: str
    what: str
    permission: str
    again: bool = True
    query: Mapping[str, str | int] | None = None
    document: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = ()


class Api:
    """Asks one GitHub about one repository.

    Args:
        access: Where and as whom.
        transport: What HTTP goes through; None is the network.
        sleep: Waits for so many seconds.
        say: Hears that it waits, and for what.
        patience_s: How long it waits for one answer, in seconds, before it gives up.
    """

    def __init__(
        self,
        access: GitHubAccess,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        say: Callable[[str], None] | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        import httpx2

        self.access = access
        self._sleep = sleep
        self._say = say
        self._patience_s = patience_s
        self._client = httpx2.Client(
            transport=transport,
            timeout=_TIMEOUT_S,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {access.token}",
                "User-Agent": "regauge",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def ask(self, request: Request) -> Any:
        """What GitHub answers, as JSON; None where it has nothing to say.

        Raises:
            GitHubError: It cannot be reached, or refuses.
        """
        found = self._document(self._response(request, self._url(request)), request)
        return self._checked(found, request) if request.needs else found

    def pages(self, request: Request) -> Iterator[dict[str, Any]]:
        """Each element of a list, however many pages it has.

        Raises:
            GitHubError: As for `ask`.
        """
        import httpx2

        query = {"per_page": _PER_PAGE, **(request.query or {})}
        url: str | None = f"{self._url(request)}?{httpx2.QueryParams(query)}"
        for _ in range(_PAGES_MAX):
            if url is None:
                return
            response = self._response(request, url)
            found: Any = self._document(response, request)
            if not isinstance(found, list):
                raise self._malformed(request, "no list")
            yield from [self._checked(each, request) for each in cast("list[object]", found)]
            following = response.links.get("next", {}).get("url")
            url = self._own(following, request) if following else None

    def _url(self, request: Request) -> str:
        if request.path.startswith("/"):
            return f"{self.access.api_url}{request.path}"
        return f"{self.access.api_url}/repos/{self.access.repo}/{request.path}"

    def _response(self, request: Request, url: str) -> httpx2.Response:
        """The answer that counts: not a redirect, not a wish to wait."""
        waited_s, redirects, attempt = 0.0, 0, 0
        while True:
            attempt += 1
            response = self._sent(request, url)
            if response.status_code in _REDIRECTS and redirects < _REDIRECTS_MAX:
                # A repository that was renamed; the method stays what it was.
                redirects += 1
                url = self._own(response.headers.get("location", ""), request, base=url)
                continue
            if response.status_code < _BAD:
                return response
            wait = wait_s(response, attempt, again=request.again)
            if wait is None or waited_s + wait > self._patience_s:
                raise refused(
                    response,
                    what=request.what,
                    permission=request.permission,
                    limited=wait is not None,
                )
            if self._say is not None:
                self._say(f"GitHub answered {response.status_code}; asking again in {wait:.0f} s")
            waited_s += wait
            self._sleep(wait)

    def _sent(self, request: Request, url: str) -> httpx2.Response:
        """One answer; a connection that broke is tried once more where that does no harm."""
        import httpx2

        from regauge.bounded_http import BodyTooLargeError, send_bounded

        for last in (False, True) if request.again else (True,):
            try:
                sent = self._client.build_request(request.method, url, json=request.document)
                return send_bounded(self._client, sent, seconds_max=_WHOLE_S)
            except (BodyTooLargeError, httpx2.InvalidURL) as error:
                raise self._malformed(request, str(error)) from error
            except httpx2.RequestError as error:
                if last:
                    raise GitHubError(
                        f"cannot {request.what}: {self.access.api_url} cannot be reached:"
                        f" {error or type(error).__name__}\n  fix: run the same command again",
                        kind="connection",
                    ) from error
        raise AssertionError("the last attempt answers or raises")

    def _own(self, named: str, request: Request, *, base: str = "") -> str:
        """An address that GitHub named; the token goes nowhere else."""
        try:
            url = urljoin(base, named)
            ours, theirs = urlsplit(self.access.api_url), urlsplit(url)
        except ValueError as error:
            raise self._malformed(request, f"it points to {named!r}") from error
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise self._malformed(request, f"it points to {theirs.netloc!r}")
        return url

    def _document(self, response: httpx2.Response, request: Request) -> Any:
        if not response.content:
            return None
        try:
            return read_json(response.content)
        except ValueError as error:
            raise self._malformed(request, "no JSON") from error

    def _checked(self, found: object, request: Request) -> dict[str, Any]:
        """An object of a response, whose values are of the kinds that GitHub documents."""
        if not isinstance(found, dict):
            raise self._malformed(request, "no object")
        table = cast("dict[str, Any]", found)
        for key, kind in _KINDS.items():
            value: object = table.get(key)
            if not isinstance(value, kind) and (value is not None or key in request.needs):
                raise self._malformed(request, f"no {key}")
        return table

    def _malformed(self, request: Request, why: str) -> GitHubError:
        return GitHubError(
            f"cannot {request.what}: {self.access.api_url} does not answer as GitHub does: {why}\n"
            "  fix: check GITHUB_API_URL",
            kind="malformed",
        )
