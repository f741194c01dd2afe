"""Which pull request a workflow runs for, from the event that GitHub wrote to a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Event", "pull_request_number", "read_event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What an event says of the pull request it is about.

    Attributes:
        number: Of the pull request; None where the event does not name it.
        head_owner: Who owns the head branch, where only the branch is named.
        head_branch: Of a `workflow_run` whose pull request GitHub leaves out, as for all forks.
        head_sha: The commit that the run was for.
        run_url: Of a `workflow_run`, the page of the run that it is about.
    """

    number: int | None = None
    head_owner: str = ""
    head_branch: str = ""
    head_sha: str = ""
    run_url: str = ""


def read_event(environ: Mapping[str, str]) -> Event:
    """The event of this workflow; one that says nothing outside GitHub Actions.

    Raises:
        UsageError: `GITHUB_EVENT_PATH` names a file that cannot be read.
    """
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        return Event()
    try:
        document: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"GITHUB_EVENT_PATH: {path} cannot be read: {error}\n"
            "  fix: say which pull request is meant with --pr NUMBER"
        ) from error
    return _event(_table(document))


def pull_request_number(event: Event) -> int:
    """The number of the pull request that an event names.

    Raises:
        UsageError: It names none.
    """
    if event.number is None:
        raise UsageError(
            "there is no pull request to comment on\n"
            "  fix: name it with --pr NUMBER, or run on pull_request or workflow_run"
        )
    return event.number


def _event(document: Mapping[str, Any]) -> Event:
    pull, issue = _table(document.get("pull_request")), _table(document.get("issue"))
    if pull:
        return Event(number=_number(pull))
    if issue.get("pull_request"):
        return Event(number=_number(issue))
    run = _table(document.get("workflow_run"))
    pulls: list[Any] = run.get("pull_requests") or []
    owner = _table(_table(run.get("head_repository")).get("owner")).get("login")
    # A branch may be the head of several pull requests; which one, the commit tells.
    return Event(
        number=_number(_table(pulls[0])) if len(pulls) == 1 else None,
        head_owner=str(owner or ""),
        head_branch=str(run.get("head_branch") or ""),
        head_sha=str(run.get("head_sha") or ""),
        run_url=str(run.get("html_url") or ""),
    )


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(table: Mapping[str, Any]) -> int | None:
    number = table.get("number")
    return number if isinstance(number, int) and number > 0 else None
