"""Machines that get in the way: one sentence, a documented exit code, and nothing lost."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ._project import Ended, Project, commit_all, pytest_command, stub_project
from ._stub import Reply, Request, Stub, completion, stub
from ._try import Drill, SkippedTryError, Try

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MACHINE"]

_CASES = 150
_AT_ONCE = 32
_COMMANDS = {
    "pytest": pytest_command("evals", "-q", f"--concurrency={_AT_ONCE}"),
    "pytest -n 2": pytest_command("evals", "-q", "-n", "2", f"--concurrency={_AT_ONCE}"),
    "record": [sys.executable, "-m", "regauge", "record", f"--concurrency={_AT_ONCE}"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a command runs: exit codes that fit, and what a shell does before it.

    Attributes:
        again: The same command, without the obstacle, then ends with 0.
    """

    codes: tuple[int, ...]
    shell: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])
    again: bool = True


_PLACES = {
    "ulimit -n 64": _Place(codes=(0, 1, 2, 3), shell="ulimit -n 64"),
    "ulimit -n 32": _Place(codes=(0, 1, 2, 3), shell="ulimit -n 32"),
    "ulimit -f 8": _Place(codes=(0, 1, 2, 3), shell="ulimit -f 8"),
    "no HOME": _Place(codes=(0,), shell="unset HOME"),
    "HOME that is missing": _Place(codes=(0,), environ={"HOME": "/nonexistent"}),
    "HOME that is no place for files": _Place(codes=(0,), environ={"HOME": "/proc"}),
    "TMPDIR that is missing": _Place(codes=(0,), environ={"TMPDIR": "/nonexistent"}),
    "plain ASCII": _Place(codes=(0,), environ={"LC_ALL": "C", "PYTHONUTF8": "0"}),
    "no PATH but Python's": _Place(codes=(0, 2), environ={"PATH": "/nonexistent"}),
    "python -O": _Place(codes=(0,), environ={"PYTHONOPTIMIZE": "2"}),
    "closed standard input": _Place(codes=(0,), shell="exec 0<&-"),
    "a reader that leaves": _Place(codes=(0, 1, 2, 120, 141, -13), shell="exec > >(head -c 10)"),
}


def _tries(_: Path) -> Iterator[Try]:
    for name, command in _COMMANDS.items():
        is_pytest = name.startswith("pytest")
        for number, kind in (("SIGTERM", signal.SIGTERM), ("SIGHUP", signal.SIGHUP)):
            yield Try(
                name=f"{name}: {number}",
                failure=partial(_signalled, command, [kind], 2 if is_pytest else 130),
            )
        for times in (1, 2, 3):
            yield Try(
                name=f"{name}: Ctrl-C, {times} times",
                failure=partial(
                    _signalled, command, [signal.SIGINT] * times, 2 if is_pytest else 130
                ),
            )
        yield Try(
            name=f"{name}: SIGTERM, then SIGHUP",
            failure=partial(
                _signalled, command, [signal.SIGTERM, signal.SIGHUP], 2 if is_pytest else 130
            ),
        )
        yield Try(name=f"{name}: full disk", failure=partial(_full_disk, command))
        yield Try(name=f"{name}: read-only", failure=partial(_read_only, command))
        for place, each in _PLACES.items():
            yield Try(name=f"{name}: {place}", failure=partial(_placed, command, each))


def _behave(request: Request) -> Reply:
    return Reply(body=completion(f"case {request.case}: " + "fine " * 400), delay_s=0.1)


def _project(root: Path, server: Stub) -> Project:
    project = stub_project(root, server.base_url, inputs=["x"] * _CASES, judges='contains("fine")')
    project.git("init", "-q", "-b", "main")
    assert project.regauge("bump", "notes").code == 0
    commit_all(project)
    return project


def _in_shell(project: Project, command: list[str], place: _Place) -> Ended:
    script = f"{place.shell or ':'}\nexec {shlex.join(command)}"
    return project.run(["/bin/bash", "-c", script], env=place.environ)


def _signalled(command: list[str], signals: list[signal.Signals], code: int, root: Path) -> str:
    with stub(_behave) as server:
        project = _project(root, server)
        process = project.start(command)
        deadline = time.monotonic() + 60
        while len(server.log) < 60 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        for each in signals:
            os.kill(process.pid, each)
            time.sleep(0.2)
        out, err = process.communicate(timeout=120)
        ended = Ended(code=process.returncode, out=out, err=err)
        time.sleep(0.5)
        if why := _wordless(ended, (code,)):
            return why
        # On a slow machine the signal may come before the first case is judged.
        told = "cases  passed" in ended.out or "nothing was measured: " in ended.out
        if "-m pytest" in shlex.join(command) and not told:
            return f"without a table: {ended.tail(2)}"
        return _again(project, server, command)


def _wordless(ended: Ended, codes: tuple[int, ...]) -> str:
    if "Traceback (most recent call last)" in ended.text or "INTERNALERROR" in ended.text:
        return f"traceback, exit code {ended.code}: {ended.tail(3)}"
    if ended.code not in codes:
        return f"exit code {ended.code}: {ended.tail(2)}"
    return "" if ended.text.strip() or ended.code in {141, -13} else "not a word"


def _again(project: Project, server: Stub, command: list[str]) -> str:
    """The same command without the obstacle finishes, and pays only for what was in flight."""
    ended = project.run(command)
    if ended.code != 0:
        return f"exit code {ended.code} afterwards: {ended.tail(2)}"
    replayed = project.pytest("evals", "-q", "--record=none")
    if replayed.code != 0:
        return f"the replay afterwards ends with {replayed.code}: {replayed.tail(2)}"
    bound = 3 * _AT_ONCE
    if len(server.answered()) < _CASES:
        return "a case without a request"
    return f"{server.paid_twice()} paid twice" if server.paid_twice() > bound else ""


def _placed(command: list[str], place: _Place, root: Path) -> str:
    with stub(_behave) as server:
        project = _project(root, server)
        ended = _in_shell(project, command, place)
        return _wordless(ended, place.codes) or _again(project, server, command)


def _mount(target: Path, options: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SkippedTryError(f"no mount: {error}") from error
    if done.returncode:
        raise SkippedTryError(f"a small disk takes root: {done.stderr.strip()}")


def _full_disk(command: list[str], root: Path) -> str:
    disk = root / "disk"
    _mount(disk, "size=1m")
    try:
        with stub(_behave) as server:
            project = _project(disk, server)
            filler = project.root / "filler"
            filler.write_bytes(b"x" * (300 * 1024))
            ended = project.run(command)
            full = _wordless(ended, (1, 2, 3))
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=False)
            return full or _again(project, server, command)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def _read_only(command: list[str], root: Path) -> str:
    disk = root / "disk"
    _mount(disk, "size=64m")
    try:
        with stub(_behave) as server:
            project = _project(disk, server)
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=False)
            ended = project.run(command)
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=False)
            return _wordless(ended, (1, 2, 3)) or _again(project, server, command)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


MACHINE = Drill(
    name="machine",
    about="signals, full disks and other obstacles that ended in a traceback or a loss",
    tries=_tries,
    quick=6,
)
