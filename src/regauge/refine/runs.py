"""Runs in `.regauge/refine/<run>/`, and their audit trails: append-only, chained by digests."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from pydantic import TypeAdapter

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.errors import Fault, RegaugeError, UsageError, explain_os_error
from regauge.refine.attempts import AGAINST, Attempt, Memory
from regauge.refine.loop._loop import advance
from regauge.refine.loop._state import Interrupted, Observation
from regauge.regular_file import read_regular
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import LoopConfig, LoopState


@cache
def _adapters() -> Mapping[str, TypeAdapter[Observation]]:
    """The adapter of each kind of observation, by its name."""
    return {kind.__name__: TypeAdapter(kind) for kind in get_args(Observation)}


def observation_to_json(observation: Observation) -> dict[str, JSON]:
    """A document that `observation_from_json` reads, without what has its default."""
    kind = type(observation).__name__
    document = _adapters()[kind].dump_python(observation, mode="json")
    words = {
        field.name: document[field.name]
        for field in fields(observation)
        if getattr(observation, field.name) != field.default
    }
    return {"kind": kind, **words}


def observation_from_json(document: Mapping[str, Any]) -> Observation:
    """Read the document that `observation_to_json` writes."""
    values = dict(document)
    try:
        return _adapters()[values.pop("kind")].validate_python(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no observation of a run: {error}") from error


def text_to_json(text: PromptText) -> list[JSON]:
    """The messages of a text."""
    return [{"role": message.role, "content": message.content} for message in text.messages]


# Of trails, and of `run.json`.
SCHEMA_VERSION: Final = 1
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=True
).encode


class TrailError(RegaugeError):
    """A trail cannot be read, or does not say what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEvent:
    """One line of a trail.

    Attributes:
        kind: `began` for the first line, `wrote` for the files of a proposal, else `observed`.
        prev: The digest of the line before; empty for the first.
    """

    seq: int
    kind: str
    prev: str
    body: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Over everything the line says."""
        return digest_of({"seq": self.seq, "kind": self.kind, "prev": self.prev, "body": self.body})


class TrailFile:
    """A trail that is being written; every event is on disk before the next step is taken.

    Args:
        listen: Called with each state, once it is on disk.
    """

    def __init__(
        self,
        path: Path,
        events: Sequence[TrailEvent] = (),
        listen: Callable[[LoopState], None] = lambda _: None,
    ) -> None:
        self._path = path
        self.listen = listen
        self._seq = len(events)
        self._last = events[-1].digest if events else ""

    @classmethod
    def begin(cls, path: Path, about: Mapping[str, JSON]) -> TrailFile:
        """Start a trail with what the run is about."""
        path.parent.mkdir(parents=True, exist_ok=True)
        trail = cls(path)
        trail._write("began", {"schema_version": SCHEMA_VERSION, **about})
        return trail

    def add(self, observation: Observation, state: LoopState) -> None:
        """Keep what was observed, what was decided, and where it led."""
        self._write(
            "observed",
            {
                "observation": observation_to_json(observation),
                "decisions": decisions_of(state),
                "state": summary_of(state),
            },
        )
        self.listen(state)

    def wrote(self, files: Mapping[str, str]) -> None:
        """Keep what the files of a proposal are: digests, by their names."""
        self._write("wrote", {"files": dict(files)})

    def _write(self, kind: str, body: Mapping[str, JSON]) -> None:
        event = TrailEvent(
            seq=self._seq, kind=kind, prev=self._last, body=json.loads(_ENCODE(body))
        )
        document = {**asdict(event), "sha": event.digest}
        with self._path.open("ab") as file:
            file.write(_ENCODE(document).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._seq += 1
        self._last = event.digest


def read_trail(path: Path) -> tuple[TrailEvent, ...]:
    """The events of a trail; a last line that was cut off in the middle is left out."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise TrailError(f"{path}: {error.strerror or error}") from error
    events: list[TrailEvent] = []
    last = ""
    for number, line in enumerate(lines[:-1], 1):
        event = _event(line, path, number)
        if event.seq != len(events) or event.prev != last:
            raise TrailError(
                f"{path}:{number}: the chain is broken: a line was changed, moved or taken out"
            )
        events.append(event)
        last = event.digest
    if not events or events[0].kind != "began":
        raise TrailError(f"{path} does not say what the run is about")
    version = events[0].body.get("schema_version")
    if version != SCHEMA_VERSION:
        raise TrailError(f"{path}: schema_version {version!r} is not {SCHEMA_VERSION}")
    return tuple(events)


def cut_back(path: Path) -> None:
    """Take off a last line that was cut off in the middle, so that more can be appended."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise TrailError(
            f"{path}: {error.strerror or error}\n"
            "  fix: nothing was decided in this run; begin a new one: regauge refine NAME"
        ) from error
    end = data.rfind(b"\n") + 1
    if end < len(data):
        read_trail(path)
        with path.open("rb+") as file:
            file.truncate(end)


def retell(
    setting: LoopConfig, state: LoopState, events: Sequence[TrailEvent], path: Path
) -> LoopState:
    """Run the observations of a trail again, and compare every decision.

    An interruption is left out, so that the state is the one to go on from.
    """
    for event in events[1:]:
        if event.kind == "wrote":
            continue
        try:
            observation = observation_from_json(event.body["observation"])
        except (KeyError, ValueError) as error:
            raise TrailError(f"{path}: event {event.seq} cannot be read: {error}") from error
        if isinstance(observation, Interrupted):
            continue
        state = advance(setting, state, observation)
        if decisions_of(state) != event.body.get("decisions"):
            raise TrailError(
                f"{path}: event {event.seq} decides otherwise when it is run again\n"
                "  prompt, cases, judges, settings or regauge itself are no longer what they were"
            )
    return state


def decisions_of(state: LoopState) -> list[JSON]:
    """The decisions of the last step, as plain documents."""
    return [asdict(note) for note in state.notes]


def summary_of(state: LoopState) -> dict[str, JSON]:
    """Where a run stands, for readers of the trail."""
    return {
        "phase": state.phase,
        "cycle": state.cycle,
        "text": state.text.digest,
        "accepted": [edit.edit.digest for edit in state.accepted],
        "tested": state.tested,
        "spent": {
            "calls": state.spent.calls,
            **({"judge_calls": judged} if (judged := state.spent.judge_calls) else {}),
            "model_calls": state.spent.model_calls,
            "usd": round(state.spent.usd, 6),
        },
        "stop": None if state.stop is None else state.stop.reason,
    }


def _event(line: bytes, path: Path, number: int) -> TrailEvent:
    try:
        document: Any = read_json(line)
        event = TrailEvent(
            seq=document["seq"],
            kind=document["kind"],
            prev=document["prev"],
            body=document["body"],
        )
        sha = document["sha"]
    except (ValueError, KeyError, TypeError) as error:
        raise TrailError(f"{path}:{number}: not an event of a trail: {error}") from error
    if sha != event.digest:
        raise TrailError(f"{path}:{number}: the line does not say what it said when it was written")
    return event


RunStatus = Literal[
    "running", "interrupted", "no-change", "not-verified", "proposed", "applied", "rolled-back"
]

CUT_OFF = frozenset({"interrupted", "provider-outage", "no-key", "usd"})
"""The reason why a run may have ended before it was over, so that it can go on."""

# Each new edit is compared with all of them; older ones are of texts that are gone.
_REMEMBERED_MAX = 400


class Run:
    """One refinement run.

    Attributes:
        id: The name of the run for users.
        trail: The audit trail.
        before: The prompt's file as it was when the run began; `revision` is the proposed one.
        diff: The diff of the revision.
        markdown: The reason why the revision is proposed, or why none is.
        result: The result as a document.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.id = directory.name
        self.trail = directory / "trail.jsonl"
        self.before = directory / "before.prompt.yml"
        self.revision = directory / "revision.prompt.yml"
        self.diff = directory / "revision.diff"
        self.markdown = directory / "revision.md"
        self.result = directory / "result.json"

    @property
    def prompt(self) -> str:
        """The prompt that it is about."""
        return str(self.facts().get("prompt", ""))

    def facts(self) -> dict[str, Any]:
        """The facts in `run.json`: prompt, command, times, status."""
        path = self.directory / "run.json"
        try:
            document: Any = read_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        if not isinstance(document, dict):
            raise UsageError(f"{path} does not describe a run")
        facts = cast("dict[str, Any]", document)
        version = facts.get("schema_version")
        if version != SCHEMA_VERSION:
            raise UsageError(f"{path}: schema_version {version!r} is not {SCHEMA_VERSION}")
        return facts

    def note_end(self) -> None:
        """Write the digests of the files that a run writes at its end into `run.json`."""
        self.note(end={**_digests(self.directory / name for name in _END_FILES)})

    def read_end(self, path: Path) -> str:
        """The text of a file that the run wrote at its end."""
        digests = self.facts().get("end")
        if not isinstance(digests, dict):
            raise UsageError(
                f"run {self.id} is not over\n  fix: regauge refine resume {self.id}, or see what it"
                f" did: regauge refine show {self.id} --trail"
            )
        again = f"\n  fix: regauge refine resume {self.id} writes it again"
        try:
            content = read_regular(path)
        except OSError as error:
            raise TrailError(f"{Fault.unreadable(path, error)}{again}") from error
        if cast("dict[str, Any]", digests).get(path.name) != hashlib.sha256(content).hexdigest():
            raise TrailError(f"{path} is not what run {self.id} wrote{again}")
        return content.decode()

    def note(self, **facts: JSON) -> None:
        """Write more facts into `run.json`."""
        with suppress(UsageError):
            facts = {**self.facts(), **facts}
        document = {"schema_version": SCHEMA_VERSION, **facts}
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        write_whole(self.directory / "run.json", text.encode())


def begin_run(project: Project, prompt: str, facts: Mapping[str, JSON]) -> Run:
    """A new directory for a run of a prompt."""
    project.prepare_state_dir("refine")
    directory = _home(project) / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    directory.mkdir(parents=True)
    run = Run(directory)
    run.note(prompt=prompt, status="running", started=now(), **facts)
    return run


def list_refinements(project: Project) -> list[Run]:
    """All runs, the newest first."""
    directories = [path.parent for path in _home(project).glob("*/run.json")]
    # Runs of one second are distinguished by when they last wrote.
    directories.sort(key=lambda path: (path.name[:15], (path / "run.json").stat().st_mtime_ns))
    return [Run(path) for path in reversed(directories)]


def edits_of_runs(project: Project) -> list[Mapping[str, Any]]:
    """The results of the edits of all finished runs, the oldest first."""
    entries: list[Mapping[str, Any]] = []
    for run in reversed(list_refinements(project)):
        with suppress(OSError, ValueError, TypeError, KeyError):
            document: Any = read_json(read_regular(run.result))
            prompt = document["prompt"]
            entries += [{**entry, "run": run.id, "prompt": prompt} for entry in document["edits"]]
    return entries


def find_refinement(project: Project, name: str) -> Run:
    """One run."""
    runs = list_refinements(project)
    if not runs:
        raise UsageError("no prompt was refined here yet\n  fix: regauge refine NAME")
    if name == "latest":
        return runs[0]
    exact = [run for run in runs if run.id == name]
    of_prompt = [run for run in runs if run.prompt == name][:1]
    matches = exact or of_prompt or [run for run in runs if name and run.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        several = ", ".join(run.id for run in matches[:5])
        raise UsageError(f"{len(matches)} runs begin with {name!r}: {several}")
    raise UsageError(f"there is no run {name!r}\n  fix: regauge refine list")


def recall(project: Project, prompt: str, key: str) -> Memory:
    """Evidence of earlier runs against edits of a prompt."""
    try:
        document: Any = read_json(read_regular(_memory_path(project, prompt)))
        entries: list[Any] = document["tried"] if document["key"] == key else []
        return Memory(tuple(Attempt.from_json(entry) for entry in entries))
    except (OSError, ValueError, KeyError, TypeError):
        return Memory()


def remember(project: Project, prompt: str, key: str, memory: Memory) -> None:
    """Keep what a run found, for later runs."""
    kept: dict[tuple[str, ...], Attempt] = {}
    for entry in (*recall(project, prompt, key).tried, *memory.tried):
        if entry.finding in AGAINST:
            kept[entry.before, entry.after, entry.cluster, entry.finding] = entry
    entries = [asdict(entry) for entry in [*kept.values()][-_REMEMBERED_MAX:]]
    text = json.dumps({"key": key, "tried": entries}, ensure_ascii=False, indent=1) + "\n"
    write_whole(_memory_path(project, prompt), text.encode())


def remember_status(run: Run, state: LoopState) -> None:
    """Write into `run.json` how a run ended."""
    stop = state.stop
    if stop is None:
        return
    status: RunStatus = "no-change"
    if stop.proposal:
        status = "proposed"
    elif stop.reason in CUT_OFF:
        status = "interrupted"
    elif stop.reason == "calls" and state.accepted:
        status = "not-verified"
    run.note(status=status, stop=stop.reason, finished=now())


def reject(project: Project, run: Run, changes: Sequence[int]) -> None:
    """Remember that a person does not want some of a run's changes, by their numbers from 0."""
    prompt = run.prompt
    path = run.directory / "accepted.json"
    document: Any = read_json(run.read_end(path))
    entries = [Attempt.from_json(document["edits"][number]) for number in changes]
    refused = [replace(entry, finding="rejected-by-person") for entry in entries]
    remember(project, prompt, document["key"], Memory(tuple(refused)))


def now() -> str:
    """The time as runs write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _home(project: Project) -> Path:
    return project.state_dir / "refine"


def _memory_path(project: Project, prompt: str) -> Path:
    return _home(project) / f"{prompt}.memory.json"


@contextmanager
def only_one(project: Project, prompt: str, run: str) -> Generator[None]:
    """Keep other runs off the same prompt; the system lets go when this process ends."""
    project.prepare_state_dir("refine")
    path = _lock_of(project, prompt)
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        what, fix = explain_os_error(error)
        fix = fix or f"move it away: mv {path} {path}.moved"
        raise UsageError(f"{path} cannot be written: {what}", fix=fix) from error
    with file:
        if not _is_locked(file):
            file.seek(0)
            raise RegaugeError(
                f"{prompt} is being refined already: {file.read().strip() or 'by another run'}\n"
                "  fix: wait for that run to end, or stop it"
            )
        file.seek(0)
        file.truncate()
        file.write(f"{run or 'a new run'}, process {os.getpid()}\n")
        file.flush()
        yield


def cut_off(project: Project) -> frozenset[str]:
    """The ids of runs that are marked as running, and whose process is no more."""
    dead: set[str] = set()
    holders: dict[Path, str] = {}
    for run in list_refinements(project):
        if run.facts().get("status") != "running":
            continue
        path = _lock_of(project, run.prompt)
        # The newest one that runs has the lock, unless it names another one, which was resumed.
        if holders.setdefault(path, _held(path)).startswith((run.id, "a new run", "pytest")):
            holders[path] = ""
        else:
            dead.add(run.id)
    return frozenset() if os.name == "nt" else frozenset(dead)  # nt has no such locks


def _held(path: Path) -> str:
    """The record of the process that has a lock; empty without one."""
    with suppress(OSError), path.open("r+", encoding="utf-8") as file:
        return "" if _is_locked(file) else file.read() or "a new run"
    return ""


def _lock_of(project: Project, prompt: str) -> Path:
    return _home(project) / f"{prompt}.lock"


def _is_locked(file: TextIO) -> bool:
    """Return whether the lock is ours; True on systems without such locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_END_FILES = ("result.json", "revision.md", "accepted.json")
_FILES = ("before.prompt.yml", "revision.prompt.yml", "revision.diff", "prompts.lock")


def seal(run: Run) -> None:
    """Write into the trail what the files of a proposal are, unless it says so already."""
    events = read_trail(run.trail)
    files = _digests(run.directory / name for name in _FILES)
    if _seal(events) != files:
        TrailFile(run.trail, events).wrote(files)


def read_whole(run: Run) -> tuple[TrailEvent, ...]:
    """The events of a run's trail, whose chain is whole and whose proposal is as it was written."""
    fix = f"  fix: do not apply it; start a new run: regauge refine {run.prompt}"
    try:
        events = read_trail(run.trail)
    except TrailError as error:
        raise TrailError(f"{error}\n{fix}") from error
    sealed = _seal(events)
    digests = _digests(run.directory / name for name in _FILES)
    if not sealed and not run.revision.is_file():
        return events  # it proposes nothing
    for name in _FILES:
        if sealed.get(name) != digests.get(name):
            raise TrailError(
                f"{run.directory / name} is not what run {run.id} wrote, as {run.trail.name} has"
                f" it\n{fix}"
            )
    return events


def _seal(events: tuple[TrailEvent, ...]) -> dict[str, str]:
    """The state of files in the trail; empty if the run proposes nothing."""
    last = events[-1]
    return dict(last.body["files"]) if last.kind == "wrote" else {}


def _digests(paths: Iterable[Path]) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if p.is_file()}
