"""What the failures of a database mean to whoever runs evals."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from regauge.errors import StoreError, explain_os_error, find_no_descriptor

if TYPE_CHECKING:
    from collections.abc import Generator

    from regauge.history._place import StorePlace

__all__ = ["damaged", "explained"]

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
_URL: Final = "postgresql://USER@HOST/DATABASE; write special characters of a password as %XX"


@contextmanager
def explained(place: StorePlace) -> Generator[None]:
    """Turn what SQLAlchemy raises into words.

    Raises:
        StoreError: Whatever it raised.
    """
    try:
        yield
    except ArgumentError as error:
        raise StoreError(place.shown, "its URL cannot be read", _URL) from error
    except SQLAlchemyError as error:
        # The driver's own words: those of SQLAlchemy quote the statement with all its values.
        said = str(getattr(error, "orig", None) or error)
        what, fix = _first_line(said), _fix(place, said)
        if "unable to open" in said and (no_descriptor := find_no_descriptor()) is not None:
            what, fix = explain_os_error(no_descriptor)
        raise StoreError(place.shown, what, fix) from error
    except ModuleNotFoundError as error:
        raise StoreError(
            place.shown,
            f"the driver of PostgreSQL is not installed: {error.name}",
            "pip install 'regauge[postgres]'",
        ) from error
    except OSError as error:
        what, fix = explain_os_error(error)
        raise StoreError(place.shown, what, fix or _PERMISSION) from error
    except ValueError as error:
        raise StoreError(place.shown, f"its URL cannot be read: {error}", _URL) from error


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
