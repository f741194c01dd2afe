"""`regauge runs`: what was run, newest first."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from regauge.cli._terminal import echo, said_of_sync
from regauge.errors import RegaugeError, StoreError
from regauge.history import History
from regauge.printable import printable
from regauge.project import Project
from regauge.reports import list_runs, money, read_record
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.reports import RunRecord

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge runs -n 5
  regauge runs --sync        take the runs of this machine into the shared history

Exit codes: 0 done, 2 wrong use or a faulty file.
"""


@click.command(name="runs", epilog=_EPILOG)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--sync", is_flag=True, help="Take in the runs of this machine that it lacks.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per run.")
def command(number: int, *, sync: bool, as_json: bool) -> None:
    """List the runs of evals in the history, the newest first: counts, cost and commit.

    The history is .regauge/history.sqlite3, made from the runs in .regauge/runs, or the store that
    [tool.regauge] or REGAUGE_STORE names. When it cannot be read, the runs of this machine are
    listed. A run that was killed has no record and is not listed.
    """
    project = Project.find()
    try:
        runs, place = _of_history(project, number=number, sync=sync)
    except StoreError as error:
        if sync:
            raise
        click.echo(printable(f"{error}\nwhat follows are the runs of this machine"), err=True)
        runs, place = list(_of_machine(project, number=number)), ".regauge/runs"
    if not runs and not as_json:
        click.echo(f"no runs in {place} yet: pytest evals")
    for record in runs:
        if as_json:
            click.echo(json.dumps(record.model_dump(mode="json"), ensure_ascii=False))
        else:
            echo(_line(record))


def _of_history(project: Project, *, number: int, sync: bool) -> tuple[list[RunRecord], str]:
    """The newest runs of the history, and where it is."""
    history = History.open(project, os.environ)
    report = history.caught_up
    if sync:
        if not history.place.own:
            report = history.sync()
        click.echo(said_of_sync(report, history.place.shown), err=True)
    for run, problem in report.unreadable:
        click.echo(printable(f"{run}  unreadable: {problem}"), err=True)
    records: list[RunRecord] = []
    for record in history.records(limit=number):
        if isinstance(record, StoreError):
            click.echo(printable(str(record)), err=True)
        else:
            records.append(record)
    return records, ".regauge/runs" if history.place.own else history.place.shown


def _of_machine(project: Project, *, number: int) -> Iterator[RunRecord]:
    for run in list_runs(project)[:number]:
        try:
            yield read_record(run)
        except RegaugeError as error:
            click.echo(printable(f"{run.name}  unreadable: {error}"), err=True)


def _line(record: RunRecord) -> str:
    # What a gate drew of main is no case of the run.
    suites = [suite for suite in record.suites if suite.arm != "main"]
    cases = sum(suite.cases for suite in suites)
    failed = sum(suite.failed for suite in suites)
    unmeasured = sum(suite.unmeasured for suite in suites)
    costs = [suite.cost_usd for suite in record.suites]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    prompts = ", ".join(f"{suite.prompt}@{suite.version or '-'}" for suite in suites)
    commit = record.git.commit[:10] + ("+" if record.git.dirty else "") if record.git else "-"
    counts = f"{plural(cases, 'case')}, {failed} failed, {unmeasured} unmeasured"
    if cases and unmeasured == cases:
        # That none failed says nothing where none was measured.
        counts = f"{plural(cases, 'case')}, {'' if cases == 1 else 'all '}unmeasured"
    if record.decision is not None:
        counts += f", gate: {record.decision.decision}"
    if record.status == "interrupted":
        counts += ", interrupted"
    return f"{record.id}  {commit:11}  {counts}, {money(cost)}  {prompts}"
