"""Runs a program, and kills it with all its child processes when the parent process ends.

It is started as a script: FD PROGRAM ARGUMENT...; FD is a pipe that the parent never writes to.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

_NOT_STARTED = 127
_SIGNALS = 128


def main() -> int:
    """Run the program and return its exit status."""
    pipe, arguments = int(sys.argv[1]), sys.argv[2:]

    def watch() -> None:
        os.read(pipe, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    try:
        status = subprocess.Popen(arguments).wait()  # noqa: S603 - no shell
    except OSError as error:
        print(f"{arguments[0]} cannot be started: {error.strerror}", file=sys.stderr)  # noqa: T201
        return _NOT_STARTED
    return status if status >= 0 else _SIGNALS - status


if __name__ == "__main__":
    os._exit(main())
