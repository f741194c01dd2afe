"""Ending programs that regauge started, with all that they started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def end_group(pid: int) -> None:
    """End a process that was started in a session of its own, and every process of its group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            os.kill(pid, signal.SIGTERM)  # there are no groups; this ends the process at once
        else:
            os.killpg(pid, signal.SIGKILL)


def end_tree(pid: int) -> None:
    """End a process as `end_group` does, and on Linux its descendants in other groups, too."""
    descendants = _descendants(pid)
    end_group(pid)
    for each in descendants:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the program, in parentheses, may hold anything.
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    descendants = children.get(pid, [])[:]
    for each in descendants:
        descendants += children.get(each, [])
    return descendants
