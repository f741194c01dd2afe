"""The pull request of a workflow, from the event file that GitHub writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The part of an event that is about a pull request. GitHub writes it, and no fork can.

    Attributes:
        number: Of the pull request; None where the event does not name it.
        base_ref: The branch that the pull request goes into; empty where the event leaves it out.
        base_sha: The commit of that branch.
        head_repo: `owner/name` of the head branch, of a pull request or a `workflow_run`.
        head_owner: Owner of the head branch, of a `workflow_run`.
        head_branch: Of a `workflow_run` whose pull request GitHub leaves out, as for all forks.
        head_sha: The commit that the run was for.
        conclusion: Of a `workflow_run`, such as `success` or `failure`; empty for other events.
        started_at: When that run began, as ISO 8601.
        run_url: Of a `workflow_run`, the page of the run that it is about.
    """

    number: int | None = None
    base_ref: str = ""
    base_sha: str = ""
    head_repo: str = ""
    head_owner: str = ""
    head_branch: str = ""
    head_sha: str = ""
    conclusion: str = ""
    started_at: str = ""
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
    except (OSError, ValueError, RecursionError) as error:
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
        return Event(
            number=_number(pull),
            base_ref=_text(_table(pull.get("base")), "ref"),
            base_sha=_text(_table(pull.get("base")), "sha"),
            head_repo=_text(_table(_table(pull.get("head")).get("repo")), "full_name"),
            head_sha=_text(_table(pull.get("head")), "sha"),
        )
    if issue.get("pull_request"):
        return Event(number=_number(issue))
    run = _table(document.get("workflow_run"))
    listed = run.get("pull_requests")
    pulls = [
        pull
        for pull in map(_table, cast("list[object]", listed) if isinstance(listed, list) else [])
        if _number(pull) is not None and _is_of_run(pull, run)
    ]
    # A branch may be the head of several pull requests; which one, the commit tells.
    only = pulls[0] if len(pulls) == 1 else {}
    head = _table(run.get("head_repository"))
    return Event(
        number=_number(only),
        base_ref=_text(_table(only.get("base")), "ref"),
        base_sha=_text(_table(only.get("base")), "sha"),
        head_repo=_text(head, "full_name"),
        head_owner=_text(_table(head.get("owner")), "login"),
        head_branch=_text(run, "head_branch"),
        head_sha=_text(run, "head_sha"),
        conclusion=_text(run, "conclusion"),
        started_at=_text(run, "run_started_at") or _text(run, "created_at"),
        run_url=_text(run, "html_url"),
    )


def _is_of_run(pull: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Return whether a pull request's base is the repository of the run."""
    base, head = _table(pull.get("base")), _table(pull.get("head"))
    pairs = (
        (_table(base.get("repo")).get("id"), _table(run.get("repository")).get("id")),
        (_table(head.get("repo")).get("id"), _table(run.get("head_repository")).get("id")),
        (head.get("ref"), run.get("head_branch")),
        (head.get("sha"), run.get("head_sha")),
    )
    return all(of_pull == of_run for of_pull, of_run in pairs if of_pull is not None and of_run)


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(table: Mapping[str, Any]) -> int | None:
    number = table.get("number")
    return number if isinstance(number, int) and number > 0 else None
