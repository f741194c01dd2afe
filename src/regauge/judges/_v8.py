"""Runs JavaScript in V8, in a separate process that may be stopped at any time.

V8 ends its whole process if a script takes too much memory, so it never runs in the process of the
run. This file is the script of the process: it reads one request per line, evaluates it in a new
engine, and writes one response per line. It imports nothing of regauge.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


_MB: Final = 1 << 20
_STARTED: Final = "ready"
# Times and numbers have the same form on every machine.
_ENVIRONMENT: Final = {"TZ": "UTC", "LC_ALL": "en_US.UTF-8"}
_PASSED_ON: Final = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LD_LIBRARY_PATH")


class ScriptLimitError(Exception):
    """A script took too long or too much memory."""


def run_script(
    code: str, document: Mapping[str, Any], *, timeout_s: float, memory_mb: int
) -> dict[str, Any]:
    """Call a JavaScript function with a document, and return its result.

    Args:
        code: An expression that is a function of one argument; its result is awaited.
        document: The argument.
        timeout_s: Seconds until the script is stopped.
        memory_mb: The memory limit in megabytes.

    Raises:
        ScriptLimitError: The script reached a limit.
    """
    return _engine(os.getpid()).run(code, document, timeout_s=timeout_s, memory_mb=memory_mb)


@functools.cache
def _engine(pid: int) -> _Engine:
    """The engine of this process; a forked process starts another one."""
    import atexit

    engine = _Engine(pid)
    atexit.register(engine.close)
    return engine


class _Engine:
    """The process with V8, started on demand, also after it ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, code: str, document: Mapping[str, Any], *, timeout_s: float, memory_mb: int
    ) -> dict[str, Any]:
        request = json.dumps([code, document, timeout_s, memory_mb])
        with self._lock:
            process = self._process or self._start()
            began = time.monotonic()
            line = _exchange(process, request)
            if line.startswith("{"):
                response: dict[str, Any] = json.loads(line)
                return response
            took = time.monotonic() - began
            self._end()
        if took >= timeout_s:
            raise ScriptLimitError(f"it took longer than {timeout_s:g} s")
        raise ScriptLimitError(f"it took more than {memory_mb} MB of memory")

    def _start(self) -> subprocess.Popen[str]:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        process = subprocess.Popen(  # noqa: S603 - this file, run by this Python
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env={**environment, **_ENVIRONMENT},
            # Ctrl-C is for the run; the process ends when its input does.
            start_new_session=True,
        )
        self._process = process
        if process.stdout is None or process.stdout.readline().strip() != _STARTED:
            self._end()
            raise ScriptLimitError("V8 did not start; is mini-racer installed for this machine?")
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(OSError):
            process.communicate()

    def close(self) -> None:
        """End the process, if this is the process that started it."""
        if os.getpid() == self._pid:
            self._end()


def _exchange(process: subprocess.Popen[str], request: str) -> str:
    """Send a request and return the response; empty if the process ended."""
    if process.stdin is None or process.stdout is None:
        raise AssertionError("a process without pipes")
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:
        return ""


def _serve() -> None:
    """Evaluate requests until the input ends."""
    import faulthandler

    from py_mini_racer import JSOOMException, MiniRacer

    # Last messages of V8 must not count as a response.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w", encoding="ascii") as nowhere:  # noqa: PTH123 - starts quickly
        os.dup2(nowhere.fileno(), 1)
    with open(__file__.replace("_v8.py", "run_script.js"), encoding="utf-8") as file:  # noqa: PTH123
        template = file.read()
    print(_STARTED, file=answers, flush=True)
    for line in sys.stdin:
        code, document, timeout_s, memory_mb = json.loads(line)
        argument = f"JSON.parse({json.dumps(json.dumps(document))})"
        engine = MiniRacer()
        engine.set_hard_memory_limit(memory_mb * _MB)
        _limit_memory(memory_mb * _MB)
        # A thread of C ends the process, whatever the script does.
        faulthandler.dump_traceback_later(timeout_s, exit=True)
        try:
            # The argument is JSON in a literal of JavaScript.
            call = template.replace("SCRIPT_CALL", f"({code})({argument})")
            engine.eval(f"globalThis.__state = {call}; undefined")
            while engine.eval("__state.step()"):
                pass
            response = engine.eval("__state.response") or '{"kind": "pending"}'
        except JSOOMException:
            response = "too large"
        except Exception as error:  # noqa: BLE001 - a script may break its own engine
            response = json.dumps({"kind": "broken", "message": str(error)[:400]})
        finally:
            faulthandler.cancel_dump_traceback_later()
            _limit_memory(None)
        print(response, file=answers, flush=True)
        engine.close()


def _limit_memory(extra_bytes: int | None) -> None:
    """Limit the memory that this process may add, on Linux.

    V8's own limit covers its heap, without buffers.

    Args:
        extra_bytes: The limit; None for none.
    """
    if sys.platform != "linux":
        return
    import resource

    limit = resource.RLIM_INFINITY
    if extra_bytes is not None:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
            data_line = next(line for line in status if line.startswith("VmData:"))
        limit = int(data_line.split()[1]) * 1024 + extra_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    _serve()
