"""JSON values, their canonical text, and the digests that identify prompts, requests and judges."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# `json.dumps` would build an encoder for every call.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


def canonical_json(value: JSON) -> str:
    """Write a value as JSON in one way only: sorted keys, no spaces, no escapes beyond need.

    Raises:
        ValueError: The value holds NaN or an infinity, which JSON has no word for.

    >>> canonical_json({"b": 1, "a": ["é", None]})
    '{"a":["é",null],"b":1}'
    """
    return _ENCODER.encode(value)


def digest_of(value: JSON) -> str:
    """The SHA-256 of a value's canonical JSON, as 64 hexadecimal digits.

    Lone surrogates, which UTF-8 cannot hold, count as their escapes.

    >>> digest_of({})[:12]
    '44136fa355b3'
    """
    return hashlib.sha256(canonical_json(value).encode("utf-8", "backslashreplace")).hexdigest()
