"""`regauge compare`: what changed between two runs, case by case."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._terminal import echo, simulated
from regauge.errors import FaultyFileError, UsageError
from regauge.history import History, compare_rows
from regauge.project import Project
from regauge.reports import answer_lines, find_run, list_runs, read_record, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.history import CaseChange, CaseSide, Change, SuiteComparison
    from regauge.reports import RunRecord

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge compare                                the two newest runs
  regauge compare 20261120-1015                  a run with the newest
  regauge compare 20261120-1015 latest --prompt alert-severity --answers
  regauge compare main-run/ pr-run/ --json       two directories that --report made

Exit codes: 0 done, whether or not something changed; 2 wrong use or a faulty file.
"""
_WORDS: dict[Change, tuple[str, str]] = {
    "worse": ("worse", "red"),
    "unmeasured": ("no longer measured", "yellow"),
    "better": ("better", "green"),
    "measured": ("now measured", "green"),
    "removed": ("only in A", "yellow"),
    "added": ("only in B", "yellow"),
    "answer": ("with another answer", ""),
}
_STYLES = {"+": "green", "-": "red"}
_CONTEXT_LINES = 2


@click.command(name="compare", epilog=_EPILOG)
@click.argument("run_a", metavar="[RUN_A]", required=False)
@click.argument("run_b", metavar="[RUN_B]", required=False)
@click.option("--prompt", metavar="NAME", help="Only this prompt.")
@click.option("--answers", is_flag=True, help="Show other answers with the same outcome, too.")
@click.option("--no-diff", is_flag=True, help="Cases alone, without their answers.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    run_a: str | None,
    run_b: str | None,
    *,
    prompt: str | None,
    answers: bool,
    no_diff: bool,
    as_json: bool,
) -> None:
    """Show which cases differ between RUN_A and RUN_B, with the diff of their outputs.

    A run is an id, the beginning of just one id, `latest`, or a directory that --report made; ids
    are looked up on this machine, then in the history. RUN_B is the newest run where it is left
    out, and RUN_A the one before that; `latest` and what is left out pass over runs without a case,
    as of a gate that had nothing to draw. Counts are trials that passed. A model may answer
    otherwise by chance: whether a change is to blame says the gate.

    The exit code is 0 whether or not something changed.
    """
    project = Project.find()
    (a, rows_a), (b, rows_b) = (_run(project, name) for name in _named(project, run_a, run_b))
    suites = [
        suite for suite in compare_rows(rows_a, rows_b) if prompt is None or suite.prompt == prompt
    ]
    if prompt is not None and not suites:
        raise UsageError(
            f"neither run has the prompt {prompt!r}\n  fix: `regauge runs` names those of each run"
        )
    if as_json:
        document = {"a": a.id, "b": b.id, "suites": [asdict(suite) for suite in suites]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    click.echo(f"A  {_about(a)}\nB  {_about(b)}")
    for note in _notes(a, b):
        click.echo(f"note: {note}", err=True)
    for suite in suites:
        click.echo()
        echo(_headline(suite), bold=True)
        for change in suite.changes:
            if answers or change.change != "answer":
                word, style = _WORDS[change.change]
                echo(f"{word:<20}{_counts(change):<14}{change.case}", style=style)
                for line in () if no_diff else _diff(change):
                    echo(f"    {line}", style=_STYLES.get(line[:1], ""))
    hidden = sum(suite.count("answer") for suite in suites)
    if hidden and not answers:
        click.echo(f"\nother answers with the same outcome: {hidden} (--answers shows them)")


def _named(project: Project, run_a: str | None, run_b: str | None) -> tuple[str, str]:
    """What is compared: what was named, and else the newest runs that have cases."""
    runs = [run.name for run in islice(filter(_has_cases, list_runs(project)), 2)]
    newest, before = [*runs, "", ""][:2]
    a = newest if run_a == "latest" else run_a
    b = newest if run_b in {"latest", None} else run_b
    if a is None or (run_b is None and a == newest):
        a = before
    if not a or not b:
        named = [name for name in (run_a, run_b) if name is not None and name != "latest"]
        for name in named:
            _run(project, name)  # what is not there at all is said first
        number = "is no other run" if named else "are no two runs"
        raise UsageError(
            f"there {number} with cases on this machine to compare\n"
            "  fix: pytest evals makes one; or name both, as `regauge runs` lists them"
        )
    return a, b


def _has_cases(run: Path) -> bool:
    try:
        return _any_case(read_record(run))
    except FaultyFileError:
        return False


def _any_case(run: RunRecord) -> bool:
    # What a gate drew of main is no case of the run.
    return any(suite.cases for suite in run.suites if suite.arm != "main")


def _notes(a: RunRecord, b: RunRecord) -> Iterator[str]:
    """What else would be read wrongly."""
    for name, run in (("A", a), ("B", b)):
        if not _any_case(run):
            yield f"run {name} has no cases"
    if a.id == b.id:
        yield "A and B are the same run"
    if a.started_at > b.started_at:
        yield "A is newer than B, so `better` and `worse` say how it was before"


def _run(project: Project, name: str) -> tuple[RunRecord, list[dict[str, Any]]]:
    """A run on this machine, else in the history."""
    begun = [run for run in list_runs(project) if run.name.startswith(name)]
    try:
        directory = find_run(project, name)
    except UsageError:
        if begun or name == "latest":
            raise
    else:
        return read_record(directory), list(read_rows(directory))
    history = History.open(project, os.environ)
    record, rows = history.run(name)
    return record, list(rows)


def _about(run: RunRecord) -> str:
    commit = run.git.commit[:10] + ("+" if run.git.dirty else "") if run.git else "-"
    return f"{run.id}  {commit}"


def _headline(suite: SuiteComparison) -> str:
    on = "" if suite.dataset == suite.prompt else f" on {suite.dataset}"
    counts = [
        f"{suite.count(change)} {words}"
        for change, (words, _) in _WORDS.items()
        if suite.count(change)
    ]
    counts.append(f"{suite.same} the same")
    return f"{suite.prompt}{on}  {_versions(suite)}: {', '.join(counts)}"


def _versions(suite: SuiteComparison) -> str:
    """What was measured in A, and what in B where it is something else."""
    sides = [side for side in (suite.before, suite.after) if side is not None]
    models = list(dict.fromkeys(simulated(side["model"]) for side in sides))
    contents = list(
        dict.fromkeys(f"{side['version'] or '-'} ({side['prompt_digest'][:12]})" for side in sides)
    )
    return f"{' -> '.join(contents)}  {' -> '.join(models)}"


def _counts(change: CaseChange) -> str:
    return f"{_passed(change.before)} -> {_passed(change.after)}"


def _passed(side: CaseSide | None) -> str:
    if side is None:
        return "-"
    return f"{side.passed}/{side.measured}" if side.measured else "?"


def _diff(change: CaseChange) -> Iterator[str]:
    before, after = change.before, change.after
    old = answer_lines(before.answer) if before and before.answer is not None else []
    new = answer_lines(after.answer) if after and after.answer is not None else []
    lines = list(unified_diff(old, new, lineterm="", n=_CONTEXT_LINES))
    yield from (line for line in lines[2:] if not line.startswith("@@ "))
    if old == new and old:
        yield "  both answers are the same text"
    for label, side in (("A", before), ("B", after)):
        if side and side.judge:
            yield f"{label}  {side.judge}: {' '.join(side.reason.split())}"
