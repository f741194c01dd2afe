"""`regauge runs`: list or compare runs of evals."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from difflib import unified_diff
from functools import partial
from itertools import chain, islice
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Group
from regauge.cli._options import (
    STDOUT,
    json_option,
    limit_option,
    output_option,
    prompt_option,
    write_and_report,
)
from regauge.cli._terminal import echo, echo_json, echo_lines, model_text
from regauge.errors import InvalidFileError, RegaugeError, StoreError, UsageError
from regauge.history import (
    History,
    LabelledRun,
    compare_runs,
    find_differing,
    join_runs,
    label_row,
    labelled_rows,
)
from regauge.project import Project
from regauge.reports import (
    cause_lines,
    eval_lines,
    eval_titles,
    failed_case_lines,
    failed_test_notes,
    failed_tests_text,
    find_run,
    judge_lines,
    list_runs,
    money,
    not_blocking_lines,
    output_lines,
    read_record,
    read_rows,
    recorded_lines,
    run_headline,
    run_markdown,
)
from regauge.wording import encodable, plural, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from regauge.history import CaseChange, CaseSide, Change, EvalComparison
    from regauge.reports import RunRecord


@click.group(name="runs", cls=Group)
def command() -> None:
    """List, compare or merge runs.

    Examples:
      regauge runs list --limit 5
      regauge runs compare 20261120-1015 latest
      regauge runs merge shards/*

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """


@command.command(name="list")
@limit_option
@click.option("--sync", is_flag=True, help="Add missing runs of this machine.")
@json_option
def list_command(limit: int, *, sync: bool, as_json: bool) -> None:
    """List runs, newest first, with counts, cost and commit.

    --json prints a line per run. Runs come from .regauge/history.sqlite3, or the store of
    [tool.regauge] or REGAUGE_STORE.

    Examples:
      regauge runs list --limit 5
      regauge runs list --sync       take the runs of this machine into the shared history

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    project = Project.find()
    try:
        runs, place = _list_stored(project, limit=limit, sync=sync)
    except StoreError as error:
        if sync:
            raise
        click.echo(printable(f"{error}\nwhat follows are the runs of this machine"), err=True)
        runs, place = list(_list_local(project, limit=limit)), ".regauge/runs"
    if not runs and not as_json and not list_runs(project):
        click.echo(f"no runs in {place} yet: {project.run_command}")
    for record in runs:
        if as_json:
            click.echo(encodable(json.dumps(record.model_dump(mode="json"), ensure_ascii=False)))
        else:
            echo(_run_line(record))


@command.command(name="merge")
@click.argument(
    "directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@json_option
def merge_command(directories: tuple[Path, ...], *, as_json: bool) -> None:
    """Join the run records and recordings of a run's shards.

    DIR is what `pytest evals --shard K/N --report DIR` wrote. The joined run is `latest`. For a
    gate, run `regauge gate REF --from latest` after this.

    Examples:
      regauge runs merge shards/*
      regauge runs merge shard-1 shard-2 && regauge gate main --from latest --record missing

    Exit codes: 0 all passed (of a gate: all is measured), 1 a case failed, 2 shards contradict each
    other or a file of one is faulty, 3 a shard or a case is missing.
    """
    from regauge.maintenance.shards import merge_shards

    project = Project.find()
    words = ["regauge", "runs", "merge", *map(str, directories)]
    merged = merge_shards(project, directories, environ=os.environ, command=words)
    record = merged.record
    if as_json:
        document = {
            "run": record.model_dump(mode="json"),
            "unmeasured": [*merged.unmeasured],
            "notes": [*merged.notes],
            "errors": [*merged.trouble],
        }
        echo_json(document)
        click.get_current_context().exit(merged.exit_code)
    is_gate = record.merged is not None and bool(record.merged.base)
    echo_lines(
        [
            *eval_lines(record.evals),
            *judge_lines(record.evals),
            *failed_case_lines(merged.failed_cases, record.evals),
            *not_blocking_lines(merged.tally.not_blocking()),
            *(() if is_gate else cause_lines(merged.tally.causes())),
            *recorded_lines(project, merged.written_lines),
            *failed_test_notes(record.failed_tests),
        ]
    )
    for text in merged.unmeasured:
        echo(f"unmeasured: {text}", style="red")
    for text in merged.notes:
        echo(text)
    for text in merged.trouble:
        echo(text, style="red")
    if record.merged is not None and record.merged.base:
        base = record.merged.base[:12]
        echo(f"no decision yet: regauge gate {base} --from {record.id} --record missing")
    echo(f"run {record.id} · regauge report {record.id}")
    click.get_current_context().exit(merged.exit_code)


def _list_stored(project: Project, *, limit: int, sync: bool) -> tuple[list[RunRecord], str]:
    """The newest runs of the run history, and its place."""
    history = History.open(project, os.environ)
    report = history.caught_up
    if sync:
        if not history.place.is_project_file:
            report = history.sync()
        place, count = history.place.display, len(report.added_runs)
        done = f"took {plural(count, 'run')} into {place}"
        click.echo(done if count else f"every run of this machine is in {place} already", err=True)
    for text in report.unreadable_lines:
        click.echo(printable(project.shorten(text)), err=True)
    records: list[RunRecord] = []
    for record in history.records(limit=limit):
        if isinstance(record, StoreError):
            click.echo(printable(str(record)), err=True)
        else:
            records.append(record)
    return records, ".regauge/runs" if history.place.is_project_file else history.place.display


def _list_local(project: Project, *, limit: int) -> Iterator[RunRecord]:
    for run in list_runs(project)[:limit]:
        try:
            yield read_record(run)
        except RegaugeError as error:
            problem = project.shorten(str(error))
            click.echo(printable(f"{run.name}  unreadable: {problem}"), err=True)


def _run_line(record: RunRecord) -> str:
    # Trials of the base in a gate are not cases of the run.
    evals = [eval_ for eval_ in record.evals if eval_.side != "base"]
    cases = sum(eval_.cases for eval_ in evals)
    failed = sum(eval_.failed for eval_ in evals)
    unmeasured = sum(eval_.unmeasured for eval_ in evals)
    costs = [eval_.cost_usd for eval_ in record.evals]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    models: dict[str, dict[str, None]] = {}
    for eval_ in evals:
        models.setdefault(f"{eval_.prompt}@{eval_.version or '-'}", {})[eval_.model] = None
    prompts = ", ".join(f"{prompt} ({', '.join(of)})" for prompt, of in models.items())
    commit = _commit(record)
    counts = f"{plural(cases, 'case')}, {failed} failed, {unmeasured} unmeasured"
    if cases and unmeasured == cases:
        # "0 failed" would mislead if all cases are unmeasured.
        counts = f"{plural(cases, 'case')}, {'' if cases == 1 else 'all '}unmeasured"
    elif record.awaits_decision:
        counts = f"{plural(cases, 'case')}, no decision, {unmeasured} unmeasured"
    if record.decision is not None:
        counts += f", gate: {record.decision.decision}"
    counts += failed_tests_text(record.failed_tests, separator=", ")
    if record.status == "interrupted":
        counts += ", interrupted"
    return f"{record.id}  {commit:11}  {counts}, {money(cost)}  {prompts}"


_WORDS: dict[Change, tuple[str, str]] = {
    "worse": ("worse", "red"),
    "unmeasured": ("no longer measured", "yellow"),
    "better": ("better", "green"),
    "measured": ("now measured", "green"),
    "removed": ("only in A", "yellow"),
    "added": ("only in B", "yellow"),
    "output": ("with another output", ""),
}
_STYLES = {"+": "green", "-": "red"}
_CONTEXT_LINES = 2
_PAIR = 2


@command.command(name="compare")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@prompt_option()
@click.option("--outputs", is_flag=True, help="Also show different outputs with the same outcome.")
@click.option("--no-diff", is_flag=True, help="Omit output diffs.")
@output_option()
@json_option
def compare_command(
    runs: tuple[str, ...],
    *,
    prompt: str | None,
    outputs: bool,
    no_diff: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Compare runs with the first: pass rates and differing cases.

    Two runs are shown with output diffs. A run is an id, a unique beginning of one, `latest`, or a
    directory that --report made; by default the last two. Differences are of mean pass rates of the
    same cases, in points, with 95 % intervals and p-values. -o writes tables (.md) or a grid
    (.html).

    Examples:
      regauge runs compare                           the two newest runs
      regauge runs compare 20261120-1015                  a run with the newest
      regauge runs compare 20261120-1015 latest --prompt alert-severity --outputs
      regauge runs compare main-run/ pr-run/ --json       two directories that --report made
      regauge runs compare RUN_A RUN_B RUN_C              several runs with the first
      regauge runs compare RUN_A RUN_B RUN_C -o runs.html

    Exit codes: 0 done, whether or not something changed; 2 wrong use or a faulty file.
    """
    project = Project.find()
    run_names = runs if len(runs) > _PAIR else _name_runs(project, *(*runs, None, None)[:_PAIR])
    named_runs = [_run(project, name) for name in run_names]
    labelled_runs = [
        LabelledRun(
            label=label,
            record=record,
            read=partial(labelled_rows, read, label, prompt, record.failed_tests),
        )
        for label, (record, read) in zip(_labels(len(named_runs)), named_runs, strict=True)
    ]
    joint_record = join_runs(labelled_runs)
    if prompt is not None and not joint_record.evals:
        fix = "`regauge runs list` names those of each run"
        raise UsageError(f"no run has the prompt {prompt!r}", fix=fix)
    evals: list[EvalComparison] = []
    if len(labelled_runs) == _PAIR:
        before, after = ((run.outline, run.read) for run in labelled_runs)
        evals = compare_runs(before, after, with_outputs=outputs or as_json)
    if output is not None:
        _write(labelled_runs, joint_record, evals, output, project)
        return
    if as_json:
        document = {
            "runs": [run.record.id for run in labelled_runs],
            "models": [eval_.model_dump(mode="json") for eval_ in joint_record.evals],
            "evals": [asdict(eval_) for eval_ in evals],
            "cases": find_differing(labelled_runs)[0],
        }
        echo_json(document)
        return
    for run in labelled_runs:
        click.echo(f"{run.label}  {run.record.id}  {_commit(run.record)}")
    for note in _notes(labelled_runs):
        click.echo(f"note: {note}", err=True)
    if joint_record.evals:
        click.echo()
        for line in eval_lines(joint_record.evals):
            echo(line.text)
    if len(labelled_runs) > _PAIR:
        _show_grid(labelled_runs, joint_record)
    else:
        _show_changes(evals, joint_record, outputs=outputs, diffs=not no_diff)


def _show_changes(
    evals: Sequence[EvalComparison], joint_record: RunRecord, *, outputs: bool, diffs: bool
) -> None:
    """Print the cases that differ between two runs, with their outputs."""
    names = eval_titles(joint_record.evals)
    for eval_ in evals:
        click.echo()
        name = names.get((eval_.prompt, eval_.dataset, eval_.eval), "")
        echo(_headline(eval_, name), bold=True)
        if differing := _differing(eval_):
            echo(f"note: {differing}")
        for change in eval_.changes:
            if outputs or change.change != "output":
                word, style = _WORDS[change.change]
                counts = f"{_passed(change.before)} -> {_passed(change.after)}"
                echo(f"{word:<20}{counts:<14}{change.case}", style=style)
                for line in _diff(change) if diffs else ():
                    echo(f"    {line}", style=_STYLES.get(line[:1], ""))
    hidden = sum(eval_.count("output") for eval_ in evals)
    if hidden and not outputs:
        click.echo(f"\nother outputs with the same outcome: {hidden} (--outputs shows them)")


def _differing(eval_: EvalComparison) -> str:
    """The judges and other inputs in which changed cases differ, in words; empty for none."""
    names = {name: None for change in eval_.changes for name in change.differing}
    return f"A and B differ in {', '.join(names)}" if names else ""


def _labels(count: int) -> list[str]:
    """A, B, C and so on."""
    letters = ascii_uppercase
    return [*letters[:count], *(f"R{number + 1}" for number in range(len(letters), count))]


def _title(runs: Sequence[LabelledRun], joint_record: RunRecord) -> str:
    """The headline of each run."""
    titles: list[str] = []
    for run in runs:
        evals = run.evals_in(joint_record)
        record = run.record.model_copy(update={"evals": evals})
        titles.append(f"{run.label}: {run_headline(record)}")
    return " · ".join(titles)


def _write(
    runs: Sequence[LabelledRun],
    joint_record: RunRecord,
    evals: Sequence[EvalComparison],
    output: str,
    project: Project,
) -> None:
    suffix = "" if output == STDOUT else Path(output).suffix.lower()
    if suffix not in {".md", ".markdown", ".html", ".htm", ""}:
        fix = "end the name with .md or .html; --json prints JSON"
        raise UsageError(f"{output}: a comparison has no format with the suffix {suffix}", fix=fix)
    labelled = map(label_row, chain.from_iterable(run.read() for run in runs))
    title = _title(runs, joint_record)
    names = eval_titles(joint_record.evals)
    notes = [
        *_notes(runs),
        *(
            f"{names.get((eval_.prompt, eval_.dataset, eval_.eval), eval_.prompt)}: {differing}"
            for eval_ in evals
            if (differing := _differing(eval_))
        ),
    ]
    if suffix in {".html", ".htm"}:
        from regauge.reports.html import ReportSource, html_report, pass_counts, read_golden

        rows = list(labelled)
        datasets = {row["dataset"] for row in rows}
        source = ReportSource(
            record=joint_record,
            rows=rows,
            golden={name: read_golden(name, project) for name in datasets},
            history={},
            counts=pass_counts(
                joint_record.model_copy(update={"evals": runs[0].evals_in(joint_record)}),
                (row for row in rows if row["run"] == runs[0].label),
            ),
            title=title,
            notes=notes,
        )
        write_and_report(html_report(source), output)
    else:
        write_and_report(run_markdown(joint_record, labelled, title=title, notes=notes), output)


def _show_grid(runs: Sequence[LabelledRun], joint_record: RunRecord) -> None:
    """Print the cases that differ, with their counts in each run."""
    differing, same_count = find_differing(runs)
    names = eval_titles(joint_record.evals)
    previous = ""
    for case in differing:
        name = names.get((case["prompt"], case["dataset"], case["eval"]), case["prompt"])
        if name != previous:
            previous = name
            click.echo()
            echo(f"{name}: cases that differ", bold=True)
            click.echo("  ".join(f"{run.label:<6}" for run in runs) + "  case")
        counts = [case["counts"].get(run.label) for run in runs]
        cells = ["-" if count is None else f"{count[0]}/{count[1]}" for count in counts]
        echo("  ".join(f"{cell:<6}" for cell in cells) + f"  {case['case']}")
    click.echo(f"\n{plural(same_count, 'case')} with the same pass rate in all runs")


def _name_runs(project: Project, run_a: str | None, run_b: str | None) -> tuple[str, str]:
    """The named runs, else the newest runs that have cases."""
    runs = [run.name for run in islice(filter(_has_cases, list_runs(project)), 2)]
    newest, before = [*runs, "", ""][:2]
    a = newest if run_a == "latest" else run_a
    b = newest if run_b in {"latest", None} else run_b
    if a is None or (run_b is None and a == newest):
        a = before
    if not a or not b:
        names = [name for name in (run_a, run_b) if name is not None and name != "latest"]
        for name in names:
            _run(project, name)  # report an unknown run first
        problem = "there is no other run" if names else "there are no two runs"
        fix = f"run {project.run_command}; or name both, see regauge runs list"
        raise UsageError(f"{problem} with cases on this machine to compare", fix=fix)
    return a, b


def _has_cases(run: Path) -> bool:
    try:
        return _any_case(read_record(run))
    except InvalidFileError:
        return False


def _any_case(run: RunRecord) -> bool:
    # Trials of the base in a gate are not cases of the run.
    return any(eval_.cases for eval_ in run.evals if eval_.side != "base")


def _notes(runs: Sequence[LabelledRun]) -> Iterator[str]:
    """Notes against misreading the comparison."""
    for run in runs:
        if not _any_case(run.record):
            yield f"run {run.label} has no cases"
    labels: dict[str, str] = {}
    for run in runs:
        if (first := labels.setdefault(run.record.id, run.label)) != run.label:
            yield f"{first} and {run.label} are the same run"
    if len(runs) == _PAIR and runs[0].record.started_at > runs[1].record.started_at:
        yield "A is newer than B, so `better` and `worse` describe the earlier run B"


def _run(project: Project, name: str) -> tuple[RunRecord, Callable[[], Iterable[dict[str, Any]]]]:
    """A run on this machine, else in the run history, and a function that reads its rows."""
    matches = [run for run in list_runs(project) if run.name.startswith(name)]
    try:
        directory = find_run(project, name)
    except UsageError:
        if matches or name == "latest":
            raise
    else:
        return read_record(directory), partial(read_rows, directory)
    history = History.open(project, os.environ)
    return history.run(name)


def _commit(run: RunRecord) -> str:
    """The commit of a run, marked if files differed from it."""
    return run.git.commit[:10] + ("+" if run.git.dirty else "") if run.git else "-"


def _headline(eval_: EvalComparison, name: str) -> str:
    on = "" if eval_.dataset == eval_.prompt else f" on {eval_.dataset}"
    name = name or f"{eval_.prompt}{on}"
    counts = [f"{eval_.count(change)} {words}" for change, (words, _) in _WORDS.items()]
    counts = [
        *(count for count in counts if not count.startswith("0 ")),
        f"{eval_.unchanged} the same",
    ]
    return f"{name}  {_versions(eval_)}: {', '.join(counts)}"


def _versions(eval_: EvalComparison) -> str:
    """The version and model in A, and those in B if they differ."""
    sides = [side for side in (eval_.before, eval_.after) if side is not None]
    models = dict.fromkeys(model_text(side["model"]) for side in sides)
    contents = (f"{side['version'] or '-'} ({side['prompt_digest'][:12]})" for side in sides)
    return f"{' -> '.join(dict.fromkeys(contents))}  {' -> '.join(models)}"


def _passed(side: CaseSide | None) -> str:
    if side is None:
        return "-"
    return f"{side.passed}/{side.measured}" if side.measured else "?"


def _diff(change: CaseChange) -> Iterator[str]:
    before, after = change.before, change.after
    old = output_lines(before.output) if before and before.output is not None else []
    new = output_lines(after.output) if after and after.output is not None else []
    lines = list(unified_diff(old, new, lineterm="", n=_CONTEXT_LINES))
    yield from (line for line in lines[2:] if not line.startswith("@@ "))
    if old == new and old:
        yield "  both outputs are equal"
    for label, side in (("A", before), ("B", after)):
        if side and side.judge:
            yield f"{label}  {side.judge}: {' '.join(side.reason.split())}"
