"""Finds the runs of a project and reads them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from regauge.errors import Fault, FaultyFileError, UsageError
from regauge.reports._schema import SCHEMA_VERSION, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.project import Project

__all__ = ["find_run", "list_runs", "read_record", "read_rows"]

_SECOND = len("20260131-235959")


def list_runs(project: Project) -> list[Path]:
    """The directories of all runs, the newest first."""
    runs = project.state_dir / "runs"
    if not runs.is_dir():
        return []
    return sorted(
        (path for path in runs.iterdir() if (path / "run.json").is_file()),
        # Runs of one second are told apart by when they ended.
        key=lambda path: (path.name[:_SECOND], (path / "run.json").stat().st_mtime_ns),
        reverse=True,
    )


def find_run(project: Project, name: str) -> Path:
    """The directory of one run.

    Args:
        project: Whose runs.
        name: A run's id, the beginning of just one id, `latest`, or a directory.

    Raises:
        UsageError: There is no such run, or several begin so.
    """
    if (Path(name) / "run.json").is_file():
        return Path(name)
    runs = list_runs(project)
    if name == "latest" and runs:
        return runs[0]
    matches = [run for run in runs if run.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not runs:
        raise UsageError(
            f"there are no runs in {project.state_dir / 'runs'}\n  fix: pytest evals makes one"
        )
    if matches:
        several = ", ".join(run.name for run in matches[:5])
        raise UsageError(
            f"{len(matches)} runs begin with {name!r}: {several}\n  fix: give more of its id"
        )
    raise UsageError(f"there is no run {name!r}\n  fix: `regauge runs` lists them")


def read_record(run: Path) -> RunRecord:
    """The record of one run.

    Raises:
        FaultyFileError: It does not parse, or is of a schema version this program does not know.
    """
    path = run / "run.json"
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        found = document.get("schema_version")
        if found != SCHEMA_VERSION:
            raise FaultyFileError(
                [
                    Fault(
                        path=path,
                        line=None,
                        message=f"schema version {found!r}; this regauge reads {SCHEMA_VERSION}",
                        fix="read it with the regauge that wrote it",
                    )
                ]
            )
        return RunRecord.model_validate(document)
    except (OSError, ValueError, AttributeError, ValidationError) as error:
        fault = Fault(path=path, line=None, message=f"not a run record: {error}")
        raise FaultyFileError([fault]) from error


def read_rows(run: Path) -> Iterator[dict[str, Any]]:
    """The rows of one run, in the shape of `TrialRow`.

    Raises:
        FaultyFileError: A line does not parse.
    """
    path = run / "trials.jsonl"
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                fault = Fault(path=path, line=number, message=f"not a row: {error}")
                raise FaultyFileError([fault]) from error
