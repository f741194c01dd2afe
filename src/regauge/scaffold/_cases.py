"""Golden cases to add to a dataset: documents, also of runs, and where they go."""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge.datasets import Dataset, find_dataset, load_dataset
from regauge.errors import DatasetError, GitError, UsageError, split_location
from regauge.files import write_whole
from regauge.prompts import Repository, find_prompt, load_prompt
from regauge.recordings import map_texts, redactor_for
from regauge.reports import find_run, read_record, read_rows
from regauge.runner import declared_evals
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import Project


def append_case(
    project: Project, name: str, document: dict[str, JSON], *, dataset: str = ""
) -> tuple[Path, int]:
    """Append a case to the golden dataset of a prompt or target, which may not exist yet.

    Args:
        dataset: Another dataset than the prompt's; empty for the prompt's.

    Returns:
        The file, and the line of the case.

    Raises:
        UsageError: The dataset is not a JSONL file, or has the case.
        DatasetError: The case or the file cannot be used.
        RenderError: The prompt cannot be rendered with the inputs.
        PromptError: There is no such prompt.
    """
    path = _file(project, name, dataset)
    before = path.read_bytes() if path.is_file() else b""
    existing = parse_dataset(project, path, before) if before.strip() else None
    _refuse_duplicate(project, path, existing, document)
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    line = json.dumps(document, ensure_ascii=False)
    after = before + gap + line.encode("utf-8", "backslashreplace") + b"\n"
    cases = parse_dataset(project, path, after).cases
    number = after.count(b"\n")
    if not _is_of_target(project, name):
        prompt = load_prompt(find_prompt(name, root=project.root), root=project.root)
        prompt.render(cases[-1].inputs, case_at=f"{project.relative(path).as_posix()}:{number}")
    write_whole(path, after)
    return path, number


def redact_case(project: Project, document: dict[str, JSON]) -> dict[str, JSON]:
    """Redact keys and other secrets in a case, as in recordings."""
    redactor = redactor_for(project.settings, os.environ)
    return map_texts(document, redactor.redact)


def _file(project: Project, name: str, dataset: str) -> Path:
    try:
        path = find_dataset(dataset or name, fixtures_dir=project.fixtures_dir)
    except DatasetError:
        if dataset not in {"", name}:
            raise
        path = project.golden_dir / f"{name}.jsonl"
        if project.golden_dir.is_dir() and any(
            file.name.startswith(f"{name}.") for file in project.golden_dir.iterdir()
        ):  # two of them
            raise
        if not _is_of_target(project, name):
            find_prompt(name, root=project.root)
    if path.suffix != ".jsonl":
        message = f"{project.relative(path)} is not a JSONL file, so nothing is added to it"
        raise UsageError(message, fix="add the case by hand; --dry-run shows it")
    return path


def _is_of_target(project: Project, name: str) -> bool:
    """Return whether evals run the dataset of this name on targets only."""
    targets = [
        eval_.target
        for file in sorted((project.root / "evals").rglob("*.py"))
        for eval_ in declared_evals(file.read_bytes())
        if eval_.texts[:1] == (name,)
    ]
    return bool(targets) and None not in targets


def parse_dataset(project: Project, path: Path, data: bytes) -> Dataset:
    """Parse the content of a dataset; errors name `path`."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / path.name
        file.write_bytes(data)
        try:
            return load_dataset(file, fixtures_dir=project.fixtures_dir)
        except DatasetError as error:
            place = project.relative(path)
            raise DatasetError(
                [replace(diagnostic, path=place) for diagnostic in error.diagnostics]
            ) from error


def _refuse_duplicate(
    project: Project, path: Path, dataset: Dataset | None, document: dict[str, JSON]
) -> None:
    for case in dataset or ():
        place = f"{project.relative(path)}:{split_location(case.location)[1]}"
        if case.id == document["id"]:
            fix = "give the new one another id, or edit that line"
            raise UsageError(f"there is a case {case.id!r} already: {place}", fix=fix)
        if case.inputs == document["inputs"]:
            fix = "edit that line; a second case would count one input twice"
            raise UsageError(f"case {case.id!r} has the same inputs: {place}", fix=fix)


def case_from_run(
    project: Project,
    run: str,
    case_id: str,
    trial: int | None,
    *,
    prompt: str,
    expected_from_output: bool,
) -> tuple[dict[str, JSON], str]:
    """The document of a golden case from a run, and the dataset to add it to.

    Args:
        run: A run's id, or `latest`.
        prompt: The prompt whose cases come first. The dataset of another's case is empty.
        trial: The trial number; None for a failed trial if there is one.
        expected_from_output: Whether the output becomes the expected value.

    Raises:
        UsageError: The run has no such case, trial or output, or its case no longer exists.
    """
    directory = find_run(project, run)
    row = _find_row(directory, case_id, trial, prompt=prompt)
    case = _find_case(project, directory, row)
    expected = _expected_value(row, case) if expected_from_output else case.expected
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
    document["note"] = f"{row['outcome']} in run {directory.name} with {row['model']}"
    return document, row["dataset"] if row["prompt"] == prompt else ""


def _find_row(run: Path, case_id: str, trial: int | None, *, prompt: str) -> dict[str, Any]:
    """The row of a case's trial; by default of a failed one if there is one.

    Raises:
        UsageError: The run has no such case or trial, or several prompts have the case.
    """
    rows = [row for row in read_rows(run) if row["case"] == case_id]
    rows = [row for row in rows if row.get("side") != "base"] or rows
    rows = [row for row in rows if row["prompt"] == prompt] or rows
    if not rows:
        fix = f"regauge report {run.name} lists its cases"
        raise UsageError(f"run {run.name} has no case {case_id!r}", fix=fix)
    if trial is not None:
        rows = [row for row in rows if row["trial"] == trial]
        if not rows:
            raise UsageError(f"case {case_id!r} has no trial {trial} in run {run.name}")
    failed = [row for row in rows if row["outcome"] == "failed"]
    return (failed or rows)[0]


def _find_case(project: Project, run: Path, row: dict[str, Any]) -> GoldenCase:
    """The golden case of a run, from the files or from git at the run's commit.

    Raises:
        UsageError: Neither has it.
    """
    name = str(row["dataset"])
    try:
        path = find_dataset(name, fixtures_dir=project.fixtures_dir)
    except DatasetError:
        path = project.golden_dir / f"{name}.jsonl"
    contents = [path.read_bytes() if path.is_file() else None]
    git, repository = read_record(run).git, Repository.find(project.root)
    if git is not None and repository is not None:
        with suppress(GitError):
            contents.append(repository.read(repository.commit(git.commit), repository.inside(path)))
    for data in contents:
        case = parse_dataset(project, path, data).get(str(row["case"])) if data else None
        if case is not None and case.digest == row["case_digest"]:
            return case
    message = f"case {row['case']!r} is not what it was in run {run.name}, and git does not have it"
    raise UsageError(message, fix="run it again, or write it: regauge new case")


def _expected_value(row: dict[str, Any], case: GoldenCase) -> JSON:
    """The output in the form of the case's expected value.

    Raises:
        UsageError: The trial has no output.
    """
    output = row["output"]
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
