"""`regauge log`: the versions of a prompt."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from regauge.cli._options import named_prompt
from regauge.cli._terminal import cost_text, echo, point_document, rate_text, short, simulated
from regauge.errors import PromptError, RegaugeError
from regauge.history import History, lines_of
from regauge.printable import printable
from regauge.project import Project
from regauge.prompts import (
    Repository,
    load_prompt,
    lock_of,
    prompt_name,
    version_records,
)

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.history import Point
    from regauge.prompts import VersionRecord

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge log alert-severity
  regauge log alert-severity --json

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="log", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(prompt: str, *, as_json: bool) -> None:
    """List the versions of a prompt, the newest first.

    Each with its day, digest, commit, pass rate, cost of an answer, and changelog. Versions come
    from prompts.lock and from git; the day and the commit are those of the first commit with the
    released content. Pass rates come from the history of runs: `regauge trend` shows more of it.
    """
    path = named_prompt(prompt, instead="regauge log {name}, which lists all versions")
    repository = Repository.find(path.parent)
    records = version_records(path, repository)
    state = _state_of_file(path)
    points = _points(prompt_name(path))
    if as_json:
        document = {
            "name": prompt_name(path),
            "path": str(short(path)),
            "file": state,
            "versions": [_row(record, points) for record in records],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    if repository is None:
        click.echo("note: not in a git repository, so no days and no commits", err=True)
    if not records:
        echo(f"{prompt_name(path)} has no versions yet: regauge bump {prompt_name(path)} major")
    shown = [points[record.digest] for record in records if record.digest in points]
    for record in records:
        released = "" if record.released else "  (not released)"
        digest = (record.digest or "")[:12]
        commit = record.commit[:9] or "-"
        line = f"{record.version!s:<10}{record.date or '-':<12}{digest:<14}{commit:<11}"
        if shown:
            line += _measured(points.get(record.digest or ""))
        echo(f"{line}{record.text}{released}".rstrip())
    models = sorted({point.suite.model for point in shown})
    if models:
        click.echo(f"pass rates are those of {', '.join(map(simulated, models))}", err=True)
    if state != "released":
        echo(f"{short(path)}: {state}", style="yellow")


def _points(name: str) -> dict[str, Point]:
    """What is known of each version by its digest; of the line with most runs where it has it."""
    try:
        history = History.open(Project.find(), os.environ)
        lines = lines_of(history.suites(name))
    except RegaugeError as error:
        click.echo(printable(f"{error}\nso there are no pass rates here"), err=True)
        return {}
    return {
        point.suite.prompt_digest: point
        for line in reversed(lines)
        for point in line.points
        if point.rate is not None
    }


def _measured(point: Point | None) -> str:
    rate, cost = (rate_text(point), cost_text(point)) if point else ("-", "-")
    return f"{rate:<20}{cost:<10}"


def _row(record: VersionRecord, points: dict[str, Point]) -> dict[str, object]:
    point = points.get(record.digest or "")
    return {
        "version": str(record.version),
        "released": record.released,
        "date": record.date or None,
        "commit": record.commit or None,
        "digest": record.digest,
        "contract_digest": record.contract_digest,
        "changelog": record.text or None,
        "measured": None
        if point is None
        else {**point_document(point), "model": point.suite.model},
    }


def _state_of_file(path: Path) -> str:
    """How the file stands to its last release, in a few words."""
    try:
        prompt = load_prompt(path)
    except PromptError:
        return "does not parse"
    released = lock_of(path).of(prompt.name)
    if not released:
        return "never released"
    last = released[-1]
    if last.contract_digest != prompt.contract_digest:
        return f"contract changed since {last.version}"
    if last.digest != prompt.digest:
        return f"changed since {last.version}"
    return "released"
