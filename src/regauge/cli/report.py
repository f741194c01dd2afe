"""`regauge report`: a run in the form another reader wants."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from regauge.errors import StoreError, UsageError
from regauge.history import History
from regauge.printable import printable
from regauge.project import Project
from regauge.reports import (
    decision_markdown,
    find_run,
    read_record,
    read_rows,
    run_markdown,
    write_csv,
    write_parquet,
)
from regauge.reports.html import html_report, load_source

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge report latest
  regauge report 20260131 --format csv -o trials.csv
  regauge report --format html -o report.html

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(
    name="report",
    epilog=_EPILOG,
)
@click.argument("run", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "html", "json", "csv", "parquet"]),
    default="md",
    show_default=True,
    help="md: for a comment; html: one page for a browser, every case and trial in it; json: the"
    " whole record; csv, parquet: a table, one line per trial.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; standard output when not given (not for parquet).",
)
@click.option(
    "--against",
    metavar="RUN",
    help="Another run, whose answers stand beside those of this one; for html.",
)
def command(
    run: str,
    form: Literal["md", "html", "json", "csv", "parquet"],
    output: Path | None,
    against: str | None,
) -> None:
    """Write a run as Markdown, HTML, JSON, CSV or parquet; of a gate's run, its decision.

    RUN is a run's id, the beginning of just one id, `latest`, or a directory that --report made.
    """
    _refuse_misfits(form, output, against)
    project = Project.find()
    directory = find_run(project, run)
    if form == "html":
        other = find_run(project, against) if against else None
        _write(_page(project, directory, other), output)
        _wrote(output)
        return
    record = read_record(directory)
    rows = list(read_rows(directory))
    match form:
        case "md":
            if record.decision is not None:
                text = decision_markdown(
                    record.decision, suites=record.suites, suggestions=record.suggestions
                )
                _write(text, output)
            else:
                _write(run_markdown(record, rows), output)
        case "json":
            document = {**record.model_dump(mode="json"), "rows": rows}
            _write(json.dumps(document, ensure_ascii=False, indent=1) + "\n", output)
        case "csv":
            if output is not None:
                with _writing(output):
                    write_csv(rows, output)
            else:
                with tempfile.TemporaryDirectory() as scratch:
                    path = Path(scratch) / "trials.csv"
                    write_csv(rows, path)
                    _write(path.read_text(encoding="utf-8"), None)
        case "parquet":
            if output is None:
                raise UsageError("parquet is binary\n  fix: say where to write it with -o FILE")
            with _writing(output):
                write_parquet(rows, output)
    _wrote(output)


def _refuse_misfits(form: str, output: Path | None, against: str | None) -> None:
    if form == "html" and output is None and sys.stdout.isatty():
        raise UsageError(
            "a page is for a browser, not for a terminal\n"
            "  fix: regauge report --format html --output report.html"
        )
    if against is not None and form != "html":
        raise UsageError("--against is for pages\n  fix: add --format html, or leave it out")


def _page(project: Project, run: Path, against: Path | None) -> str:
    """The page of a run, with the past of its prompts where the history can be read."""
    try:
        with History.opened(project, os.environ) as history:
            source = load_source(run, project=project, against=against, measured=history.suites)
    except StoreError as error:
        click.echo(f"the page shows no earlier runs: {error}", err=True)
        source = load_source(run, project=project, against=against)
    return html_report(source)


def _wrote(output: Path | None) -> None:
    if output is not None:
        click.echo(f"wrote {output}", err=True)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        # A terminal obeys control characters of an answer; a file or a program gets the bytes.
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    else:
        with _writing(output):
            output.write_text(text, encoding="utf-8")


@contextmanager
def _writing(output: Path) -> Generator[None]:
    """Says which file could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}\n"
            "  fix: name a file in an existing directory that you may write to"
        ) from error
