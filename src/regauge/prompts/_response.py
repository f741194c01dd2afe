"""`responseFormat` and `jsonSchema`: every way to write them, in the form the OpenAI API takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from regauge.prompts._yaml import is_scalar, scalar_tag
from regauge.strict_json import no_constant, unique
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    import yaml

    from regauge.digests import JSON
    from regauge.prompts._reader import Entries, Reader

__all__ = ["read_response_format"]

_FORMATS = ("text", "json_object", "json_schema")
_SCHEMA_NAME = "answer"
_ADD_SCHEMA = "add `jsonSchema:` with the schema of the answer"


def read_response_format(reader: Reader, entries: Entries) -> dict[str, JSON] | None:
    """The response format that the top-level keys add up to; None for plain text."""
    kind, own_schema = _read_format(reader, entries)
    schema_key, schema_node = entries.get("jsonSchema", (None, None))
    if schema_node is not None and scalar_tag(schema_node) == "null":
        schema_node = None
    if kind != "json_schema":
        if schema_key is not None and schema_node is not None and kind is not None:
            stated = f"is {kind}" if "responseFormat" in entries else "is missing"
            message = f"jsonSchema is given, but responseFormat {stated}"
            reader.fault(schema_key, message, "write `responseFormat: json_schema`")
        return {"type": "json_object"} if kind == "json_object" else None
    if schema_node is None and own_schema is None:
        reader.fault(
            entries["responseFormat"][0], "there is no schema for json_schema", _ADD_SCHEMA
        )
        return None
    top = _read_schema(reader, schema_node) if schema_node is not None else None
    if schema_key is not None and top is not None and own_schema is not None and top != own_schema:
        reader.fault(schema_key, "jsonSchema and responseFormat give two schemas", "keep one")
    schema = own_schema if own_schema is not None else top
    if schema is None:
        return None
    return {"type": "json_schema", "json_schema": _wrapped(schema)}


def _read_format(reader: Reader, entries: Entries) -> tuple[str | None, dict[str, JSON] | None]:
    """The kind of format, and the schema where the format itself holds one."""
    if "responseFormat" not in entries:
        return "text", None
    _, node = entries["responseFormat"]
    if is_scalar(node):
        return ("text" if scalar_tag(node) == "null" else _kind(reader, node)), None
    fix = f"write one of {', '.join(_FORMATS)}, or a mapping with `type:`"
    inner = reader.mapping(node, "responseFormat", fix)
    if inner is None:
        return None, None
    if "type" not in inner:
        reader.fault(node, "responseFormat has no `type`", fix)
        return None, None
    kind = _kind(reader, inner["type"][1])
    schema = None
    for name in ("json_schema", "jsonSchema"):
        if name in inner and kind == "json_schema":
            schema = _read_schema(reader, inner[name][1])
            if schema is None:
                return None, None
    reader.unknown(inner, ("type", "json_schema", "jsonSchema"), "responseFormat")
    return kind, schema


def _kind(reader: Reader, node: yaml.Node) -> str | None:
    kind = reader.text(node, "responseFormat")
    if kind is None or kind in _FORMATS:
        return kind
    fix = did_you_mean(kind, _FORMATS) or f"write one of {', '.join(_FORMATS)}"
    reader.fault(node, f"responseFormat {kind!r} is unknown", fix)
    return None


def _read_schema(reader: Reader, node: yaml.Node) -> dict[str, JSON] | None:
    """A schema written as YAML or as a text of JSON."""
    if is_scalar(node) and scalar_tag(node) == "str":
        try:
            value: Any = json.loads(
                node.value, object_pairs_hook=unique, parse_constant=no_constant
            )
        except json.JSONDecodeError as error:
            at = f"line {error.lineno}, column {error.colno} of the text"
            reader.fault(node, f"jsonSchema is not JSON: {error.msg} ({at})")
            return None
        except (ValueError, RecursionError) as error:
            reader.fault(node, f"jsonSchema is not JSON: {error}")
            return None
    else:
        value = reader.json(node, "jsonSchema")
    if not isinstance(value, dict):
        reader.fault(
            node, "jsonSchema must be a mapping, or a text with a JSON object", _ADD_SCHEMA
        )
        return None
    return cast("dict[str, JSON]", value)


def _wrapped(schema: dict[str, JSON]) -> dict[str, JSON]:
    """`{name, strict, schema}` as it is; a bare schema gets a name."""
    # The name is part of the digest, so it must not follow the name of the file.
    if isinstance(schema.get("schema"), dict) and "properties" not in schema:
        return {"name": _SCHEMA_NAME} | schema
    return {"name": _SCHEMA_NAME, "schema": schema}
