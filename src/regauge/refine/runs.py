"""Runs in `.regauge/refine/<run>/`, and their audit trails: append-only, chained by digests."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from pydantic import TypeAdapter, ValidationError

from regauge.digests import digest_of
from regauge.errors import Diagnostic, RegaugeError, UsageError, explain_os_error
from regauge.files import read_regular, try_lock, write_whole
from regauge.refine.attempts import AGAINST, Attempt, Memory
from regauge.refine.document import EditResult, RefinementResult
from regauge.refine.loop._loop import advance
from regauge.refine.loop._state import Interrupted, Observation
from regauge.strict_json import explain_format, other_format, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.refine.loop._state import LoopState


@cache
def _adapters() -> Mapping[str, TypeAdapter[Observation]]:
    """The adapter of each kind of observation, by its name."""
    return {kind.__name__: TypeAdapter(kind) for kind in get_args(Observation)}


def observation_to_json(observation: Observation) -> dict[str, JSON]:
    """A document for `observation_from_json`, without default values."""
    kind = type(observation).__name__
    adapter = _adapters()[kind]
    return {"kind": kind, **adapter.dump_python(observation, mode="json", exclude_defaults=True)}


def observation_from_json(document: Mapping[str, Any]) -> Observation:
    """Read the document that `observation_to_json` writes.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    values = dict(document)
    return _adapters()[values.pop("kind")].validate_python(values)


# Of trails, and of `run.json`.
SCHEMA_VERSION: Final = 1
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=True
).encode


class TrailError(RegaugeError):
    """A trail cannot be read, or does not fit the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEvent:
    """One line of a trail.

    Attributes:
        kind: `began` for the first line, `wrote` for the files of the end, else `observed`.
        prev: The digest of the line before; empty for the first.
    """

    seq: int
    kind: str
    prev: str
    body: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The digest of the whole line."""
        return digest_of(asdict(self))


class TrailFile:
    """A trail under construction; every event is on disk before the next step."""

    def __init__(self, path: Path, events: Sequence[TrailEvent] = ()) -> None:
        self._path = path
        self._seq = len(events)
        self._last = events[-1].digest if events else ""

    @classmethod
    def begin(cls, path: Path, about: Mapping[str, JSON]) -> TrailFile:
        """Start a trail with the inputs of a run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        trail = cls(path)
        trail._write("began", {"schema_version": SCHEMA_VERSION, **about})
        return trail

    def add(self, observation: Observation, state: LoopState) -> None:
        """Append an observation, the decisions and the new state."""
        self._write(
            "observed",
            {
                "observation": observation_to_json(observation),
                "decisions": decisions_of(state),
                "state": summary_of(state),
            },
        )

    def wrote(self, files: Mapping[str, str]) -> None:
        """Append the digests of the files that a run wrote at its end, by name."""
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
    """The events of a trail, without a truncated last line."""
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
        raise TrailError(f"{path} has no line about the inputs of the run")
    version = events[0].body.get("schema_version")
    if version != SCHEMA_VERSION:
        raise TrailError(f"{path}: schema_version {version!r} is not {SCHEMA_VERSION}")
    return tuple(events)


def truncate_trail(path: Path) -> None:
    """Remove a truncated last line, so that more can be appended."""
    read_trail(path)
    data = read_regular(path)
    end = data.rfind(b"\n") + 1
    if end < len(data):
        with path.open("rb+") as file:
            file.truncate(end)


def replay_trail(state: LoopState, events: Sequence[TrailEvent], path: Path) -> LoopState:
    """Advance through the observations of a trail, and compare every decision.

    Interruptions are skipped, so that the run can continue from the state.
    """
    for event in events[1:]:
        if event.kind == "wrote":
            continue
        try:
            observation = observation_from_json(event.body["observation"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrailError(f"{path}: event {event.seq} cannot be read: {error}") from error
        if isinstance(observation, Interrupted):
            continue
        state = advance(state, observation)
        if decisions_of(state) != event.body.get("decisions"):
            raise TrailError(
                f"{path}: event {event.seq} leads to another decision when it is run again\n"
                "  prompt, cases, judges, settings or regauge itself have changed"
            )
    return state


def decisions_of(state: LoopState) -> list[JSON]:
    """The decisions of the last step, as plain documents."""
    return [asdict(note) for note in state.notes]


def summary_of(state: LoopState) -> dict[str, JSON]:
    """The progress of a run, for readers of the trail."""
    return {
        "phase": state.phase,
        "cycle": state.cycle,
        "text": state.text.digest,
        "accepted": [edit.edit.digest for edit in state.accepted],
        "tested": state.tested,
        "spent": {
            "calls": state.spending.calls,
            **({"judge_calls": judge_calls} if (judge_calls := state.spending.judge_calls) else {}),
            "model_calls": state.spending.model_calls,
            "usd": round(state.spending.usd, 6),
        },
        "stop": None if state.stop is None else state.stop.reason,
    }


def _event(line: bytes, path: Path, number: int) -> TrailEvent:
    try:
        document: Any = read_json(line)
        sha = document.pop("sha")
        event = TrailEvent(**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrailError(f"{path}:{number}: not an event of a trail: {error}") from error
    if sha != event.digest:
        raise TrailError(f"{path}:{number}: the line was changed after it was written")
    return event


RunStatus = Literal[
    "running", "interrupted", "unmeasured", "no-change", "not-verified", "proposed", "applied",
    "rejected", "rolled-back",
]  # fmt: skip

RESUMABLE_STOPS = frozenset({"interrupted", "provider-outage", "no-key", "usd", "tokens", "calls"})
"""Reasons to stop after which a run can continue."""

# Each new edit is compared with all of them; older ones are of earlier texts.
_REMEMBERED_MAX = 400


class Run:
    """One refinement run.

    Attributes:
        id: The name of the run for users.
        trail: The audit trail.
        before: The prompt's file at the start; `revision` is the proposed one.
        diff: The diff of the revision.
        markdown: The rationale of the result.
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
        """The name of the prompt."""
        return str(self.facts().get("prompt", ""))

    def facts(self) -> dict[str, Any]:
        """The facts in `run.json`: prompt, command, times, status."""
        path = self.directory / "run.json"
        try:
            document: Any = read_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            fix = f"move {self.directory} away"
            raise UsageError(f"run {self.id} is without its {path}", fix=fix) from error
        except (OSError, ValueError) as error:
            raise self._unreadable_error(error) from error
        if not isinstance(document, dict):
            raise self._unreadable_error("it is not an object")
        facts = cast("dict[str, Any]", document)
        version = facts.get("schema_version")
        if version != SCHEMA_VERSION:
            raise self._unreadable_error(f"schema_version {version!r} is not {SCHEMA_VERSION}")
        for name, kind in (("prompt", str), ("status", str), ("rejected", list)):
            if not isinstance(facts.get(name, [] if kind is list else None), kind):
                raise self._unreadable_error(f"`{name}` is missing or wrong")
        return facts

    def _unreadable_error(self, problem: object) -> UsageError:
        message = f"{self.directory / 'run.json'}: {other_format(problem)}"
        return UsageError(message, fix=f"move {self.directory} away")

    def read_view(self, path: Path) -> str:
        """The text of the result or its rationale, as the run wrote it."""
        sealed = _sealed_digests(read_events(self))
        if not sealed:
            raise UsageError(
                f"run {self.id} is not over\n  fix: regauge refine resume {self.id}, or see what it"
                f" did: regauge refine show {self.id} --trail"
            )
        fix = f"\n  fix: regauge refine resume {self.id} writes it again"
        try:
            content = read_regular(path)
        except OSError as error:
            raise TrailError(f"{Diagnostic.unreadable(path, error)}{fix}") from error
        if sealed.get(path.name) != hashlib.sha256(content).hexdigest():
            raise TrailError(f"{path} is not what run {self.id} wrote{fix}")
        return content.decode()

    def note(self, **facts: JSON) -> None:
        """Write more facts into `run.json`."""
        with suppress(UsageError):
            facts = {**self.facts(), **facts}
        document = {"schema_version": SCHEMA_VERSION, **facts}
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        write_whole(self.directory / "run.json", text.encode())


def begin_run(project: Project, prompt: str, facts: Mapping[str, JSON]) -> Run:
    """Create the directory of a run."""
    project.prepare_state_dir("refine")
    directory = _home(project) / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    directory.mkdir(parents=True)
    run = Run(directory)
    run.note(prompt=prompt, status="running", started=now(), **facts)
    return run


def _written_at(path: Path) -> int:
    """The time of the last change, in nanoseconds since 1970; 0 without such a file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


# The begin of a run's id, as in 20261129-190802, as a pattern for `glob`.
_SECOND = "[0-9]" * 8 + "-" + "[0-9]" * 6


def _all_runs(project: Project) -> list[Run]:
    # Without its run.json, too: an older run must not take its place.
    directories = [path for path in _home(project).glob(f"{_SECOND}-*") if path.is_dir()]
    # Runs of one second are distinguished by when they last wrote.
    directories.sort(key=lambda path: (path.name[:15], _written_at(path / "run.json")))
    return [Run(path) for path in reversed(directories)]


def list_refinements(project: Project, *, warn: Callable[[str], object] | None = None) -> list[Run]:
    """All readable runs, the newest first.

    Args:
        warn: Called for each run that cannot be read.
    """
    runs: list[Run] = []
    for run in _all_runs(project):
        try:
            run.facts()
            runs.append(run)
        except UsageError as error:
            if warn is not None:
                warn(str(error))
    return runs


def read_result(run: Run) -> RefinementResult:
    """The result of a run.

    Raises:
        UsageError: The run is not over, or another version of regauge wrote the result.
        TrailError: The file was changed since.
    """
    return _parse_result(run, run.read_view(run.result))


def _parse_result(run: Run, content: str | bytes) -> RefinementResult:
    try:
        return RefinementResult.model_validate_json(content)
    except ValidationError as error:
        message = f"{run.result}: {explain_format(error.errors()[0])}"
        raise UsageError(message, fix=f"regauge refine {quote(run.prompt)}") from error


def readable_results(project: Project, *, warn: Callable[[str], object]) -> list[RefinementResult]:
    """The results of all finished runs that this version can read, the oldest first.

    Edits that a user rejected later have that result.

    Args:
        warn: Called for each result that cannot be read.
    """
    results: list[RefinementResult] = []
    for run in reversed(_all_runs(project)):
        try:
            result = _parse_result(run, read_regular(run.result))
            results.append(_with_rejected(result, run.facts().get("rejected", ())))
        except FileNotFoundError:
            continue  # the run is not over
        except (OSError, UsageError) as error:
            warn(str(error))
    return results


def edit_result(attempt: Attempt, result: str) -> EditResult:
    """An edit that a run tried, with its last result."""
    return EditResult(
        strategy=attempt.strategy, proposer=attempt.proposer, ops=attempt.ops, result=result
    )


def _with_rejected(result: RefinementResult, numbers: Iterable[int]) -> RefinementResult:
    """The result, whose kept edits of some changes, from 1, were rejected by a user."""
    edits = [*result.edits]
    for number in numbers:
        edit = edit_result(result.changes[number - 1].attempt, "kept")
        if edit in edits:
            edits[edits.index(edit)] = edit.model_copy(update={"result": "rejected-by-person"})
    return result.model_copy(update={"edits": edits})


def find_refinement(project: Project, name: str) -> Run:
    """Find a run by id, prompt, or `latest`."""
    all_runs = _all_runs(project)
    if not all_runs:
        raise UsageError("no prompt was refined here yet\n  fix: regauge refine NAME")
    if name == "latest":
        all_runs[0].facts()  # another run is not the latest
        return all_runs[0]
    exact = [run for run in all_runs if run.id == name]
    runs = [] if exact else list_refinements(project)
    of_prompt = [run for run in runs if run.prompt == name][:1]
    matches = exact or of_prompt or [run for run in runs if name and run.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        several = ", ".join(run.id for run in matches[:5])
        raise UsageError(f"{len(matches)} runs begin with {name!r}: {several}")
    raise UsageError(f"there is no run {name!r}\n  fix: regauge refine list")


def memory_key(inputs: Mapping[str, Any]) -> str:
    """The digest of all inputs of a run that results depend on."""
    return digest_of([inputs["cases"], inputs["judges"], inputs["models"]])


def load_memory(project: Project, prompt: str, key: str) -> Memory:
    """Load the edits of a prompt that earlier runs rejected.

    Raises:
        UsageError: The file cannot be read: without it, rejected edits would be proposed again.
    """
    path = _memory_path(project, prompt)
    fix = f"remove {path}; edits that were rejected earlier may be proposed again"
    try:
        document: Any = read_json(read_regular(path))
        entries: list[Any] = document["tried"] if document["key"] == key else []
        return Memory.from_json(entries)
    except FileNotFoundError:
        return Memory()
    except ValidationError as error:
        raise UsageError(f"{path}: {explain_format(error.errors()[0])}", fix=fix) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: {other_format(error)}", fix=fix) from error


def save_memory(project: Project, prompt: str, key: str, memory: Memory) -> None:
    """Save the rejected edits of a run for later runs."""
    attempts: dict[tuple[str, ...], Attempt] = {}
    for entry in (*load_memory(project, prompt, key).attempts, *memory.attempts):
        if entry.result in AGAINST:
            attempts[entry.before, entry.after, entry.failure_mode, entry.result] = entry
    entries = [asdict(entry) for entry in [*attempts.values()][-_REMEMBERED_MAX:]]
    text = json.dumps({"key": key, "tried": entries}, ensure_ascii=False, indent=1) + "\n"
    write_whole(_memory_path(project, prompt), text.encode())


def status_of(state: LoopState) -> RunStatus:
    """The status of a run that has stopped."""
    assert state.stop is not None, "a run that continues has no final status"
    if state.stop.proposal:
        return "proposed"
    reason = state.stop.reason
    if reason == "calls" and state.accepted_edits:
        return "not-verified"
    if reason in RESUMABLE_STOPS:
        return "interrupted"
    return "unmeasured" if reason == "unmeasured" else "no-change"


def reject_edits(project: Project, run: Run, changes: Sequence[int], *, reason: str = "") -> None:
    """Reject changes of a run for later runs.

    Args:
        project: The project.
        run: A run that proposes a revision.
        changes: The numbers of the changes, from 0.
        reason: Why; empty for a decision of the user, after which `apply` refuses the revision.
    """
    result = read_result(run)
    entries = [result.changes[number].attempt for number in changes]
    detail = reason or f"a user rejected it in run {run.id}"
    refused = tuple(replace(entry, result="rejected-by-person", detail=detail) for entry in entries)
    save_memory(project, run.prompt, memory_key(read_events(run)[0].body), Memory(refused))
    if not reason:
        facts = run.facts()
        rejected = {*facts.get("rejected", ()), *(number + 1 for number in changes)}
        is_left = len(rejected) < len(result.changes) or facts["status"] == "applied"
        status = {} if is_left else {"status": "rejected", "next": ""}
        run.note(rejected=sorted(rejected), **status)


def now() -> str:
    """The current time in ISO format, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _home(project: Project) -> Path:
    return project.state_dir / "refine"


def _memory_path(project: Project, prompt: str) -> Path:
    return _home(project) / f"{prompt}.memory.json"


@contextmanager
def lock_prompt(project: Project, prompt: str, run: str) -> Generator[None]:
    """Lock a prompt against other runs; the lock ends with this process."""
    project.prepare_state_dir("refine")
    path = _lock_path(project, prompt)
    try:
        file = path.open("a+", encoding="utf-8")
        is_locked = try_lock(file.fileno())
    except OSError as error:
        reason, fix = explain_os_error(error)
        fix = fix or f"move it away: mv {quote(str(path))} {quote(str(path))}.moved"
        raise UsageError(f"{path} cannot be written: {reason}", fix=fix) from error
    with file:
        if not is_locked:
            raise RegaugeError(
                f"{prompt} is being refined already: {_lock_holder(path).strip()}\n"
                "  fix: wait for that run to end, or stop it"
            )
        file.seek(0)
        file.truncate()
        file.write(f"{run or 'a new run'}, process {os.getpid()}\n")
        file.flush()
        yield


def dead_runs(project: Project) -> frozenset[str]:
    """The ids of runs that are marked as running, and whose process has ended."""
    dead: set[str] = set()
    holders: dict[Path, str] = {}
    for run in list_refinements(project):
        if run.facts().get("status") != "running":
            continue
        path = _lock_path(project, run.prompt)
        # The newest one that runs has the lock, unless it names another one, which was resumed.
        if holders.setdefault(path, _lock_holder(path)).startswith((run.id, "a new run", "pytest")):
            holders[path] = ""
        else:
            dead.add(run.id)
    return frozenset(dead)


def _lock_holder(path: Path) -> str:
    """The process that holds a lock; empty if none does."""
    if not path.exists():
        return ""
    holder = "a new run"
    # On Windows, the holder alone can read a locked file.
    with suppress(OSError), path.open("r+", encoding="utf-8") as file:
        if try_lock(file.fileno()):
            return ""
        holder = file.read() or holder
    return holder


def _lock_path(project: Project, prompt: str) -> Path:
    return _home(project) / f"{prompt}.lock"


# The files of a finished run; it writes those of `_VIEWS` again when it is resumed.
_PROPOSAL = ("before.prompt.yml", "revision.prompt.yml", "revision.diff", "prompts.lock")
_VIEWS = ("result.json", "revision.md")


def seal(run: Run) -> None:
    """Append the digests of a run's final files to the trail, unless they are there."""
    events = read_events(run)
    files = {name: digest for name in (*_PROPOSAL, *_VIEWS) if (digest := _digest(run, name))}
    if _sealed_digests(events) != files:
        TrailFile(run.trail, events).wrote(files)


def read_verified(run: Run) -> tuple[TrailEvent, ...]:
    """The events of a run's trail, after a check of its chain and the proposed files."""
    events = read_events(run)
    sealed = _sealed_digests(events)
    if not sealed and not run.revision.is_file():
        return events  # without a proposal
    for name in _PROPOSAL:
        if sealed.get(name, "") != _digest(run, name):
            raise TrailError(
                f"{run.directory / name} is not what run {run.id} wrote, as {run.trail.name} has"
                f" it\n{_new_run(run)}"
            )
    return events


def read_events(run: Run) -> tuple[TrailEvent, ...]:
    """The events of a run's trail, after a check of its chain.

    Raises:
        TrailError: It is missing or was changed.
    """
    try:
        return read_trail(run.trail)
    except TrailError as error:
        raise TrailError(f"{error}\n{_new_run(run)}") from error


def _new_run(run: Run) -> str:
    return f"  fix: do not apply it; start a new run: regauge refine {quote(run.prompt)}"


def _sealed_digests(events: Sequence[TrailEvent]) -> dict[str, str]:
    """The digests of final files in the trail; empty if the run is not over."""
    last = events[-1]
    return dict(last.body["files"]) if last.kind == "wrote" else {}


def _digest(run: Run, name: str) -> str:
    """The digest of a file of a run; empty without such a file."""
    path = run.directory / name
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
