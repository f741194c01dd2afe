"""Replies of a judge model: the schema they are requested in, and how they are read by it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.judges._json_text import JsonFault, find_json, parse_json
from regauge.strict_json import TwiceError, unique

if TYPE_CHECKING:
    from pydantic import BaseModel

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = ["Unreadable", "read_grade", "read_reply", "response_format"]

_DROPPED: Final = frozenset({"default", "title", "examples"})
_FENCED: Final = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*", re.DOTALL)
_IN_WORDS: Final = re.compile(
    r"\b(?:verdict|score|winner)\b[*_`\"' \t]{0,4}(?:is|of|:|=)[*_`\"' \t]{0,4}"
    r"(?P<value>[0-9]+(?:\.[0-9]+)?|[A-Za-z]+)",
    re.IGNORECASE,
)


class Unreadable:
    """Why a reply cannot be used."""

    def __init__(self, why: str) -> None:
        self.why = why


def read_reply(reply: Completion, schema: type[BaseModel] | None) -> BaseModel | str | Unreadable:
    """The reply as its schema has it, its text where there is none, or why it is neither."""
    text = _whole(reply)
    return text if schema is None or isinstance(text, Unreadable) else _fitted(text, schema)


def read_grade(reply: Completion) -> Completion | Unreadable:
    """The reply itself, once it is known to hold what deepeval is going to read."""
    text = _whole(reply)
    if isinstance(text, Unreadable):
        return text
    value = _json_in(text)
    if isinstance(value, JsonFault):
        return Unreadable(f"the reply is not JSON: {value.message}")
    if not isinstance(value, Mapping) or not isinstance(value.get("reason"), str):
        return Unreadable("the reply has no reason")
    score = value.get("score")
    if type(score) not in {int, float}:
        return Unreadable(f"the score is {score!r}")
    return reply


def _whole(reply: Completion) -> str | Unreadable:
    if reply.text is None or not reply.text.strip():
        return Unreadable("it refused" if reply.refusal else "it said nothing")
    if reply.finish_reason in {"length", "content_filter"}:
        return Unreadable(f"the reply was cut off (finish_reason {reply.finish_reason})")
    return reply.text


def _fitted(text: str, schema: type[BaseModel]) -> BaseModel | Unreadable:
    value = _json_in(text)
    if isinstance(value, JsonFault):
        return Unreadable(f"the reply is not JSON: {value.message}")
    try:
        read = _validated(value, schema)
    except ValueError as error:
        # pydantic's first complaint, in its words
        complaints = cast("list[dict[str, Any]]", getattr(error, "errors", list)())
        first = complaints[0] if complaints else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        return Unreadable(f"the reply does not fit: {where}: {first['msg']}")
    if not _all_finite(read.model_dump()):
        return Unreadable("a number of the reply is not finite")
    return read


def _validated(value: object, schema: type[BaseModel]) -> BaseModel:
    """The reply as its schema has it; `Yes.` will do for `yes`, as it does for deepeval.

    Raises:
        ValueError: It does not fit.
    """
    try:
        return schema.model_validate(value)
    except ValueError:
        return schema.model_validate(_plainly(value))


def _plainly(value: object) -> object:
    """A value with the verdicts in it in lower case and bare."""
    if isinstance(value, list):
        return [_plainly(part) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        name: part.strip(" .!*\n").lower()
        if name == "verdict" and isinstance(part, str)
        else _plainly(part)
        for name, part in cast("dict[str, object]", value).items()
    }


def _json_in(text: str) -> JSON | JsonFault:
    """The JSON that a reply is; one fenced block, or the only object within prose, will do."""
    fenced = _FENCED.fullmatch(text)
    body = fenced[1] if fenced else text.strip()
    value = parse_json(body)
    if isinstance(value, JsonFault) and text.rstrip().endswith(("}", "`")):
        objects = [part for part in find_json(text) if isinstance(part, dict)]
        if len(objects) == 1:
            body, value = text[text.find("{") : text.rfind("}") + 1], objects[0]
            if _contradicts(text.partition(body)[0], value):
                return JsonFault("it states one verdict in words and another one in its object")
    try:
        json.loads(body, object_pairs_hook=unique)
    except TwiceError as fault:
        return JsonFault(str(fault))
    except (ValueError, RecursionError):
        return value
    return value


def _contradicts(prose: str, value: object) -> bool:
    """Whether prose states a verdict or a score that the object after it does not have."""
    stated = {
        str(part).strip().casefold().removesuffix(".0") for part in _stated(value) if part != ""
    }
    return any(
        match["value"].casefold().removesuffix(".0") not in stated
        for match in _IN_WORDS.finditer(prose)
        if stated
    )


def _stated(value: object) -> Iterator[object]:
    """The verdicts, scores and winners in an object, however deep."""
    if isinstance(value, Mapping):
        for name, part in cast("Mapping[str, object]", value).items():
            if name in {"verdict", "score", "winner"}:
                yield part
            yield from _stated(part)
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _stated(part)


def _all_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_all_finite(part) for part in cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return all(_all_finite(part) for part in cast("list[object]", value))
    return True


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
