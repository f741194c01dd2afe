"""The audit trail of a run: append-only, chained by digests, and enough to run it again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import TypeAdapter

from regauge.digests import digest_of
from regauge.errors import RegaugeError
from regauge.refine.loop._loop import advance
from regauge.refine.loop._state import Interrupted, Observation
from regauge.regular_file import read_regular
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Setting, State


@cache
def _adapters() -> Mapping[str, TypeAdapter[Observation]]:
    """The adapter of each kind of observation, by its name."""
    return {kind.__name__: TypeAdapter(kind) for kind in get_args(Observation)}


def observation_to_json(observation: Observation) -> dict[str, JSON]:
    """A document that `observation_from_json` reads, without what has its default."""
    kind = type(observation).__name__
    document = _adapters()[kind].dump_python(observation, mode="json")
    told = {
        field.name: document[field.name]
        for field in fields(observation)
        if getattr(observation, field.name) != field.default
    }
    return {"kind": kind, **told}


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


SCHEMA_VERSION: Final = 1
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=True
).encode


class TrailError(RegaugeError):
    """A trail cannot be read, or does not say what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
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
        events: Sequence[Event] = (),
        listen: Callable[[State], None] = lambda _: None,
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

    def add(self, observation: Observation, state: State) -> None:
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
        event = Event(seq=self._seq, kind=kind, prev=self._last, body=json.loads(_ENCODE(body)))
        document = {**asdict(event), "sha": event.digest}
        with self._path.open("ab") as file:
            file.write(_ENCODE(document).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._seq += 1
        self._last = event.digest


def read_trail(path: Path) -> tuple[Event, ...]:
    """The events of a trail; a last line that was cut off in the middle is left out."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise TrailError(f"{path}: {error.strerror or error}") from error
    events: list[Event] = []
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


def retell(setting: Setting, state: State, events: Sequence[Event], path: Path) -> State:
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


def decisions_of(state: State) -> list[JSON]:
    """The decisions of the last step, as plain documents."""
    return [asdict(note) for note in state.notes]


def summary_of(state: State) -> dict[str, JSON]:
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


def _event(line: bytes, path: Path, number: int) -> Event:
    try:
        document: Any = read_json(line)
        event = Event(
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
