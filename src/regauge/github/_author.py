"""Tells what this token wrote from what others did; anybody can write a mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from regauge.errors import GitHubError
from regauge.github._api import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.github._api import Api

__all__ = ["Author"]


class Author:
    """Whoever the token belongs to.

    The token of a workflow may not ask who it is; then any bot will do, which no person is.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._asked = False
        self._login: str | None = None

    def wrote(self, written: Mapping[str, Any]) -> bool:
        """Whether a comment or an issue is by this author.

        Raises:
            GitHubError: GitHub cannot be reached, or does not know the token.
        """
        if not self._asked:
            self._login = self._who()
            self._asked = True
        user: Mapping[str, Any] = written.get("user") or {}
        if self._login is not None:
            return bool(user.get("login") == self._login)
        return user.get("type") == "Bot"

    def _who(self) -> str | None:
        try:
            who: Any = self._api.ask(
                Request(method="GET", path="/user", what="ask whose token this is", permission="")
            )
        except GitHubError as error:
            if error.kind in {"permission", "not-found"}:
                return None
            raise
        login = cast("Mapping[str, Any]", who).get("login") if isinstance(who, dict) else None
        return str(login) if login else None
