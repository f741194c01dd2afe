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
    return _digest_of_parts(b"[", map(_encode, items), b"]")


def digest_of_mapping(items: Iterable[tuple[str, JSON]]) -> str:
    """The digest of a mapping whose items come sorted by key, with one item in memory at a time.

    >>> digest_of_mapping([("a", 1), ("b", [2])]) == digest_of({"b": [2], "a": 1})
    True
    """
    return _digest_of_parts(b"{", (_encode({key: value})[1:-1] for key, value in items), b"}")


def _digest_of_parts(start: bytes, parts: Iterable[bytes], end: bytes) -> str:
    digest, before = hashlib.sha256(start), b""
    for part in parts:
        digest.update(before + part)
        before = b","
    digest.update(end)
    return digest.hexdigest()


def _encode(value: JSON) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")
