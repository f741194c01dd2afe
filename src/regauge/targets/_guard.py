"""Runs a program, and kills it with all its child processes when the parent process ends.

It is started as a script: FD PROGRAM ARGUMENT...; FD is a pipe that the parent never writes to.
Windows has no groups of processes, so no guard.
"""

from __future__ import annotations

# `signal`, `subprocess` and `threading` take as long to load as Python to start.
import os
import sys
from _thread import start_new_thread

assert sys.platform != "win32"
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_NOT_STARTED = 127
_SIGNALS = 128


def main() -> int:
    """Run the program and return its exit status."""
    pipe, arguments = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(pipe, False)  # noqa: FBT003 - it takes no keyword

    def watch() -> None:
        os.read(pipe, 1)
        os.killpg(0, _SIGKILL)

    start_new_thread(watch, ())
    try:
        # Python ignores these two signals, and a program would, too.
        ignored = (_SIGPIPE, _SIGXFSZ)
        child = os.posix_spawnp(arguments[0], arguments, os.environ, setsigdef=ignored)
    except OSError as error:
        print(f"{arguments[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        return _NOT_STARTED
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else _SIGNALS - status


if __name__ == "__main__":
    os._exit(main())
