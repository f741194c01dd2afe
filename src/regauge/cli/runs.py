"""`regauge runs`: what was run, newest first."""

from __future__ import annotations

import json

import click

from regauge.errors import RegaugeError
from regauge.project import Project
from regauge.reports import list_runs, money, read_record

__all__ = ["command"]


@click.command(name="runs", epilog="Example: regauge runs -n 5")
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document per run.")
def command(number: int, *, as_json: bool) -> None:
    """List the runs of evals, the newest first: counts, cost and commit.

    Runs are in .regauge/runs; a run that was killed has no record and is not listed.
    """
    project = Project.find()
    runs = list_runs(project)[:number]
    if not runs and not as_json:
        click.echo(f"no runs in {project.relative(project.state_dir / 'runs')} yet: pytest evals")
    for run in runs:
        try:
            record = read_record(run)
        except RegaugeError as error:
            click.echo(f"{run.name}  unreadable: {error}", err=True)
            continue
        if as_json:
            click.echo(json.dumps(record.model_dump(mode="json"), ensure_ascii=False))
            continue
        cases = sum(suite.cases for suite in record.suites)
        failed = sum(suite.failed for suite in record.suites)
        unmeasured = sum(suite.unmeasured for suite in record.suites)
        costs = [suite.cost_usd for suite in record.suites]
        cost = None if None in costs else sum(cost for cost in costs if cost is not None)
        prompts = ", ".join(f"{suite.prompt}@{suite.version or '-'}" for suite in record.suites)
        commit = record.git.commit[:10] + ("+" if record.git.dirty else "") if record.git else "-"
        counts = f"{cases} cases, {failed} failed, {unmeasured} unmeasured"
        if record.status == "interrupted":
            counts += ", interrupted"
        click.echo(f"{record.id}  {commit:11}  {counts}, {money(cost)}  {prompts}")
