"""What `format` means in a JSON Schema, as far as it can be told from the text alone."""

from __future__ import annotations

import functools
import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["format_checker"]

_DATE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})"
)
_TIME = re.compile(r"(\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_DURATION = re.compile(
    r"P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)"
)
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_EMAIL = re.compile(r"[^@\s\"(),:;<>\[\\\]]+@[^@\s\"(),:;<>\[\\\]]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def is_date_time(text: str) -> bool:
    """A date and time of RFC 3339, with its zone.

    >>> is_date_time("2024-05-03T14:05:00Z"), is_date_time("2024-13-03T14:05:00Z")
    (True, False)
    """
    found = _DATE_TIME.fullmatch(text)
    return found is not None and _real(found[1], found[2], found[3])


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and _real("2000-01-01", found[1], found[2])


def _real(day: str, clock: str, zone: str) -> bool:
    # A leap second is right in RFC 3339, and unknown to the standard library.
    clock = clock[:-2] + "59" if clock.endswith("60") else clock
    try:
        date.fromisoformat(day)
        time.fromisoformat(clock)
        datetime.fromisoformat(f"{day}T{clock}{zone.upper().replace('Z', '+00:00')}")
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        return _URI.fullmatch(text) is not None and bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _whole(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        return pattern.fullmatch(text) is not None

    return holds


def _for_texts(holds: Callable[[str], bool]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        return not isinstance(value, str) or holds(value)

    return check


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "date-time": is_date_time,
    "time": _is_time,
    "duration": _whole(_DURATION),
    "hostname": _whole(_HOST),
    "email": _whole(_EMAIL),
    "uri": _is_uri,
    "json-pointer": _whole(_POINTER),
}


@functools.cache
def format_checker() -> Any:
    """A checker of the formats that draft 2020-12 names; unknown ones hold for any text."""
    from jsonschema import Draft202012Validator, FormatChecker

    draft: Any = Draft202012Validator
    # Made without names, it starts from every checker known; a copy leaves those alone.
    checker: Any = FormatChecker(formats=())
    checker.checkers = dict(draft.FORMAT_CHECKER.checkers)
    for name, holds in _CHECKS.items():
        checker.checks(name)(_for_texts(holds))
    return checker
