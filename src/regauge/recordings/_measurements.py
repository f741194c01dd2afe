"""Measurements of judges, committed: `fixtures/recordings/verdicts/<prompt>.jsonl`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.atomic import write_whole
from regauge.errors import Fault, RecordingError
from regauge.recordings._file import RecordingKey, lines_of, rewriting
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from regauge.digests import JSON

__all__ = ["MeasurementLine", "MeasurementsFile"]

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_SAFE: Final = "the judges' calls are safe in the local store"
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
).encode


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
            return _ENCODE(document).encode("utf-8", "backslashreplace")
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
        given = cast("dict[str, Any]", document)
        try:
            line = cls(
                key=given["key"],
                case=given["case"],
                judge=given["judge"],
                trial=given["trial"],
                measurement=given["measurement"],
                asked=tuple([RecordingKey(digest, trial) for digest, trial in given["asked"]]),
                totals=given["totals"],
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


class MeasurementsFile:
    """The recorded measurements of one prompt, one line each, sorted by case, judge and trial.

    Changes are kept in memory until `save`, which makes them to the file as it is by then, so
    that two processes may change it at once.

    Args:
        path: The file.
        own: Whether a shard runs a case; the measurements of others are left out, and such a file
            is not saved.

    Raises:
        RecordingError: Lines that cannot be read, all of them at once.
    """

    def __init__(self, path: Path, *, own: Callable[[str], bool] | None = None) -> None:
        self.path = path
        self._lines = _read(path, own)
        self._added: dict[str, tuple[MeasurementLine, bool]] = {}
        self._removed: set[str] = set()

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> MeasurementLine | None:
        """The measurement, or None."""
        return self._lines.get(key)

    def put(self, line: MeasurementLine, *, replace: bool) -> None:
        """Take a measurement in.

        Args:
            line: The measurement.
            replace: Whether it goes before one recorded earlier.
        """
        known = self._lines.get(line.key)
        if known is not None and (not replace or known.measurement == line.measurement):
            return
        self._lines[line.key] = line
        self._added[line.key] = (line, replace)

    def added(self) -> list[bytes]:
        """The lines that `save` would write, in their order."""
        return [x.encode() for x in sorted((x for x, _ in self._added.values()), key=_order)]

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

    def save(self) -> int:
        """Make the changes to the file, atomically; returns how many lines changed.

        Raises:
            RecordingError: It cannot be written, or another process left it unreadable. It is
                then as it was, and the changes are still here.
        """
        if not self._added and not self._removed:
            return 0
        with rewriting(self.path, safe=_SAFE):
            before = _read(self.path)
            lines = {key: x for key, x in before.items() if key not in self._removed}
            for key, (line, replace) in self._added.items():
                if replace or key not in lines:
                    lines[key] = line
            changed = sum(before.get(key) != line for key, line in lines.items())
            changed += sum(key not in lines for key in before)
            if changed:
                ordered = sorted(lines.values(), key=_order)
                write_whole(self.path, b"".join([line.encode() + b"\n" for line in ordered]))
        self._lines, self._added, self._removed = lines, {}, set()
        return changed


def _order(line: MeasurementLine) -> tuple[str, str, int, str]:
    return (line.case, line.judge, line.trial, line.key)


# The first key of a line as we write it: a line of another shard is not parsed.
_CASE: Final = re.compile(rb'\{"case":"([^"\\]*)",')


def _read(path: Path, own: Callable[[str], bool] | None = None) -> dict[str, MeasurementLine]:
    """The lines of a file, by their keys."""
    lines: dict[str, MeasurementLine] = {}
    faults: list[Fault] = []
    for number, raw in lines_of(path):
        case = _CASE.match(raw) if own is not None else None
        if case and own and not own(case[1].decode("utf-8", "replace")):
            continue
        try:
            line = MeasurementLine.decode(raw)
        except (ValueError, RecursionError) as error:
            faults.append(_broken(path, number, f"not a recorded measurement: {error}"))
            continue
        if lines.setdefault(line.key, line).measurement != line.measurement:
            faults.append(
                _broken(path, number, "another measurement of what a line above measures")
            )
    if faults:
        raise RecordingError(faults)
    return lines


def _broken(path: Path, number: int, message: str) -> Fault:
    fix = "delete the line; it is worked out again from the recorded calls: regauge record"
    return Fault(path=path, line=number, message=message, fix=fix)
