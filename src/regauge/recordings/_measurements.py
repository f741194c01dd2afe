"""Committed measurements of judges: `fixtures/recordings/verdicts/<prompt>.jsonl`."""

from __future__ import annotations

import math
import re
import struct
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from regauge.digests import canonical_json, digest_of
from regauge.errors import Diagnostic, RecordingError
from regauge.files import write_whole
from regauge.recordings._file import RecordingKey, encode_json, lock_file, read_lines
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON


_Line = TypeVar("_Line")

_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementLine:
    """One recorded measurement.

    Attributes:
        key: The digest of judge, case, completion and trial.
        case: The id of the case.
        judge: The name of the judge.
        trial: The number of the judged trial, from 0.
        measurement: The value, in the form of the judge.
        calls: The calls that it was computed from; these have their own recordings.
        totals: The usage of these calls.
    """

    key: str
    case: str
    judge: str
    trial: int
    measurement: Mapping[str, JSON]
    calls: tuple[RecordingKey, ...] = ()
    totals: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])

    def encode(self) -> bytes:
        """Encode the measurement as one line of UTF-8, without the line end.

        Raises:
            ValueError: A value is not JSON, such as NaN.
        """
        document = {
            "case": self.case,
            "judge": self.judge,
            "trial": self.trial,
            "key": self.key,
            "measurement": self.measurement,
            "totals": self.totals,
            "calls": [[key.digest, key.trial] for key in self.calls],
        }
        try:
            return encode_json(document).encode("utf-8", "backslashreplace")
        except TypeError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def decode(cls, raw: bytes) -> MeasurementLine:
        """Read the output of `encode`.

        Raises:
            ValueError: The line is malformed.
        """
        document: object = read_json(raw)
        if not isinstance(document, dict):
            raise ValueError("a measurement is a JSON object")  # noqa: TRY004 - one kind for callers
        fields = cast("dict[str, Any]", document)
        try:
            line = cls(
                key=fields["key"],
                case=fields["case"],
                judge=fields["judge"],
                trial=fields["trial"],
                measurement=fields["measurement"],
                calls=tuple([RecordingKey(digest, trial) for digest, trial in fields["calls"]]),
                totals=fields["totals"],
            )
        except KeyError as error:
            raise ValueError(f"the line has no {error}") from error
        except TypeError as error:
            raise ValueError(f"the line cannot be read: {error}") from error
        texts = (line.key, line.case, line.judge)
        if not all(type(text) is str for text in texts) or type(line.trial) is not int:
            raise ValueError("key, case and judge are texts, and the trial is a number")
        if _KEY.fullmatch(line.key) is None:
            raise ValueError(f"the key is {line.key!r}, not 64 hexadecimal digits")
        if type(line.measurement) is not dict or type(line.totals) is not dict:
            raise ValueError("measurement and totals are objects")
        return line


class _LinesFile(ABC, Generic[_Line]):
    """A file of lines by key.

    Changes stay in memory until `save` applies them to the current file, so that two processes may
    change it at once.

    Args:
        path: The file.
        in_shard: Called with a case id; returns whether the shard runs the case.

    Attributes:
        _safe: A clause for the error of a failed write: the data that is still stored elsewhere.
        _kind: The kind of a line, for errors.
        _duplicate_error: The error of a second line with one key.
        _fix: The fix of every error.
    """

    _safe: ClassVar[str] = ""
    _kind: ClassVar[str]
    _duplicate_error: ClassVar[str]
    _fix: ClassVar[str]

    def __init__(self, path: Path, in_shard: Callable[[str], bool] | None = None) -> None:
        self.path = path
        self._in_shard = in_shard
        self._lines = self._read()
        self._new_keys: dict[str, bool] = {}
        self._removed: set[str] = set()

    def __len__(self) -> int:
        return len(self._lines)

    @abstractmethod
    def _parse(self, raw: bytes) -> tuple[str, _Line] | None:
        """Return the key of a line and the line; None for one of another shard."""

    @abstractmethod
    def _encode(self, lines: Mapping[str, _Line]) -> list[bytes]:
        """Encode lines in their order, without line ends."""

    def _is_same(self, line: _Line, other: _Line) -> bool:
        return line == other

    def _read(self) -> dict[str, _Line]:
        """Read the current lines of the file, by key.

        Raises:
            RecordingError: Lines cannot be read; the error lists all of them.
        """
        lines: dict[str, _Line] = {}
        diagnostics: list[Diagnostic] = []
        for number, _, raw in read_lines(self.path):
            try:
                parsed = self._parse(raw)
            except (ValueError, RecursionError) as error:
                problem = f"not a recorded {self._kind}: {error}"
            else:
                if parsed is None or self._is_same(lines.setdefault(*parsed), parsed[1]):
                    continue
                problem = self._duplicate_error
            diagnostics.append(
                Diagnostic(path=self.path, line=number, message=problem, fix=self._fix)
            )
        if diagnostics:
            raise RecordingError(diagnostics)
        return lines

    def new_lines(self) -> list[bytes]:
        """Return the lines that `save` would write, in their order."""
        return self._encode({key: self._lines[key] for key in self._new_keys})

    def save(self) -> int:
        """Apply the changes to the file, atomically; return the number of changed lines.

        Raises:
            RecordingError: The file cannot be written, or another process left it unreadable. The
                file and the unsaved changes then stay.
        """
        if not self._new_keys and not self._removed:
            return 0
        with lock_file(self.path, safe=self._safe):
            before = self._read()
            lines = {key: line for key, line in before.items() if key not in self._removed}
            for key, replace in self._new_keys.items():
                if replace or key not in lines:
                    lines[key] = self._lines[key]
            changed = sum(before.get(key) != line for key, line in lines.items())
            changed += len(before.keys() - lines.keys())
            if changed:
                write_whole(self.path, [line + b"\n" for line in self._encode(lines)])
        self._lines, self._new_keys, self._removed = lines, {}, set()
        return changed


# The first key of a line, as written here: a line of another shard is not parsed.
_CASE: Final = re.compile(rb'\{"case":"([^"\\]*)",')


class MeasurementsFile(_LinesFile[MeasurementLine]):
    """The recorded measurements of one prompt, one line each, sorted by case, judge and trial.

    Args:
        path: The file.
        in_shard: Called with a case id; returns whether the shard runs the case. Other measurements
            are left out, and such a file is not saved.

    Raises:
        RecordingError: Lines cannot be read; the error lists all of them.
    """

    _safe = "the judges' calls are safe in the local store"
    _kind = "measurement"
    _duplicate_error = "another measurement with the key of a line above"
    _fix = "delete the line, then compute it again from the recorded calls: regauge record"

    def _parse(self, raw: bytes) -> tuple[str, MeasurementLine] | None:
        case = _CASE.match(raw) if self._in_shard is not None else None
        if case and self._in_shard and not self._in_shard(case[1].decode("utf-8", "replace")):
            return None
        line = MeasurementLine.decode(raw)
        return line.key, line

    def _is_same(self, line: MeasurementLine, other: MeasurementLine) -> bool:
        return line.measurement == other.measurement

    def _encode(self, lines: Mapping[str, MeasurementLine]) -> list[bytes]:
        return [line.encode() for line in sorted(lines.values(), key=_order)]

    def get(self, key: str) -> MeasurementLine | None:
        """Return the measurement, or None."""
        return self._lines.get(key)

    def put(self, line: MeasurementLine, *, replace: bool) -> None:
        """Add a measurement.

        Args:
            line: The measurement.
            replace: Whether it replaces an earlier one.
        """
        existing = self._lines.get(line.key)
        if existing is not None and (not replace or existing.measurement == line.measurement):
            return
        self._lines[line.key] = line
        self._new_keys[line.key] = replace

    def find_unused(self, keep: Collection[str]) -> list[MeasurementLine]:
        """Return the lines whose keys are not in `keep`, in the order of the file."""
        return sorted((x for key, x in self._lines.items() if key not in keep), key=_order)

    def prune(self, keep: Collection[str]) -> int:
        """Remove every line whose key is not in `keep`; return their number."""
        stale = [key for key in self._lines if key not in keep]
        for key in stale:
            del self._lines[key]
            self._new_keys.pop(key, None)
        self._removed.update(stale)
        return len(stale)


def _order(line: MeasurementLine) -> tuple[str, str, int, str]:
    return (line.case, line.judge, line.trial, line.key)


_FLOAT_BYTES: Final = 4
# Names of models may contain characters that file systems reject, or path separators.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class VectorsFile(_LinesFile[bytes]):
    """The recorded embeddings of one model, one line each, sorted by digest.

    Numbers are stored as float32: the relative error is at most 6e-8, and that of a cosine below
    3e-7. Texts are not stored, only the digest of model and text.

    Args:
        path: The file.
        model: As `provider:model`.

    Raises:
        RecordingError: Lines cannot be read; the error lists all of them.
    """

    _kind = "vector"
    _duplicate_error = "another vector for the text of a line above"
    _fix = "delete the line, then record what is missing: pytest evals --record=missing"

    def __init__(self, path: Path, *, model: str) -> None:
        super().__init__(path)
        self._model = model

    def _parse(self, raw: bytes) -> tuple[str, bytes]:
        return parse_vector(raw)[0], raw.strip()

    def _encode(self, lines: Mapping[str, bytes]) -> list[bytes]:
        return [lines[key] for key in sorted(lines)]

    @classmethod
    def for_model(cls, directory: Path, model: str) -> VectorsFile:
        """Read the file of a model below the directory of recordings; it may be missing.

        Raises:
            RecordingError: Lines cannot be read; the error lists all of them.
        """
        name = _UNSAFE.sub("-", model.replace(":", ".", 1))
        return cls(directory / "embeddings" / f"{name}.jsonl", model=model)

    def __contains__(self, text: str) -> bool:
        return self._key(text) in self._lines

    def get(self, text: str) -> tuple[float, ...] | None:
        """Return the embedding of a text, or None."""
        line = self._lines.get(self._key(text))
        return None if line is None else parse_vector(line)[1]

    def drop_absent(self, data: bytes | None) -> None:
        """Drop the lines that are not in another version of the file, byte for byte."""
        present_lines = {line.strip() for line in (data or b"").splitlines()}
        self._lines = {key: line for key, line in self._lines.items() if line in present_lines}

    def put(self, text: str, vector: Sequence[float], *, replace: bool) -> None:
        """Add an embedding; `get` then returns it as a replay would.

        Args:
            text: The text.
            vector: Its embedding.
            replace: Whether it replaces an earlier one, also of another process.

        Raises:
            ValueError: A number is not a float32.
        """
        key = self._key(text)
        if key in self._lines and not replace:
            return
        line = _line(key, self._model, vector)
        if self._lines.get(key) != line:
            self._lines[key] = line
            self._new_keys[key] = replace

    def _key(self, text: str) -> str:
        return digest_of({"model": self._model, "text": text})


def _line(key: str, model: str, vector: Sequence[float]) -> bytes:
    try:
        packed = struct.pack(f"<{len(vector)}f", *vector)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"no vector of float32: {error}") from error
    line = {"digest": key, "float32": b64encode(packed).decode(), "model": model}
    return canonical_json(line).encode("utf-8", "backslashreplace")


def parse_vector(raw: bytes) -> tuple[str, tuple[float, ...]]:
    """Return the key and the embedding of a line.

    Raises:
        ValueError: The line is malformed.
    """
    document: Any = read_json(raw)
    try:
        key, packed = document["digest"], b64decode(document["float32"], validate=True)
    except (TypeError, KeyError) as error:
        raise ValueError("a vector has `digest` and `float32`") from error
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError(f"the digest is {key!r}, not 64 hexadecimal digits")
    if not packed or len(packed) % _FLOAT_BYTES:
        raise ValueError(f"float32 has {len(packed)} bytes, not four for each number")
    vector = struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed)
    if not all(map(math.isfinite, vector)):
        raise ValueError("float32 holds what is not a number")
    return key, vector
