"""Adds a case at the end of a golden dataset, once it is known to load and to render."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.datasets import Dataset, find_dataset, load_dataset
from regauge.errors import DatasetError, UsageError
from regauge.prompts import find_prompt, load_prompt
from regauge.recordings import map_texts, redactor_for
from regauge.runner import declared_evals

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.project import Project

__all__ = ["append_case", "redacted"]


def append_case(
    project: Project, name: str, document: dict[str, JSON], *, dataset: str = ""
) -> tuple[Path, int]:
    """Add a case to the golden dataset of a prompt or target; the file is made where there is none.

    Args:
        dataset: The name of the dataset of a case that has run; by default that of the prompt.

    Returns:
        The file, and the line the case stands on.

    Raises:
        UsageError: The dataset is no JSONL file, or has the case already.
        DatasetError: The case, or the file as it was, cannot be used.
        RenderError: The prompt cannot be rendered with the inputs.
        PromptError: There is no such prompt.
    """
    path = _file(project, dataset or name)
    before = path.read_bytes() if path.is_file() else b""
    known = _loaded(project, path, before) if before.strip() else None
    _refuse_twin(project, path, known, document)
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    line = json.dumps(document, ensure_ascii=False)
    after = before + gap + line.encode("utf-8", "backslashreplace") + b"\n"
    cases = _loaded(project, path, after).cases
    number = int(cases[-1].at.rpartition(":")[2])
    if not dataset and not _is_of_target(project, name):
        prompt = load_prompt(find_prompt(name, root=project.root), root=project.root)
        prompt.render(cases[-1].inputs, case_at=f"{project.relative(path).as_posix()}:{number}")
    try:
        write_whole(path, after)
    except OSError as error:
        raise UsageError(
            f"{project.relative(path)} cannot be written: {error.strerror or error}\n"
            "  fix: give write permission, then run the command again"
        ) from error
    return path, number


def redacted(project: Project, document: dict[str, JSON]) -> dict[str, JSON]:
    """A case without keys and other secrets, as they are kept out of recordings."""
    redactor = redactor_for(project.settings, os.environ)
    return map_texts(document, redactor.redact)


def _file(project: Project, name: str) -> Path:
    try:
        path = find_dataset(name, fixtures_dir=project.fixtures_dir)
    except DatasetError:
        path = project.golden_dir / f"{name}.jsonl"
        if project.golden_dir.is_dir() and any(
            file.name.startswith(f"{name}.") for file in project.golden_dir.iterdir()
        ):  # two of them
            raise
        if not _is_of_target(project, name):
            find_prompt(name, root=project.root)
    if path.suffix != ".jsonl":
        raise UsageError(
            f"{project.relative(path)} is no JSONL file, so nothing is added to it\n"
            "  fix: add the case by hand; --dry-run shows it"
        )
    return path


def _is_of_target(project: Project, name: str) -> bool:
    """Return whether an eval puts the cases of this name to a target, and none to a prompt."""
    targets = [
        declared.target
        for file in sorted((project.root / "evals").rglob("*.py"))
        for declared in declared_evals(file.read_bytes())
        if declared.texts[:1] == (name,)
    ]
    return bool(targets) and None not in targets


def _loaded(project: Project, path: Path, data: bytes) -> Dataset:
    """The dataset that `path` would hold; faults name `path`."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / path.name
        file.write_bytes(data)
        try:
            return load_dataset(file, fixtures_dir=project.fixtures_dir)
        except DatasetError as error:
            shown = project.relative(path)
            raise DatasetError([replace(fault, path=shown) for fault in error.faults]) from error


def _refuse_twin(
    project: Project, path: Path, known: Dataset | None, document: dict[str, JSON]
) -> None:
    for case in known or ():
        place = f"{project.relative(path)}:{case.at.rpartition(':')[2]}"
        if case.id == document["id"]:
            raise UsageError(
                f"there is a case {case.id!r} already: {place}\n"
                "  fix: give the new one another id, or edit that line"
            )
        if case.inputs == document["inputs"]:
            raise UsageError(
                f"case {case.id!r} has the same inputs: {place}\n"
                "  fix: edit that line; a second case would count one input twice"
            )
