"""Long texts kept in files of their own: `{"file": "sources/report.md"}`."""

from __future__ import annotations

import errno
from pathlib import Path, PurePosixPath
from typing import cast

from regauge.regular_file import read_regular
from regauge.wording import closest

__all__ = ["Texts", "file_reference"]

_LISTED_MAX = 500
_SHOWN_MAX = 100
# No model takes a text of this size: 64 MiB.
_BYTES_MAX = 64 * 1024 * 1024


def file_reference(value: object) -> str | None:
    """The path in `{"file": "path"}`; None for every other value."""
    if isinstance(value, dict) and len(mapping := cast("dict[str, object]", value)) == 1:
        path = mapping.get("file")
        return path if isinstance(path, str) else None
    return None


def _short(reference: str) -> str:
    return repr(reference) if len(reference) <= _SHOWN_MAX else f"{reference[:_SHOWN_MAX]!r}..."


class Texts:
    """Reads the files that cases refer to, each once, and none outside the fixtures folder."""

    def __init__(self, fixtures_dir: Path) -> None:
        self._shown = fixtures_dir.name
        self._root = fixtures_dir.resolve()
        self._read: dict[str, str | ValueError] = {}

    def text(self, reference: str) -> str:
        r"""The text of a file, without byte order mark and with `\n` for every line end.

        So the digest of a case is the same on every machine, however git checks files out.

        Args:
            reference: The path from the fixtures folder, with `/` between its parts.

        Raises:
            ValueError: The path leaves the folder, names no file, or the file is not UTF-8.
        """
        if reference not in self._read:
            try:
                self._read[reference] = self._load(reference)
            except ValueError as error:
                self._read[reference] = error
        found = self._read[reference]
        if isinstance(found, ValueError):
            raise found
        return found

    def _load(self, reference: str) -> str:
        inner = PurePosixPath(reference)
        if not reference.strip() or "\\" in reference or "\0" in reference:
            raise ValueError(
                f"{reference!r} is no path: write it with / from the folder {self._shown!r}"
            )
        if inner.is_absolute() or ".." in inner.parts or ":" in "".join(inner.parts[:1]):
            raise ValueError(
                f"the file {reference!r} is not named by its path inside the folder {self._shown!r}"
            )
        try:
            path = (self._root / inner).resolve()
            if not path.is_relative_to(self._root):
                raise ValueError(
                    f"the file {reference!r} is a link that leaves the folder {self._shown!r}"
                )
            data = read_regular(path, bytes_max=_BYTES_MAX)
        except FileNotFoundError:
            raise ValueError(self._missing(reference, inner)) from None
        except RuntimeError as error:
            raise ValueError(f"the file {reference!r} is a link to itself") from error
        except OSError as error:
            # Until Python 3.12 a loop of links is a RuntimeError, from 3.13 on it is this.
            if error.errno == errno.ELOOP:
                raise ValueError(f"the file {reference!r} is a link to itself") from error
            reason = (error.strerror or str(error)).lower()
            raise ValueError(f"the file {_short(reference)} cannot be read: {reason}") from error
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(f"the file {reference!r} is not UTF-8, see its line {line}") from error
        return text.replace("\r\n", "\n")

    def _missing(self, reference: str, inner: PurePosixPath) -> str:
        folder = self._root / inner.parent
        names: list[str] = []
        if folder.is_dir():
            names = sorted(path.name for path in folder.iterdir())[:_LISTED_MAX]
        near = closest(inner.name, names)
        hint = f"; did you mean {str(inner.parent / near)!r}?" if near else ""
        return f"there is no file {reference!r} in the folder {self._shown!r}{hint}"
