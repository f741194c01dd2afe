"""The JSON schema of a reply, in the strict form that endpoints take for structured output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["response_format"]

_DROPPED: Final = frozenset({"default", "title", "examples"})


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, JSON]:
    """What goes over the wire as `response_format` for a schema that pydantic wrote.

    Strict mode wants every property required and no others. A schema with free keys cannot say
    so, and goes over the wire as one that is not strict.

    >>> response_format("Reason", {"type": "object", "properties": {"reason": {"type": "string"}}})
    ... # doctest: +ELLIPSIS
    {'type': 'json_schema', 'json_schema': {'name': 'Reason', 'strict': True, 'schema': {...}}}
    """
    free = _has_free_keys(schema)
    made = schema if free else _strict(schema)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": not free, "schema": dict(made)},
    }


def _has_free_keys(value: object) -> bool:
    if isinstance(value, list):
        return any(_has_free_keys(part) for part in cast("list[object]", value))
    if not isinstance(value, Mapping):
        return False
    node = cast("Mapping[str, object]", value)
    if node.get("type") == "object" and not node.get("properties"):
        return True
    if node.get("additionalProperties") not in (None, False):
        return True
    return any(_has_free_keys(part) for part in node.values())


def _strict(value: object, *, names: bool = False) -> Any:
    """A part of a schema; `names` says that its keys are names of properties, not keywords."""
    if isinstance(value, list):
        return [_strict(part) for part in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    node = cast("Mapping[str, object]", value)
    if names:
        return {key: _strict(part) for key, part in node.items()}
    made: dict[str, Any] = {
        key: _strict(part, names=key in {"properties", "$defs"})
        for key, part in node.items()
        if key not in _DROPPED
    }
    if "properties" in made:
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    return made
