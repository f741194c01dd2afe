"""The files that a target depends on, as they are now or in a commit, and their digests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from regauge.atomic import write_whole
from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from regauge.prompts import Repository

__all__ = ["MODULES_FILE", "CommitFiles", "Files", "WorkingFiles", "digests_of", "loaded_modules"]

MODULES_FILE: Final = "fixtures/recordings/targets.json"
"""The modules that each callable loads, found when its outputs were recorded."""


class Files(Protocol):
    """The files of a project; paths are relative to its root, with slashes."""

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        ...

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        ...


@dataclass(frozen=True, slots=True)
class WorkingFiles:
    """The files as they are now."""

    root: Path

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        return {path: self._read(path) for path in paths}

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        files = (path for path in (self.root / directory).rglob("*") if path.is_file())
        return [path.relative_to(self.root).as_posix() for path in files]

    def _read(self, path: str) -> bytes | None:
        try:
            return read_regular(self.root / path)
        except OSError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """The files of a commit.

    Attributes:
        prefix: The project's root below the top of the repository; "." where it is the top.
    """

    repository: Repository
    commit: str
    prefix: str

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes | None]:
        """The contents of files; None for each that does not exist."""
        paths = list(paths)
        places = [(self.commit, self._place(path)) for path in paths]
        return dict(zip(paths, self.repository.read_all(places), strict=True))

    def below(self, directory: str) -> list[str]:
        """The files of a directory and its subdirectories."""
        names = self.repository.files(self.commit, self._place(directory))
        return [PurePosixPath(name).relative_to(self.prefix).as_posix() for name in names]

    def _place(self, path: str) -> str:
        return (PurePosixPath(self.prefix) / path).as_posix()


def digests_of(files: Files, paths: Iterable[str]) -> dict[str, str | None]:
    """The SHA-256 of each file, those of directories among them; None where there is no such file.

    Hidden files and `__pycache__` below a directory do not count.
    """
    found: dict[str, str | None] = {}
    for path, data in files.read(paths).items():
        if data is not None:
            found[path] = hashlib.sha256(data).hexdigest()
            continue
        inside = [
            name
            for name in files.below(path)
            if not any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
        ]
        if inside:
            found |= digests_of(files, sorted(inside))
        else:
            found[path] = None
    return found


def loaded_modules(
    name: str,
    files: Files,
    *,
    discover: Callable[[], list[str]] | None,
    root: Path,
    others: Iterable[str] = (),
) -> dict[str, str | None]:
    """The modules below the root that importing a callable loads, with their digests.

    They are kept with the recordings. While none of them changes, they load the same modules.

    Args:
        name: The callable, as `module:function`.
        files: Where modules are read.
        discover: Finds the modules by importing the callable in a process; None where no process
            may be started.
        root: Where the modules that were found are kept.
        others: What counts where no modules are known.
    """
    document = _read_modules(files)
    known: Mapping[str, Any] = document.get(name, {})
    found = digests_of(files, known)
    if discover is None or (known and found == known):
        return found or digests_of(files, others or _own_module(name, files))
    found = digests_of(files, discover())
    if found and found != known:
        text = json.dumps({**document, name: found}, indent=1, sort_keys=True, ensure_ascii=False)
        write_whole(root / MODULES_FILE, f"{text}\n".encode())
    return found or digests_of(files, _own_module(name, files))


def _read_modules(files: Files) -> Mapping[str, Mapping[str, Any]]:
    data = files.read([MODULES_FILE])[MODULES_FILE]
    try:
        document: object = json.loads(data or b"{}")
    except ValueError:
        return {}  # such as with the marks of a merge; the next recording writes it again
    if not isinstance(document, dict):
        return {}
    tables = cast("dict[str, object]", document)
    return {
        name: cast("Mapping[str, Any]", table)
        for name, table in tables.items()
        if isinstance(table, dict)
    }


def _own_module(name: str, files: Files) -> list[str]:
    """The file of a callable's module, where it is in one of the usual places."""
    stem = name.partition(":")[0].replace(".", "/")
    places = [f"{top}{stem}{end}" for top in ("", "src/") for end in (".py", "/__init__.py")]
    return [path for path, data in files.read(places).items() if data is not None]
