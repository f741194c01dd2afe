"""`regauge trend`: the pass rate of a prompt over time."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import (
    cost_text,
    echo,
    interval_bar,
    line_document,
    rate_text,
    simulated,
    sparkline,
)
from regauge.history import History, lines_of
from regauge.project import Project
from regauge.prompts import find_prompt, prompt_name
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.history import Line, Point

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge trend alert-severity                  a line per version
  regauge trend alert-severity --runs           a line per run
  regauge trend alert-severity --model openai:gpt-5.4-mini
  regauge trend alert-severity --json

Exit codes: 0 done, 2 wrong use or a faulty file.
"""
_HEADINGS = ("version", "content", "day", "pass rate", "0 to 100 %", "95 %", "answer", "runs")


@click.command(name="trend", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option("--runs", "every_run", is_flag=True, help="A line per run, not per version.")
@click.option("--model", metavar="ID", help="Only runs with this model.")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many lines, the newest.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(prompt: str, *, every_run: bool, model: str | None, number: int, as_json: bool) -> None:
    """Show how the pass rate of a prompt went, version by version, with 95 % intervals.

    A version is what has the same content. Of its runs the one that measured most cases counts,
    and of those the newest: replayed answers do not make a rate any surer. A line says when the
    cases, the judges or the number of trials are not those of the line before. Runs that measured
    nothing are not counted.
    """
    project = Project.find()
    name = prompt_name(find_prompt(prompt))
    history = History.open(project, os.environ)
    for run, problem in history.caught_up.unreadable:
        click.echo(f"{run}  unreadable: {problem}", err=True)
    suites = history.suites(name)
    place = history.place.shown
    found = lines_of(suites, every_run=every_run)
    lines = [line for line in found if model is None or line.model == model]
    if as_json:
        document = {"name": name, "lines": [line_document(line) for line in lines]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    if not lines:
        with_model = f" with {model}" if model else ""
        click.echo(f"no run of {name}{with_model} in {place} yet: pytest evals -k {name}")
    for place_of, line in enumerate(lines):
        if place_of:
            click.echo()
        for text in _table(name, line, number):
            echo(text)


def _table(name: str, line: Line, number: int) -> Iterator[str]:
    points = line.points[-number:]
    on = "" if line.dataset == name else f" on {line.dataset}"
    runs = plural(line.runs, "run")
    if line.unmeasured:
        runs += f" ({line.unmeasured} more measured nothing)"
    yield f"{name}{on} · {simulated(line.model)} · {runs}  {sparkline([p.rate for p in points])}"
    rows = [
        (
            "version",
            "content",
            "day",
            "pass rate",
            "0 to 100 %, 95 % interval",
            "",
            "answer",
            "runs",
        ),
        *(_row(point) for point in points),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    changes = ["", *(_note(point) for point in points)]
    for row, note in zip(rows, changes, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"{cells}  {note}".rstrip()


def _row(point: Point) -> tuple[str, ...]:
    suite = point.suite
    low, high = 100 * point.interval.low, 100 * point.interval.high
    return (
        suite.version or "-",
        suite.prompt_digest[:12],
        suite.started_at[:10],
        rate_text(point),
        interval_bar(point),
        f"{low:.0f} to {high:.0f}" if suite.measured else "-",
        cost_text(point),
        str(point.runs),
    )


def _note(point: Point) -> str:
    return f"other {' and '.join(point.changed)}" if point.changed else ""
