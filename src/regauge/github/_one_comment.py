"""One comment of one mark on a pull request, however many runs write it at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.errors import GitHubError
from regauge.github._api import Request
from regauge.github._writes import COMMENTING, Posted, Writes

if TYPE_CHECKING:
    from regauge.github._api import Api
    from regauge.github._author import Author
    from regauge.github._mark import Mark

__all__ = ["OneComment"]

_ROUNDS_MAX: Final = 3
_UNKNOWN: Final = frozenset({"connection", "server"})


class OneComment:
    """The comment of a mark.

    Args:
        api: Of the repository.
        author: Tells which comments are this token's.
        number: Of the pull request.
        mark: Finds the comment again.
    """

    def __init__(self, api: Api, author: Author, *, number: int, mark: Mark) -> None:
        self._api = api
        self._writes = Writes(api)
        self._author = author
        self._number = number
        self._mark = mark
        self._path = f"issues/{number}/comments"
        self._what = f"comment on pull request {number} of {api.access.repo}"

    def write(self, text: str) -> Posted:
        """Leave one comment with the newest text, whichever run wrote it.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        created: dict[str, Any] | None = None
        for last in (*[False] * (_ROUNDS_MAX - 1), True):
            try:
                comments = self._written()
                if not comments and created is None:
                    created = self._create(text)
                    # Whoever was as quick can be seen only now.
                    comments = self._written()
                if created is not None and created["id"] not in {one["id"] for one in comments}:
                    comments.append(created)
                return self._settle(text, comments, created=created)
            except GitHubError as error:
                # Gone since it was listed, or written although no answer came.
                if last or error.kind not in {"not-found", *_UNKNOWN}:
                    raise
                if error.kind == "not-found" and not self._exists():
                    raise
                created = None
        raise AssertionError("the last round returns or raises")

    def _settle(
        self, text: str, comments: list[dict[str, Any]], *, created: dict[str, Any] | None
    ) -> Posted:
        """Leave one comment of several, the oldest, with the newest text."""
        first, *others = sorted(comments, key=lambda comment: comment["id"])
        found = self._mark.found_on(first["body"])
        outcome: Literal["created", "updated", "unchanged", "kept"]
        if found is not None and found.made_at > self._mark.made_at:
            outcome = "kept"
        elif first["body"].replace("\r\n", "\n") == text:
            outcome = "unchanged"
        else:
            outcome = "updated"
            self._writes.change(
                f"issues/comments/{first['id']}", {"body": text}, self._what, COMMENTING
            )
        for other in others:
            self._writes.delete(f"issues/comments/{other['id']}", self._what)
        if created is not None and created["id"] == first["id"] and outcome == "unchanged":
            outcome = "created"
        return Posted(number=self._number, url=str(first.get("html_url", "")), outcome=outcome)

    def _create(self, text: str) -> dict[str, Any]:
        made: dict[str, Any] = self._writes.create(
            self._path, {"body": text}, self._what, needs="id"
        )
        return {"body": text, **made}

    def _written(self) -> list[dict[str, Any]]:
        """The comments of the mark that this token wrote; anybody can write a mark."""
        listed = self._api.pages(
            Request(
                method="GET",
                path=self._path,
                what=self._what,
                permission=COMMENTING,
                needs=("id",),
            )
        )
        return [
            comment
            for comment in listed
            if self._mark.found_on(comment.get("body") or "") is not None
            and self._author.wrote(comment)
        ]

    def _exists(self) -> bool:
        try:
            self._api.ask(
                Request(
                    method="GET",
                    path=f"issues/{self._number}",
                    what=f"read pull request {self._number}",
                    permission=COMMENTING,
                )
            )
        except GitHubError:
            return False
        return True
