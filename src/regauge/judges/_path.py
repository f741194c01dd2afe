"""Paths into JSON values: `severity`, `steps[0].command`, `labels["app.name"]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from regauge.errors import UsageError

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["MISSING", "Missing", "Steps", "parse_path", "value_at"]

Steps = tuple[str | int, ...]

_STEP = re.compile(r"""(?:^|\.)([^.\[\]"']+)|\[(-?\d+)\]|\[("[^"]*"|'[^']*')\]""")


class Missing:
    """The type of `MISSING`: there is no such value, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "…"


MISSING: Final = Missing()


def parse_path(path: str) -> Steps:
    """Read a path; the empty path is the whole value.

    Raises:
        UsageError: The path is not of the form `a.b[0]["c.d"]`.

    >>> parse_path("steps[0].command")
    ('steps', 0, 'command')
    """
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise UsageError(
                f"not a path into JSON: {path!r}, at {path[at:]!r}\n"
                '  write it like severity, steps[0].command or labels["app.name"]'
            )
        name, index, quoted = step.groups()
        steps.append(name if name is not None else int(index) if index else quoted[1:-1])
        at = step.end()
    return tuple(steps)


def value_at(value: JSON, steps: Steps) -> JSON | Missing:
    """The value at a path, or `MISSING`.

    >>> value_at({"a": [{"b": 1}]}, parse_path("a[0].b"))
    1
    """
    for step in steps:
        if isinstance(value, Mapping):
            if step not in value:
                return MISSING
            value = value[str(step)]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if not isinstance(step, int) or not -len(value) <= step < len(value):
                return MISSING
            value = value[step]
        else:
            return MISSING
    return value
