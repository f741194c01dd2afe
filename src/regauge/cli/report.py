"""`regauge report`: write a run as a file, or as a comment on its pull request."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from regauge.cli import Command
from regauge.cli._options import (
    STDOUT,
    dry_run_option,
    json_option,
    number_option,
    output_option,
    output_path,
    refuse_options,
    write_and_report,
    write_output,
)
from regauge.cli._terminal import echo
from regauge.errors import StoreError, UsageError
from regauge.github import GitHub, GitHubAccess, Mark, cut_markdown, read_event
from regauge.history import History
from regauge.project import Project
from regauge.reports import (
    comment_markdown,
    export_run,
    find_run,
    read_record,
    read_rows,
    record_markdown,
    write_csv,
    write_parquet,
)
from regauge.reports.html import html_report, load_source, page_count, remove_pages, write_pages
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from regauge.github import PullRequestEvent
    from regauge.reports import RunRecord


Format = Literal["md", "html", "json", "csv", "parquet"]
_SUFFIXES: dict[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".markdown": "md",
    ".htm": "html",
    "": "md",
}


@click.command(name="report", cls=Command)
@click.argument("run", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Format)),
    help="Output format: csv and parquet have a line per trial. Default: the suffix, or md.",
)
@click.option("--against", metavar="RUN", help="Another run to show side by side, for html.")
@click.option("--comment", is_flag=True, help="Create or update a pull request comment.")
@number_option("--pr", click.IntRange(min=1), "--comment: the pull request.", metavar="NUMBER")
@click.option("--repo", metavar="OWNER/NAME", help="--comment: the repository.")
@click.option(
    "--marker",
    metavar="NAME",
    help="--comment: name of the comment, by default gate; another name is another comment.",
)
@click.option("--otel", is_flag=True, help="Send verdicts as OpenTelemetry events over OTLP.")
@dry_run_option
@output_option(default=STDOUT)
@json_option
def command(
    run: str,
    *,
    form: Format | None,
    against: str | None,
    comment: bool,
    pr: int | None,
    repo: str | None,
    marker: str | None,
    otel: bool,
    dry_run: bool,
    output: str,
    as_json: bool,
) -> None:
    """Write a run as HTML, Markdown, JSON, CSV or parquet, or as a pull request comment.

    RUN is a run's id, a unique beginning of one, `latest`, or a directory that --report made.

    --comment keeps the comment of a later run.

    Examples:
      regauge report latest
      regauge report 20260131 -o trials.csv
      regauge report -o report.html
      regauge report --format csv | less
      regauge report --comment                 the latest run, on the pull request of the workflow
      regauge report --comment --pr 12 --repo acme/prompts
      regauge report --comment --dry-run       print the comment
      regauge report --otel                    verdicts as OpenTelemetry events

    Environment of --comment: GITHUB_TOKEN (or GH_TOKEN), and as GitHub Actions sets them
    GITHUB_REPOSITORY, GITHUB_EVENT_PATH and GITHUB_API_URL.

    Environment of --otel: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS.

    Exit codes: 0 done, or no pull request to comment on; 2 wrong use, a faulty file, or GitHub
    refuses.
    """
    fix = "leave one of them out"
    if comment:
        of_files = {"--format": form, "--against": against, "--output": output != STDOUT}
        refuse_options({**of_files, "--otel": otel}, "does not go with --comment", fix=fix)
        _comment(run, pr, repo, marker or "gate", dry_run=dry_run, as_json=as_json)
        return
    of_comments = {"--pr": pr, "--repo": repo, "--marker": marker, "--dry-run": dry_run}
    refuse_options(of_comments, "needs --comment", fix=fix)
    if otel:
        of_files = {"--output": output != STDOUT, "--format": form, "--against": against}
        refuse_options({**of_files, "--json": as_json}, "does not go with --otel", fix=fix)
        count, endpoint = export_run(find_run(Project.find(), run))
        echo(f"sent {plural(count, 'event')} to {endpoint}")
        return
    form = form or ("json" if as_json else _format_of(output))
    _refuse_misfits(form, output, against)
    project = Project.find()
    directory = find_run(project, run)
    if form == "html":
        other = find_run(project, against) if against else None
        _write_html(project, directory, other, output)
        return
    record = read_record(directory)
    rows = partial(read_rows, directory)
    match form:
        case "md":
            write_and_report(record_markdown(record, rows()), output)
        case "json":
            write_and_report(_json_pieces(record, rows()), output)
        case "csv" if output == STDOUT:
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / "trials.csv"
                write_csv(rows, path)
                with path.open(encoding="utf-8", newline="") as lines:
                    write_output(lines, output)
        case "csv" | "parquet":
            with output_path(output) as path:
                (write_csv if form == "csv" else write_parquet)(rows, path)
            click.echo(f"wrote {output}", err=True)


def _json_pieces(record: RunRecord, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The record with its rows as one JSON document, piece by piece."""
    document = json.dumps(record.model_dump(mode="json"), ensure_ascii=False, indent=1)
    yield document.removesuffix("\n}")
    yield ',\n "rows": ['
    empty = True
    for row in rows:
        text = json.dumps(row, ensure_ascii=False, indent=1).replace("\n", "\n  ")
        yield f"{'' if empty else ','}\n  {text}"
        empty = False
    yield "]\n}\n" if empty else "\n ]\n}\n"


def _format_of(output: str) -> Format:
    suffix = Path(output).suffix.lower()
    fix = f"add --format, or end the name with {', '.join(list(_SUFFIXES)[:5])}"
    if not suffix and output != STDOUT:
        echo(f"note: {output} has no suffix, so it is Markdown; for another format {fix}", err=True)
    if suffix not in _SUFFIXES:
        raise UsageError(f"{output}: no format has the suffix {suffix}", fix=fix)
    return _SUFFIXES[suffix]


def _refuse_misfits(form: Format, output: str, against: str | None) -> None:
    if form == "html" and output == STDOUT and sys.stdout.isatty():
        fix = "regauge report -o report.html"
        raise UsageError("a page is for a browser, not for a terminal", fix=fix)
    if form == "parquet" and output == STDOUT:
        raise UsageError("parquet is binary\n  fix: name a file with -o FILE")
    if against is not None and form != "html":
        raise UsageError("--against is for pages\n  fix: add --format html, or leave it out")


def _write_html(project: Project, run: Path, against: Path | None, output: str) -> None:
    """Write the report of a run, with the run history of its prompts if it can be read."""
    pages = page_count(read_record(run), [run, *([against] if against else [])], project)
    paged = pages > 1
    if paged and output == STDOUT:
        settings = project.settings
        raise UsageError(
            f"the report is an index with {pages} pages of cases, not one file\n"
            "  fix: regauge report -o report.html, or raise html_cases_max and html_mb_max in"
            f" [tool.regauge], now {settings.html_cases_max:,} and {settings.html_mb_max:g}"
        )
    load = partial(load_source, run, project=project, against=against, cases=not paged)
    try:
        source = load(measured=History.open(project, os.environ).evals)
    except StoreError as error:
        click.echo(f"the page shows no earlier runs: {error}", err=True)
        source = load()
    if not paged:
        write_and_report(html_report(source), output)
        if output != STDOUT:
            with output_path(output) as path:
                remove_pages(path)
        return
    with output_path(output) as path:
        write_pages(source, path, pages=pages, run=run, project=project, against=against)
    click.echo(f"wrote {output} and {path.stem}-cases, {plural(pages, 'page')}", err=True)


def _comment(
    run: str, number: int | None, repo: str | None, marker: str, *, dry_run: bool, as_json: bool
) -> None:
    """Create or update a run's pull request comment."""
    event = read_event(os.environ)
    found_run = _find_run(run, event)
    of_run = (found_run[1].started_at, found_run[1].id) if found_run else (event.started_at,)
    mark = Mark(name=marker, made_at=_start_time(*of_run))
    full_text_note = "`regauge report` shows the complete run."
    if dry_run:
        body = cut_markdown(mark.on(_body(found_run, event)), full_text_note=full_text_note)
        echo(json.dumps({"outcome": "none", "text": body}) if as_json else body)
        return
    try:
        access = GitHubAccess.from_environ(os.environ, repo=repo)
    except UsageError as error:
        hint = "to read the comment here: regauge report --comment --dry-run"
        raise UsageError(f"{error}\n  {hint}") from error
    with GitHub(access, on_wait=partial(click.echo, err=True)) as github:
        if number is None:
            pull_request = github.pull_request_of(event)
            if pull_request is None:
                reason = (
                    f"no open pull request has {event.head_branch} as it was: nothing to write to"
                )
                echo(json.dumps({"outcome": "none", "reason": reason}) if as_json else reason)
                return
            event = pull_request
            number = event.require_number()
        text = mark.on(_body(found_run, event))
        comment = github.upsert_comment(number, text, mark=mark, full_text_note=full_text_note)
    document = {"outcome": comment.outcome, "url": comment.url, "pull_request": number}
    echo(json.dumps(document) if as_json else f"{comment.outcome}: {comment.url}")


def _find_run(run: str, event: PullRequestEvent) -> tuple[Path, RunRecord] | None:
    """The run and its record; None if a workflow run failed before it wrote one.

    Raises:
        UsageError: There is no such run.
    """
    try:
        directory = find_run(Project.find(), run)
    except UsageError:
        if event.conclusion in {"failure", "timed_out", "startup_failure", "action_required"}:
            return None
        raise
    return directory, read_record(directory)


def _body(found_run: tuple[Path, RunRecord] | None, event: PullRequestEvent) -> str:
    directory, record = found_run or (None, None)
    rows = read_rows(directory) if directory is not None else ()
    return comment_markdown(record, rows, event, log_url=event.run_url or _url_of_this_run())


def _url_of_this_run() -> str:
    server, repo = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    run = os.environ.get("GITHUB_RUN_ID", "")
    return f"{server}/{repo}/actions/runs/{run}" if server and repo and run.isdigit() else ""


def _start_time(started_at: str, run: str = "") -> str:
    """The start of the run, but no later than now: records are untrusted."""
    now = datetime.now(UTC)
    try:
        began = datetime.fromisoformat(started_at) if started_at or run else now
    except ValueError as error:
        message = f"run {run!r} has no valid start time: {started_at!r}"
        raise UsageError(message, fix="name a run that regauge wrote") from error
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    return min(began, now).astimezone(UTC).isoformat(timespec="seconds")
