"""JSON Schemas of the files that users write, for editors and for checks without regauge."""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["SCHEMAS", "schema_text"]

SCHEMAS: Final = {
    "prompt": "A prompt file, NAME.prompt.yml, or a rubric.",
    "golden": "A golden dataset in YAML, or one line of a JSONL file.",
    "settings": "A pyproject.toml with the tables of [tool.regauge].",
}
_ATTRIBUTE: Final = re.compile(r"^(\w+): (.+?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)


def schema_text(name: str) -> str:
    """The text of a schema, one of `SCHEMAS`."""
    make = {"prompt": _prompt_schema, "golden": _golden_schema, "settings": _settings_schema}[name]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMAS[name]}
    return json.dumps(head | make(), indent=2, ensure_ascii=False) + "\n"


def _prompt_schema() -> dict[str, Any]:
    from pydantic.alias_generators import to_camel

    from regauge.prompts import PARAMETER_ALIASES, PromptKeys

    schema = _schema_of(PromptKeys)
    parameters = schema["$defs"]["ParameterKeys"]
    properties = parameters["properties"]
    properties |= {alias: properties[name] for alias, name in PARAMETER_ALIASES.items()}
    properties |= {to_camel(name): value for name, value in properties.items()}
    # Unknown parameters are sent as they are.
    del parameters["additionalProperties"]
    return schema | {"patternProperties": {"^x-": {}}}


def _golden_schema() -> dict[str, Any]:
    from regauge.datasets import CaseKeys

    case = _schema_of(CaseKeys)
    tables = case.pop("$defs") | {"CaseKeys": case}
    item = {"$ref": "#/$defs/CaseKeys"}
    return {"anyOf": [{"type": "array", "items": item}, item], "$defs": tables}


def _settings_schema() -> dict[str, Any]:
    """The schema of a pyproject.toml; the tables of other tools may hold anything."""
    from regauge.project import Settings

    settings = _schema_of(Settings)
    tables = settings.pop("$defs") | {"Settings": settings}
    tool = {"type": "object", "properties": {"regauge": {"$ref": "#/$defs/Settings"}}}
    return {"type": "object", "properties": {"tool": tool}, "$defs": tables}


def _schema_of(declaration: type) -> dict[str, Any]:
    """The schema of a model or of declared keys, with the texts of the docstrings."""
    from pydantic import TypeAdapter

    schema: dict[str, Any] = TypeAdapter(declaration).json_schema()
    for table in (schema, *schema.get("$defs", {}).values()):
        table.pop("title", None)
        if "properties" in table:
            _describe(table)
            table.setdefault("additionalProperties", False)
    return schema


def _describe(table: dict[str, Any]) -> None:
    """Move the description of each attribute to the attribute; drop titles and empty defaults."""
    words: str = table.pop("description", "")
    first, _, attributes = words.partition("\n\nAttributes:\n")
    if first:
        table["description"] = " ".join(first.split())
    # pydantic has taken the indent off the docstring, and left that of the list in it.
    lines = "\n".join(line.removeprefix("    ") for line in attributes.splitlines())
    descriptions = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(lines)}
    for name, value in table["properties"].items():
        value.pop("title", None)
        if value.get("default", "") is None:
            del value["default"]
        if name in descriptions:
            value.setdefault("description", descriptions[name])
