"""Measurements of judges, committed: `fixtures/recordings/verdicts/<prompt>.jsonl`."""

from __future__ import annotations

import math
import re
import struct
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from regauge.atomic import write_whole
from regauge.digests import canonical_json, digest_of
from regauge.errors import Fault, RecordingError
from regauge.recordings._file import RecordingKey, encode_json, placed_lines_of, rewriting
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON


_Line = TypeVar("_Line")

_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementLine:
    """One measurement as it is kept.

    Attributes:
        key: The digest of judge, case, answer and trial: what it is found by.
        case: The id of the case.
        judge: The name of the judge.
        trial: Which draw was judged, from 0.
        measurement: What was measured, as the judge writes it.
        asked: The calls it was made from; they are recorded on their own.
        totals: What those calls used.
    """

    key: str
    case: str
    judge: str
    trial: int
    measurement: Mapping[str, JSON]
    asked: tuple[RecordingKey, ...] = ()
    totals: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])

    def encode(self) -> bytes:
        """One line of UTF-8, without the line end.

        Raises:
            ValueError: It holds what JSON has no word for, such as NaN.
        """
        document = {
            "case": self.case,
            "judge": self.judge,
            "trial": self.trial,
            "key": self.key,
            "measurement": self.measurement,
            "totals": self.totals,
            "asked": [[key.digest, key.trial] for key in self.asked],
        }
        try:
            return encode_json(document).encode("utf-8", "backslashreplace")
        except TypeError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def decode(cls, raw: bytes) -> MeasurementLine:
        """The line that `encode` wrote.

        Raises:
            ValueError: It is no such line.
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
                asked=tuple([RecordingKey(digest, trial) for digest, trial in fields["asked"]]),
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

    Changes are kept in memory until `save`, which makes them to the file as it is by then, so that
    two processes may change it at once.

    Args:
        path: The file.
        own: Whether a shard runs a case.

    Attributes:
        _safe: What is kept elsewhere where the file cannot be written.
        _kind: What a line is, for errors.
        _twice: The error of a second line of a key.
        _fix: The fix of every error.
    """

    _safe: ClassVar[str] = ""
    _kind: ClassVar[str]
    _twice: ClassVar[str]
    _fix: ClassVar[str]

    def __init__(self, path: Path, own: Callable[[str], bool] | None = None) -> None:
        self.path = path
        self._own = own
        self._lines = self._read()
        self._added: dict[str, bool] = {}
        self._removed: set[str] = set()

    def __len__(self) -> int:
        return len(self._lines)

    @abstractmethod
    def _parse(self, raw: bytes) -> tuple[str, _Line] | None:
        """The key of a line and the line; None for one of another shard."""

    @abstractmethod
    def _encoded(self, lines: Mapping[str, _Line]) -> list[bytes]:
        """Lines in their order, without line ends."""

    def _is_same(self, line: _Line, other: _Line) -> bool:
        return line == other

    def _read(self) -> dict[str, _Line]:
        """The lines of the file as it is, by key.

        Raises:
            RecordingError: Lines that cannot be read, all of them at once.
        """
        lines: dict[str, _Line] = {}
        faults: list[Fault] = []
        for number, _, raw in placed_lines_of(self.path):
            try:
                parsed = self._parse(raw)
            except (ValueError, RecursionError) as error:
                problem = f"not a recorded {self._kind}: {error}"
            else:
                if parsed is None or self._is_same(lines.setdefault(*parsed), parsed[1]):
                    continue
                problem = self._twice
            faults.append(Fault(path=self.path, line=number, message=problem, fix=self._fix))
        if faults:
            raise RecordingError(faults)
        return lines

    def added(self) -> list[bytes]:
        """The lines that `save` would write, in their order."""
        return self._encoded({key: self._lines[key] for key in self._added})

    def save(self) -> int:
        """Make the changes to the file, atomically; returns how many lines changed.

        Raises:
            RecordingError: It cannot be written, or another process left it unreadable. It is
                then as it was, and the changes are still here.
        """
        if not self._added and not self._removed:
            return 0
        with rewriting(self.path, safe=self._safe):
            before = self._read()
            lines = {key: line for key, line in before.items() if key not in self._removed}
            for key, replace in self._added.items():
                if replace or key not in lines:
                    lines[key] = self._lines[key]
            changed = sum(before.get(key) != line for key, line in lines.items())
            changed += len(before.keys() - lines.keys())
            if changed:
                write_whole(self.path, [line + b"\n" for line in self._encoded(lines)])
        self._lines, self._added, self._removed = lines, {}, set()
        return changed


# The first key of a line as we write it: a line of another shard is not parsed.
_CASE: Final = re.compile(rb'\{"case":"([^"\\]*)",')


class MeasurementsFile(_LinesFile[MeasurementLine]):
    """The recorded measurements of one prompt, one line each, sorted by case, judge and trial.

    Args:
        path: The file.
        own: Whether a shard runs a case; the measurements of others are left out, and such a file
            is not saved.

    Raises:
        RecordingError: Lines that cannot be read, all of them at once.
    """

    _safe = "the judges' calls are safe in the local store"
    _kind = "measurement"
    _twice = "another measurement of what a line above measures"
    _fix = "delete the line; it is worked out again from the recorded calls: regauge record"

    def _parse(self, raw: bytes) -> tuple[str, MeasurementLine] | None:
        case = _CASE.match(raw) if self._own is not None else None
        if case and self._own and not self._own(case[1].decode("utf-8", "replace")):
            return None
        line = MeasurementLine.decode(raw)
        return line.key, line

    def _is_same(self, line: MeasurementLine, other: MeasurementLine) -> bool:
        return line.measurement == other.measurement

    def _encoded(self, lines: Mapping[str, MeasurementLine]) -> list[bytes]:
        return [line.encode() for line in sorted(lines.values(), key=_order)]

    def get(self, key: str) -> MeasurementLine | None:
        """The measurement, or None."""
        return self._lines.get(key)

    def put(self, line: MeasurementLine, *, replace: bool) -> None:
        """Take a measurement in.

        Args:
            line: The measurement.
            replace: Whether it goes before one recorded earlier.
        """
        existing = self._lines.get(line.key)
        if existing is not None and (not replace or existing.measurement == line.measurement):
            return
        self._lines[line.key] = line
        self._added[line.key] = replace

    def unused(self, keep: Collection[str]) -> list[MeasurementLine]:
        """The lines whose keys are not in `keep`, in the order of the file."""
        return sorted((x for key, x in self._lines.items() if key not in keep), key=_order)

    def prune(self, keep: Collection[str]) -> int:
        """Drop every line whose key is not in `keep`; returns how many there were."""
        stale = [key for key in self._lines if key not in keep]
        for key in stale:
            del self._lines[key]
            self._added.pop(key, None)
        self._removed.update(stale)
        return len(stale)


def _order(line: MeasurementLine) -> tuple[str, str, int, str]:
    return (line.case, line.judge, line.trial, line.key)


_FLOAT_BYTES: Final = 4
# Besides what file systems refuse, a name of a model may hold what they take for a path.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class VectorsFile(_LinesFile[bytes]):
    """The recorded vectors of one embedding model, one line each, sorted by digest.

    Numbers are kept as float32: each is off by 6e-8 of itself at the most, and a cosine by less
    than 3e-7. Texts are not kept, only the digest of model and text.

    Args:
        path: The file.
        model: As `provider:model`.

    Raises:
        RecordingError: Lines that cannot be read, all of them at once.
    """

    _kind = "vector"
    _twice = "another vector of a text that has one above"
    _fix = "delete the line, then record what is missing: pytest evals --record=missing"

    def __init__(self, path: Path, *, model: str) -> None:
        super().__init__(path)
        self._model = model

    def _parse(self, raw: bytes) -> tuple[str, bytes]:
        return check_vector(raw.strip()), raw.strip()

    def _encoded(self, lines: Mapping[str, bytes]) -> list[bytes]:
        return [lines[key] for key in sorted(lines)]

    @classmethod
    def for_model(cls, directory: Path, model: str) -> VectorsFile:
        """The file of a model below the directory of recordings; it need not exist.

        Raises:
            RecordingError: Lines that cannot be read, all of them at once.
        """
        name = _UNSAFE.sub("-", model.replace(":", ".", 1))
        return cls(directory / "embeddings" / f"{name}.jsonl", model=model)

    def __contains__(self, text: str) -> bool:
        return self._key(text) in self._lines

    def get(self, text: str) -> tuple[float, ...] | None:
        """The vector of a text, or None."""
        line = self._lines.get(self._key(text))
        return None if line is None else _parse_vector(line)[1]

    def keep_only(self, data: bytes | None) -> None:
        """Forget the lines that another version of the file does not hold byte for byte."""
        held = {line.strip() for line in (data or b"").splitlines()}
        self._lines = {key: line for key, line in self._lines.items() if line in held}

    def put(self, text: str, vector: Sequence[float], *, replace: bool) -> None:
        """Take a vector in; `get` then gives it as a replay will find it.

        Args:
            text: The text.
            vector: Its vector.
            replace: Whether it goes before one recorded earlier, by another process too.

        Raises:
            ValueError: It is no vector of float32.
        """
        key = self._key(text)
        if key in self._lines and not replace:
            return
        line = _line(key, self._model, vector)
        if self._lines.get(key) != line:
            self._lines[key] = line
            self._added[key] = replace

    def _key(self, text: str) -> str:
        return digest_of({"model": self._model, "text": text})


def _line(key: str, model: str, vector: Sequence[float]) -> bytes:
    try:
        packed = struct.pack(f"<{len(vector)}f", *vector)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"no vector of float32: {error}") from error
    line = {"digest": key, "float32": b64encode(packed).decode(), "model": model}
    return canonical_json(line).encode("utf-8", "backslashreplace")


def _parse_vector(raw: bytes) -> tuple[str, tuple[float, ...]]:
    """The key and the vector of a line.

    Raises:
        ValueError: It is no such line.
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
        raise ValueError("float32 holds what is no number")
    return key, vector


def check_vector(raw: bytes) -> str:
    """The key of a line.

    Raises:
        ValueError: It is no line of a vector.
    """
    return _parse_vector(raw)[0]
