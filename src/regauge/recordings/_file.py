"""Committed recordings: `fixtures/recordings/<prompt>.jsonl`, one line for each completion."""

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
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import finalize

from regauge.errors import Diagnostic, RecordingError, explain_os_error
from regauge.files import BYTES_MAX, lock_directory, open_regular, write_whole
from regauge.providers import Completion, approximate_tokens
from regauge.recordings._redact import Redactor
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

_SAFE: Final = "the completions are still in the local store"


def read_lines(path: Path, *, bytes_max: int = BYTES_MAX) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines that are not blank, each with its number from 1 and its offset in the file.

    A missing file has no lines.

    Raises:
        RecordingError: The file cannot be read.
    """
    place = 0
    try:
        with open_regular(path, bytes_max=bytes_max) as file:
            for number, raw in enumerate(file, 1):
                line = raw.rstrip(b"\r\n")
                if line.strip():
                    yield number, place, line
                place += len(raw)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordingError([Diagnostic.unreadable(path, error)]) from error


def append_lines(path: Path, lines: Collection[bytes]) -> int:
    """Append lines to a file that several processes write; return the number of lines.

    Raises:
        RecordingError: The file cannot be written.
    """
    if lines:
        with lock_file(path, safe=_SAFE), path.open("ab") as file:
            file.write(b"".join([line + b"\n" for line in lines]))
    return len(lines)


@contextmanager
def lock_file(path: Path, *, safe: str = "") -> Generator[None]:
    """Create the directory of a file, and lock the file while the block writes it.

    Args:
        path: The file.
        safe: A clause for the error: the data that is still stored elsewhere.

    Raises:
        RecordingError: The file cannot be written.
    """
    with _explain_unwritable(path, safe=safe):
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_directory(path.parent):
            for draft in path.parent.glob(f".{escape(path.name)}.*.tmp"):
                draft.unlink(missing_ok=True)  # from a process that was killed
            yield


@contextmanager
def _explain_unwritable(path: Path, *, safe: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem, own_fix = explain_os_error(error)
        fix = own_fix or "make room or give write permission, then run again"
        fix = f"{fix}; {safe}" if safe else fix
        raise RecordingError.at_place(path, f"cannot be written: {problem}", fix) from error


_MIB: Final = 1024 * 1024
# https://docs.github.com/en/repositories/working-with-files/managing-large-files
_WARN_MIB: Final = 50
_REFUSED_MIB: Final = 100


def check_file_sizes(project: Project, paths: Iterable[Path] | None = None) -> list[Diagnostic]:
    """Return a warning for each file that is large for GitHub.

    Args:
        project: The project of the files.
        paths: The files, from the root of the project; by default all recordings.
    """
    if paths is None:
        paths = sorted(project.recordings_dir.rglob("[!.]*.jsonl"))
    fix = (
        "remove stale recordings (regauge record --prune), record fewer trials, or limit the"
        " outputs (max_tokens)"
    )
    diagnostics: list[Diagnostic] = []
    for path in (project.root / path for path in paths):
        try:
            status = path.stat()
        except OSError:
            continue  # reading it raises the error
        size = status.st_size / _MIB if stat.S_ISREG(status.st_mode) else 0
        if size > _WARN_MIB:
            words = "refuses" if size > _REFUSED_MIB else "will refuse"
            message = (
                f"the file has {size:,.0f} MiB, and GitHub {words} files above {_REFUSED_MIB} MiB"
            )
            diagnostics.append(
                Diagnostic(path=project.relative(path), line=None, message=message, fix=fix)
            )
    return diagnostics


_DIGITS: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# A lone surrogate, which models do send, is not valid UTF-8; such a line is written with escapes.
encode_json, _encode_ascii = (
    json.JSONEncoder(
        separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False, default=dict
    ).encode
    for ascii_only in (False, True)
)


@dataclass(frozen=True, slots=True, order=True)
class RecordingKey:
    """The digest of a request and its trial number, from 0: trial k replays trial k."""

    digest: str
    trial: int

    @classmethod
    def from_request(cls, request: CompletionRequest) -> RecordingKey:
        """Return the key of the recording for `request`."""
        return cls(request.digest, request.trial)

    def __str__(self) -> str:
        return self.digest[:12] + (f" trial {self.trial}" if self.trial else "")


def utc_now() -> str:
    """Return the time in the form of recordings: ISO 8601 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def request_summary(request: CompletionRequest, *, prompt_digest: str) -> dict[str, JSON]:
    """Describe a request for readers of a recordings file, without its text."""
    return {
        "prompt_digest": prompt_digest,
        "messages": len(request.messages),
        "approx_tokens": approximate_tokens(request),
        "parameters": request.parameters,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded completion.

    Attributes:
        key: The key of the recording.
        prompt: The name of the prompt.
        version: The version of the prompt, or None without one.
        case: The id of the case.
        model: As `provider:model`.
        completion: The completion.
        recorded_at: The time, in the form of `utc_now`.
        request: See `request_summary`.
        judge: The name of the judge whose model completed; None for the prompt's model. Prompt,
            version and case are then those of the judged completion.
        replaced: How often another completion was recorded under its key before.
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
        """Return a plain document, with the keys in the order for readers."""
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
        """Read the output of `to_json`.

        Raises:
            ValueError: A key is missing or has a value of the wrong type.
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
        if type(trial) is not int or trial < 0:
            raise ValueError(f"the trial is {trial!r}, not a number from 0")
        if type(recording.replaced) is not int or recording.replaced < 0:
            raise ValueError(f"replaced is {recording.replaced!r}, not a number from 0")
        if type(digest) is not str or _DIGEST.fullmatch(digest) is None:
            raise ValueError(f"the digest is {digest!r}, not 64 hexadecimal digits")
        if type(recording.case) is not str or type(recording.prompt) is not str:
            raise ValueError("the case and the prompt are names")
        texts = (
            recording.model,
            recording.recorded_at,
            *([] if recording.version is None else [recording.version]),
        )
        if not all(type(text) is str for text in texts) or type(recording.request) is not dict:
            raise ValueError("the model, the time and the version are texts, the request an object")
        return recording

    def has_same_completion(self, other: Recording) -> bool:
        """Return whether two completions are equal, apart from time, latency and price."""
        fields, other_fields = (
            replace_fields(
                completion, provider="", latency_s=None, cost_usd=None, attempts=1, logprobs=()
            )
            for completion in (self.completion, other.completion)
        )
        return fields == other_fields


def encode_line(recording: Recording) -> bytes:
    """Encode a recording as one line of UTF-8, without the line end."""
    document = recording.to_json()
    try:
        return encode_json(document).encode()
    except UnicodeEncodeError:
        return _encode_ascii(document).encode()


_MARKERS: Final = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")


# The first keys of a line, as written here: the rest of such a line is not parsed.
_HEAD: Final = re.compile(
    rb'\{"case":"([^"\\]*)",(?:"judge":"(?:[^"\\]|\\.)*",)?"trial":([0-9]+),"digest":"([0-9a-f]{64})"'
)
# Lines are mostly read in order; a larger block is more often read without use.
_BLOCK_BYTES: Final = 64 * 1024
# A shard only keeps the recordings of its own cases, so the file may be larger than memory.
_SHARDED_BYTES_MAX: Final = 64 * BYTES_MAX
_HASHES: Final = 2**64


def _order_of(raw: bytes) -> bytes:
    """Return case, trial and digest of a line that was checked before, to sort it by."""
    if head := _HEAD.match(raw):
        case, trial, digest = head[1], int(head[2]), head[3]
    else:
        document = json.loads(raw)
        case = document["case"].encode("utf-8", "surrogatepass")
        trial, digest = document["trial"], document["digest"].encode()
    return b"%s\0%010d%s" % (case, trial, digest)


def _case_and_key(order: bytes) -> tuple[str, RecordingKey]:
    case, _, numbers = order.rpartition(b"\0")
    key = RecordingKey(numbers[-_DIGITS:].decode(), int(numbers[:-_DIGITS]))
    return case.decode("utf-8", "surrogatepass"), key


def _key_of(raw: bytes) -> RecordingKey:
    return _case_and_key(_order_of(raw))[1]


class _LineIndex:
    """The offsets of lines by key: 16 bytes a line, added in the order of the file.

    Keys are stored as 64 bits of their hash: two of a million keys collide in one of 40 million
    files.
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
        """Return the possible offsets of a key, in the order of the file."""
        hashes, places = self._sorted()
        hashed = hash(key) % _HASHES
        start = bisect_left(hashes, hashed)
        return places[start : bisect_right(hashes, hashed, start)]

    def all_places(self) -> array[int]:
        """Return all offsets, in the order of the file."""
        return array("Q", sorted(self._lines[1]))

    def drop(self, dropped: Collection[int]) -> None:
        """Remove the lines at some offsets."""
        hashes, places = self._lines
        remaining = [index for index, place in enumerate(places) if place not in dropped]
        self._lines = (
            array("Q", [hashes[index] for index in remaining]),
            array("Q", [places[index] for index in remaining]),
        )

    def find_shared(self) -> Iterator[array[int]]:
        """Yield the offsets of each hash that several lines have."""
        hashes, places = self._sorted()
        for hashed, count in Counter(hashes).items():
            if count > 1:
                start = bisect_left(hashes, hashed)
                yield places[start : start + count]

    def _sorted(self) -> tuple[array[int], array[int]]:
        """Return the sorted hashes, and the offsets in the same order."""
        if not self._is_sorted:
            hashes, places = self._lines
            order = sorted(range(len(hashes)), key=hashes.__getitem__)
            # Assigned together: several threads may search.
            self._lines = (
                array("Q", map(hashes.__getitem__, order)),
                array("Q", map(places.__getitem__, order)),
            )
            self._is_sorted = True
        return self._lines


class _Content:
    """The lines of a file as it was when it was indexed; outputs may be larger than memory.

    Attributes:
        size: The bytes of the file.
        places: The offsets of its lines.
        other_shards: In a shard, the offsets of lines for cases of other shards. A recording that
            several cases or judgements share is filed under the first of them.
        is_tidy: Whether the lines are sorted, without gaps, and end with a line end.
    """

    __slots__ = ("_block", "_path", "_state", "is_tidy", "other_shards", "places", "size")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] = ()
        with suppress(OSError):
            self._state = _state(path.stat())
        self.size = self._state[1] if self._state else 0
        self._block = (0, b"")
        self.places, self.other_shards = _LineIndex(), _LineIndex()
        self.is_tidy = True

    def text(self, place: int) -> bytes | None:
        """Return the bytes of a line; None if the file has changed since."""
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

    def sorted_places(self) -> Iterable[int]:
        """Return the offsets of all lines in the order of a tidy file."""
        places = self.places.all_places()
        if self.is_tidy:
            return places
        orders = {place: _order_of(raw) for place in places if (raw := self.text(place))}
        # If the file has changed since, such lines come last; reading them shows the change.
        return sorted(places, key=lambda place: (place not in orders, orders.get(place)))


class _NewLines(dict[RecordingKey, int]):
    """The places of lines that are not saved yet; more than a MiB is in a temporary file."""

    _file: SpooledTemporaryFile[bytes] | None = None

    def add(self, key: RecordingKey, line: bytes) -> None:
        """Add the line of a key, or replace it."""
        if self._file is None:
            self._file = SpooledTemporaryFile(max_size=_MIB)  # noqa: SIM115 - closed with this object
            finalize(self, self._file.close)
        self[key] = self._file.seek(0, os.SEEK_END)
        self._file.write(line + b"\n")

    def line_at(self, place: int) -> bytes:
        """Return the line at one of the places."""
        assert self._file is not None, "a place is that of a line"
        self._file.seek(place)
        return self._file.readline().rstrip(b"\n")

    def in_order(self) -> Iterator[bytes]:
        """Yield the lines in the order of a recordings file."""
        places = sorted(self.values(), key=lambda place: _order_of(self.line_at(place)))
        return map(self.line_at, places)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


class RecordingsFile:
    """The recordings of one prompt, one line each, sorted by case, trial and digest.

    Changes stay in memory until `save` applies them to the current file, so that two processes may
    change it at once.
    """

    def __init__(
        self,
        path: Path,
        content: _Content,
        *,
        redactor: Redactor,
        in_shard: Callable[[str], bool] | None = None,
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._in_shard = in_shard
        self._loaded: _Content | None = content
        self._cases: Mapping[tuple[str, str], Collection[str]] | None = None
        self._new_lines = _NewLines()
        # The new lines that replace one that is recorded meanwhile.
        self._replacing: set[RecordingKey] = set()
        self._removed: set[RecordingKey] = set()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        redactor: Redactor | None = None,
        in_shard: Callable[[str], bool] | None = None,
    ) -> RecordingsFile:
        """Read a file; a missing one is empty.

        Args:
            path: The file.
            redactor: Removes secrets from new lines; by default the well-known forms of keys.
            in_shard: Called with a case id; returns whether the shard runs the case. Recordings of
                other cases are only found by key; such a file is not saved.

        Raises:
            RecordingError: Lines cannot be read; the error lists all of them.
        """
        return cls(path, _read(path, in_shard), redactor=redactor or Redactor(), in_shard=in_shard)

    def __len__(self) -> int:
        removed_count = sum(self._is_recorded(key) for key in self._removed)
        added_count = sum(
            key in self._removed or not self._is_recorded(key) for key in self._new_lines
        )
        return len(self._content.places) - removed_count + added_count

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, RecordingKey):
            return False
        if key in self._new_lines or len(self._content.other_shards.find(key)) > 0:
            return True
        return key not in self._removed and self._is_recorded(key)

    @property
    def _content(self) -> _Content:
        """The index of the file; read again after the file was written."""
        content = self._loaded
        if content is None:
            content = self._loaded = _read(self.path, self._in_shard)
        return content

    def _is_recorded(self, key: RecordingKey) -> bool:
        return len(self._content.places.find(key)) > 0

    def __iter__(self) -> Iterator[Recording]:
        """Iterate over all recordings, in the order of the file."""
        for raw in self._lines():
            yield Recording.from_json(json.loads(raw))

    def _lines(self) -> Iterator[bytes]:
        """Yield all lines with the unsaved changes, in the order of the file."""
        return merge_sorted(self._recorded_lines(), self._new_lines.in_order(), key=_order_of)

    def _recorded_lines(self, last: bytes = b"") -> Iterator[bytes]:
        """Yield the remaining lines of the file after a given one, in order."""
        for place in self._content.sorted_places():
            raw = self._content.text(place)
            if raw is None:  # another process wrote the file
                self._reload()
                yield from self._recorded_lines(last)
                return
            order = _order_of(raw)
            _, key = _case_and_key(order)
            if order > last and key not in self._new_lines and key not in self._removed:
                last = order
                yield raw

    @property
    def has_replacements(self) -> bool:
        """Return whether a completion replaced another one."""
        return any(b'"replaced":' in raw for raw in self._lines())

    def keys(self) -> Collection[RecordingKey]:
        """Return the keys of all recordings."""
        return {_key_of(raw) for raw in self._lines()}

    def get(self, key: RecordingKey) -> Recording | None:
        """Return the recording of one request and trial, or None."""
        if key in self._new_lines:
            line = self._new_lines.line_at(self._new_lines[key])
            return Recording.from_json(json.loads(line))
        return None if key in self._removed else self._find_recorded(key)

    def _find_recorded(self, key: RecordingKey) -> Recording | None:
        """Return the recording in the file, without unsaved changes."""
        content = self._content
        for place in (*content.places.find(key), *content.other_shards.find(key)):
            raw = content.text(place)
            if raw is None:  # another process wrote the file
                self._reload()
                return self._find_recorded(key)
            recording = Recording.from_json(json.loads(raw))
            if recording.key == key:  # the index has hashes, which two keys may share
                return recording
        return None

    def _reload(self) -> None:
        """Drop the index: another process wrote the file. Unsaved changes stay."""
        self._loaded = None
        self._cases = None

    def cases_with_other_digest(self, case: str, digest: str, *, model: str) -> bool:
        """Return whether the case has recordings of the model, but none for this request.

        Then the prompt or the inputs of the case have changed since.
        """
        digests = self._by_case().get((case, model), ())
        return bool(digests) and digest not in digests

    def merge(self, new: Iterable[Recording], *, replace: bool) -> bool:
        """Add recordings.

        Args:
            new: The recordings.
            replace: Whether they replace earlier ones. A line with the same completion stays
                unchanged, to the byte.

        Returns:
            Whether anything changed.

        Raises:
            RecordingError: The lines cannot be stored until `save`, such as on a full disk.
        """
        changed = False
        with _explain_unwritable(self.path, safe=_SAFE):
            for fresh in new:
                recording = self._redactor.redact_recording(fresh)
                line = _changed_line(recording, self.get(fresh.key), replace=replace)
                if line is not None:
                    self._new_lines.add(fresh.key, line)
                    if replace:
                        self._replacing.add(fresh.key)
                    changed = True
        if changed:
            self._cases = None
        return changed

    def find_unused(self, keep: Collection[RecordingKey]) -> list[Recording]:
        """Return the recordings whose keys are not in `keep`, in the order of the file."""
        return [recording for recording in self if recording.key not in keep]

    def prune(self, keep: Collection[RecordingKey]) -> int:
        """Remove every recording whose key is not in `keep`; return their number.

        Lines that another process adds meanwhile stay.
        """
        stale = [key for raw in self._lines() if (key := _key_of(raw)) not in keep]
        for key in stale:
            self._new_lines.pop(key, None)
        self._replacing.difference_update(stale)
        self._removed.update(stale)
        self._cases = None
        return len(stale)

    def new_lines(self) -> list[bytes]:
        """Return the lines that `save` would write, in their order."""
        return [*self._new_lines.in_order()]

    def _by_case(self) -> Mapping[tuple[str, str], Collection[str]]:
        if self._cases is None:
            cases: dict[tuple[str, str], set[str]] = {}
            for raw in self._lines():
                line = json.loads(raw)
                cases.setdefault((line["case"], line["model"]), set()).add(line["digest"])
            self._cases = cases
        return self._cases

    def save(self) -> int:
        """Apply the changes to the file, atomically; return the number of changed lines.

        These are new, changed and removed lines, except for the changes of other processes. An
        unchanged file is not written.

        Raises:
            RecordingError: The file cannot be written, or another process left it unreadable. The
                file and the unsaved changes then stay.
        """
        if not self._new_lines and not self._removed:
            return 0
        with lock_file(self.path, safe=_SAFE):
            self._reload()
            change_count = sum(self._is_recorded(key) for key in self._removed)
            self._compare_with_file()
            change_count += len(self._new_lines)
            if change_count or not self._content.is_tidy:
                write_whole(self.path, (raw + b"\n" for raw in self._lines()))
                self._loaded = None
        self._cases = None
        self._new_lines = _NewLines()
        self._replacing = set()
        self._removed = set()
        return change_count

    def _compare_with_file(self) -> None:
        """Compare the new lines with those that other processes wrote meanwhile."""
        for key, place in [*self._new_lines.items()]:
            if key not in self._removed and self._is_recorded(key):
                recording = Recording.from_json(json.loads(self._new_lines.line_at(place)))
                existing = self._find_recorded(key)
                line = _changed_line(recording, existing, replace=key in self._replacing)
                del self._new_lines[key]
                if line is not None:
                    self._new_lines.add(key, line)


def _changed_line(
    recording: Recording, existing: Recording | None, *, replace: bool
) -> bytes | None:
    """Return the line of a recording; None if an existing one is equal, or stays."""
    if existing is not None:
        if not replace or existing.has_same_completion(recording):
            return None
        recording = replace_fields(recording, replaced=existing.replaced + 1)
    return encode_line(recording)


def _read(path: Path, in_shard: Callable[[str], bool] | None = None) -> _Content:
    content = _Content(path)
    diagnostics: list[Diagnostic] = []
    size = BYTES_MAX if in_shard is None else _SHARDED_BYTES_MAX
    last = b""
    end = 0
    for number, place, raw in read_lines(path, bytes_max=size):
        if (
            in_shard is not None
            and (head := _HEAD.match(raw))
            and not in_shard(head[1].decode("utf-8", "replace"))
        ):
            content.other_shards.add(RecordingKey(head[3].decode(), int(head[2])), place)
            continue
        try:
            recording = Recording.from_json(read_json(raw))
        except (ValueError, RecursionError) as error:
            diagnostics.append(_line_error(path, number, raw, error))
            continue
        key = recording.key
        content.places.add(key, place)
        content.is_tidy &= place == end and last < (last := _order_of(raw))
        end = place + len(raw) + 1
    if not content.is_tidy:
        duplicates, contradictions = _repetitions(path, content)
        content.places.drop(duplicates)
        diagnostics += contradictions
    if diagnostics:
        raise RecordingError(sorted(diagnostics, key=lambda diagnostic: diagnostic.line or 0))
    content.is_tidy &= end == content.size
    return content


def _repetitions(path: Path, content: _Content) -> tuple[set[int], list[Diagnostic]]:
    """Return the offsets of duplicate lines, and an error for each with another completion."""
    duplicates: set[int] = set()
    diagnostics: list[Diagnostic] = []
    for shared in content.places.find_shared():
        first: dict[RecordingKey, tuple[int, bytes]] = {}
        for place in shared:
            raw = content.text(place) or b""
            earlier, text = first.setdefault(_key_of(raw), (place, raw))
            if earlier == place:
                continue
            duplicates.add(place)
            if text != raw:
                numbers = {offset: number for number, offset, _ in read_lines(path)}
                line, (case, _) = numbers[earlier], _case_and_key(_order_of(raw))
                message = f"another completion of the request in line {line} (case {case!r})"
                fix = "keep one of the two lines"
                diagnostics.append(
                    Diagnostic(path=path, line=numbers[place], message=message, fix=fix)
                )
    return duplicates, diagnostics


def _line_error(path: Path, number: int, raw: bytes, error: Exception) -> Diagnostic:
    message = f"not a recording: {error}"
    fix = "delete the line, then record it again: pytest evals --record=missing"
    if raw.startswith(_MARKERS):
        message = "a merge conflict is not resolved"
        fix = "keep the lines of both sides, or those of one, and delete the markers"
    return Diagnostic(path=path, line=number, message=message, fix=fix)


_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """Completions of one version that were replaced more often than others of it.

    Attributes:
        version: The version of the prompt; None without one.
        recorded: Number of recorded completions of the version with the same trial number.
        cases: Additional replacements compared with the least replaced case, by case; above 0.
    """

    version: str | None
    recorded: int
    cases: dict[str, int]

    def __str__(self) -> str:
        count_max = max(self.cases.values())
        names = sorted(self.cases, key=lambda case: (-self.cases[case], case))
        ellipsis = ", ..." if len(names) > _NAMED_MAX else ""
        were = "was" if len(names) == 1 else "were"
        return (
            f"{len(names)} of {plural(self.recorded, 'completion')} of"
            f" {self.version or 'this prompt'} {were} replaced more often than the others, up to"
            f" {plural(count_max, 'time')} more: {', '.join(names[:_NAMED_MAX])}{ellipsis}"
        )


def replacements_in(
    file: RecordingsFile, *, digests: Collection[str] | None = None
) -> list[Replacements]:
    """Find uneven replacements in the recordings of a prompt, by version and trial number.

    Args:
        file: The recordings.
        digests: Only completions of these requests.
    """
    if not file.has_replacements:
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
