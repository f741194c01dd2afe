"""What is wrong with a setting, in words of the file that it is in, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

__all__ = ["setting_problems"]

_BOUNDS = {
    "greater_than": ("gt", "a number above {}"),
    "greater_than_equal": ("ge", "a number of {} or more"),
    "less_than": ("lt", "a number below {}"),
    "less_than_equal": ("le", "a number of {} or less"),
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text in quotes",
    "dict": "a table",
    "model": "a table",
    "list": "a list",
}


def setting_problems(
    error: ValidationError, table: Mapping[str, Any]
) -> dict[tuple[int | str, ...], str]:
    """Each setting that cannot be used, by its path, with its problem and its fix.

    Args:
        error: What validation found.
        table: `[tool.regauge]` as it was read.
    """
    items: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for item in error.errors():
        items.setdefault(_path(item, table), []).append(item)
    return {where: _problem(where, alternatives) for where, alternatives in items.items()}


def _path(item: ErrorDetails, table: object) -> tuple[int | str, ...]:
    """The path of a setting in the file, without the names of a union's alternatives."""
    where: list[int | str] = []
    for part in item["loc"]:
        if isinstance(table, dict):
            settings = cast("dict[int | str, object]", table)
            if part not in settings and part == settings.get("kind"):
                continue  # the alternative of a union of targets
            if part in settings:
                table = settings[part]
                where.append(part)
                continue
        if isinstance(table, list) and isinstance(part, int):
            table = cast("list[object]", table)[part]
        elif item["type"] != "missing":
            break
        where.append(part)
    return tuple(where)


def _problem(where: tuple[int | str, ...], items: list[ErrorDetails]) -> str:
    item = items[0]
    given = item["input"]
    key = next(str(part) for part in reversed(where) if isinstance(part, str))
    match item["type"]:
        case "missing":
            return f"it is missing\n  fix: write it: {where[-1]} = ..."
        case "list_type" if isinstance(given, dict):
            name = ".".join(("tool", "regauge", *map(str, where)))
            return f"must be a list of tables\n  fix: two brackets on each side: [[{name}]]"
        case "list_type":
            return f"must be a list, not {given!r}\n  fix: {key} = [...]"
        case "value_error" | "extra_forbidden":
            return item["msg"]
        case _:
            wanted = " or ".join(_wanted(each) for each in items)
            shown = repr(given)
            shown = f"{shown[:60]}..." if len(shown) > 60 else shown  # noqa: PLR2004 - one line
            return f"must be {wanted}, not {shown}\n  fix: set {key} to {wanted}"


def _wanted(item: ErrorDetails) -> str:
    """What a setting must be."""
    kind, context = item["type"], item.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(f"{context[name]:g}")
    if kind == "literal_error":
        return str(context["expected"])
    return _TYPES.get(kind.partition("_")[0], item["msg"])
