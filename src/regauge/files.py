"""Files: only regular ones are read, and each is replaced as a whole."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest file that is read: 1 GiB."""

LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
"""The beginning of a file that stands for one in Git LFS."""

_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_MIB: Final = 1024 * 1024
# Where the system gives up waiting for a lock, as Windows does: shorter pauses gain nothing that a
# user could see.
_LOCK_POLL_S: Final = 0.05
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_regular(path: Path, *, bytes_max: int = BYTES_MAX) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        bytes_max: A larger file is refused before it is read.

    Raises:
        OSError: It cannot be read, is too large, or is not a regular file.
    """
    with open_regular(path, bytes_max=bytes_max) as file:
        return file.read()


@contextmanager
def open_regular(path: Path, *, bytes_max: int = BYTES_MAX) -> Generator[BinaryIO]:
    """Open a regular file to read it piece by piece; see `read_regular`.

    Raises:
        OSError: It cannot be read, is too large, or is not a regular file; a pipe is not opened.
    """
    _check(path.stat(), path, bytes_max)
    # It may have become a pipe since, whose opening would block.
    descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    with os.fdopen(descriptor, "rb") as file:
        _check(os.fstat(descriptor), path, bytes_max)
        if file.peek(len(LFS_POINTER)).startswith(LFS_POINTER):
            message = "it is a pointer of Git LFS, whose content is missing: git lfs pull"
            raise OSError(errno.EINVAL, message, str(path))
        yield file


def _check(status: os.stat_result, path: Path, bytes_max: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = next(
            (words for is_kind, words in _KINDS if is_kind(status.st_mode)), "something else"
        )
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    if status.st_size > bytes_max:
        words = (
            f"it has {-(-status.st_size // _MIB):,} MiB, and {bytes_max // _MIB:,} MiB is the limit"
        )
        raise OSError(errno.EINVAL, words, str(path))


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
    if sys.platform == "win32":
        return  # it opens no directory, and writes its entries itself
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        # The new name of the file is part of the directory, which has its own journal.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_directory(directory: Path) -> int:
    """Open a directory to lock it; on Windows, a file in the temporary directory stands for it.

    Raises:
        OSError: It cannot be opened.
    """
    if sys.platform != "win32":
        return os.open(directory, os.O_RDONLY)
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return os.open(
        Path(tempfile.gettempdir()) / f"regauge-{name}.lock", os.O_CREAT | os.O_RDWR | os.O_BINARY
    )


def try_lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file or directory until it is closed; return False if another process has it.

    Args:
        descriptor: The open file or directory.
        wait: Whether to wait for the lock, as long as the system does.

    Raises:
        OSError: The file system has no locks.
    """
    from portalocker import AlreadyLocked, LockException, LockFlags, lock

    flags = LockFlags.EXCLUSIVE
    try:
        lock(descriptor, flags if wait else flags | LockFlags.NON_BLOCKING)
    except AlreadyLocked:
        return False
    except LockException as error:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
    return True


@contextmanager
def lock_directory(directory: Path) -> Generator[None]:
    """Wait for the exclusive lock on a directory, and hold it; it ends with this process.

    Raises:
        OSError: The directory cannot be opened, or its file system has no locks.
    """
    descriptor = open_directory(directory)
    try:
        while not try_lock(descriptor, wait=True):
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)
