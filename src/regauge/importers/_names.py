"""Names of files and cases, made of the words of a source."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["case_ids", "slug", "unique"]

_LENGTH_MAX = 60
_RESERVED = ("and", "or", "not")


def slug(text: str, *, otherwise: str = "") -> str:
    """Lower-case words of ASCII letters and digits, with hyphens.

    >>> slug("Handles 409: picks another task!")
    'handles-409-picks-another-task'
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain.replace("'", "")).strip("-")
    if len(words) > _LENGTH_MAX:
        words = words[: _LENGTH_MAX + 1].rpartition("-")[0] or words[:_LENGTH_MAX]
    return words if words and words not in _RESERVED else otherwise


def unique(name: str, taken: Iterable[str]) -> str:
    """The name, or the name with the first number that makes it new."""
    names = set(taken)
    number, candidate = 2, name
    while candidate in names:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def case_ids(texts: Iterable[str]) -> list[str]:
    """An id for each text, all different; a text without ASCII letters gets a number.

    >>> case_ids(["Late order", "late order", "迟"])
    ['late-order', 'late-order-2', 'case-3']
    """
    ids: dict[str, None] = {}
    counts: dict[str, int] = {}
    for number, text in enumerate(texts, start=1):
        words = slug(text, otherwise=f"case-{number}")
        name = words
        while name in ids:
            counts[words] = counts.get(words, 1) + 1
            name = f"{words}-{counts[words]}"
        ids[name] = None
    return list(ids)
