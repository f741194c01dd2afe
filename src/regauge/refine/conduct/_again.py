"""A prompt and what was said of it as a run began, so that its decisions can be made once more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regauge.atomic import write_whole
from regauge.prompts import parse_prompt
from regauge.refine.conduct._hearing import keep_heard
from regauge.refine.trail import TrailError
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.refine.trail import Run
    from regauge.refine.workbench import Subject

__all__ = ["as_it_was", "keep_known"]


def keep_known(run: Run, subject: Subject) -> None:
    """Write down what the prompt said before and what people said of it; more is said later on."""
    keep_heard(run, subject.heard)
    text = json.dumps(list(subject.released), ensure_ascii=False, indent=1) + "\n"
    write_whole(_released(run), text.encode())


def as_it_was(subject: Subject, run: Run) -> Subject:
    """The prompt of a run as it was; its trail says by digests whether this is the same.

    Raises:
        TrailError: What the run kept of it cannot be read.
    """
    try:
        source = run.before.read_bytes().decode()
        found: Any = read_json(_released(run).read_text(encoding="utf-8"))
        released = tuple(str(text) for text in found)
    except (OSError, ValueError, TypeError) as error:
        raise TrailError(
            f"run {run.id} cannot be told again: what it kept of its prompt is not there: {error}"
        ) from error
    prompt = parse_prompt(source, path=subject.prompt.path)
    return replace(subject, prompt=prompt, source=source, released=released)


def _released(run: Run) -> Path:
    return run.directory / "released.json"
