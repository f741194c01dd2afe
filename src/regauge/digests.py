"""JSON values, their canonical text, and the digests that identify prompts, requests and judges."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# `json.dumps` would build an encoder for every call.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


def canonical_json(value: JSON) -> str:
    """Write a value as canonical JSON: sorted keys, no spaces, no needless escapes.

    Raises:
        ValueError: The value holds NaN or an infinity, which JSON cannot represent.

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
    return hashlib.sha256(_encode(value)).hexdigest()


def digest_of_list(items: Iterable[JSON]) -> str:
    """The digest of a list, with one item in memory at a time.

    >>> digest_of_list(iter([1, "a"])) == digest_of([1, "a"])
    True
    >>> digest_of_list([]) == digest_of([])
    True
    """
    digest, before = hashlib.sha256(), b"["
    for item in items:
        digest.update(before + _encode(item))
        before = b","
    digest.update(b"]" if before == b"," else b"[]")
    return digest.hexdigest()


def _encode(value: JSON) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")
