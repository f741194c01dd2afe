"""Atomic writing of files: readers see all of the old content or all of the new."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace the content of a file atomically; a failure leaves the old content.

    Pieces of content are written one after the other. Permissions and a symbolic link at the path
    are kept.

    Raises:
        OSError: The file cannot be written, or is a device or a pipe; `filename` names it.
    """
    target = path.resolve()
    # A link may lead to a device, which a rename would replace.
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(f"{target.parent}/.{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with draft.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None  # not that of the draft
        raise
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no directory, and writes its entries itself
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        # The new name of the file is part of the directory, which has its own journal.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory until it is closed; return False if another process has it.

    True on systems without such locks.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
