"""`regauge case`: turns what a run saw into a golden case."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from regauge.cli import Group
from regauge.cli._terminal import echo
from regauge.datasets import find_dataset, load_dataset
from regauge.errors import DatasetError, GitError, UsageError
from regauge.project import Project
from regauge.prompts import Repository
from regauge.reports import find_run, read_record, read_rows
from regauge.scaffold._golden import append_case, redacted
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge case add ticket-kind --from-run latest wrong-price --id wrong-price-2 --edit
  regauge case add router --from-run 20260131 wrong-price --expected-from-answer

Exit codes: 0 added, 2 wrong use or a faulty file.
"""
_TIERS = ["critical", "required", "tracked"]


@click.group(name="case", cls=Group, epilog=_EPILOG)
def command() -> None:
    """Turn a case of a run into a golden case."""


@command.command(name="add", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.argument("case_id", metavar="CASE")
@click.option("--from-run", "run", required=True, metavar="RUN", help="A run's id, or latest.")
@click.option("--id", "new_id", metavar="ID", help="The new case's id; by default the old one's.")
@click.option("--trial", type=click.IntRange(min=0), help="The trial whose output to use.")
@click.option(
    "--expected-from-answer", is_flag=True, help="Use the run's output as the expected value."
)
@click.option("--tier", type=click.Choice(_TIERS), help="By default the old case's.")
@click.option("--edit", is_flag=True, help="Edit the case before it is added.")
@click.option("-n", "--dry-run", is_flag=True, help="Only print the case.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def add(
    prompt: str,
    case_id: str,
    *,
    run: str,
    new_id: str | None,
    trial: int | None,
    expected_from_answer: bool,
    tier: str | None,
    edit: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add case CASE of a run to the golden dataset of prompt NAME.

    Inputs are those of the run, from the dataset or from git; secrets are removed.
    """
    project = Project.find()
    directory = find_run(project, run)
    row = _row(directory, case_id, trial)
    case = _case_of(project, directory, row)
    document = redacted(
        project,
        _document(
            case,
            row,
            new_id=new_id or case.id,
            run=directory.name,
            expected=_answered(row, case) if expected_from_answer else case.expected,
            tier=tier or case.tier,
        ),
    )
    if edit:
        document = _edited(document)
    if dry_run:
        click.echo(json.dumps(document, indent=2 if as_json else None, ensure_ascii=False))
        return
    path, line = append_case(project, prompt, document)
    place = f"{project.relative(path).as_posix()}:{line}"
    if as_json:
        shown = {"path": project.relative(path).as_posix(), "line": line, "case": document}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        echo(f"added {document['id']} to {place}", style="green")
        echo(f"  see it: pytest evals -k {document['id']}")


def _row(run: Path, case_id: str, trial: int | None) -> dict[str, Any]:
    """The trial of a case that is spoken of: a failed one where there is one.

    Raises:
        UsageError: The run has no such case or trial, or several prompts have the case.
    """
    rows = [row for row in read_rows(run) if row["case"] == case_id]
    rows = [row for row in rows if row.get("arm") != "main"] or rows
    if not rows:
        raise UsageError(
            f"run {run.name} has no case {case_id!r}\n"
            f"  fix: regauge report {run.name} lists its cases"
        )
    if trial is not None:
        rows = [row for row in rows if row["trial"] == trial]
        if not rows:
            raise UsageError(f"case {case_id!r} has no trial {trial} in run {run.name}")
    failed = [row for row in rows if row["outcome"] == "failed"]
    return (failed or rows)[0]


def _case_of(project: Project, run: Path, row: dict[str, Any]) -> GoldenCase:
    """The golden case that the run had.

    Raises:
        UsageError: Neither the files nor git have it any more.
    """
    wanted = row["case_digest"]
    name = str(row["dataset"])
    try:
        path = find_dataset(name, fixtures_dir=project.fixtures_dir)
    except DatasetError:
        path = project.golden_dir / f"{name}.jsonl"
    for file in (path, *_older(project, run, path)):
        if not file.is_file():
            continue
        case = load_dataset(file, fixtures_dir=project.fixtures_dir).get(str(row["case"]))
        if case is not None and case.digest == wanted:
            return case
    raise UsageError(
        f"case {row['case']!r} is not what it was in run {run.name}, and git does not have it\n"
        "  fix: run it again, or write it: regauge new case"
    )


def _older(project: Project, run: Path, path: Path) -> list[Path]:
    """The dataset as it was at the run's commit, in a file of the same name; none without git."""
    git = read_record(run).git
    repository = Repository.find(project.root)
    if git is None or repository is None:
        return []
    try:
        data = repository.read(repository.commit(git.commit), repository.inside(path))
    except GitError:
        return []
    if data is None:
        return []
    directory = tempfile.TemporaryDirectory()
    click.get_current_context().call_on_close(directory.cleanup)
    file = Path(directory.name) / path.name
    file.write_bytes(data)
    return [file]


def _answered(row: dict[str, Any], case: GoldenCase) -> JSON:
    """What was answered, in the shape of what is expected so far.

    Raises:
        UsageError: There is no answer.
    """
    answer = row["answer"]
    if not isinstance(answer, str):
        raise UsageError(f"case {case.id!r} has no answer in that run\n  fix: name another --trial")
    try:
        value: JSON = read_json(_unfenced(answer))
    except ValueError:
        return answer
    expected = case.expected
    if isinstance(value, dict) and isinstance(expected, dict):
        return {key: item for key, item in value.items() if key in expected} or value
    return answer if isinstance(expected, str) else value


def _unfenced(answer: str) -> str:
    found = re.fullmatch(r"\s*```\w*\n(.*?)\n?```\s*", answer, re.DOTALL)
    return found[1] if found else answer


def _document(
    case: GoldenCase,
    row: dict[str, Any],
    *,
    new_id: str,
    run: str,
    expected: JSON,
    tier: str,
) -> dict[str, JSON]:
    document: dict[str, JSON] = {"id": new_id, "inputs": dict(case.inputs)}
    if expected is not None:
        document["expected"] = expected
    if case.checks:
        document["checks"] = list(case.checks)
        if case.pass_at is not None:
            document["pass_at"] = case.pass_at
    if case.script is not None:
        document |= case.script.to_record()
    if case.tags:
        document["tags"] = list(case.tags)
    document["tier"] = tier
    document |= {key: text for key in ("source", "licence") if (text := getattr(case, key))}
    document["note"] = f"{row['outcome']} in run {run} with {row['model']}"
    return document


def _edited(document: dict[str, JSON]) -> dict[str, JSON]:
    text = click.edit(json.dumps(document, indent=2, ensure_ascii=False) + "\n", extension=".json")
    if text is None:
        raise UsageError("the case was not saved in the editor, so nothing was added")
    try:
        value = read_json(text)
    except ValueError as error:
        raise UsageError(f"what the editor left is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("what the editor left is no JSON object, so nothing was added")
    missing = [key for key in ("id", "inputs") if key not in value]
    if missing:
        raise UsageError(f"what the editor left has no {missing[0]!r}, so nothing was added")
    return cast("dict[str, JSON]", value)
