"""Which runs are under way: a lock per prompt, which the system lets go when a process ends."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError, UsageError, explain_os_error
from regauge.refine.trail._runs import list_refinements

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import TextIO

    from regauge.project import Project

__all__ = ["BusyError", "cut_off", "only_one"]


class BusyError(RegaugeError):
    """Another run is refining the same prompt."""


@contextmanager
def only_one(project: Project, prompt: str, run: str) -> Generator[None]:
    """Keep other runs off the same prompt; the system lets go when this process ends.

    Raises:
        BusyError: One is under way.
    """
    project.prepare_state_dir("refine")
    path = _lock_of(project, prompt)
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        what, fix = explain_os_error(error)
        raise UsageError(
            f"{path} cannot be written: {what}\n"
            f"  fix: {fix or f'move it away: mv {path} {path}.moved'}"
        ) from error
    with file:
        if not _locked(file):
            file.seek(0)
            raise BusyError(
                f"{prompt} is being refined already: {file.read().strip() or 'by another run'}\n"
                "  fix: wait for that run to end, or stop it"
            )
        file.seek(0)
        file.truncate()
        file.write(f"{run or 'a new run'}, process {os.getpid()}\n")
        file.flush()
        yield


def cut_off(project: Project) -> frozenset[str]:
    """The ids of runs that say they are running, and whose process is no more."""
    if os.name == "nt":  # it has no such locks, so nobody knows
        return frozenset()
    dead: set[str] = set()
    held: dict[str, str] = {}
    for run in list_refinements(project):
        facts = run.facts()
        if facts.get("status") != "running":
            continue
        prompt = str(facts["prompt"])
        if prompt not in held:
            held[prompt] = _held(_lock_of(project, prompt))
        # The newest one that runs has the lock, unless it names another one, which was resumed.
        if held[prompt].startswith((run.id, "a new run", "pytest")):
            held[prompt] = ""
        else:
            dead.add(run.id)
    return frozenset(dead)


def _held(path: Path) -> str:
    """What the process says that has a lock; empty where none has it."""
    try:
        with path.open("r+", encoding="utf-8") as file:
            return "" if _locked(file) else file.read() or "a new run"
    except OSError:
        return ""


def _lock_of(project: Project, prompt: str) -> Path:
    return project.state_dir / "refine" / f"{prompt}.lock"


def _locked(file: TextIO) -> bool:
    """Whether the lock is ours now; where the system has no such locks nobody is kept off."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
