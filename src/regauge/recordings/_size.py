"""Recordings files near the size that GitHub refuses."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from regauge.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from regauge.project import Project

__all__ = ["warn_of_sizes"]

_MIB: Final = 1024 * 1024
# https://docs.github.com/en/repositories/working-with-files/managing-large-files
_WARN_MIB: Final = 50
_REFUSED_MIB: Final = 100


def warn_of_sizes(project: Project, paths: Iterable[Path] | None = None) -> list[Fault]:
    """A warning for each file that is large for GitHub.

    Args:
        project: Whose files.
        paths: The files, from the root of the project; by default all recordings.
    """
    if paths is None:
        paths = sorted(project.recordings_dir.rglob("[!.]*.jsonl"))
    faults = (_warn_of_size(project, project.root / path) for path in paths)
    return [fault for fault in faults if fault is not None]


def _warn_of_size(project: Project, path: Path) -> Fault | None:
    try:
        status = path.stat()
    except OSError:
        return None  # where it is read, it is refused
    size = status.st_size / _MIB
    if not stat.S_ISREG(status.st_mode) or size <= _WARN_MIB:
        return None
    refused = size > _REFUSED_MIB
    words = f"GitHub {'refuses' if refused else 'will refuse'} files above {_REFUSED_MIB} MiB"
    return Fault(
        path=project.relative(path),
        line=None,
        message=f"the file has {size:,.0f} MiB, and {words}",
        fix="remove stale recordings (regauge record --prune), record fewer trials, or limit the"
        " outputs (max_tokens)",
    )
