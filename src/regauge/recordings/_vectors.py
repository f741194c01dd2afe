"""Vectors that are committed: `fixtures/recordings/embeddings/<provider>.<model>.jsonl`."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from regauge.atomic import write_whole
from regauge.digests import canonical_json, digest_of
from regauge.errors import Fault, RecordingError
from regauge.recordings._file import lines_of, rewriting
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["VectorsFile", "check_vector"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FLOAT_BYTES: Final = 4
# Besides what file systems refuse, a name of a model may hold what they take for a path.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class VectorsFile:
    """The recorded vectors of one embedding model, one line each, sorted by digest.

    Numbers are kept as float32: each is off by 6e-8 of itself at the most, and a cosine by less
    than 3e-7. Texts are not kept, only the digest of model and text. Changes are kept in memory
    until `save`, which makes them to the file as it is by then, so that two processes may change
    it at once.

    Args:
        path: The file.
        model: As `provider:model`.

    Raises:
        RecordingError: Lines that cannot be read, all of them at once.
    """

    def __init__(self, path: Path, *, model: str) -> None:
        self.path = path
        self._model = model
        self._lines = _read(path)
        self._added: dict[str, bool] = {}

    @classmethod
    def of(cls, directory: Path, model: str) -> VectorsFile:
        """The file of a model below the directory of recordings; it need not exist.

        Raises:
            RecordingError: Lines that cannot be read, all of them at once.
        """
        name = _UNSAFE.sub("-", model.replace(":", ".", 1))
        return cls(directory / "embeddings" / f"{name}.jsonl", model=model)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, text: str) -> bool:
        return self._key(text) in self._lines

    def get(self, text: str) -> tuple[float, ...] | None:
        """The vector of a text, or None."""
        line = self._lines.get(self._key(text))
        return None if line is None else _parsed(line)[1]

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

    def added(self) -> list[bytes]:
        """The lines that `save` would write, in their order."""
        return [self._lines[key] for key in sorted(self._added)]

    def save(self) -> int:
        """Make the changes to the file, atomically; returns how many lines changed.

        Raises:
            RecordingError: It cannot be written, or another process left it unreadable. It is
                then as it was, and the changes are still here.
        """
        if not self._added:
            return 0
        with rewriting(self.path):
            before = _read(self.path)
            lines = dict(before)
            for key, replace in self._added.items():
                if replace or key not in lines:
                    lines[key] = self._lines[key]
            changed = sum(before.get(key) != line for key, line in lines.items())
            if changed:
                write_whole(self.path, b"".join(lines[key] + b"\n" for key in sorted(lines)))
        self._lines, self._added = lines, {}
        return changed

    def _key(self, text: str) -> str:
        return digest_of({"model": self._model, "text": text})


def _line(key: str, model: str, vector: Sequence[float]) -> bytes:
    try:
        packed = struct.pack(f"<{len(vector)}f", *vector)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"no vector of float32: {error}") from error
    line = {"digest": key, "float32": b64encode(packed).decode(), "model": model}
    return canonical_json(line).encode("utf-8", "backslashreplace")


def _parsed(raw: bytes) -> tuple[str, tuple[float, ...]]:
    """The key and the vector of a line.

    Raises:
        ValueError: It is no such line.
    """
    document: Any = read_json(raw)
    try:
        key, packed = document["digest"], b64decode(document["float32"], validate=True)
    except (TypeError, KeyError) as error:
        raise ValueError("a vector has `digest` and `float32`") from error
    if not isinstance(key, str) or _DIGEST.fullmatch(key) is None:
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
    return _parsed(raw)[0]


def _read(path: Path) -> dict[str, bytes]:
    """The lines of a file, by their keys."""
    lines: dict[str, bytes] = {}
    faults: list[Fault] = []
    for number, line in lines_of(path):
        raw = line.strip()
        try:
            key, _ = _parsed(raw)
        except (ValueError, RecursionError) as error:
            faults.append(_broken(path, number, f"not a recorded vector: {error}"))
            continue
        if lines.setdefault(key, raw) != raw:
            faults.append(_broken(path, number, "another vector of a text that has one above"))
    if faults:
        raise RecordingError(faults)
    return lines


def _broken(path: Path, number: int, message: str) -> Fault:
    fix = "delete the line, then record what is missing: pytest evals --record=missing"
    return Fault(path=path, line=number, message=message, fix=fix)
