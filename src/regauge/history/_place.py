"""Where the history is kept: a file of the project, or a database that a team shares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.project import Project

__all__ = ["VARIABLE", "StorePlace"]

VARIABLE: Final = "REGAUGE_STORE"

_FILE: Final = "history.sqlite3"
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = re.compile(r"(postgres|postgresql|postgresql\+psycopg)://")
# A password may hold what ought to be escaped in a URL, so all up to the last @ counts as one.
_PASSWORD: Final = re.compile(r"(?<=//)([^:/@?]*):.*@")
_PARAMETER: Final = re.compile(r"([?&](?:ssl)?password=)[^&]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """Where the history is kept.

    Attributes:
        url: As SQLAlchemy reads it; it may hold a password and is shown to nobody.
        shown: The same for people.
        file: The database file; None of a server.
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
        source = VARIABLE if named else "[tool.regauge] store"
        url = named or project.settings.store
        if not url:
            file = project.state_dir / _FILE
            return cls(
                url=f"{_SQLITE}{file}", shown=str(project.relative(file)), file=file, own=True
            )
        if url.startswith(_SQLITE) and url != _SQLITE:
            file = project.root / url.removeprefix(_SQLITE)
            return cls(
                url=f"{_SQLITE}{file}", shown=str(project.relative(file)), file=file, own=False
            )
        server, found = _POSTGRESQL.subn("postgresql+psycopg://", url, count=1)
        if found and url.startswith("postgres"):
            return cls(url=server, shown=_without_password(url), file=None, own=False)
        raise UsageError(
            f"{source} is no store that regauge knows: {_without_password(url)!r}\n"
            "  fix: postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
        )


def _without_password(url: str) -> str:
    """A URL that may be shown.

    >>> _without_password("postgresql://me:p@ss/word@db/evals?sslpassword=x&sslmode=require")
    'postgresql://me:***@db/evals?sslpassword=***&sslmode=require'
    """
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
