"""What people said, gathered when a run begins and kept with it: more is said later on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regauge.atomic import write_whole
from regauge.errors import UsageError
from regauge.refine.feedback import Heard
from regauge.refine.trail import TrailError
from regauge.refine.workbench import labels_for
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.project import Project
    from regauge.refine.runs import Run
    from regauge.refine.workbench import Subject

__all__ = ["heard_by", "heard_of", "keep_heard"]


def heard_of(project: Project, subject: Subject, told: Heard | None, *, critics: bool) -> Heard:
    """Labels, and what else a run is told; nothing is looked for where no model would hear it.

    Args:
        project: Where labels are.
        subject: The prompt, with its cases.
        told: Comments and notes; None where there are none.
        critics: Whether a proposer asks a model.

    Raises:
        UsageError: Something was to be told, and nobody would hear it.
        DatasetError: A file of labels cannot be used.
    """
    if critics:
        return labels_for(project, subject) + (told or Heard())
    if told is not None and told.said:
        raise UsageError(
            "none of the proposers asks a model, so nobody would hear what people said\n"
            "  fix: --proposers rules,model"
        )
    return Heard()


def keep_heard(run: Run, heard: Heard) -> None:
    """Write down what people said, where they said anything."""
    if heard != Heard():
        text = json.dumps(heard.to_json(), ensure_ascii=False, indent=1) + "\n"
        write_whole(_path(run), text.encode())


def heard_by(run: Run) -> Heard:
    """What people had said when a run began.

    Raises:
        TrailError: What the run kept of it cannot be read.
    """
    path = _path(run)
    if not path.is_file():
        return Heard()
    try:
        return Heard.from_json(read_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrailError(
            f"run {run.id} cannot be told again: {path.name} of it cannot be read: {error}"
        ) from error


def _path(run: Run) -> Path:
    return run.directory / "heard.json"
