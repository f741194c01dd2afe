"""Where the history is kept: a file of the project, or a database that a team shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.errors import UsageError
from regauge.project import is_store, shown_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.project import Project

__all__ = ["VARIABLE", "StorePlace"]

VARIABLE: Final = "REGAUGE_STORE"

_FILE: Final = "history.sqlite3"
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = re.compile(r"[^:]+://")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """Where the history is kept.

    Attributes:
        url: Of a server, as libpq reads it; it may hold a password. Empty for a file.
        shown: The place without passwords, for messages.
        file: The database file; None for a server.
        own: Whether it is the project's own file, which is made from the runs beside it.
    """

    url: str
    shown: str
    file: Path | None
    own: bool

    @classmethod
    def of(cls, project: Project, environ: Mapping[str, str]) -> StorePlace:
        """What `REGAUGE_STORE` says, else `[tool.regauge] store`, else the project's own file.

        Raises:
            UsageError: The URL is of no database that regauge knows.
        """
        named = environ.get(VARIABLE, "").strip()
        url = named or project.settings.store
        if not url:
            file = project.state_dir / _FILE
            return cls(url="", shown=str(project.relative(file)), file=file, own=True)
        if not is_store(url):
            raise UsageError(
                f"{VARIABLE} is not a store that regauge can use: {shown_store(url)!r}\n"
                "  fix: postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
            )
        if url.startswith(_SQLITE):
            file = project.root / url.removeprefix(_SQLITE)
            return cls(url="", shown=str(project.relative(file)), file=file, own=False)
        server = _POSTGRESQL.sub("postgresql://", url, count=1)
        return cls(url=server, shown=shown_store(url), file=None, own=False)
