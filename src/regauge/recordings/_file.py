"""Recordings that are committed: `fixtures/recordings/<prompt>.jsonl`."""

from __future__ import annotations

import json
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Final

from regauge.atomic import write_whole
from regauge.errors import Fault, RecordingError
from regauge.recordings._lines import lines_of, rewriting
from regauge.recordings._recording import Recording, RecordingKey, encode_line
from regauge.recordings._redact import Redactor
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["RecordingsFile"]

_SAFE: Final = "the answers are safe in the local store"
_MARKERS: Final = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")


class _Line:
    """One line: the bytes as they stand in the file, and what it is found by."""

    __slots__ = ("case", "key", "model", "raw")

    def __init__(self, raw: bytes, recording: Recording) -> None:
        self.raw = raw
        self.key = recording.key
        self.case = recording.case
        self.model = recording.model

    def recording(self) -> Recording:
        return Recording.from_json(json.loads(self.raw))


class RecordingsFile:
    """The recorded answers of one prompt, one line each, sorted by case, trial and digest.

    Changes are kept in memory until `save`, which makes them to the file as it is by then, so
    that two processes may change it at once.
    """

    def __init__(
        self, path: Path, lines: Mapping[RecordingKey, _Line], *, redactor: Redactor
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._lines = dict(lines)
        self._cases: Mapping[tuple[str, str], Collection[str]] | None = None
        self._added: dict[RecordingKey, tuple[Recording, bool]] = {}
        self._removed: set[RecordingKey] = set()

    @classmethod
    def load(cls, path: Path, *, redactor: Redactor | None = None) -> RecordingsFile:
        """Read a file; one that does not exist holds nothing.

        Args:
            path: The file.
            redactor: What keeps secrets out of new lines; by default the well-known forms of keys.

        Raises:
            RecordingError: Lines that cannot be read, all of them at once.
        """
        return cls(path, _read(path), redactor=redactor or Redactor())

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: object) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[Recording]:
        """All recordings, in the order of the file."""
        for line in sorted(self._lines.values(), key=_order):
            yield line.recording()

    @property
    def any_replaced(self) -> bool:
        """Whether a line says that its answer replaced another."""
        return any(b'"replaced":' in line.raw for line in self._lines.values())

    def keys(self) -> Collection[RecordingKey]:
        """What is recorded."""
        return self._lines.keys()

    def get(self, key: RecordingKey) -> Recording | None:
        """The answer to one request and draw, or None."""
        line = self._lines.get(key)
        return None if line is None else line.recording()

    def cases_with_other_digest(self, case: str, digest: str, *, model: str) -> bool:
        """Whether the model's answers are recorded for the case, but none for this request.

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
            recording = self._redactor.recording(fresh)
            if self._put(self._lines, recording, replace=replace):
                self._added[recording.key] = (recording, replace)
                changed = True
        if changed:
            self._cases = None
        return changed

    def unused(self, keep: Collection[RecordingKey]) -> list[Recording]:
        """The recordings whose keys are not in `keep`, in the order of the file."""
        stale = [line for key, line in self._lines.items() if key not in keep]
        return [line.recording() for line in sorted(stale, key=_order)]

    def prune(self, keep: Collection[RecordingKey]) -> int:
        """Drop every recording whose key is not in `keep`; returns how many there were.

        What another process adds meanwhile is not touched.
        """
        stale = [key for key in self._lines if key not in keep]
        for key in stale:
            del self._lines[key]
            self._added.pop(key, None)
        self._removed.update(stale)
        self._cases = None
        return len(stale)

    def _by_case(self) -> Mapping[tuple[str, str], Collection[str]]:
        if self._cases is None:
            cases: dict[tuple[str, str], set[str]] = {}
            for line in self._lines.values():
                cases.setdefault((line.case, line.model), set()).add(line.key.digest)
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
            lines = _read(self.path)
            changed = sum(lines.pop(key, None) is not None for key in self._removed)
            for key, (recording, replace) in self._added.items():
                if key not in lines:
                    lines[key] = self._lines[key]  # encoded already
                    changed += 1
                else:
                    changed += self._put(lines, recording, replace=replace)
            ordered = sorted(lines.values(), key=_order)
            content = b"".join([line.raw + b"\n" for line in ordered])
            before = self.path.read_bytes() if self.path.exists() else b""
            if content != before:
                write_whole(self.path, content)
        self._lines = lines
        self._cases = None
        self._added = {}
        self._removed = set()
        return changed

    @staticmethod
    def _put(lines: dict[RecordingKey, _Line], recording: Recording, *, replace: bool) -> bool:
        line = lines.get(recording.key)
        if line is not None and (not replace or line.recording().same_answer(recording)):
            return False
        if line is not None:
            recording = replace_fields(recording, replaced=line.recording().replaced + 1)
        lines[recording.key] = _Line(encode_line(recording), recording)
        return True


def _order(line: _Line) -> tuple[str, int, str]:
    return (line.case, line.key.trial, line.key.digest)


def _read(path: Path) -> dict[RecordingKey, _Line]:
    lines: dict[RecordingKey, _Line] = {}
    numbers: dict[RecordingKey, int] = {}
    faults: list[Fault] = []
    for number, raw in lines_of(path):
        try:
            line = _Line(raw, Recording.from_json(read_json(raw)))
        except (ValueError, RecursionError) as error:
            faults.append(_broken(path, number, raw, error))
            continue
        known = lines.setdefault(line.key, line)
        first = numbers.setdefault(line.key, number)
        if known is not line and known.raw != raw:
            faults.append(
                Fault(
                    path=path,
                    line=number,
                    message=f"another answer to the request of line {first} (case {line.case!r})",
                    fix="keep one of the two lines",
                )
            )
    if faults:
        raise RecordingError(faults)
    return lines


def _broken(path: Path, number: int, raw: bytes, error: Exception) -> Fault:
    if raw.startswith(_MARKERS):
        return Fault(
            path=path,
            line=number,
            message="a merge conflict is not resolved",
            fix="keep the lines of both sides, or those of one, and delete the markers",
        )
    return Fault(
        path=path,
        line=number,
        message=f"not a recording: {error}",
        fix="delete the line, then record it again: pytest evals --record=missing",
    )
