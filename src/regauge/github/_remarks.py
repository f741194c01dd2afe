"""What people wrote on a pull request: comments, comments on lines, and reviews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from regauge.github._api import Request
from regauge.github._mark import is_marked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.github._api import Api

__all__ = ["Remark", "remarks_on"]

_PERMISSION: Final = "pull-requests: read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One text that a person wrote.

    Attributes:
        by: The login of its author.
        association: What GitHub says they are to the repository, in small letters: `owner`,
            `member`, `collaborator`, `contributor`, `none`.
        path: The file that a comment on a line is about; empty for any other.
        url: Where it can be read.
        at: When it was written, as GitHub says it.
    """

    by: str
    association: str
    text: str
    path: str = ""
    url: str = ""
    at: str = ""


def remarks_on(api: Api, number: int) -> tuple[list[Remark], int]:
    """What people wrote on a pull request, the oldest first, and how many texts of bots there are.

    Texts that carry a mark of regauge are its own, whoever's token wrote them; they count as a
    bot's.

    Raises:
        GitHubError: GitHub cannot be reached or refuses, or there is no such pull request.
    """
    repo = api.access.repo
    what = f"read what people said on pull request {number} of {repo}"
    # A number that is an issue's has comments too.
    api.ask(Request(method="GET", path=f"pulls/{number}", what=what, permission=_PERMISSION))
    found: list[Remark] = []
    others = 0
    for one in _written(api, number, what):
        if _is_ours(one):
            others += 1
        elif (one.get("body") or "").strip():
            found.append(_remark(one))
    return sorted(found, key=lambda remark: remark.at), others


def _written(api: Api, number: int, what: str) -> Iterator[dict[str, Any]]:
    for path in (
        f"issues/{number}/comments",
        f"pulls/{number}/comments",
        f"pulls/{number}/reviews",
    ):
        yield from api.pages(Request(method="GET", path=path, what=what, permission=_PERMISSION))


def _is_ours(written: Mapping[str, Any]) -> bool:
    user: Mapping[str, Any] = written.get("user") or {}
    by_bot = user.get("type") == "Bot" or str(user.get("login", "")).endswith("[bot]")
    return by_bot or is_marked(written.get("body") or "")


def _remark(written: Mapping[str, Any]) -> Remark:
    user: Mapping[str, Any] = written.get("user") or {}
    return Remark(
        by=str(user.get("login") or "somebody who left"),
        association=str(written.get("author_association") or "none").lower(),
        text=str(written["body"]).replace("\r\n", "\n"),
        path=str(written.get("path") or ""),
        url=str(written.get("html_url") or ""),
        at=str(written.get("created_at") or written.get("submitted_at") or ""),
    )
