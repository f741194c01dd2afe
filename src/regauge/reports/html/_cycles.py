"""What was tried to repair the prompts that failed, cycle by cycle, from the audit trails."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.project import Project
    from regauge.reports._schema import RunRecord, Suggestion

__all__ = ["Cycle", "Note", "Repair", "read_repairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One thing that was decided, and what it was decided about."""

    event: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What was decided in one cycle.

    Attributes:
        number: From 0, which is what happened before the first cycle.
    """

    number: int
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was suggested for one prompt, and how it was come by.

    Attributes:
        cycles: Empty where the audit trail is not on this machine.
        problem: Why they are; empty where they are there.
    """

    suggestion: Suggestion
    cycles: tuple[Cycle, ...]
    problem: str = ""


def read_repairs(project: Project, record: RunRecord) -> tuple[Repair, ...]:
    """A repair for each suggestion of a run."""
    return tuple(_repair(project, suggestion) for suggestion in record.suggestions)


def _repair(project: Project, suggestion: Suggestion) -> Repair:
    if not suggestion.run:
        return Repair(suggestion=suggestion, cycles=())
    from regauge.refine.trail import TrailError

    path = project.state_dir / "refine" / suggestion.run / "trail.jsonl"
    try:
        return Repair(suggestion=suggestion, cycles=_cycles(path))
    except TrailError as error:
        return Repair(suggestion=suggestion, cycles=(), problem=str(error).splitlines()[0])


def _cycles(path: Path) -> tuple[Cycle, ...]:
    from regauge.refine.trail import read_trail

    notes: dict[int, list[Note]] = {}
    for event in read_trail(path):
        if event.kind != "observed":  # nothing is decided where a run begins and where it writes
            continue
        notes.setdefault(event.body["state"]["cycle"], []).extend(
            Note(event=note["event"], subject=_short(note["subject"]), text=note["text"])
            for note in event.body["decisions"]
        )
    return tuple(
        Cycle(number=number, notes=tuple(met)) for number, met in sorted(notes.items()) if met
    )


def _short(subject: str) -> str:
    """A digest as people quote it, and anything else as it is.

    >>> _short("a" * 64), _short("a prompt")
    ('aaaaaaaaaaaa', 'a prompt')
    """
    return subject[:12] if re.fullmatch("[0-9a-f]{64}", subject) else subject
