"""The requests that change something on GitHub, and what becomes of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.errors import GitHubError
from regauge.github._api import Request

if TYPE_CHECKING:
    from regauge.github._api import Api

__all__ = ["COMMENTING", "Posted", "Writes", "posted"]

COMMENTING: Final = "pull-requests: write"
"""What a token needs that comments and labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What became of a text.

    Attributes:
        number: Of the pull request or the issue.
        url: Where people see it.
        outcome: `kept` where a newer text is there already, `unchanged` where the same one is.
    """

    number: int
    url: str
    outcome: Literal["created", "updated", "unchanged", "kept"]


class Writes:
    """Creates, changes and deletes in one repository.

    Args:
        api: Where it is asked for.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def create(
        self,
        path: str,
        document: dict[str, Any],
        what: str,
        *,
        permission: str = COMMENTING,
        again: bool = False,
        needs: str = "",
    ) -> Any:
        """A new object as GitHub returns it.

        Args:
            again: Whether asking twice does no harm.
            needs: A key that it has.
        """
        request = Request(
            method="POST",
            path=path,
            what=what,
            permission=permission,
            again=again,
            document=document,
            needs=(needs,) if needs else (),
        )
        return self._api.ask(request)

    def change(self, path: str, document: dict[str, Any], what: str, permission: str) -> None:
        """Write over what is there."""
        self._api.ask(
            Request(method="PATCH", path=path, what=what, permission=permission, document=document)
        )

    def delete(self, path: str, what: str) -> None:
        """Take a comment away, if it is still there."""
        try:
            self._api.ask(Request(method="DELETE", path=path, what=what, permission=COMMENTING))
        except GitHubError as error:
            # Another run was quicker.
            if error.kind != "not-found":
                raise


def posted(made: dict[str, Any], outcome: Literal["created", "updated", "unchanged"]) -> Posted:
    """What GitHub says of an object, as what became of its text."""
    return Posted(number=made["number"], url=str(made.get("html_url", "")), outcome=outcome)
