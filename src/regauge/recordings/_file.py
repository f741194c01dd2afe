"""Recordings that are committed: `fixtures/recordings/<prompt>.jsonl`, one line for each answer."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace as replace_fields
from glob import escape
from heapq import merge as merge_sorted
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from regauge.atomic import write_whole
from regauge.errors import Fault, RecordingError, explain_os_error
from regauge.providers import Completion, approximate_tokens
from regauge.recordings._redact import Redactor
from regauge.regular_file import BYTES_MAX, open_regular
from regauge.strict_json import read_json
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Generator,
        Iterable,
        Iterator,
        Mapping,
    )
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.providers import CompletionRequest

_SAFE: Final = "the answers are safe in the local store"


@contextmanager
def exclusive(directory: Path) -> Generator[None]:
    """Hold the only lock on a directory, waiting for it; nothing is left behind in it.

    The lock is `flock` on the directory itself: the system drops it when its holder dies. Where
    there is no `flock` (Windows) writers are not kept apart; files are still written whole.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on the systems tests run on
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def placed_lines_of(path: Path, *, bytes_max: int = BYTES_MAX) -> Iterator[tuple[int, int, bytes]]:
    """The lines that are not blank, each with its number from 1 and its place in the file.

    A file that is not there has none.

    Raises:
        RecordingError: The file cannot be read.
    """
    place = 0
    try:
        with open_regular(path, bytes_max=bytes_max) as file:
            for number, ended in enumerate(file, 1):
                line = ended.rstrip(b"\r\n")
                if line.strip():
                    yield number, place, line
                place += len(ended)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordingError([Fault.unreadable(path, error)]) from error


def append_lines(path: Path, lines: Collection[bytes]) -> int:
    """Add lines to a file that several processes write; returns how many.

    Raises:
        RecordingError: It cannot be written.
    """
    if lines:
        with rewriting(path, safe=_SAFE), path.open("ab") as file:
            file.write(b"".join([line + b"\n" for line in lines]))
    return len(lines)


@contextmanager
def rewriting(path: Path, *, safe: str = "") -> Generator[None]:
    """Keep other processes from a file, whose directory is made, while the block writes it.

    Args:
        path: The file.
        safe: What is kept elsewhere where it cannot be written, as a clause.

    Raises:
        RecordingError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(path.parent):
            for draft in path.parent.glob(f".{escape(path.name)}.*.tmp"):
                draft.unlink(missing_ok=True)  # of a process that was killed
            yield
    except OSError as error:
        what, own_fix = explain_os_error(error)
        fix = own_fix or "make room or give write permission, then run again"
        fix = f"{fix}; {safe}" if safe else fix
        fault = Fault(path=path, line=None, message=f"cannot be written: {what}", fix=fix)
        raise RecordingError([fault]) from error


_MIB: Final = 1024 * 1024
# https://docs.github.com/en/repositories/working-with-files/managing-large-files
_WARN_MIB: Final = 50
_REFUSED_MIB: Final = 100


def warn_of_sizes(project: Project, paths: Iterable[Path] | None = None) -> list[Fault]:
    """A warning for each file that is large for GitHub.

    Args:
        project: Whose files.
        paths: The files, from the root of the project; by default all recordings.
    """
    if paths is None:
        paths = sorted(project.recordings_dir.rglob("[!.]*.jsonl"))
    fix = (
        "remove stale recordings (regauge record --prune), record fewer trials, or limit the"
        " outputs (max_tokens)"
    )
    faults: list[Fault] = []
    for path in (project.root / path for path in paths):
        try:
            status = path.stat()
        except OSError:
            continue  # where it is read, it is refused
        size = status.st_size / _MIB if stat.S_ISREG(status.st_mode) else 0
        if size > _WARN_MIB:
            words = "refuses" if size > _REFUSED_MIB else "will refuse"
            message = (
                f"the file has {size:,.0f} MiB, and GitHub {words} files above {_REFUSED_MIB} MiB"
            )
            faults.append(Fault(path=project.relative(path), line=None, message=message, fix=fix))
    return faults


_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# A lone surrogate, which models do send, is no UTF-8; such a line is written with escapes.
encode_json, _encode_ascii = (
    json.JSONEncoder(
        separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False, default=dict
    ).encode
    for ascii_only in (False, True)
)


@dataclass(frozen=True, slots=True, order=True)
class RecordingKey:
    """The digest of a request, and which draw it is, from 0: trial k replays trial k."""

    digest: str
    trial: int

    @classmethod
    def from_request(cls, request: CompletionRequest) -> RecordingKey:
        """The key under which the answer to `request` is recorded."""
        return cls(request.digest, request.trial)

    def __str__(self) -> str:
        return self.digest[:12] + (f" trial {self.trial}" if self.trial else "")


def utc_now() -> str:
    """The time as recordings write it: ISO 8601 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def request_summary(request: CompletionRequest, *, prompt_digest: str) -> dict[str, JSON]:
    """The facts of a request for readers of a recordings file, without its text."""
    return {
        "prompt_digest": prompt_digest,
        "messages": len(request.messages),
        "approx_tokens": approximate_tokens(request),
        "parameters": request.parameters,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An answer as it is kept.

    Attributes:
        key: What it is found by.
        prompt: The name of the prompt.
        version: The version of the prompt, or None where it has none.
        case: The id of the case.
        model: As `provider:model`.
        completion: The answer.
        recorded_at: When, as `utc_now` writes it.
        request: See `request_summary`.
        judge: The name of the judge whose model answered; None where the prompt's did. Prompt,
            version and case are then those of what is judged.
        replaced: How often another answer was recorded under its key before.
    """

    key: RecordingKey
    prompt: str
    version: str | None
    case: str
    model: str
    completion: Completion
    recorded_at: str
    request: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    judge: str | None = None
    replaced: int = 0

    def to_json(self) -> dict[str, JSON]:
        """A plain document; the keys stand in the order in which people read them."""
        return {
            "case": self.case,
            **({} if self.judge is None else {"judge": self.judge}),
            "trial": self.key.trial,
            "digest": self.key.digest,
            "prompt": self.prompt,
            "version": self.version,
            "model": self.model,
            "recorded_at": self.recorded_at,
            **({"replaced": self.replaced} if self.replaced else {}),
            "request": self.request,
            "completion": self.completion.to_json(),
        }

    @classmethod
    def from_json(cls, document: JSON) -> Recording:
        """The recording that `to_json` wrote.

        Raises:
            ValueError: A key is missing or holds a value of another kind.
        """
        if not isinstance(document, dict):
            raise ValueError("a recording is a JSON object")  # noqa: TRY004 - one kind for callers
        fields = cast("dict[str, Any]", document)
        try:
            digest, trial = fields["digest"], fields["trial"]
            recording = cls(
                key=RecordingKey(digest, trial),
                prompt=fields["prompt"],
                version=fields["version"],
                case=fields["case"],
                model=fields["model"],
                completion=Completion.from_json(fields["completion"]),
                recorded_at=fields["recorded_at"],
                request=fields["request"],
                judge=fields.get("judge"),
                replaced=fields.get("replaced", 0),
            )
        except KeyError as error:
            raise ValueError(f"the recording has no {error}") from error
        except TypeError as error:
            raise ValueError(f"the recording cannot be read: {error}") from error
        if type(trial) is not int or trial < 0:
            raise ValueError(f"the trial is {trial!r}, not a number from 0")
        if type(recording.replaced) is not int or recording.replaced < 0:
            raise ValueError(f"replaced is {recording.replaced!r}, not a number from 0")
        if type(digest) is not str or _DIGEST.fullmatch(digest) is None:
            raise ValueError(f"the digest is {digest!r}, not 64 hexadecimal digits")
        if type(recording.case) is not str or type(recording.prompt) is not str:
            raise ValueError("the case and the prompt are names")
        return recording

    def same_answer(self, other: Recording) -> bool:
        """Return whether two outputs are equal, apart from time, latency and price."""
        own, its = (
            replace_fields(
                completion, provider="", latency_s=None, cost_usd=None, attempts=1, logprobs=()
            )
            for completion in (self.completion, other.completion)
        )
        return own == its


def encode_line(recording: Recording) -> bytes:
    """A recording as one line of UTF-8, without the line end."""
    document = recording.to_json()
    try:
        return encode_json(document).encode()
    except UnicodeEncodeError:
        return _encode_ascii(document).encode()


_MARKERS: Final = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")


# Case, trial and digest: the order of the lines of a file.
_Order: TypeAlias = "tuple[str, int, str]"

# The first keys of a line as we write it: nothing else of such a line is parsed.
_HEAD: Final = re.compile(
    rb'\{"case":"([^"\\]*)",(?:"judge":"(?:[^"\\]|\\.)*",)?"trial":([0-9]+),"digest":"([0-9a-f]{64})"'
)
# Lines are read in order more often than not; a larger block is read in vain more often.
_BLOCK_BYTES: Final = 64 * 1024
# A shard keeps the recordings of its own cases alone, so the file may be larger than memory.
_SHARDED_BYTES_MAX: Final = 64 * BYTES_MAX
_HASHES: Final = 2**64


def _order_of(raw: bytes) -> _Order:
    """The place of a line that was read before in the order of its file."""
    if head := _HEAD.match(raw):
        return head[1].decode(), int(head[2]), head[3].decode()
    document = json.loads(raw)
    return document["case"], document["trial"], document["digest"]


def _key_of(raw: bytes) -> RecordingKey:
    _, trial, digest = _order_of(raw)
    return RecordingKey(digest, trial)


class _LineIndex:
    """The places of lines by key: 16 bytes a line, added in the order of the file.

    Keys are known by 64 bits of their hash: two of a million share them in one of 40 million files.
    """

    __slots__ = ("_is_sorted", "_lines")

    def __init__(self) -> None:
        # Hashes of keys, and places.
        self._lines = (array("Q"), array("Q"))
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._lines[0])

    def add(self, key: RecordingKey, place: int) -> None:
        """Add the line of a key."""
        hashes, places = self._lines
        hashes.append(hash(key) % _HASHES)
        places.append(place)
        self._is_sorted = False

    def find(self, key: RecordingKey) -> array[int]:
        """The places that a key may have, the first of the file first."""
        hashes, places = self._sorted()
        hashed = hash(key) % _HASHES
        start = bisect_left(hashes, hashed)
        return places[start : bisect_right(hashes, hashed, start)]

    def in_file(self) -> array[int]:
        """All places, in the order of the file."""
        return array("Q", sorted(self._lines[1]))

    def drop(self, dropped: Collection[int]) -> None:
        """Leave out the lines at some places."""
        hashes, places = self._lines
        kept = [at for at, place in enumerate(places) if place not in dropped]
        self._lines = (
            array("Q", [hashes[at] for at in kept]),
            array("Q", [places[at] for at in kept]),
        )

    def shared(self) -> Iterator[array[int]]:
        """The places of each hash that several lines have."""
        hashes, places = self._sorted()
        for hashed, count in Counter(hashes).items():
            if count > 1:
                start = bisect_left(hashes, hashed)
                yield places[start : start + count]

    def _sorted(self) -> tuple[array[int], array[int]]:
        """The hashes in their order, and the places in the same."""
        if not self._is_sorted:
            hashes, places = self._lines
            order = sorted(range(len(hashes)), key=hashes.__getitem__)
            # Both at once: several threads may look for lines.
            self._lines = (
                array("Q", map(hashes.__getitem__, order)),
                array("Q", map(places.__getitem__, order)),
            )
            self._is_sorted = True
        return self._lines


class _Content:
    """The lines of a file as it was when it was indexed; outputs may be longer than memory.

    Attributes:
        size: The bytes of the file.
        places: Of its lines.
        others: In a shard, those of the cases of other shards. Cases with one request share a
            recording, and so do judgements that share a call; it is filed under the first of them.
        tidy: Whether the file is in order, every line in its place and ended.
    """

    __slots__ = ("_block", "_path", "_state", "others", "places", "size", "tidy")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] = ()
        with suppress(OSError):
            self._state = _state(path.stat())
        self.size = self._state[1] if self._state else 0
        self._block = (0, b"")
        self.places, self.others = _LineIndex(), _LineIndex()
        self.tidy = True

    def text(self, place: int) -> bytes | None:
        """The bytes of a line; None where the file has changed since."""
        start, block = self._block
        end = block.find(b"\n", place - start) if start <= place < start + len(block) else -1
        if end >= 0:
            return block[place - start : end].rstrip(b"\r")
        try:
            with open_regular(self._path, bytes_max=_SHARDED_BYTES_MAX) as file:
                if _state(os.fstat(file.fileno())) != self._state:
                    return None
                file.seek(place)
                raw = file.readline()
                self._block = (place, raw + file.read(_BLOCK_BYTES))
        except OSError:
            return None
        return raw.rstrip(b"\r\n")

    def in_order(self) -> Iterable[int]:
        """The places of all lines in the order of a tidy file."""
        places = self.places.in_file()
        if self.tidy:
            return places
        orders = {place: _order_of(raw) for place in places if (raw := self.text(place))}
        # Lines of a file that has changed since come last: who reads them notices.
        return sorted(places, key=lambda place: (place not in orders, orders.get(place)))


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


class RecordingsFile:
    """The recorded answers of one prompt, one line each, sorted by case, trial and digest.

    Changes are kept in memory until `save`, which makes them to the file as it is by then, so
    that two processes may change it at once.
    """

    def __init__(
        self,
        path: Path,
        content: _Content,
        *,
        redactor: Redactor,
        own: Callable[[str], bool] | None = None,
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._own = own
        self._loaded: _Content | None = content
        self._cases: Mapping[tuple[str, str], Collection[str]] | None = None
        # The lines, and whether each goes before one that is recorded meanwhile.
        self._added: dict[RecordingKey, tuple[bytes, bool]] = {}
        self._removed: set[RecordingKey] = set()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        redactor: Redactor | None = None,
        own: Callable[[str], bool] | None = None,
    ) -> RecordingsFile:
        """Read a file; one that does not exist holds nothing.

        Args:
            path: The file.
            redactor: What keeps secrets out of new lines; by default the well-known forms of keys.
            own: Whether a shard runs a case. The others' recordings are found by key and left out
                of everything else; such a file is not saved.

        Raises:
            RecordingError: Lines that cannot be read, all of them at once.
        """
        return cls(path, _read(path, own), redactor=redactor or Redactor(), own=own)

    def __len__(self) -> int:
        gone = sum(self._is_recorded(key) for key in self._removed)
        added = sum(key in self._removed or not self._is_recorded(key) for key in self._added)
        return len(self._content.places) - gone + added

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, RecordingKey):
            return False
        if key in self._added or len(self._content.others.find(key)) > 0:
            return True
        return key not in self._removed and self._is_recorded(key)

    @property
    def _content(self) -> _Content:
        """The file as it was when it was last read; read again once it was written."""
        content = self._loaded
        if content is None:
            content = self._loaded = _read(self.path, self._own)
        return content

    def _is_recorded(self, key: RecordingKey) -> bool:
        return len(self._content.places.find(key)) > 0

    def __iter__(self) -> Iterator[Recording]:
        """All recordings, in the order of the file."""
        for raw in self._lines():
            yield Recording.from_json(json.loads(raw))

    def _lines(self) -> Iterator[bytes]:
        """All lines with the changes made here, in the order of the file."""
        added = sorted((_order_of(raw), raw) for raw, _ in self._added.values())
        for _, raw in merge_sorted(self._recorded_lines(), added):
            yield raw

    def _recorded_lines(self, last: _Order = ("", -1, "")) -> Iterator[tuple[_Order, bytes]]:
        """The lines of the file that stay, in their order, after one of them."""
        for place in self._content.in_order():
            raw = self._content.text(place)
            if raw is None:  # another process wrote the file
                self._read_again()
                yield from self._recorded_lines(last)
                return
            order = _order_of(raw)
            key = RecordingKey(order[2], order[1])
            if order > last and key not in self._added and key not in self._removed:
                last = order
                yield order, raw

    @property
    def any_replaced(self) -> bool:
        """Return whether a line says that its answer replaced another."""
        return any(b'"replaced":' in raw for raw in self._lines())

    def keys(self) -> Collection[RecordingKey]:
        """The keys of all recordings."""
        return {_key_of(raw) for raw in self._lines()}

    def get(self, key: RecordingKey) -> Recording | None:
        """The answer to one request and draw, or None."""
        if key in self._added:
            return Recording.from_json(json.loads(self._added[key][0]))
        return None if key in self._removed else self._recorded(key)

    def _recorded(self, key: RecordingKey) -> Recording | None:
        """The answer in the file as it is now."""
        content = self._content
        for place in (*content.places.find(key), *content.others.find(key)):
            raw = content.text(place)
            if raw is None:  # another process wrote the file
                self._read_again()
                return self._recorded(key)
            if _key_of(raw) == key:
                return Recording.from_json(json.loads(raw))
        return None

    def _read_again(self) -> None:
        """Index the file as another process left it; changes made here stay."""
        self._loaded = None
        self._cases = None

    def cases_with_other_digest(self, case: str, digest: str, *, model: str) -> bool:
        """Return whether the model's answers are recorded for the case, but none for this request.

        That is so when the prompt or the inputs of the case changed since.
        """
        digests = self._by_case().get((case, model), ())
        return bool(digests) and digest not in digests

    def merge(self, new: Iterable[Recording], *, replace: bool) -> bool:
        """Take answers in.

        Args:
            new: The answers.
            replace: Whether they go before those recorded earlier. A recorded line stays as it is,
                to the byte, where the answer is the same.

        Returns:
            Whether anything changed.
        """
        changed = False
        for fresh in new:
            line = self._changed(self._redactor.recording(fresh), replace=replace)
            if line is not None:
                self._added[fresh.key] = line
                changed = True
        if changed:
            self._cases = None
        return changed

    def unused(self, keep: Collection[RecordingKey]) -> list[Recording]:
        """The recordings whose keys are not in `keep`, in the order of the file."""
        return [recording for recording in self if recording.key not in keep]

    def prune(self, keep: Collection[RecordingKey]) -> int:
        """Drop every recording whose key is not in `keep`; returns how many there were.

        What another process adds meanwhile is not touched.
        """
        stale = [key for raw in self._lines() if (key := _key_of(raw)) not in keep]
        for key in stale:
            self._added.pop(key, None)
        self._removed.update(stale)
        self._cases = None
        return len(stale)

    def added(self) -> list[bytes]:
        """The lines that `save` would write, in their order."""
        return sorted((raw for raw, _ in self._added.values()), key=_order_of)

    def _by_case(self) -> Mapping[tuple[str, str], Collection[str]]:
        if self._cases is None:
            cases: dict[tuple[str, str], set[str]] = {}
            for raw in self._lines():
                line = json.loads(raw)
                cases.setdefault((line["case"], line["model"]), set()).add(line["digest"])
            self._cases = cases
        return self._cases

    def save(self) -> int:
        """Make the changes to the file, atomically; returns how many lines changed.

        A line counts that is new, differs or is gone; what another process wrote in the meantime
        is its own. A file that would be the same is not written.

        Raises:
            RecordingError: It cannot be written, or another process left it unreadable. It is
                then as it was, and the changes are still here.
        """
        if not self._added and not self._removed:
            return 0
        with rewriting(self.path, safe=_SAFE):
            self._read_again()
            changed = sum(self._is_recorded(key) for key in self._removed)
            # Written as the file is now; a write that fails leaves the changes as they were.
            added, self._added = self._added, {}
            try:
                fresh = {
                    key: new
                    for key, line in added.items()
                    if (new := self._still_new(key, line)) is not None
                }
                self._added = fresh
                changed += len(fresh)
                if changed or not self._content.tidy:
                    write_whole(self.path, (raw + b"\n" for raw in self._lines()))
                    self._loaded = None
            except BaseException:
                self._added = added
                raise
        self._cases = None
        self._added = {}
        self._removed = set()
        return changed

    def _still_new(self, key: RecordingKey, line: tuple[bytes, bool]) -> tuple[bytes, bool] | None:
        """A line as it is written to the file that there is now; None where it has the answer."""
        if key in self._removed or not self._is_recorded(key):
            return line  # encoded already
        raw, first = line
        return self._changed(Recording.from_json(json.loads(raw)), replace=first)

    def _changed(self, recording: Recording, *, replace: bool) -> tuple[bytes, bool] | None:
        """The line of an answer; None where the file has it, or an earlier one that stays."""
        existing = self.get(recording.key)
        if existing is not None and (not replace or existing.same_answer(recording)):
            return None
        if existing is not None:
            recording = replace_fields(recording, replaced=existing.replaced + 1)
        return encode_line(recording), replace


def _read(path: Path, own: Callable[[str], bool] | None = None) -> _Content:
    content = _Content(path)
    faults: list[Fault] = []
    size = BYTES_MAX if own is None else _SHARDED_BYTES_MAX
    last: _Order = ("", -1, "")
    end = 0
    for number, place, raw in placed_lines_of(path, bytes_max=size):
        head = _HEAD.match(raw) if own is not None else None
        if head and own and not own(head[1].decode("utf-8", "replace")):
            content.others.add(RecordingKey(head[3].decode(), int(head[2])), place)
            continue
        try:
            recording = Recording.from_json(read_json(raw))
        except (ValueError, RecursionError) as error:
            faults.append(_broken_fault(path, number, raw, error))
            continue
        key = recording.key
        content.places.add(key, place)
        content.tidy &= place == end and last < (last := (recording.case, key.trial, key.digest))
        end = place + len(raw) + 1
    if not content.tidy:
        repeated, contradictions = _repetitions(path, content)
        content.places.drop(repeated)
        faults += contradictions
    if faults:
        raise RecordingError(sorted(faults, key=lambda fault: fault.line or 0))
    content.tidy &= end == content.size
    return content


def _repetitions(path: Path, content: _Content) -> tuple[set[int], list[Fault]]:
    """The places of lines whose key an earlier line has, and a fault for each other answer."""
    repeated: set[int] = set()
    faults: list[Fault] = []
    for shared in content.places.shared():
        first: dict[RecordingKey, tuple[int, bytes]] = {}
        for place in shared:
            raw = content.text(place) or b""
            earlier, text = first.setdefault(_key_of(raw), (place, raw))
            if earlier == place:
                continue
            repeated.add(place)
            if text != raw:
                numbers = {at: number for number, at, _ in placed_lines_of(path)}
                line, case = numbers[earlier], _order_of(raw)[0]
                message = f"another answer to the request of line {line} (case {case!r})"
                fix = "keep one of the two lines"
                faults.append(Fault(path=path, line=numbers[place], message=message, fix=fix))
    return repeated, faults


def _broken_fault(path: Path, number: int, raw: bytes, error: Exception) -> Fault:
    message = f"not a recording: {error}"
    fix = "delete the line, then record it again: pytest evals --record=missing"
    if raw.startswith(_MARKERS):
        message = "a merge conflict is not resolved"
        fix = "keep the lines of both sides, or those of one, and delete the markers"
    return Fault(path=path, line=number, message=message, fix=fix)


_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """Completions of one version that were replaced more often than others of it.

    Attributes:
        version: Of the prompt; None where it has none.
        recorded: How many completions of it are recorded under the same trial number.
        cases: How often more than the least replaced one, by case; more than 0.
    """

    version: str | None
    recorded: int
    cases: dict[str, int]

    def __str__(self) -> str:
        most = max(self.cases.values())
        names = sorted(self.cases, key=lambda case: (-self.cases[case], case))
        more = ", ..." if len(names) > _NAMED_MAX else ""
        were = "was" if len(names) == 1 else "were"
        return (
            f"{len(names)} of {plural(self.recorded, 'completion')} of"
            f" {self.version or 'this prompt'} {were} replaced more often than the others, up to"
            f" {plural(most, 'time')} more: {', '.join(names[:_NAMED_MAX])}{more}"
        )


def replacements_in(
    file: RecordingsFile, *, digests: Collection[str] | None = None
) -> list[Replacements]:
    """Uneven replacements in the recordings of a prompt, by version and trial number.

    Args:
        file: The recordings.
        digests: Only completions of these requests.
    """
    if not file.any_replaced:
        return []
    counts: dict[tuple[str | None, int], dict[str, int]] = {}
    for recording in file:
        if digests is None or recording.key.digest in digests:
            of_version = counts.setdefault((recording.version, recording.key.trial), {})
            seen_trials = of_version.get(recording.case, 0)
            of_version[recording.case] = max(seen_trials, recording.replaced)
    return [
        Replacements(
            version=version,
            recorded=len(cases),
            cases={case: count - least for case, count in cases.items() if count > least},
        )
        for (version, _), cases in counts.items()
        if (least := min(cases.values())) < max(cases.values())
    ]
