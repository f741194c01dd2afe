"""`regauge report`: a run in the form another reader wants."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Literal, get_args

import click

from regauge.cli._options import STDOUT, OutputFile, write_output, writing
from regauge.errors import StoreError, UsageError
from regauge.history import History
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

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge report latest
  regauge report 20260131 -o trials.csv
  regauge report -o report.html
  regauge report --format csv | less

Exit codes: 0 done, 2 wrong use or a faulty file.
"""
Format = Literal["md", "html", "json", "csv", "parquet"]
_SUFFIXES: dict[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".markdown": "md",
    ".htm": "html",
    "": "md",
}


@click.command(
    name="report",
    epilog=_EPILOG,
)
@click.argument("run", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Format)),
    help="md: for a comment; html: one page for a browser, every case and trial in it; json: the"
    " whole record; csv, parquet: a table, one line per trial. Default: the suffix of --output,"
    " or md.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=OutputFile(),
    default=STDOUT,
    help="Where to write; by default to standard output, `-` (not for parquet).",
)
@click.option(
    "--against",
    metavar="RUN",
    help="Another run, whose answers stand beside those of this one; for html.",
)
def command(
    run: str,
    form: Format | None,
    output: str,
    against: str | None,
) -> None:
    """Write a run as Markdown, HTML, JSON, CSV or parquet; of a gate's run, its decision.

    RUN is a run's id, the beginning of just one id, `latest`, or a directory that --report made.
    """
    form = form or _format_of(output)
    _refuse_misfits(form, output, against)
    project = Project.find()
    directory = find_run(project, run)
    if form == "html":
        other = find_run(project, against) if against else None
        write_output(_page(project, directory, other), output)
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
                write_output(text, output)
            else:
                write_output(run_markdown(record, rows), output)
        case "json":
            document = {**record.model_dump(mode="json"), "rows": rows}
            write_output(json.dumps(document, ensure_ascii=False, indent=1) + "\n", output)
        case "csv":
            if output != STDOUT:
                with writing(output) as path:
                    write_csv(rows, path)
            else:
                with tempfile.TemporaryDirectory() as scratch:
                    path = Path(scratch) / "trials.csv"
                    write_csv(rows, path)
                    write_output(path.read_text(encoding="utf-8"), output)
        case "parquet":
            with writing(output) as path:
                write_parquet(rows, path)
    _wrote(output)


def _format_of(output: str) -> Format:
    suffix = "" if output == STDOUT else Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"{output}: no format has the suffix {suffix}\n"
            f"  fix: add --format, or end the name with {', '.join(list(_SUFFIXES)[:5])}"
        )
    return _SUFFIXES[suffix]


def _refuse_misfits(form: Format, output: str, against: str | None) -> None:
    if form == "html" and output == STDOUT and sys.stdout.isatty():
        raise UsageError(
            "a page is for a browser, not for a terminal\n  fix: regauge report -o report.html"
        )
    if form == "parquet" and output == STDOUT:
        raise UsageError("parquet is binary\n  fix: name a file with -o FILE")
    if against is not None and form != "html":
        raise UsageError("--against is for pages\n  fix: add --format html, or leave it out")


def _page(project: Project, run: Path, against: Path | None) -> str:
    """The page of a run, with the past of its prompts where the history can be read."""
    try:
        history = History.open(project, os.environ)
        source = load_source(run, project=project, against=against, measured=history.suites)
    except StoreError as error:
        click.echo(f"the page shows no earlier runs: {error}", err=True)
        source = load_source(run, project=project, against=against)
    return html_report(source)


def _wrote(output: str) -> None:
    if output != STDOUT:
        click.echo(f"wrote {output}", err=True)
