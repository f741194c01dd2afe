"""What regauge writes to GitHub: one comment per pull request, pull requests and issues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, cast

from regauge.errors import GitHubError
from regauge.github._api import Api, GitHubAccess, Request
from regauge.github._author import Author
from regauge.github._cut import cut_markdown
from regauge.github._one_comment import OneComment
from regauge.github._remarks import Remark, remarks_on
from regauge.github._writes import Posted, Writes, posted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from regauge.github._event import Event
    from regauge.github._mark import Mark

__all__ = ["GitHub", "Posted"]

_PULL: Final = "pull-requests: write` and `contents: write"
_ISSUE: Final = "issues: write"


class GitHub:
    """Writes comments, pull requests and issues of one repository.

    Use it as a context manager; it holds connections.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._writes = Writes(api)
        self._author = Author(api)

    @classmethod
    def from_environ(
        cls,
        environ: Mapping[str, str],
        *,
        repo: str | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Self:
        """The GitHub of `GITHUB_API_URL`, with `GITHUB_TOKEN` or `GH_TOKEN`.

        Args:
            environ: Of the process.
            repo: `owner/name`; `GITHUB_REPOSITORY` where it is not given.
            say: Hears that it waits, and for what.

        Raises:
            UsageError: There is no token, or no repository.
        """
        return cls(Api(GitHubAccess.from_environ(environ, repo=repo), say=say))

    def __enter__(self) -> Self:
        self._api.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._api.__exit__(kind, error, trace)

    def upsert_comment(self, number: int, body: str, *, mark: Mark, where: str = "") -> Posted:
        """Write the comment of this mark on a pull request: a new one, or over the earlier one.

        Runs that do so at the same time leave one comment, that of the newest mark.

        Args:
            number: Of the pull request.
            body: Markdown; cut where it is too long.
            mark: Finds the comment again.
            where: Says where all of it can be read, should it be cut.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        text = cut_markdown(mark.on(body), where=where)
        return OneComment(self._api, self._author, number=number, mark=mark).write(text)

    def open_pull_request(
        self,
        *,
        head: str,
        base: str,
        title: str,
        body: str,
        labels: Sequence[str] = (),
        draft: bool = False,
    ) -> Posted:
        """Open a pull request, or renew the words of the open one of these branches.

        Args:
            head: A branch that is pushed; `owner:branch` where it is in a fork.
            base: The branch it is to be merged into.
            title: One line.
            body: Markdown; cut where it is too long.
            labels: Added to what is there.
            draft: Whether a new one is a draft.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses, as it does where the branches are
                the same.
        """
        repo = self._api.access.repo
        what = f"open a pull request of {head} into {base} of {repo}"
        text = cut_markdown(body)
        document = {"head": head, "base": base, "title": title, "body": text, "draft": draft}
        try:
            # A second one of the same branches is refused, so asking again does no harm.
            made = self._writes.create(
                "pulls", document, what, permission=_PULL, again=True, needs="number"
            )
            opened = posted(made, "created")
        except GitHubError as error:
            there = self._pull_of(head, base, what) if error.kind == "invalid" else None
            if there is None:
                raise
            opened = self._renewed(f"pulls/{there['number']}", there, title, text, what)
        self._label(opened.number, labels)
        return opened

    def pull_request_from(self, head: str, base: str) -> Posted | None:
        """The open pull request of these branches; None where there is none.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        repo = self._api.access.repo
        there = self._pull_of(head, base, f"look for a pull request of {head} in {repo}")
        return posted(there, "unchanged") if there is not None else None

    def refused_pull_request(self, head: str, base: str, words: str) -> Posted | None:
        """The pull request of these branches that holds some words and was closed unmerged.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        what = f"look for a pull request of {head} that was closed"
        for pull in self._pulls({"head": self._full(head), "base": base, "state": "closed"}, what):
            if not pull.get("merged_at") and words in (pull.get("body") or ""):
                return posted(pull, "unchanged")
        return None

    def open_issue(
        self, *, title: str, body: str, mark: Mark | None = None, labels: Sequence[str] = ()
    ) -> Posted:
        """Open an issue; with a mark, renew the open one of that mark.

        Args:
            title: One line.
            body: Markdown; cut where it is too long.
            mark: Finds the issue again.
            labels: Of a new one; GitHub drops them where the token may not label.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        what = f"open an issue in {self._api.access.repo}"
        text = cut_markdown(mark.on(body) if mark is not None else body)
        if mark is not None:
            request = Request(
                method="GET",
                path="issues",
                what=what,
                permission=_ISSUE,
                query={"state": "open"},
                needs=("number",),
            )
            for issue in self._api.pages(request):
                ours = mark.found_on(issue.get("body") or "") and self._author.wrote(issue)
                if ours and "pull_request" not in issue:
                    return self._renewed(f"issues/{issue['number']}", issue, title, text, what)
        document = {"title": title, "body": text, "labels": list(labels)}
        made = self._writes.create("issues", document, what, permission=_ISSUE, needs="number")
        return posted(made, "created")

    def pull_request_of(self, event: Event) -> Event | None:
        """The event with the number and the base of its open pull request.

        GitHub does not name the pull request of a fork's run, so this looks for its branch, and
        compares both repositories and the commit. None where it was closed or pushed to.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        if event.number is not None or not event.head_branch:
            return event
        what = f"find the pull request of {event.head_branch}"
        for pull in self._pulls({"head": f"{event.head_owner}:{event.head_branch}"}, what):
            head: dict[str, Any] = pull["head"]
            base: dict[str, Any] = pull["base"]
            if (
                head.get("sha") == event.head_sha
                and _is_from(head, event.head_repo)
                and _is_from(base, self._api.access.repo)
            ):
                return replace(
                    event,
                    number=pull["number"],
                    base_ref=str(base.get("ref") or ""),
                    base_sha=str(base.get("sha") or ""),
                )
        return None

    def remarks(self, number: int) -> tuple[list[Remark], int]:
        """What people wrote on a pull request, the oldest first, and how many texts of bots.

        Raises:
            GitHubError: GitHub cannot be reached or refuses, or there is no such pull request.
        """
        return remarks_on(self._api, number)

    def _pulls(self, query: dict[str, str], what: str) -> list[dict[str, Any]]:
        request = Request(
            method="GET",
            path="pulls",
            what=what,
            permission="pull-requests: read",
            query={"state": "open", **query},
            needs=("number", "head", "base"),
        )
        return list(self._api.pages(request))

    def _pull_of(self, head: str, base: str, what: str) -> dict[str, Any] | None:
        return next(iter(self._pulls({"head": self._full(head), "base": base}, what)), None)

    def _full(self, head: str) -> str:
        owner = self._api.access.repo.partition("/")[0]
        return head if ":" in head else f"{owner}:{head}"

    def _renewed(
        self, path: str, there: dict[str, Any], title: str, text: str, what: str
    ) -> Posted:
        if (there.get("title"), there.get("body")) == (title, text):
            return posted(there, "unchanged")
        permission = _PULL if path.startswith("pulls") else _ISSUE
        self._writes.change(path, {"title": title, "body": text}, what, permission)
        return posted(there, "updated")

    def _label(self, number: int, labels: Sequence[str]) -> None:
        if labels:
            self._writes.create(
                f"issues/{number}/labels",
                {"labels": list(labels)},
                f"label pull request {number}",
                again=True,
            )


def _is_from(side: dict[str, Any], repo: str) -> bool:
    """Whether one side of a pull request is in a repository; so it is where none is named."""
    there: object = side.get("repo")
    named = cast("dict[str, Any]", there).get("full_name") if isinstance(there, dict) else None
    return not repo or not isinstance(named, str) or named.lower() == repo.lower()
