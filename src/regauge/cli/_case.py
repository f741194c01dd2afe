"""Golden cases from runs."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.datasets import find_dataset, load_dataset
from regauge.errors import DatasetError, GitError, UsageError
from regauge.prompts import Repository
from regauge.reports import find_run, read_record, read_rows
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import Project


def case_from_run(
    project: Project, run: str, case_id: str, trial: int | None, *, expected_from_output: bool
) -> dict[str, JSON]:
    """The document of a golden case from a run.

    Args:
        run: A run's id, or `latest`.
        trial: The trial number; None for a failed trial if there is one.
        expected_from_output: Whether the output becomes the expected value.

    Raises:
        UsageError: The run has no such case, trial or output, or its case no longer exists.
    """
    directory = find_run(project, run)
    row = _row(directory, case_id, trial)
    case = _case_of(project, directory, row)
    expected = _answer(row, case) if expected_from_output else case.expected
    return _document(case, row, run=directory.name, expected=expected)


def _row(run: Path, case_id: str, trial: int | None) -> dict[str, Any]:
    """The row of a case's trial; by default of a failed one if there is one.

    Raises:
        UsageError: The run has no such case or trial, or several prompts have the case.
    """
    rows = [row for row in read_rows(run) if row["case"] == case_id]
    rows = [row for row in rows if row.get("side") != "base"] or rows
    if not rows:
        fix = f"regauge report {run.name} lists its cases"
        raise UsageError(f"run {run.name} has no case {case_id!r}", fix=fix)
    if trial is not None:
        rows = [row for row in rows if row["trial"] == trial]
        if not rows:
            raise UsageError(f"case {case_id!r} has no trial {trial} in run {run.name}")
    failed = [row for row in rows if row["outcome"] == "failed"]
    return (failed or rows)[0]


def _case_of(project: Project, run: Path, row: dict[str, Any]) -> GoldenCase:
    """The golden case of the run.

    Raises:
        UsageError: Neither the files nor git have it.
    """
    digest = row["case_digest"]
    name = str(row["dataset"])
    try:
        path = find_dataset(name, fixtures_dir=project.fixtures_dir)
    except DatasetError:
        path = project.golden_dir / f"{name}.jsonl"
    for file in (path, *_older(project, run, path)):
        if not file.is_file():
            continue
        case = load_dataset(file, fixtures_dir=project.fixtures_dir).get(str(row["case"]))
        if case is not None and case.digest == digest:
            return case
    message = f"case {row['case']!r} is not what it was in run {run.name}, and git does not have it"
    raise UsageError(message, fix="run it again, or write it: regauge new case")


def _older(project: Project, run: Path, path: Path) -> list[Path]:
    """The dataset at the run's commit, in a temporary file; empty without git."""
    git = read_record(run).git
    repository = Repository.find(project.root)
    data = None
    with suppress(GitError):
        if git is not None and repository is not None:
            data = repository.read(repository.commit(git.commit), repository.inside(path))
    if data is None:
        return []
    directory = tempfile.TemporaryDirectory()
    click.get_current_context().call_on_close(directory.cleanup)
    file = Path(directory.name) / path.name
    file.write_bytes(data)
    return [file]


def _answer(row: dict[str, Any], case: GoldenCase) -> JSON:
    """The output in the form of the case's expected value.

    Raises:
        UsageError: The trial has no output.
    """
    output = row["answer"]
    if not isinstance(output, str):
        raise UsageError(f"case {case.id!r} has no output in that run\n  fix: name another --trial")
    match = re.fullmatch(r"\s*```\w*\n(.*?)\n?```\s*", output, re.DOTALL)
    try:
        value: JSON = read_json(match[1] if match else output)
    except ValueError:
        return output
    expected = case.expected
    if isinstance(value, dict) and isinstance(expected, dict):
        return {key: item for key, item in value.items() if key in expected} or value
    return output if isinstance(expected, str) else value


def _document(
    case: GoldenCase, row: dict[str, Any], *, run: str, expected: JSON
) -> dict[str, JSON]:
    document: dict[str, JSON] = {"id": case.id, "inputs": dict(case.inputs)}
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
    document["tier"] = case.tier
    document |= {key: text for key in ("source", "licence") if (text := getattr(case, key))}
    document["note"] = f"{row['outcome']} in run {run} with {row['model']}"
    return document
