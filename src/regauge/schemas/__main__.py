"""Writes the JSON Schema of the settings: `python -m regauge.schemas`.

The schemas of prompts and golden datasets are written by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from regauge.project import Settings

_ATTRIBUTE = re.compile(r"^(\w+): (.+?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)


def settings_schema() -> str:
    """The text of the schema of a pyproject.toml; the tables of other tools may hold anything."""
    document: dict[str, Any] = Settings.model_json_schema()
    tables: dict[str, Any] = document.pop("$defs", {})
    for table in (document, *tables.values()):
        _describe(table)
    tables["Settings"] = document
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pyproject.toml with the settings of regauge",
        "type": "object",
        "properties": {
            "tool": {"type": "object", "properties": {"regauge": {"$ref": "#/$defs/Settings"}}}
        },
        "$defs": tables,
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _describe(table: dict[str, Any]) -> None:
    """Move the description of each attribute to the attribute, and drop titles."""
    words: str = table.get("description", "")
    first, _, attributes = words.partition("\n\nAttributes:\n")
    if first:
        table["description"] = " ".join(first.split())
    # pydantic has taken the indent off the docstring, and left that of the list in it.
    lines = "\n".join(line.removeprefix("    ") for line in attributes.splitlines())
    descriptions = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(lines)}
    for name, value in table.get("properties", {}).items():
        value.pop("title", None)
        if name in descriptions:
            value.setdefault("description", descriptions[name])


if __name__ == "__main__":
    path = Path(__file__).parent / "settings.schema.json"
    path.write_text(settings_schema(), encoding="utf-8")
