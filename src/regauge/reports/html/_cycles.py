"""What a refinement of a run did, cycle by cycle, from its audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.refine._trail import read_trail

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Cycle", "Note", "Refinement", "read_refinement"]

_TRAIL = "trail.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One thing that was decided, and what it was decided about."""

    event: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What was observed and decided in one cycle.

    Attributes:
        number: From 0, which is what happened before the first cycle.
    """

    number: int
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """A refinement.

    Attributes:
        prompt: Its name; empty where the trail does not say.
        stop: Why it ended; empty when it has not.
        usd: What it cost.
    """

    prompt: str
    cycles: tuple[Cycle, ...]
    stop: str
    calls: int
    usd: float


def read_refinement(run: Path) -> Refinement | None:
    """What the audit trail in the directory of a run tells; None where there is none.

    Raises:
        TrailError: There is one, and it is not what it was when it was written.
    """
    path = run / _TRAIL
    if not path.is_file():
        return None
    events = read_trail(path)
    about = events[0].body
    notes: dict[int, list[Note]] = {}
    state: Mapping[str, Any] = {}
    for event in events[1:]:
        state = event.body["state"]
        notes.setdefault(state["cycle"], []).extend(
            Note(event=note["event"], subject=note["subject"], text=note["text"])
            for note in event.body["decisions"]
        )
    spent = state.get("spent", {})
    return Refinement(
        prompt=str(about.get("prompt", "")),
        cycles=tuple(
            Cycle(number=number, notes=tuple(met)) for number, met in sorted(notes.items()) if met
        ),
        stop=state.get("stop") or "",
        calls=spent.get("calls", 0),
        usd=spent.get("usd", 0.0),
    )
