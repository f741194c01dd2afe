"""Values of inputs as they are given on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regauge.cli._terminal.text import unreadable
from regauge.errors import UsageError
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.digests import JSON

__all__ = ["input_values"]


def input_values(given: Iterable[str], *, option: str) -> dict[str, JSON]:
    """The inputs by name, from `NAME=TEXT`, `NAME=@FILE` and `NAME:=JSON`.

    Args:
        option: The option they were given to, for messages.

    Raises:
        UsageError: One has no value, is no JSON, or its file cannot be read.
    """
    inputs: dict[str, JSON] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{option} {item!r} has no value\n  fix: write NAME=VALUE")
        if name.endswith(":"):
            try:
                inputs[name[:-1]] = read_json(value)
            except ValueError as error:
                raise UsageError(f"{option} {item!r}: not JSON: {error}") from error
        elif value.startswith("@"):
            try:
                inputs[name] = Path(value[1:]).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{option} {name}: {unreadable(value[1:], error)}") from error
        else:
            inputs[name] = value
    return inputs
