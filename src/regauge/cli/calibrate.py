"""`regauge calibrate`: compare a judge that asks a model with the labels of people."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING, cast

import click

from regauge.cli._options import FiniteRange, evals_option
from regauge.cli._terminal import Meter, echo
from regauge.datasets import find_dataset, load_dataset
from regauge.errors import UnmeasuredError, UsageError
from regauge.judges.calibration import (
    Labels,
    cases_of_labels,
    load_labels,
    shortfall,
)
from regauge.maintenance.calibrations import (
    calibration_document,
    calibration_lines,
    calibration_of,
    disagreement_lines,
    heading,
    standings,
    used_text,
    usual_labels,
    write_record,
)
from regauge.maintenance.collection import THE_SAME_COMMAND, find_judge, judges_of_evals
from regauge.project import Project
from regauge.providers import parse_model_id
from regauge.reports import progress_line
from regauge.runner import resolve_options
from regauge.runner.calibrating import LabelRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.maintenance.collection import UsedJudge
    from regauge.project import RecordMode

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge calibrate                                   which judges gate, and why the others do not
  regauge calibrate incident-faithfulness
  regauge calibrate incident-faithfulness --model openai:gpt-5.4-mini --budget-usd 1

Exit codes: 0 the judge may gate, 1 it agrees too little, 2 wrong use, 3 it could not be asked.
"""


def _model_id(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    return str(parse_model_id(value, at="--model")) if value else None


@click.command(name="calibrate", epilog=_EPILOG)
@click.argument("judge", required=False)
@click.option(
    "--model",
    metavar="ID",
    callback=_model_id,
    help="Judge with provider:model instead of the project's judge model.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help=(
        "Judgements per output: the first is compared with the label, the others with the first."
    ),
)
@click.option(
    "--record",
    type=click.Choice(["none", "missing", "all"]),
    help="Record mode, as for pytest.",
)
@click.option(
    "--labels",
    "labels_of",
    metavar="NAME",
    help="Use the labels of another judge: fixtures/labels/NAME.jsonl.",
)
@click.option("--dataset", metavar="NAME", help="The golden dataset of the labels' cases.")
@click.option("--split", metavar="NAME", help="Only labels of this split; no record is written.")
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--budget-usd", type=FiniteRange(min=0), help="Limit of the cost in US dollars.")
@click.option("--prune", is_flag=True, help="Remove recordings that this calibration did not use.")
@evals_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    judge: str | None,
    *,
    model: str | None,
    repeats: int,
    record: str | None,
    labels_of: str | None,
    dataset: str | None,
    split: str | None,
    concurrency: str | None,
    budget_usd: float | None,
    prune: bool,
    path: Path | None,
    as_json: bool,
) -> None:
    """Compare JUDGE with human labels in fixtures/labels/JUDGE.jsonl.

    JUDGE is a judge of an eval, as in reports, or a rubric. The result is
    fixtures/labels/JUDGE.calibration.json: commit it, and a judge that meets
    [tool.regauge.calibration] can fail cases. Without JUDGE, list all judges with their status.
    """
    project = Project.find()
    evals = path or project.root / "evals"
    if judge is None:
        _list(project, evals, model, as_json=as_json)
        return
    options = resolve_options(
        project.settings,
        os.environ,
        record=cast("RecordMode | None", record),
        trials=None,
        concurrency=concurrency,
        budget_usd=budget_usd,
        fail_fast=False,
        judge_model=model,
    )
    used = find_judge(judge, project, evals, model)
    labels_of = labels_of or usual_labels(used.judge, project)
    labels = _of_split(load_labels(labels_of, project), split)
    run = LabelRun(project, options, used.judge, environ=os.environ)
    cases = cases_of_labels(labels, _cases(project, used, dataset))
    if not as_json:
        echo(heading(used.judge, labels, project), bold=True)
    try:
        with Meter(lambda: progress_line(run.progress, run.budget, "judgements")):
            judged = run.judge_all(labels.labels, cases, repeats=repeats)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(THE_SAME_COMMAND) from stop
    calibration = calibration_of(used.judge, labels, judged, repeats)
    if not calibration.agreement.judged:
        raise UnmeasuredError(
            f"judge {used.judge.name!r} came to no verdict on any of {len(labels)} labels\n"
            f"  {judged[0].label.id}: {judged[0].first.reason}"
        )
    written = None if split else write_record(project, used.judge, calibration)
    removed = run.prune() if prune else None
    missing = shortfall(calibration, project.settings.calibration)
    if as_json:
        document = calibration_document(used.judge, calibration, judged, missing)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        for line in [
            *calibration_lines(calibration),
            *disagreement_lines(calibration.labels.kind, judged),
        ]:
            echo(line)
        echo()
        echo(used_text(run.totals))
        if removed is not None:
            echo(f"removed {removed[0]} of {removed[1]} recordings")
        if written is not None:
            echo(written)
        echo(
            f"informs only: {missing}" if missing else "gates", style="red" if missing else "green"
        )
    if missing:
        sys.exit(1)


def _of_split(labels: Labels, split: str | None) -> Labels:
    if split is None:
        return labels
    kept = tuple(label for label in labels.labels if label.split == split)
    if not kept:
        known = sorted({label.split for label in labels.labels if label.split})
        raise UsageError(f"no label is of split {split!r}; there are: {', '.join(known) or 'none'}")
    return dataclasses.replace(labels, labels=kept)


def _cases(project: Project, used: UsedJudge, dataset: str | None) -> Mapping[str, GoldenCase]:
    """The golden cases that labels may name."""
    if dataset is None:
        return used.cases
    fixtures = project.fixtures_dir
    loaded = load_dataset(find_dataset(dataset, fixtures_dir=fixtures), fixtures_dir=fixtures)
    return {case.id: case for case in loaded}


def _list(project: Project, evals: Path, model: str | None, *, as_json: bool) -> None:
    """Every judge that asks a model or has a record, and what its verdicts count for."""
    rows = standings(project, judges_of_evals(project, evals, judge_model=model))
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=2, ensure_ascii=False))
        return
    if not rows:
        echo("no eval has a judge that asks a model, and there are no calibration records")
    for row in rows:
        echo(str(row))
