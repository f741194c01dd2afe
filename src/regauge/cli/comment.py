"""`regauge comment`: one comment per pull request with what a run has found."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal.text import echo
from regauge.errors import UsageError
from regauge.github import GitHub, Mark, cut_markdown, pull_request_number, read_event
from regauge.project import Project
from regauge.reports import (
    decision_markdown,
    escape_markdown,
    find_run,
    read_record,
    read_rows,
    run_markdown,
)

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.github import Event
    from regauge.reports import RunRecord

__all__ = ["command"]

_SHORT_HASH = 9
_EPILOG = """\
\b
Environment: GITHUB_TOKEN (or GH_TOKEN), and as GitHub Actions sets them GITHUB_REPOSITORY,
GITHUB_EVENT_PATH and GITHUB_API_URL.

\b
Exit codes: 0 written, or nothing to write to; 2 wrong use, or GitHub refuses.

\b
Examples:
  regauge comment                           the latest run, on the pull request of the workflow
  regauge comment latest --pr 12 --repo acme/prompts
  regauge comment --dry-run                 show what would be written
"""


@click.command(name="comment", epilog=_EPILOG)
@click.argument("run", default="latest")
@click.option("--pr", "number", type=click.IntRange(min=1), help="The number of the pull request.")
@click.option("--repo", metavar="OWNER/NAME", help="The repository it is in.")
@click.option(
    "--marker",
    default="gate",
    show_default=True,
    metavar="NAME",
    help="Comments of one name replace each other; another name is another comment.",
)
@click.option("--dry-run", is_flag=True, help="Print the Markdown; ask nobody.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    run: str,
    *,
    number: int | None,
    repo: str | None,
    marker: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write a run into the one comment that its pull request has, or make it.

    RUN is a run's id, the beginning of just one id, `latest`, or a directory that --report made.
    A run that gates shows its decision. A comment of a later run is left as it is.
    """
    directory = find_run(Project.find(), run)
    record = read_record(directory)
    mark = Mark(name=marker, made_at=_made_at(record))
    event = read_event(os.environ)
    text = mark.on(_body(record, directory, event))
    where = "`regauge report` shows all of the run."
    if dry_run:
        shown = cut_markdown(text, where=where)
        echo(json.dumps({"outcome": "none", "text": shown}) if as_json else shown)
        return
    with _github(repo) as github:
        if number is None and event.head_branch:
            number = github.pull_request_of(event)
            if number is None:
                why = f"no open pull request has {event.head_branch} as it was: nothing to write to"
                echo(json.dumps({"outcome": "none", "reason": why}) if as_json else why)
                return
        number = number or pull_request_number(event)
        posted = github.upsert_comment(number, text, mark=mark, where=where)
    if as_json:
        document = {"outcome": posted.outcome, "url": posted.url, "pull_request": number}
        echo(json.dumps(document))
    else:
        echo(f"{posted.outcome}: {posted.url}")


def _github(repo: str | None) -> GitHub:
    try:
        return GitHub.from_environ(os.environ, repo=repo, say=_say)
    except UsageError as error:
        raise UsageError(
            f"{error}\n  to read the comment here: regauge comment --dry-run"
        ) from error


def _say(line: str) -> None:
    """Say what is waited for."""
    click.echo(line, err=True)


def _body(record: RunRecord, directory: Path, event: Event) -> str:
    if record.decision is not None:
        text = decision_markdown(
            record.decision, suites=record.suites, suggestions=record.suggestions
        )
    else:
        text = run_markdown(record, read_rows(directory))
    return f"{text}\n<sub>{' · '.join(_origin(record, event))}</sub>\n"


def _origin(record: RunRecord, event: Event) -> list[str]:
    """Which run of which commit the comment shows, and where its log is."""
    parts = [f"run {escape_markdown(record.id)}"]
    if record.git is not None:
        dirty = "+" if record.git.dirty else ""
        parts.append(f"commit {escape_markdown(record.git.commit[:_SHORT_HASH])}{dirty}")
    url = event.run_url or _url_of_this_run()
    if url:
        parts.append(f"[log]({url})")
    return parts


def _url_of_this_run() -> str:
    server, repo = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    run = os.environ.get("GITHUB_RUN_ID", "")
    return f"{server}/{repo}/actions/runs/{run}" if server and repo and run.isdigit() else ""


def _made_at(record: RunRecord) -> str:
    """When the run began; a record from elsewhere cannot claim to be of the future."""
    now = datetime.now(UTC)
    try:
        began = datetime.fromisoformat(record.started_at)
    except ValueError as error:
        raise UsageError(
            f"run {record.id!r} does not say when it began: {record.started_at!r}\n"
            "  fix: name a run that regauge wrote"
        ) from error
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    return min(began, now).astimezone(UTC).isoformat(timespec="seconds")
