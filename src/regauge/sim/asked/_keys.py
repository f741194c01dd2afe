"""The keys that a JSON answer is to have, read from a schema and from the words of the prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.asked._labels import label_names
from regauge.sim.text import is_list, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON

__all__ = ["Key", "read_keys", "schema_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the answer.

    Attributes:
        description: What schema and words say of it together.
        kind: As in JSON schema: `string`, `number`, `integer`, `boolean`, `array`, `object`; empty
            when only words speak of it.
        enum: The values it may take; empty for any.
        in_words: Whether the messages themselves name it.
        described: Whether the messages or the schema say what it means.
        children: The keys of an object, or of the objects in an array.
    """

    name: str
    description: str = ""
    kind: str = ""
    enum: tuple[str, ...] = ()
    nullable: bool = False
    in_words: bool = False
    in_schema: bool = False
    described: bool = False
    children: tuple[Key, ...] = field(default=())


_OBJECT_KEYS: Final = re.compile(r"[\"'](?P<name>[A-Za-z_][\w-]*)[\"']\s*:")
_EXAMPLE_OBJECT: Final = re.compile(r"\{[^{}]*[\"'][A-Za-z_][\w-]*[\"']\s*:[^{}]*\}", re.DOTALL)
_KEY_LIST: Final = re.compile(
    r"\b(?:keys?|fields?|properties|attributes)\b[^.\n:]{0,30}?[: ]\s*"
    r"(?P<list>[\"'`]?[A-Za-z_]\w*[\"'`]?(?:\s*(?:,\s*and|,|and|&)\s*[\"'`]?[A-Za-z_]\w*[\"'`]?)+)",
    re.IGNORECASE,
)
_KEY_SENTENCE: Final = re.compile(
    r"\b(?:keys?|fields?|properties|attributes)\b[^.\n]*", re.IGNORECASE
)
_QUOTED_KEY: Final = re.compile(r"[\"'`](?P<name>[A-Za-z_]\w*)[\"'`](?:\s*\((?P<note>[^)\n]*)\))?")
_KEY_HEAD: Final = re.compile(
    r"\b(?:keys?|fields?|properties)\b[^\n]*:[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_KEY_BULLET: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])?[ \t]*[\"'`*]*(?P<name>[A-Za-z_]\w*)[\"'`*]*[ "
    r"\t]*(?:\((?P<note>[^)\n]*)\))?"
    r"[ \t]*(?::|—|–|-|=)[*]*[ \t]+(?P<text>[^\n]*(?:\n[ \t]{2,}(?![-*•])[^\n]+)*)",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_BARE_LIST_WORDS: Final = 8
_NULL: Final = re.compile(r"\bnull\b", re.IGNORECASE)
_COLONLESS: Final = frozenset({"and", "or", "the", "a", "an", "with", "of", "in", "json"})


def schema_of(response_format: Mapping[str, JSON] | None) -> Mapping[str, Any] | None:
    """The JSON schema that a response format carries, or None.

    >>> schema_of({"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}})
    {'a': 1}
    """
    if response_format is None or response_format.get("type") != "json_schema":
        return None
    outer: Any = response_format.get("json_schema")
    inner: Any = outer.get("schema", outer) if is_object(outer) else None
    return inner if is_object(inner) else None


def _kinds(schema: Mapping[str, Any]) -> tuple[str, bool]:
    kinds: Any = schema.get("type", "")
    options: Any = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options):
        kinds = [option.get("type", "") for option in options if is_object(option)]
    if is_list(kinds):
        names = [str(kind) for kind in kinds]
        return next((k for k in names if k != "null"), ""), "null" in names
    return str(kinds), False


def _schema_keys(schema: Mapping[str, Any], *, depth: int = 0) -> list[Key]:
    properties: Any = schema.get("properties")
    if not is_object(properties) or depth > 5:  # noqa: PLR2004 - a small count that says itself
        return []
    keys: list[Key] = []
    for name, value in properties.items():
        inner: dict[str, Any] = value if is_object(value) else {}
        kind, nullable = _kinds(inner)
        enum: Any = inner.get("enum", [])
        values: list[Any] = enum if is_list(enum) else []
        items: Any = inner.get("items")
        below: dict[str, Any] = items if is_object(items) else inner
        described = str(inner.get("description", ""))
        keys.append(
            Key(
                name=name,
                description=described,
                kind=kind or ("object" if "properties" in inner else "string"),
                enum=tuple(str(v) for v in values if v is not None),
                nullable=nullable or None in values,
                in_schema=True,
                described=len(described.split()) > 1,
                children=tuple(_schema_keys(below, depth=depth + 1)),
            )
        )
    return keys


def _notes_on_quoted(text: str) -> dict[str, str]:
    """Keys in quotes after the word `key` or `field`, with what stands behind in brackets."""
    return {
        match["name"]: match["note"] or ""
        for sentence in _KEY_SENTENCE.finditer(text)
        for match in _QUOTED_KEY.finditer(sentence[0])
    }


def _names_in_words(text: str) -> list[str]:
    """Keys that the words ask for: an object shown, a list of keys, or bullets below a head."""
    names: dict[str, None] = {}
    for shown in _EXAMPLE_OBJECT.finditer(text):
        names.update(dict.fromkeys(_OBJECT_KEYS.findall(shown[0])))
    for match in _KEY_LIST.finditer(text):
        for name in re.findall(r"[A-Za-z_]\w*", match["list"]):
            if name.lower() not in _COLONLESS:
                names[name] = None
    if not names:
        names.update(dict.fromkeys(_notes_on_quoted(text)))
    for head in _KEY_HEAD.finditer(text):
        block = re.split(r"\n[ \t]*\n", text[head.end() :].lstrip("\n"), maxsplit=1)[0]
        names.update(dict.fromkeys(m["name"] for m in _KEY_BULLET.finditer(block)))
    return list(names)


def read_keys(
    text: str, response_format: Mapping[str, JSON] | None, *, wants_json: bool
) -> tuple[Key, ...]:
    """The keys of the answer in the order they are asked for; none when it is not to be JSON."""
    schema = schema_of(response_format)
    if not wants_json and schema is None:
        return ()
    told = {m["name"]: m for m in reversed(list(_KEY_BULLET.finditer(text)))}
    notes = _notes_on_quoted(text)
    by_name = {key.name: key for key in (_schema_keys(schema) if schema else ())}
    if not by_name:
        by_name = {name: Key(name=name) for name in _names_in_words(text)}
    keys: list[Key] = []
    for name, key in by_name.items():
        bullet = told.get(name)
        words = f"{bullet['note'] or ''} {bullet['text']}".strip() if bullet is not None else ""
        words = words or notes.get(name, "")
        enum = key.enum
        if not enum and not key.in_schema and words:
            short = len(words.split()) <= _BARE_LIST_WORDS
            enum = label_names(f"one of {words.rstrip('.')}" if short else words)
        description = " ".join(d for d in (words, key.description) if d)
        keys.append(
            Key(
                name=name,
                description=description,
                kind=key.kind,
                enum=enum,
                nullable=key.nullable or _NULL.search(words) is not None,
                in_words=re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None,
                in_schema=key.in_schema,
                described=key.described or len(words.split()) > 1,
                children=key.children,
            )
        )
    return tuple(keys)


def key_words(keys: Sequence[Key]) -> frozenset[str]:
    """The names of keys and of everything below them."""
    return frozenset(key.name for key in keys) | frozenset(
        name for key in keys if key.children for name in key_words(key.children)
    )
