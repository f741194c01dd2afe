"""The failures of a database as errors with a fix."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import StoreError, explain_os_error, find_no_descriptor
from regauge.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Generator

    from regauge.history._place import StorePlace

__all__ = ["URL_FIX", "damaged", "driver_of", "explained"]

_PERMISSION: Final = "give write permission for the file and its directory"
# Words of the database, and what to do; nothing where its content is not what it should be.
_OF_A_FILE: Final = (
    ("locked|busy", "another process holds it for long: let it end, then run the command again"),
    ("full|disk I/O", "make room on the disk, then: regauge runs --sync"),
    ("readonly|unable to open", _PERMISSION),
)
_OF_A_SERVER: Final = (
    ("permission denied", "let its owner grant it: GRANT USAGE, CREATE ON SCHEMA public TO <user>"),
    (
        "authentication failed|no password|role .* does not exist",
        "check the user and the password in REGAUGE_STORE",
    ),
    ("database .* does not exist", "make it: createdb <name>"),
    ("(relation|column) .* does not exist|violates", ""),
    ("timeout|lock", "look for what holds its tables, then: regauge runs --sync"),
)
_SERVER: Final = "check that the server runs and can be reached, then: regauge runs --sync"
URL_FIX: Final = "postgresql://USER@HOST/DATABASE; write special characters of a password as %XX"


@contextmanager
def explained(place: StorePlace) -> Generator[None]:
    """Turn what the driver raises into words.

    Raises:
        StoreError: For any error of the driver, or of the system.
    """
    try:
        yield
    except ImportError as error:
        raise StoreError(
            place.shown,
            "PostgreSQL needs psycopg, which is not installed",
            install_command("psycopg"),
        ) from error
    except OSError as error:
        what, fix = explain_os_error(error)
        raise StoreError(place.shown, what, fix or _PERMISSION) from error
    except driver_of(place).Error as error:
        words = str(error)
        what, fix = _first_line(words), _fix(place, words)
        if "unable to open" in words and (no_descriptor := find_no_descriptor()) is not None:
            what, fix = explain_os_error(no_descriptor)
        raise StoreError(place.shown, what, fix) from error


def driver_of(place: StorePlace) -> Any:
    """The driver, a module of PEP 249.

    Raises:
        ImportError: That of PostgreSQL is not installed.
    """
    return sqlite3 if place.file is not None else importlib.import_module("psycopg")


def damaged(place: StorePlace) -> str:
    """What to do about a database that is none, or none of ours."""
    if place.file is None:
        return "drop its tables regauge_*, then import what this machine has: regauge runs --sync"
    return (
        f"move it away: mv {place.shown} {place.shown}.damaged\n"
        "  nothing is lost that is still in .regauge/runs: `regauge runs --sync` imports it"
    )


def _fix(place: StorePlace, said: str) -> str:
    """What to do, by the words of SQLite or of PostgreSQL."""
    known = _OF_A_SERVER if place.file is None else _OF_A_FILE
    for pattern, fix in known:
        if re.search(pattern, said):
            return fix or damaged(place)
    return damaged(place) if place.file is not None else _SERVER


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"
