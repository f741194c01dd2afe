"""Runs pytest or a command and lists the functions of regauge that it enters, in the order of calls.

    python -m tests.docs.call_trace FILE evals --record=none -k ID
    python -m tests.docs.call_trace FILE regauge gate main

writes a list of `[file, function]` to FILE as JSON, and prints how many there are.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import FrameType

_SOURCE = f"{Path(__file__).parents[2] / 'src' / 'regauge'}/"


class CallTrace:
    """The functions that were entered; bodies of modules and classes are no functions."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_SOURCE):
            return
        # Comprehensions and generator expressions have frames of their own in some Pythons.
        # Python writes `<lambda>` and the like, and `__annotate__` from 3.14 on.
        is_written = not code.co_name.startswith(("<", "__annotate__"))
        if code.co_flags & inspect.CO_OPTIMIZED and is_written:
            self.calls.setdefault((code.co_filename.removeprefix(_SOURCE), code.co_qualname))


def main(file: str, *arguments: str) -> int:
    trace = CallTrace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    code: object = 0
    try:
        if arguments[0] == "regauge":
            from regauge.cli import main as run_command

            run_command(arguments[1:])
        else:
            code = pytest.main([*arguments])
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    Path(file).write_text(json.dumps([*trace.calls]), encoding="utf-8")
    files = {name for name, _ in trace.calls}
    sys.stdout.write(f"{len(files)} files, {len(trace.calls)} functions\n")
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
