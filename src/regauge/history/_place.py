"""The location of the store: a file of SQLite or a server of PostgreSQL, and how they differ."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from regauge.errors import StoreError, UsageError, explain_os_error, find_no_descriptor
from regauge.on_demand import install_command
from regauge.project import is_store_url, redact_store_url

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project

VARIABLE: Final = "REGAUGE_STORE"
_FILE: Final = "history.sqlite3"
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = re.compile(r"[^:]+://")
_PERMISSION: Final = "give write permission for the file and its directory"
# Longer than merging one run locks the file; after that, another program blocks it.
_BUSY_S: Final = 30
# Limits of a connection attempt and of an unreachable server, so that no run hangs at its end.
_SERVER: Final[dict[str, Any]] = {
    "application_name": "regauge",
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
}
# A number that no other program uses for an advisory lock.
_LOCK: Final = 0x7265_6761_7567_65


_Fixes: TypeAlias = "Sequence[tuple[str, str]]"
_FILE_FIXES: Final = (
    ("locked|busy", "another process keeps it locked: wait for it, then run the command again"),
    ("full|disk I/O", "make room on the disk, then: regauge runs list --sync"),
    ("readonly|unable to open", _PERMISSION),
    ("", ""),
)
_SERVER_FIXES: Final = (
    (
        "permission denied for table",
        "let its owner grant it: GRANT ALL ON ALL TABLES IN SCHEMA public TO <user>",
    ),
    ("permission denied", "let its owner grant it: GRANT USAGE, CREATE ON SCHEMA public TO <user>"),
    (
        "authentication failed|no password|role .* does not exist",
        "check the user and the password in REGAUGE_STORE",
    ),
    ("database .* does not exist", "make it: createdb <name>"),
    ("(relation|column) .* does not exist|violates", ""),
    ("timeout|lock", "end what locks its tables, then: regauge runs list --sync"),
    ("", "check that the server runs and can be reached, then: regauge runs list --sync"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """A file of SQLite.

    Attributes:
        display: The location, for messages.
        is_project_file: Whether it is the project's own file, made from the runs next to it.
        placeholder: What stands for a value in a statement.
        begin: The statements that begin a writing transaction.
        schema_query: Selects a row if the table of schema steps exists.
        fixes: Words of messages, and the fix; an empty fix for damaged content.
    """

    file: Path
    display: str
    is_project_file: bool
    placeholder: ClassVar[str] = "?"
    # SQLite waits for other writers before the first read.
    begin: ClassVar[Sequence[str]] = ("BEGIN IMMEDIATE",)
    lock: ClassVar[str] = ""
    schema_query: ClassVar[str] = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'regauge_schema'"
    )
    fixes: ClassVar[_Fixes] = _FILE_FIXES

    def driver(self) -> Any:
        """The database driver, a module of PEP 249."""
        return sqlite3

    def connect(self) -> Any:
        """A new connection."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # Without an isolation level, the driver begins no transaction of its own.
        return sqlite3.connect(self.file, timeout=_BUSY_S, isolation_level=None)

    @property
    def damage_fix(self) -> str:
        """The fix for damaged content, or that of another program."""
        return (
            f"move it away: mv {quote(self.display)} {quote(self.display)}.damaged\n"
            "  nothing is lost that is still in .regauge/runs:"
            " `regauge runs list --sync` imports it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A server of PostgreSQL, with the attributes of `FilePlace`.

    Attributes:
        url: Its URL for libpq, perhaps with a password.
        display: The URL without passwords.
    """

    url: str
    display: str
    is_project_file: ClassVar[bool] = False
    placeholder: ClassVar[str] = "%s"
    begin: ClassVar[Sequence[str]] = (
        "SET LOCAL lock_timeout = '30s'",
        "SET LOCAL statement_timeout = '60s'",
    )
    # One process after the other changes the schema.
    lock: ClassVar[str] = f"SELECT pg_advisory_xact_lock({_LOCK})"
    schema_query: ClassVar[str] = "SELECT 1 WHERE to_regclass('regauge_schema') IS NOT NULL"
    fixes: ClassVar[_Fixes] = _SERVER_FIXES

    def driver(self) -> Any:
        """The database driver.

        Raises:
            ImportError: It is not installed.
        """
        return importlib.import_module("psycopg")

    def connect(self) -> Any:
        """A new connection."""
        driver = self.driver()
        try:
            options = driver.conninfo.conninfo_to_dict(self.url)
        except (driver.ProgrammingError, ValueError) as error:
            fix = "write postgresql://USER@HOST/DATABASE, with special characters as %XX"
            raise StoreError(self.display, "its URL cannot be read", fix) from error
        # Poolers between here and the server do not keep prepared statements.
        return driver.connect(prepare_threshold=None, **(_SERVER | options))

    @property
    def damage_fix(self) -> str:
        """The fix for damaged content, or that of another program."""
        return (
            "drop its tables regauge_*, then import what this machine has: regauge runs list --sync"
        )


StorePlace: TypeAlias = FilePlace | ServerPlace


def find_store(project: Project, environ: Mapping[str, str]) -> StorePlace:
    """The store from `REGAUGE_STORE`, `[tool.regauge] store`, or the project's own file.

    Raises:
        UsageError: The URL is of an unknown database.
    """
    url = environ.get(VARIABLE, "").strip() or project.settings.store or ""
    if url and not is_store_url(url):
        message = f"{VARIABLE} is not a store that regauge can use: {redact_store_url(url)!r}"
        fix = "write postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
        raise UsageError(message, fix=fix)
    if url and not url.startswith(_SQLITE):
        server = _POSTGRESQL.sub("postgresql://", url, count=1)
        return ServerPlace(url=server, display=redact_store_url(url))
    path = url.removeprefix(_SQLITE)
    file = project.root / path if url else project.state_dir / _FILE
    return FilePlace(file=file, display=str(project.relative(file)), is_project_file=not url)


@contextmanager
def explain_errors(place: StorePlace) -> Generator[None]:
    """Turn errors of the driver or the system into a `StoreError`.

    Raises:
        StoreError: The driver or the system raised an error.
    """
    try:
        yield
    except ImportError as error:
        problem = "PostgreSQL needs psycopg, which is not installed"
        raise StoreError(place.display, problem, install_command("psycopg")) from error
    except OSError as error:
        problem, fix = explain_os_error(error)
        raise StoreError(place.display, problem, fix or _PERMISSION) from error
    except place.driver().Error as error:
        words = str(error)
        problem = words.strip().partition("\n")[0].rstrip() or "no reason given"
        fix = next(fix for pattern, fix in place.fixes if re.search(pattern, words))
        if isinstance(place, FilePlace) and place.file.is_dir():
            problem, fix = "it is a directory", ""
        if "unable to open" in words and (no_descriptor := find_no_descriptor()) is not None:
            problem, fix = explain_os_error(no_descriptor)
        raise StoreError(place.display, problem, fix or place.damage_fix) from error
