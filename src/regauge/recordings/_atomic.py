"""Writing a file whole or not at all, one process at a time."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["exclusive", "write_whole"]


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


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by one with `content`; a failure at any point leaves the old one as it was.

    Raises:
        OSError: It cannot be written.
    """
    target = path.resolve()
    draft = Path(f"{target.parent}/.{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        # The new name of the file is part of the directory, which has its own journal.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
