"""Ending programs that regauge started, with all that they started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["end_group"]


def end_group(pid: int) -> None:
    """End a process that was started in a session of its own, and every process of its group."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            os.kill(pid, signal.SIGTERM)  # there are no groups; this ends the process at once
        else:
            os.killpg(pid, signal.SIGKILL)
