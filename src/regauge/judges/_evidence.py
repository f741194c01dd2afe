"""How a reason quotes text and values: short, on one line, with nothing hidden in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["around", "listed", "number", "quote", "shown", "value_text"]

_QUOTE_CHARS = 80
_SHOWN_CHARS = 2_000


def quote(text: str, limit: int = _QUOTE_CHARS) -> str:
    r"""Text in quotes; long text loses its middle, control characters become escapes.

    >>> quote("one\ntwo")
    "'one\\ntwo'"
    """
    if len(text) > limit:
        head = limit * 2 // 3
        text = f"{text[:head]} … {text[head - limit :]}"
    return repr(text)


def around(text: str, start: int, end: int, margin: int = 20) -> str:
    """The part of a text that decided, quoted with what stands around it."""
    begin, stop = max(0, start - margin), min(len(text), max(end, start) + margin)
    before, after = ("…" if begin else ""), ("…" if stop < len(text) else "")
    return quote(f"{before}{text[begin:stop]}{after}", 120)


def shown(value: JSON) -> JSON:
    """A value as a verdict may carry it: cut where it is long, and always writable as JSON."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (Mapping, Sequence)):
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return "a value that JSON cannot hold"
        return value if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return value


def number(value: float) -> str:
    """A number without a tail of zeros.

    >>> number(0.5), number(3.0)
    ('0.5', '3')
    """
    return f"{value:.4f}".rstrip("0").rstrip(".")


def listed(values: Sequence[JSON], limit: int = 6) -> str:
    """Values in quotes with commas, the rest counted."""
    head = ", ".join(
        quote(value) if isinstance(value, str) else quote(json.dumps(value, default=str))[1:-1]
        for value in values[:limit]
    )
    return head + (f" and {len(values) - limit} more" if len(values) > limit else "")


def value_text(value: JSON) -> str:
    """A value as a reason quotes it: a text as it is, anything else as JSON.

    >>> value_text("info"), value_text([1, None])
    ("'info'", "'[1, null]'")
    """
    return quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
