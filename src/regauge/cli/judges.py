"""`regauge judges`: list judges, try one on an output, calibrate one with human labels."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import click

from regauge.cli import Group
from regauge.cli._options import (
    STDOUT,
    budget_options,
    concurrency_option,
    dataset_option,
    dry_run_option,
    evals_option,
    from_run_option,
    json_option,
    judge_model_option,
    number_option,
    output_option,
    prune_option,
    read_file,
    record_option,
    refuse_options,
    write_output,
)
from regauge.cli._terminal import Meter, echo, echo_json
from regauge.datasets import GoldenCase, find_dataset, load_dataset
from regauge.digests import digest_of
from regauge.errors import UnmeasuredError, UsageError
from regauge.files import write_whole
from regauge.judges import UnboundJudge, describe, judge_from_spec, judge_kinds, registered_judges
from regauge.judges.calibration import (
    Labels,
    LabelSheet,
    cases_of_labels,
    labels_path,
    load_labels,
    shortfall,
)
from regauge.maintenance.calibrations import (
    calibration_document,
    calibration_lines,
    calibration_of,
    disagreement_lines,
    heading,
    judge_status_rows,
    usage_text,
    usual_labels,
    write_record,
)
from regauge.maintenance.collection import RESUME_NOTE, find_judge, judges_of_evals
from regauge.project import Project
from regauge.providers import Completion, parse_model_id
from regauge.reports import find_run, progress_line, read_rows
from regauge.runner import resolve_options
from regauge.runner.calibrating import LabelRun
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.judges.calibration import Calibration, LabelledVerdict
    from regauge.maintenance.collection import UsedJudge
    from regauge.project import RecordMode


@click.group(name="judges", cls=Group)
def command() -> None:
    """List, try out or calibrate judges.

    Examples:
      regauge judges list words
      regauge judges try 'max_words: 40' output.txt
      regauge judges calibrate incident-faithfulness

    Exit codes: 0 done, 1 a fail, or too little agreement, 2 wrong use or a faulty file, 3
    unmeasured.
    """


@command.command(name="list")
@click.argument("word", default="")
@json_option
def list_command(word: str, *, as_json: bool) -> None:
    """List judges, or those whose name or summary contains WORD.

    Judges of other packages (entry point group `regauge.judges`) are included; those that cannot be
    loaded are named on standard error.

    Examples:
      regauge judges list
      regauge judges list words
      regauge judges list --json

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    registered, errors = registered_judges()
    kinds = {**registered, **judge_kinds()}
    for error in errors:
        echo(f"warning: {error}", err=True)
    descriptions = [
        description
        for name, kind in sorted(kinds.items())
        if word.lower() in f"{name} {(description := describe(name, kind)).summary}".lower()
    ]
    if as_json:
        click.echo(json.dumps([*map(dataclasses.asdict, descriptions)], indent=2))
        return
    for judge in descriptions:
        echo(f"{judge.name}{judge.form}", bold=True)
        echo(f"    {judge.summary}")
        if judge.install:
            echo(f"    install: {judge.install}")
        for parameter in judge.parameters:
            has_default = parameter.default not in {"", "None"}
            default = f" (default {parameter.default})" if has_default else ""
            echo(f"      {parameter.name}: {parameter.text}{default}")
    echo(plural(len(descriptions), "judge"))
    if not descriptions:
        echo(f"no judge has {word!r} in its name or summary: `regauge judges list` lists all")


@command.command(name="try")
@click.argument("judge", metavar="NAME")
@click.argument("output", metavar="FILE")
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter with a YAML value; repeatable.",
)
@click.option(
    "--case",
    "case_file",
    metavar="FILE",
    help="A golden case: JSON or YAML with `inputs` and `expected`.",
)
@json_option
def try_command(
    judge: str, params: tuple[str, ...], output: str, case_file: str | None, *, as_json: bool
) -> None:
    """Run one judge on the output in FILE, and print its verdict.

    NAME is a judge of `regauge judges list`, or YAML such as 'max_words: {n: 40, field: reason}'.
    FILE may hold a recorded completion: a line of fixtures/recordings, or JSON with `text` and one
    of `finish_reason`, `usage` and `latency_s`. `-` is standard input.

    Examples:
      regauge judges try json_parses output.txt
      regauge judges try 'max_words: 40' output.txt
      regauge judges try max_words output.json -p n=40 -p field=reason
      regauge judges try field_equals output.json -p path=severity --case case.json
      kubectl get pods | regauge judges try 'contains: Running' -

    Exit codes: 0 pass or abstain, 1 fail, 2 wrong use, 3 no verdict.
    """
    bound_judge = judge_from_spec(_spec(judge, params))
    if isinstance(bound_judge, UnboundJudge):
        message = f"{judge!r} calls a model, a program or a service, and only a run records calls"
        raise UsageError(message, fix="use it in an eval or in the `checks` of a golden case")
    completion = _completion(read_file(output, is_stdin=output == STDOUT))
    verdict = asyncio.run(bound_judge.judge(completion, _case(case_file)))
    if as_json:
        values = {part.name: getattr(verdict, part.name) for part in dataclasses.fields(verdict)}
        details = dict(verdict.details)
        echo_json(
            {"judge": bound_judge.name, "digest": bound_judge.digest, **values, "details": details}
        )
    else:
        echo(f"{bound_judge.name}: {verdict}")
    if verdict.outcome == "fail":
        sys.exit(1)


def _yaml(text: str, subject: str) -> JSON:
    from regauge.yaml_document import YamlError, read_yaml

    try:
        return read_yaml(text)
    except YamlError as error:
        place = f"{subject}, line {error.line}" if error.line else subject
        raise UsageError(f"{place}: {error}", fix=error.fix) from error


def _spec(judge: str, params: tuple[str, ...]) -> JSON:
    spec = _yaml(judge, "the judge")
    if not isinstance(spec, (str, dict, list)):  # a number is not a name of a judge
        spec = judge
    if not params:
        return spec
    if not isinstance(spec, str):
        raise UsageError("parameters are in the specification or in -p, not in both")
    arguments: dict[str, JSON] = {}
    for param in params:
        name, equals, value = param.partition("=")
        if not equals:
            raise UsageError(f"-p {param!r} is not NAME=VALUE\n  fix: -p n=40")
        arguments[name.strip()] = _yaml(value, f"-p {name}")
    return {spec: arguments}


def _completion(text: str) -> Completion:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and {"digest", "completion"} <= document.keys():
        document = cast("dict[str, Any]", document)["completion"]
    source = "file"
    defaults: dict[str, JSON] = {"finish_reason": "stop", "usage": {}, "latency_s": None}
    # An output may have a field `text` as well.
    if not (
        isinstance(document, dict) and "text" in document and defaults.keys() & document.keys()
    ):
        document = {"text": text}
    try:
        return Completion.from_json(
            {**defaults, "model": source, "provider": source, **cast("dict[str, JSON]", document)}
        )
    except ValueError as error:
        raise UsageError(f"the recorded completion cannot be read: {error}") from error


def _case(name: str | None) -> GoldenCase:
    document: JSON = _yaml(read_file(name, is_stdin=name == STDOUT), name) if name else {}
    if not isinstance(document, Mapping):
        raise UsageError(f"{name} is not a golden case: a mapping with `inputs` and `expected`")
    inputs = document.get("inputs") or {}
    if not isinstance(inputs, Mapping):
        raise UsageError(f"{name}: `inputs` is not a mapping")
    return GoldenCase(
        id=str(document.get("id", "case")),
        inputs=inputs,
        expected=document.get("expected"),
        split="train",
        location=name or "no case given",
    )


@command.command(name="calibrate")
@click.argument("judge", required=False)
@judge_model_option
@number_option(
    "--repeats",
    click.IntRange(min=1),
    "Judgements per output: the first is compared with the label, the others with the first.",
    default=3,
)
@click.option(
    "--labels",
    "labels_of",
    metavar="NAME",
    help="Use the labels of another judge: fixtures/labels/NAME.jsonl.",
)
@from_run_option
@output_option()
@dataset_option
@click.option("--split", metavar="NAME", help="Only labels of this split; no record is written.")
@prune_option
@record_option()
@dry_run_option
@concurrency_option
@budget_options
@evals_option
@json_option
def calibrate_command(
    judge: str | None,
    *,
    judge_model: str | None,
    repeats: int,
    record: RecordMode | None,
    labels_of: str | None,
    from_run: str | None,
    output: str | None,
    dataset: str | None,
    split: str | None,
    prune: bool,
    dry_run: bool,
    path: Path | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Compare JUDGE with human labels in fixtures/labels/JUDGE.jsonl.

    JUDGE is a judge of an eval, or a rubric. Commit fixtures/labels/JUDGE.calibration.json: a judge
    that meets [tool.regauge.calibration] can fail cases. Without JUDGE, list judges with status.

    With --from-run, add the outputs of a run to that file with an empty `label`. With -o FILE.html,
    write a page for labelling instead.

    Examples:
      regauge judges calibrate                  the judges with their status, and why
      regauge judges calibrate incident-faithfulness
      regauge judges calibrate incident-faithfulness --judge-model openai:gpt-5.4-mini
      regauge judges calibrate incident-faithfulness --from-run latest -o labels.html

    Exit codes: 0 the judge may block, 1 it agrees too little, 2 wrong use, 3 unmeasured.
    """
    project = Project.find()
    evals = path or project.root / "evals"
    model = str(parse_model_id(judge_model, location="--judge-model")) if judge_model else None
    _refuse_misfits(judge, from_run, output, split if prune else None)
    if judge is None:
        _list_status(project, evals, model, as_json=as_json)
        return
    options = resolve_options(
        project.settings,
        os.environ,
        record="none" if dry_run else record,
        trials=None,
        judge_model=model,
        **limits,
    )
    used_judge = find_judge(judge, project, evals, model)
    if from_run is not None:
        _write_outputs(project, used_judge, from_run, page=output, dry_run=dry_run, as_json=as_json)
        return
    labels_of = labels_of or usual_labels(used_judge.judge, project)
    labels = _select_split(load_labels(labels_of, project), split)
    run = LabelRun(project, options, used_judge.judge, environ=os.environ)
    cases = cases_of_labels(labels, _cases_of(project, used_judge, dataset))
    if dry_run:
        if record != "all":  # which makes every judgement again
            with suppress(UnmeasuredError):
                run.judge_all(labels.labels, cases, repeats=repeats)
        words = "missing" if record == "none" else "to make"
        _print_missing(run, len(labels) * repeats, words, as_json=as_json)
        return
    if not as_json:
        echo(heading(used_judge.judge, labels, project), bold=True)
    try:
        with Meter(lambda: progress_line(run.progress, run.budget, "judgements")):
            verdicts = run.judge_all(labels.labels, cases, repeats=repeats)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(RESUME_NOTE) from stop
    calibration = calibration_of(used_judge.judge, labels, verdicts, repeats)
    if not calibration.agreement.verdicts:
        raise UnmeasuredError(
            f"judge {used_judge.judge.name!r} gave no verdict on any of {len(labels)} labels\n"
            f"  {verdicts[0].label.id}: {verdicts[0].first.reason}"
        )
    record_line = None if split else write_record(project, used_judge.judge, calibration)
    removed = run.prune() if prune else None
    missing = shortfall(calibration, project.settings.calibration)
    if as_json:
        echo_json(calibration_document(used_judge.judge, calibration, verdicts, missing))
    else:
        pruned = "" if removed is None else f"removed {removed[0]} of {removed[1]} recordings"
        _print_calibration(
            calibration, verdicts, [usage_text(run.totals), pruned, record_line or ""]
        )
        status = f"advisory: {missing}" if missing else "blocking"
        echo(status, style="red" if missing else "green")
    if missing:
        sys.exit(1)


def _print_missing(run: LabelRun, total: int, words: str, *, as_json: bool) -> None:
    recorded = run.progress.completed
    if as_json:
        counts = {"judgements": total, "recorded": recorded, "missing": total - recorded}
        echo(json.dumps(counts))
    else:
        echo(f"{plural(total, 'judgement')}: {recorded} recorded, {total - recorded} {words}")


def _print_calibration(
    calibration: Calibration, verdicts: Sequence[LabelledVerdict], notes: Iterable[str]
) -> None:
    for line in (
        *calibration_lines(calibration),
        *disagreement_lines(calibration.labels.kind, verdicts),
        "",
        *filter(None, notes),
    ):
        echo(line)


def _refuse_misfits(
    judge: str | None, from_run: str | None, output: str | None, pruned_split: str | None
) -> None:
    reason = "would remove recordings of the other labels"
    refuse_options({"--split": pruned_split}, reason, fix="leave {option} out of --prune")
    if output is not None and from_run is None:
        raise UsageError("--output is a page to label a run on", fix="add --from-run latest")
    if judge is None and from_run is not None:
        fix = "name one of those that regauge judges calibrate lists"
        raise UsageError("--from-run needs a judge", fix=fix)


def _write_outputs(
    project: Project,
    used_judge: UsedJudge,
    run: str,
    *,
    page: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add the outputs of a run to the file of labels, or write a page for labelling."""
    directory = find_run(project, run)
    path = labels_path(used_judge.judge.name, project)
    place = project.relative(path).as_posix()
    text = read_file(str(path), place=place) if path.exists() else ""
    outputs = {
        f"{row['case']}-{digest_of(row['output'])[:8]}": row
        for row in read_rows(directory)
        if isinstance(row["output"], str)
        and row.get("side") != "base"
        and row["case"] in used_judge.cases
        and row["prompt"] in used_judge.prompts
    }
    if not outputs:
        raise UsageError(
            f"run {directory.name} has no output that {used_judge.judge.name!r} judges\n"
            f"  fix: name a run of {' or '.join(used_judge.prompts) or 'an eval with this judge'}:"
            " regauge runs list"
        )
    sheet = LabelSheet.read(text, place)
    rows = [
        {"id": name, "case": row["case"], "output": row["output"]} for name, row in outputs.items()
    ]
    added_count = sheet.add(rows, origin=f"run {directory.name}")
    if page is not None and not dry_run:
        from regauge.reports.html import labels_html

        html = labels_html(sheet, used_judge.judge.name, path.name, used_judge.cases)
        write_output(html, page)
    elif added_count and not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, sheet.text.encode())
    unlabelled = len(sheet.unlabelled)
    if as_json:
        document = {"path": page or place, "added": added_count, "unlabelled": unlabelled}
        click.echo(json.dumps(document), err=page == STDOUT)
        return
    if page is not None:
        verb = "would write" if dry_run else "wrote"
        words = f"{verb} {page} with {plural(unlabelled, 'output')} to label"
        echo(words, err=page == STDOUT)
        return
    command = f"regauge judges calibrate {shlex.quote(used_judge.judge.name)}"
    echo(f"{'would add' if dry_run else 'added'} {plural(added_count, 'output')} to {place}")
    echo(f"  next: write {sheet.words} behind each `{sheet.key}`, then run {command}")
    echo(f"        or label in a browser: {command} --from-run {run} -o labels.html")


def _select_split(labels: Labels, split: str | None) -> Labels:
    if split is None:
        return labels
    split_labels = tuple(label for label in labels.labels if label.split == split)
    if not split_labels:
        splits = ", ".join(sorted({label.split for label in labels.labels if label.split}))
        raise UsageError(f"no label is of split {split!r}; there are: {splits or 'none'}")
    return dataclasses.replace(labels, labels=split_labels)


def _cases_of(
    project: Project, used_judge: UsedJudge, dataset: str | None
) -> Mapping[str, GoldenCase]:
    """The golden cases for labels, by id."""
    if dataset is None:
        return used_judge.cases
    fixtures = project.fixtures_dir
    loaded = load_dataset(find_dataset(dataset, fixtures_dir=fixtures), fixtures_dir=fixtures)
    return {case.id: case for case in loaded}


def _list_status(project: Project, evals: Path, model: str | None, *, as_json: bool) -> None:
    """List LLM judges and judges with a calibration record, with their status."""
    rows = judge_status_rows(project, judges_of_evals(project, evals, judge_model=model))
    if as_json:
        echo_json([row.to_json() for row in rows])
        return
    if not rows:
        echo("no eval has an LLM judge, and there are no calibration records")
    for row in rows:
        echo(str(row))
