"""A checkout of the base in a worktree, whose code runs next to the change's."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from regauge.atomic import try_lock
from regauge.errors import GitError, ProviderError
from regauge.git import git

if TYPE_CHECKING:
    from regauge.prompts import Repository


_CHECKOUT: Final = "regauge-base-"


class Checkout:
    """The files of a commit in a detached worktree, created when needed.

    As a context manager, it removes the worktree at the end. Its directory is locked, so that the
    next process finds one that a killed process left.
    """

    def __init__(self, repository: Repository, commit: str, *, prefix: str) -> None:
        self._repository = repository
        self._commit = commit
        self._prefix = prefix
        self._directory: Path | None = None
        self._lock: int | None = None

    def project(self) -> Path:
        """The root of the project in the worktree.

        Raises:
            ProviderError: The worktree cannot be created.
        """
        if self._directory is None:
            directory = Path(tempfile.mkdtemp(prefix=_CHECKOUT)).resolve()
            self._lock = _lock_at_once(directory)
            try:
                for root, folder, commit in self._parts():
                    _remove_abandoned(root)
                    git(root, "worktree", "add", "--detach", str(directory / folder), commit)
            except GitError as error:
                self._remove(directory)
                raise ProviderError(
                    f"the code of the base cannot be checked out: {error}", kind="unavailable"
                ) from error
            self._directory = directory
        return self._directory / self._prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            self._remove(directory)

    def _remove(self, directory: Path) -> None:
        for root, folder, _ in reversed(self._parts()):
            with suppress(GitError):
                git(root, "worktree", "remove", "--force", str(directory / folder))
        shutil.rmtree(directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _parts(self) -> list[tuple[Path, str, str]]:
        """The repository and its submodules: work tree, path from the top, and commit."""
        top = self._repository.top
        submodules = self._repository.submodules(self._commit)
        return [
            (top, "", self._commit),
            *((top / folder, folder, commit) for folder, commit in submodules.items()),
        ]


def _remove_abandoned(root: Path) -> None:
    """Remove checkouts of a repository whose process was killed."""
    for line in os.fsdecode(git(root, "worktree", "list", "--porcelain")).splitlines():
        kind, _, path = line.partition(" ")
        places = (place for place in (Path(path), *Path(path).parents) if kind == "worktree")
        place = next((place for place in places if place.name.startswith(_CHECKOUT)), None)
        if place is None:
            continue
        lock = _lock_at_once(place)
        if lock is None and place.exists():
            continue  # its process runs
        with suppress(GitError):
            git(root, "worktree", "remove", "--force", path)
        if lock is not None:
            os.close(lock)


def _lock_at_once(directory: Path) -> int | None:
    """Lock a directory until the returned descriptor is closed; None if it cannot be locked."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None
