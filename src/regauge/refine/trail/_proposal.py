"""Ties the files of a proposal to the audit trail, so that what is applied is what was verified."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from regauge.refine.trail._trail import TrailError, TrailFile, read_trail

if TYPE_CHECKING:
    from regauge.refine.trail._runs import Run
    from regauge.refine.trail._trail import Event

__all__ = ["read_whole", "seal"]

_FILES = ("before.prompt.yml", "revision.prompt.yml", "revision.diff", "prompts.lock")


def seal(run: Run) -> None:
    """Write into the trail what the files of a proposal are, unless it says so already."""
    events = read_trail(run.trail)
    files = _digests(run)
    if _sealed(events) != files:
        TrailFile(run.trail, events).wrote(files)


def read_whole(run: Run) -> tuple[Event, ...]:
    """The events of a run's trail, whose chain is whole and whose proposal is as it was written.

    Raises:
        TrailError: A line of the trail or a file of the proposal is not what it was.
    """
    fix = f"  fix: do not apply it, and refine anew: regauge refine {run.facts().get('prompt', '')}"
    try:
        events = read_trail(run.trail)
    except TrailError as error:
        raise TrailError(f"{error}\n{fix}") from error
    sealed = _sealed(events)
    found = _digests(run)
    if not sealed and not run.revision.is_file():
        return events  # it proposes nothing
    for name in _FILES:
        if sealed.get(name) != found.get(name):
            raise TrailError(
                f"{run.directory / name} is not what run {run.id} wrote, as {run.trail.name} has"
                f" it\n{fix}"
            )
    return events


def _sealed(events: tuple[Event, ...]) -> dict[str, str]:
    """What the trail says of files; empty where the run proposes nothing."""
    last = events[-1]
    return dict(last.body["files"]) if last.kind == "wrote" else {}


def _digests(run: Run) -> dict[str, str]:
    paths = [run.directory / name for name in _FILES]
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if p.is_file()}
