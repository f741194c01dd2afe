"""The schema of `[tool.regauge]`: made from the models that read it, and from their docstrings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from regauge.project import Settings

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["settings_schema"]

_ATTRIBUTE = re.compile(r"^(\w+): (.+?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)


def settings_schema() -> dict[str, JSON]:
    """A pyproject.toml; the tables of other tools may hold anything."""
    made: dict[str, Any] = Settings.model_json_schema()
    tables: dict[str, Any] = made.pop("$defs", {})
    for table in (made, *tables.values()):
        _describe(table)
    tables["Settings"] = made
    return {
        "title": "pyproject.toml with the settings of regauge",
        "type": "object",
        "properties": {
            "tool": {"type": "object", "properties": {"regauge": {"$ref": "#/$defs/Settings"}}}
        },
        "$defs": cast("JSON", tables),
    }


def _describe(table: dict[str, Any]) -> None:
    """Move what the docstring says of an attribute to the attribute; titles say nothing more."""
    words: str = table.get("description", "")
    first, _, attributes = words.partition("\n\nAttributes:\n")
    if first:
        table["description"] = " ".join(first.split())
    # pydantic has taken the indent off the docstring, and left that of the list in it.
    lines = "\n".join(line.removeprefix("    ") for line in attributes.splitlines())
    said = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(lines)}
    for name, value in table.get("properties", {}).items():
        value.pop("title", None)
        if name in said:
            value.setdefault("description", said[name])
