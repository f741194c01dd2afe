"""Which process holds something, and whether it still lives."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["describe_process", "may_live", "this_process"]

_FIELD_AFTER_NAME: Final = 19  # starttime is field 22 of /proc/<pid>/stat; the name ends field 2


def this_process() -> str:
    """This process, see `describe_process`."""
    return describe_process(os.getpid())


def describe_process(pid: int) -> str:
    """A process of this host: host, boot, process id and start time, as one line of text."""
    return "|".join((platform.node().replace("|", ""), _boot(), str(pid), _started(pid)))


def may_live(owner: str) -> bool:
    """Whether the process that `describe_process` described there may still run.

    A process id alone would not do: ids are used again. A process of another host cannot be
    looked at, so it counts as alive; what it holds ends by expiry.
    """
    parts = owner.split("|")
    if len(parts) != len(("host", "boot", "pid", "started")):
        return False
    host, boot, pid, started = parts
    if host != _host():
        return True
    if boot != _boot() or not pid.isdigit():
        return False
    if os.name == "nt":
        return True  # signal 0 is Ctrl-C there; what it holds ends by expiry
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, under another user
    now = _started(int(pid))
    return not (started and now) or started == now


def _host() -> str:
    return platform.node().replace("|", "")


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process started, in whatever unit the system has; "" where that is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    except OSError:
        return ""
    else:
        fields = stat.rpartition(")")[2].split()
        # A zombie has ended; its parent has only not looked yet.
        return "ended" if fields[0] == "Z" else fields[_FIELD_AFTER_NAME]
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)  # noqa: S603 - a fixed program and a number
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(done.stdout.split())
