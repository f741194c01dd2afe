"""Recorded files of a run, each read once; one that cannot be read says so every time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from regauge.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Opened"]

_File = TypeVar("_File")


class Opened(Generic[_File]):
    """Opens files by name, for several threads; iterates over those that could be read.

    Args:
        read: Reads the file of a name.
    """

    def __init__(self, read: Callable[[str], _File]) -> None:
        self._read = read
        self._known: dict[str, _File | RecordingError] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[_File]:
        with self._lock:
            known = tuple(self._known.values())
        return (file for file in known if not isinstance(file, RecordingError))

    def file(self, name: str) -> _File:
        """The file of a name.

        Raises:
            RecordingError: It cannot be read.
        """
        with self._lock:
            known = self._known.get(name)
            if known is None:
                try:
                    known = self._read(name)
                except RecordingError as error:
                    known = error
                self._known[name] = known
        if isinstance(known, RecordingError):
            raise known.with_traceback(None)
        return known
