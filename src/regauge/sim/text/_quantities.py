"""Numbers with a meaning: shares, durations and thresholds, in words, in prose and in PromQL."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

__all__ = ["NUMBER_WORDS", "Quantity", "closeness", "quantities", "without_quantities"]

Kind = Literal["percent", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number read from a text.

    Attributes:
        kind: `percent` is 0 to 100; `seconds` holds every duration.
        value: In the unit of `kind`, above 0.
    """

    kind: Kind
    value: float


_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60,
    "minute": 60, "h": 3600, "hr": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800,
    "week": 604800, "month": 2592000,
}  # fmt: skip
NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905 - it reads as a list
        start=1,
    )
}
_NUMBER: Final = r"(?P<number>\d+(?:\.\d+)?|" + "|".join(NUMBER_WORDS) + ")"
_PERCENT: Final = re.compile(_NUMBER + r"\s*(?:%|percent\b|per cent\b)", re.IGNORECASE)
_DURATION: Final = re.compile(
    r"(?<![\w.])"
    + _NUMBER
    + r"[\s-]*(?P<unit>ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?"
    r"|w|weeks?|months?)(?![\w%])",
    re.IGNORECASE,
)
# "2 or 15 minutes": the first number borrows the unit of the second.
_BORROWED: Final = re.compile(
    r"(?<![\w.])(?P<first>\d+(?:\.\d+)?)(?=\s*(?:or|and|to|,|-)\s*\d+(?:\.\d+)?\s*(?P<unit>%|percent|[a-z]+))",
    re.IGNORECASE,
)
_HALF: Final = re.compile(r"\bhalf\b", re.IGNORECASE)
_BRACKETED: Final = re.compile(r"\[[^\]\n]*\]|\{[^}\n]*\}")
_THRESHOLD: Final = re.compile(r"[<>]=?\s*(?P<number>\d+(?:\.\d+)?)(?![\d.*%\w])")
_PRODUCT: Final = re.compile(r"\b\d+(?:\s*\*\s*\d+)+\b")
_LONE_ARITHMETIC: Final = re.compile(r"[*/]\s*100\b|\b100\s*\*")
_DAY_S: Final = 86400
_SAME_SCALE: Final = 0.3  # a factor of 1.35 apart leaves 1/e of the closeness


def _number(text: str) -> float:
    return float(NUMBER_WORDS.get(text.lower(), 0) or text)


def _thresholds(code: str) -> list[Quantity]:
    """What an expression compares with: shares below 1, percentages, seconds."""
    bare = _BRACKETED.sub(" ", code)
    found: list[Quantity] = []
    for match in _PRODUCT.finditer(bare):
        value = math.prod(float(factor) for factor in match[0].split("*"))
        if value >= 60:  # noqa: PLR2004 - a small count that says itself
            found.append(Quantity(kind="seconds", value=value))
    is_percent = bool(_LONE_ARITHMETIC.search(bare)) or "percent" in bare
    for match in _THRESHOLD.finditer(bare):
        value = float(match["number"])
        if value <= 0:
            continue
        if "second" in bare and value >= 1:
            found.append(Quantity(kind="seconds", value=value))
        elif is_percent and value <= 100:  # noqa: PLR2004 - a small count that says itself
            found.append(Quantity(kind="percent", value=value))
        elif value < 1 and ("/" in bare or "ratio" in bare):
            found.append(Quantity(kind="percent", value=100 * value))
    return found


@lru_cache(maxsize=4_000)
def quantities(text: str, *, code: bool = False) -> tuple[Quantity, ...]:
    """The shares and durations of a text; of code, the thresholds alone.

    >>> [q.value for q in quantities("less than 3% left, within four hours")]
    [3.0, 14400.0]
    >>> quantities("ttl_seconds < 86400", code=True)[0].value
    86400.0
    """
    if code:
        return tuple(_thresholds(text))
    found = [
        Quantity(kind="percent", value=_number(match["number"]))
        for match in _PERCENT.finditer(text)
    ]
    for match in _BORROWED.finditer(text):
        unit = match["unit"].lower()
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if size is not None:
            found.append(Quantity(kind="seconds", value=float(match["first"]) * size))
        elif unit in ("%", "percent"):
            found.append(Quantity(kind="percent", value=float(match["first"])))
    if _HALF.search(text):
        found.append(Quantity(kind="percent", value=50.0))
    for match in _DURATION.finditer(text):
        unit = match["unit"].lower()
        size = _UNITS.get(unit) or _UNITS[unit.removesuffix("s")]
        found.append(Quantity(kind="seconds", value=_number(match["number"]) * size))
    return tuple(quantity for quantity in found if quantity.value > 0)


def without_quantities(text: str) -> str:
    """The text with its shares and durations taken out, so that their words do not count twice.

    >>> without_quantities("within 4 hours of now")
    'within   of now'
    """
    return _DURATION.sub(" ", _PERCENT.sub(" ", text))


def closeness(one: Quantity, other: Quantity) -> float:
    """How near two numbers of one kind are, from 0 to 1; different kinds are never near.

    >>> day, week = Quantity(kind="seconds", value=86400), Quantity(kind="seconds", value=604800)
    >>> closeness(day, day), closeness(day, week) < 0.05
    (1.0, True)
    """
    if one.kind != other.kind:
        return 0.0
    return math.exp(-abs(math.log(one.value / other.value)) / _SAME_SCALE)
