"""`kill -9` at random moments, then the same command again: nothing lost, nothing broken.

The endpoint logs every request, so what was paid twice and what was lost are its counts.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ._project import (
    Project,
    commit_all,
    copied,
    kill_group,
    pytest_command,
    recorded_tickets,
    stub_project,
)
from ._stub import Logged, Reply, Request, Stub, completion, stub
from ._try import Drill, SkippedTryError, Try

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

__all__ = ["KILLS"]

_CASES = 150
_CONCURRENCY = 32
_LATENCY_S = 0.1
# An answer that left the server this long before the kill has reached the client.
_ARRIVED_S = 1.0
_RUBRIC = """\
name: Good note
version: 1.0.0
rubric:
  kind: binary
messages:
  - role: user
    content: |
      Is it good? {{answer}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Victim:
    """A command, and which of its processes is killed."""

    command: Sequence[str]
    killed: str = "group"
    gate: bool = False
    # The rest of a run whose worker was killed goes on and ends with 1.
    kills: int = 2


def _regauge(*args: str) -> list[str]:
    return [sys.executable, "-m", "regauge", *args]


_AT_ONCE = ("--concurrency", str(_CONCURRENCY))
_VICTIMS = {
    "pytest": _Victim(command=pytest_command("evals", "-q", *_AT_ONCE)),
    "pytest -n 2, group": _Victim(command=pytest_command("evals", "-q", "-n", "2", *_AT_ONCE)),
    "pytest -n 2, controller": _Victim(
        command=pytest_command("evals", "-q", "-n", "2", *_AT_ONCE), killed="controller"
    ),
    "pytest -n 2, worker": _Victim(
        command=pytest_command("evals", "-q", "-n", "2", *_AT_ONCE), killed="worker", kills=1
    ),
    "record": _Victim(command=_regauge("record", *_AT_ONCE)),
    "baseline update": _Victim(
        command=_regauge("baseline", "update", "--trials", "3", "--new-session", *_AT_ONCE)
    ),
    "gate": _Victim(command=_regauge("gate", "main", *_AT_ONCE), gate=True),
}
# How often each is tried: 60 kills in all, with those of refine.
_TIMES = {"pytest": 7, "record": 5, "gate": 4, "baseline update": 4}


def _tries(shared: Path) -> Iterator[Try]:
    tickets = recorded_tickets(shared)
    _break(tickets)
    for number in range(7):
        for name, victim in _VICTIMS.items():
            if number < _TIMES.get(name, 3):
                yield Try(
                    name=f"{name}, {number + 1}",
                    failure=partial(_killed, victim, seed=number),
                )
        if number < 4:
            yield Try(name=f"refine, {number + 1}", failure=partial(_refined, tickets, number))


def _behave(request: Request) -> Reply:
    if request.body["model"] == "j-1":
        text = json.dumps({"reasoning": "it is", "verdict": "pass"})
    else:
        text = f"case {request.case}: fine"
    return Reply(body=completion(text), delay_s=_LATENCY_S)


def _killed(victim: _Victim, root: Path, seed: int) -> str:
    chance = random.Random(f"{victim.command} {seed}")
    with stub(_behave) as server:
        project = _project(root, server, gate=victim.gate)
        before = len(server.log)
        expected = _expected(victim)
        moments: list[tuple[float, float]] = []
        bound = 0
        for _ in range(victim.kills):
            left = before + expected - len(server.answered())
            after = len(server.log) + chance.randint(1, max(2, int(left * 0.8)))
            process = project.start(victim.command)
            _wait_for(server, process, after)
            bound += max(server.in_flight(), 1) + _CONCURRENCY
            _kill(process, victim.killed)
            killed_at = time.monotonic()
            process.communicate(timeout=120)
            _settle(server)
            moments.append((killed_at, time.monotonic()))
        ended = project.run(victim.command)
        if ended.code != 0:
            return f"exit code {ended.code} after the kills: {ended.tail(2)}"
        return _broken(project) or _counts(server, moments, bound) or _replayed(project, victim)


def _project(root: Path, server: Stub, *, gate: bool) -> Project:
    project = stub_project(
        root,
        server.base_url,
        inputs=["x"] * (40 if gate else _CASES),
        judges='contains("fine")' + ("" if gate else ', rubric("good-note")'),
        files={"prompts/judges/good-note.prompt.yml": _RUBRIC},
    )
    project.git("init", "-q", "-b", "main")
    for prompt in ("notes", "good-note"):
        assert project.regauge("bump", prompt).code == 0
    commit_all(project)
    if gate:
        project.git("checkout", "-q", "-b", "change")
        project.edit("prompts/notes.prompt.yml", "Repeat.", "Repeat it.")
        assert project.regauge("bump", "notes", "minor", "-m", "It").code == 0
        commit_all(project)
    return project


def _expected(victim: _Victim) -> int:
    """About how many requests the command makes; only for the moment of the kill."""
    if victim.gate:
        return 80
    return 2 * _CASES * (3 if "baseline" in victim.command else 1)


def _wait_for(server: Stub, process: subprocess.Popen[str], requests: int) -> None:
    deadline = time.monotonic() + 120
    while len(server.log) < requests and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def _kill(process: subprocess.Popen[str], killed: str) -> None:
    if killed == "group":
        kill_group(process.pid)
        return
    pid = process.pid
    if killed == "worker":
        children = Path(f"/proc/{pid}/task/{pid}/children")
        if not children.exists():
            raise SkippedTryError("there is no /proc to find a worker in")
        workers = [int(word) for word in children.read_text(encoding="ascii").split()]
        if not workers:
            return
        pid = workers[-1]
    os.kill(pid, signal.SIGKILL)


def _settle(server: Stub) -> None:
    """Wait until no process that outlived the kill sends any more."""
    seen = -1
    while seen != len(server.log):
        seen = len(server.log)
        time.sleep(1.0)


def _broken(project: Project) -> str:
    for path in (project.root / ".regauge").rglob("*"):
        if path.suffix == ".sqlite3":
            with sqlite3.connect(path) as database:
                state = database.execute("PRAGMA integrity_check").fetchone()[0]
            if state != "ok":
                return f"{path.name}: {state}"
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".jsonl":
            for line in path.read_text(encoding="utf-8").splitlines():
                json.loads(line)
    for path in project.files(".json", ".jsonl"):
        if "fixtures" in path.parts:
            text = path.read_text(encoding="utf-8")
            for document in text.splitlines() if path.suffix == ".jsonl" else [text]:
                json.loads(document)
    left = [path.name for path in project.files() if "tmp" in path.suffix or "~" in path.name]
    return f"temporary files were left behind: {left}" if left else ""


def _counts(server: Stub, moments: Sequence[tuple[float, float]], bound: int) -> str:
    first: dict[str, Logged] = {}
    lost = 0
    for again in server.log:
        once = first.setdefault(again.key, again)
        if once is again or not once.answered_at:
            continue
        # What was sent after the kill, or right before it, reached no one. Workers live on for a
        # moment when their controller is killed.
        kill = next((at for at, end in moments if once.came_at < end and at < again.came_at), None)
        lost += kill is None or kill - once.answered_at > _ARRIVED_S
        first[again.key] = again
    if lost:
        return f"{lost} answers that had arrived were requested again"
    twice = server.paid_twice()
    return f"{twice} answers paid twice, {bound} in flight at most" if twice > bound else ""


def _replayed(project: Project, victim: _Victim) -> str:
    """What was recorded is complete: it replays without the local store."""
    if victim.gate or "baseline" in victim.command:
        return ""
    for path in (project.root / ".regauge").glob("store.sqlite3*"):
        path.unlink()
    ended = project.pytest("evals", "-q", "--record=none")
    return "" if ended.code == 0 else f"the replay ends with {ended.code}: {ended.tail(2)}"


def _break(project: Project) -> None:
    """Delete a line that cases need, so that a refinement has something to repair."""
    project.edit(
        "prompts/ticket-kind.prompt.yml",
        "      - billing: it is about an invoice, a payment or a refund.\n",
        "",
    )
    assert project.regauge("bump", "ticket-kind", "minor", "-m", "Less").code == 0
    commit_all(project, "less")


def _refined(tickets: Project, seed: int, root: Path) -> str:
    chance = random.Random(seed)
    plain = copied(tickets, root / "plain")
    started = time.monotonic()
    ended = plain.regauge("refine", "ticket-kind")
    if ended.code != 0:
        return f"without a kill it ends with {ended.code}: {ended.tail(2)}"
    seconds = time.monotonic() - started
    wanted = plain.regauge("refine", "diff", "latest").out
    project = copied(tickets, root)
    command = _regauge("refine", "ticket-kind")
    for _ in range(2):
        process = project.start(command)
        time.sleep(chance.uniform(0.3, 0.9) * seconds)
        kill_group(process.pid)
        process.communicate()
        trails = project.regauge("refine", "list", "--json").out
        command = _regauge(
            "refine", *(["resume", "latest"] if len(trails) > 5 else ["ticket-kind"])
        )
    ended = project.run(command)
    if "is over" in ended.text or "nothing to resume" in ended.text:
        ended = project.regauge("refine", "diff", "latest")
    if ended.code != 0:
        return f"exit code {ended.code} after the kills: {ended.tail(2)}"
    if project.git("status", "--porcelain", "--", "prompts"):
        return "the prompt's file changed"
    found = project.regauge("refine", "diff", "latest").out
    return _broken(project) or ("" if found == wanted else f"another revision: {found[-300:]!r}")


KILLS = Drill(
    name="kills",
    about="runs that were killed twice, where something was lost, broken or paid too often",
    tries=_tries,
    quick=4,
)
