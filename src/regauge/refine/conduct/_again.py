"""A prompt and what was said of it as a run began, so that its decisions can be made once more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regauge.atomic import write_whole
from regauge.prompts import Message, parse_prompt
from regauge.refine.conduct._hearing import keep_heard
from regauge.refine.edits import PromptText
from regauge.refine.loop import Release
from regauge.refine.trail import TrailError, text_to_json
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.refine.runs import Run
    from regauge.refine.workbench import Subject

__all__ = ["as_it_was", "keep_known"]


def keep_known(run: Run, subject: Subject) -> None:
    """Write down what the prompt said before and what people said of it; more is said later on."""
    keep_heard(run, subject.heard)
    releases = [
        {"name": known.name, "command": known.command, "messages": text_to_json(known.text)}
        for known in subject.releases
    ]
    text = json.dumps(releases, ensure_ascii=False, indent=1) + "\n"
    write_whole(_released(run), text.encode())


def as_it_was(subject: Subject, run: Run) -> Subject:
    """The prompt of a run as it was; its trail says by digests whether this is the same.

    Raises:
        TrailError: What the run kept of it cannot be read.
    """
    try:
        source = run.before.read_bytes().decode()
        found: Any = read_json(_released(run).read_text(encoding="utf-8"))
        releases = tuple(
            Release(
                name=one["name"],
                command=one["command"],
                text=PromptText(messages=tuple(Message(**said) for said in one["messages"])),
            )
            for one in found
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrailError(
            f"run {run.id} cannot be told again: what it kept of its prompt is not there: {error}"
        ) from error
    prompt = parse_prompt(source, path=subject.prompt.path)
    return replace(subject, prompt=prompt, source=source, releases=releases)


def _released(run: Run) -> Path:
    return run.directory / "released.json"
