"""`regauge comment`: one comment per pull request with what a run has found."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import echo
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
    shown_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.github import Event
    from regauge.reports import RunRecord

__all__ = ["command"]

_SHORT_HASH = 9
_FAILED = frozenset({"failure", "timed_out", "startup_failure", "action_required"})
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
    help="Name of the comment; another name is another comment.",
)
@click.option("--dry-run", is_flag=True, help="Print the Markdown without sending it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    run: str,
    *,
    number: int | None,
    repo: str | None,
    marker: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create or update a run's pull request comment.

    RUN is a run's id, a unique beginning of one, `latest`, or a directory that --report made. A
    comment of a later run stays. Commit, base and conclusion come from the workflow's event,
    because a fork writes its own run record.
    """
    event = read_event(os.environ)
    found = _found_run(run, event)
    made_at = _made_at(found[1].started_at, found[1].id) if found else _made_at(event.started_at)
    mark = Mark(name=marker, made_at=made_at)
    where = "`regauge report` shows all of the run."
    if dry_run:
        shown = cut_markdown(mark.on(_body(found, event)), where=where)
        echo(json.dumps({"outcome": "none", "text": shown}) if as_json else shown)
        return
    with _github(repo) as github:
        if number is None:
            named = github.pull_request_of(event)
            if named is None:
                why = f"no open pull request has {event.head_branch} as it was: nothing to write to"
                echo(json.dumps({"outcome": "none", "reason": why}) if as_json else why)
                return
            event = named
            number = pull_request_number(event)
        text = mark.on(_body(found, event))
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


def _found_run(run: str, event: Event) -> tuple[Path, RunRecord] | None:
    """The run and its record; None where a workflow run failed before it wrote one.

    Raises:
        UsageError: There is no such run.
    """
    try:
        directory = find_run(Project.find(), run)
    except UsageError:
        if event.conclusion in _FAILED:
            return None
        raise
    return directory, read_record(directory)


def _body(found: tuple[Path, RunRecord] | None, event: Event) -> str:
    if found is None:
        footer = " · ".join(_origin(None, event))
        return f"{_failed(event)}\n\nIt left no run record.\n\n<sub>{footer}</sub>\n"
    directory, record = found
    if record.decision is not None:
        text = decision_markdown(
            record.decision, suites=record.suites, suggestions=record.suggestions
        )
    else:
        text = run_markdown(record, read_rows(directory))
    alerts = "".join(f"{alert}\n\n" for alert in _alerts(record, event))
    return f"{alerts}{text}\n<sub>{' · '.join(_origin(record, event))}</sub>\n"


def _alerts(record: RunRecord, event: Event) -> Iterator[str]:
    """Where GitHub and the run record differ. A fork writes its record, but not the event."""
    if event.conclusion not in {"", "success"} and _is_green(record):
        yield f"{_failed(event)}\n\nThe run record below does not show a failure."
    decision = record.decision
    if decision is not None and event.base_ref:
        compared = {event.base_ref, f"origin/{event.base_ref}", event.base_sha}
        if decision.ref not in compared:
            ref, base = shown_name(decision.ref), shown_name(event.base_ref)
            yield f"**The run compares with {ref}, and the pull request goes into {base}.**"


def _failed(event: Event) -> str:
    conclusion = escape_markdown(event.conclusion)
    log = f"\n\nSee the [log]({event.run_url})." if event.run_url else ""
    return f"### ❌ GitHub reports that the workflow run failed: {conclusion}{log}"


def _is_green(record: RunRecord) -> bool:
    """Whether a run record explains no failure of its workflow."""
    if record.decision is not None:
        return record.decision.exit_code == 0
    return not any(suite.failed or suite.unmeasured for suite in record.suites)


def _origin(record: RunRecord | None, event: Event) -> list[str]:
    """The run, its commit and its base, as GitHub states them, and its log."""
    parts = [f"run {shown_name(record.id)}"] if record is not None else []
    if event.head_sha:
        parts.append(f"commit {shown_name(event.head_sha[:_SHORT_HASH])}")
    elif record is not None and record.git is not None:
        dirty = "+" if record.git.dirty else ""
        parts.append(f"commit {shown_name(record.git.commit[:_SHORT_HASH])}{dirty}")
    if event.base_ref:
        sha = f" ({shown_name(event.base_sha[:_SHORT_HASH])})" if event.base_sha else ""
        parts.append(f"base {shown_name(event.base_ref)}{sha}")
    if event.conclusion:
        parts.append(f"GitHub: {escape_markdown(event.conclusion)}")
    url = event.run_url or _url_of_this_run()
    if url:
        parts.append(f"[log]({url})")
    return parts


def _url_of_this_run() -> str:
    server, repo = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    run = os.environ.get("GITHUB_RUN_ID", "")
    return f"{server}/{repo}/actions/runs/{run}" if server and repo and run.isdigit() else ""


def _made_at(started_at: str, run: str = "") -> str:
    """When the run began; a record from elsewhere cannot claim to be of the future."""
    now = datetime.now(UTC)
    try:
        began = datetime.fromisoformat(started_at) if started_at or run else now
    except ValueError as error:
        raise UsageError(
            f"run {run!r} does not say when it began: {started_at!r}\n"
            "  fix: name a run that regauge wrote"
        ) from error
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    return min(began, now).astimezone(UTC).isoformat(timespec="seconds")
