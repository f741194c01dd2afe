"""One process at a time in a directory."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

__all__ = ["exclusive"]


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
