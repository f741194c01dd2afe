"""Numbers in a text, with their scales and units."""

from __future__ import annotations

import functools
import math
import sys
import unicodedata
from collections import deque
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

_WORDS: Final = Lexicon("regauge.judges", file="data/values.toml")
Mark = Literal[".", ","]

# Arabic decimal, group and percent marks, and full-width marks.
_MARKS = str.maketrans("\u066b\u066c\u066a\uff0e\uff0c\uff05\uff04\uffe5", ".,%.,%$\u00a5")
# Letters after a number; K is a temperature, and B bytes.
_LETTER_SCALES: Mapping[str, float] = MappingProxyType({"k": 1e3, "M": 1e6})
# After an amount of money, which has no such unit.
MONEY_SCALES: Mapping[str, float] = MappingProxyType(
    {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "b": 1e9, "B": 1e9, "t": 1e12, "T": 1e12}
)
_ABBREVIATED_MAX = 3  # letters of a scale that may end in a period, such as `Mio.`
# Not from `unicodedata`: the value of 兆 differs between versions of Unicode.
_CHARACTER_SCALES: Mapping[str, int] = MappingProxyType(
    {
        character: 10**exponent
        for characters, exponent in (
            ("十", 1),
            ("百백", 2),
            ("千천", 3),
            ("萬万만", 4),
            ("億亿억", 8),
            ("兆조", 12),
        )
        for character in characters
    }
)


@functools.cache
def units_by_name() -> dict[str, tuple[str, float, float]]:
    """Units by name: quantity, factor and offset."""
    units: dict[str, tuple[str, float, float]] = {
        "K": ("temperature", 1.0, 0.0),
        "°C": ("temperature", 1.0, 273.15),
        "°F": ("temperature", 5 / 9, 273.15 - 32 * 5 / 9),
    }
    for row in _WORDS.entry("units").replace(",\n", ",").strip().splitlines():
        kind, _, groups = row.partition(":")
        for group in groups.split(","):
            *names, factor = group.split()
            units |= dict.fromkeys(names, (kind, float(factor), 0.0))
    return units


@functools.cache
def _scales() -> dict[str, float]:
    """Factors of scales such as `million`, by name in lower case."""
    scales: dict[str, float] = {}
    for row in _WORDS.entry("scales").replace("\n   ", " ").strip().splitlines():
        *names, factor = row.split()
        scales |= dict.fromkeys(names, float(factor))
    return scales


def scale_of(unit: re.Match[str]) -> tuple[float, int]:
    """The factor of a scale where a unit may be, and the offset of its end; 1 without a scale.

    >>> [scale_of(_WORDS.unit.match(text, 1)) for text in ("3 Mio. Euro", "3万人", "3 pods")]
    [(1000000.0, 6), (10000.0, 2), (1.0, 1)]
    """
    text, start = unit.string, unit.start()
    name = unit["unit"].partition("/")[0]  # a rate: `3 million/day`
    scale, end = _scales().get(name.casefold()), unit.start("unit") + len(name)
    if scale is not None:
        return scale, end + (text.startswith(".", end) and len(name) <= _ABBREVIATED_MAX)
    return _scales().get(text[start], 1.0), start + (text[start] in _scales())


class Number(NamedTuple):
    """A number in a text.

    Attributes:
        value: The value.
        unit: The unit after it, or the currency before it; empty for none.
        text: The number as written, with its unit.
        start: The offset of its start.
        end: The offset of its end, with a known unit.
    """

    value: float
    unit: str
    text: str
    start: int = 0
    end: int = 0

    def in_unit(self, unit: str) -> float | None:
        """The value in a unit; None if the number has no unit or one of another kind."""
        if not self.unit:
            return None if unit else self.value
        source, target = units_by_name().get(self.unit), units_by_name().get(unit)
        if self.unit == unit or (target is None and self.unit.casefold() == unit.casefold()):
            return self.value
        if source is None or target is None or source[0] != target[0]:
            return None
        return (self.value * source[1] + source[2] - target[2]) / target[1]


def _value(digits: str, decimal: Mark | None, power: str) -> float:
    """The value of digits with marks.

    Without `decimal`, the later of two kinds of marks is the decimal one; a mark that occurs
    more than once, or a comma before exactly three digits, separates groups, unless 0 precedes it.
    """
    if digits.isdecimal() and not power:
        return min(float(digits), sys.float_info.max)
    bare = _WORDS.separators.sub("", digits)
    if decimal is None:
        dot, comma = bare.rfind("."), bare.rfind(",")
        if dot >= 0 and comma >= 0:
            decimal = "." if dot > comma else ","
        elif comma >= 0:
            groups = bare.count(",") > 1 or (
                len(bare) - comma == 4 and comma > 0 and int(bare[0]) > 0  # noqa: PLR2004
            )
            decimal = "." if groups else ","
        else:
            decimal = "," if bare.count(".") > 1 else "."
    number_text = bare.replace("," if decimal == "." else ".", "").replace(decimal, ".")
    if number_text.count(".") > 1:
        number_text = number_text.replace(".", "")
    return min(float(number_text + exponent_of(power)), sys.float_info.max)


def exponent_of(power: str) -> str:
    """The power of ten after a number in Python's form, such as `e3`."""
    if not power or power[0] in "eE":
        return power
    digits = unicodedata.normalize("NFKC", power).rpartition("10")[2]
    return f"e{digits.strip('^*{}() ').replace(chr(0x2212), '-')}"


def spell_number(special: str) -> str:
    """Write a number of another form in digits.

    >>> [spell_number(text) for text in ("1½", "10³", "2億5000万", "3만 5천")]
    ['1.5', '1e3', '250000000', '35000']
    """
    if parts := _WORDS.mixed.fullmatch(special):
        return f"{int(parts[1] or 0) + unicodedata.numeric(parts[2]):.12g}"
    if _WORDS.ten_power.fullmatch(special):
        return f"1{exponent_of(special)}"
    total = Decimal(0)
    for digits, scale in _WORDS.scaled.findall(special):
        factor = math.prod(_CHARACTER_SCALES[character] for character in scale)
        total += Decimal(digits.replace(",", "")) * factor
    return f"{total:f}"


def numbers_in(
    text: str, decimal: Mark | None = None, *, last: int | None = None
) -> Iterator[Number]:
    """The numbers of a text, in order, without parts of names and versions such as `api-7`.

    Args:
        text: The text.
        decimal: The decimal mark; None to infer it for each number.
        last: The number of numbers to read from the end; None for all.

    >>> [(part.value, part.unit) for part in numbers_in("-1,234.5 ms of 1.5e3, 20 % on api-7")]
    [(-1234.5, 'ms'), (1500.0, ''), (20.0, '%')]
    """
    text = text.translate(_MARKS)
    matches = _WORDS.number.finditer(text)
    first: Number | None = None
    for match in matches if last is None else deque(matches, maxlen=last):
        second, scale = _read_number(match, decimal)
        if first and _WORDS.range.fullmatch(text, first.end, second.start):
            first, second = _share_units(first, second, scale)
        if first:
            yield first
        first = second
    if first:
        yield first


def _read_number(match: re.Match[str], decimal: Mark | None) -> tuple[Number, float]:
    """The number of a match, and the factor of the scale after it."""
    text, end = match.string, match.end()
    before, sign, digits, power = match.group("before", "sign", "digits", "power")
    if match["special"]:
        digits, decimal = spell_number(digits), "."
    value = _value(digits, decimal, power or "")
    before = before or ""
    if (sign or before.strip()[:1]) in {"-", "\u2212"}:
        value = -value
    unit = _WORDS.unit.match(text, end)
    name, scale = "", 1.0
    if unit:
        letters = MONEY_SCALES if before else _LETTER_SCALES
        word = unit["unit"].partition("/")[0]
        # An adjacent letter is a scale: `1.2k`, `$3M`.
        if word in letters and word == text[end]:
            scale, end = letters[word], end + 1
        else:
            scale, end = scale_of(unit)
        if scale != 1:
            value *= scale
            unit = _WORDS.unit.match(text, end)
        name = unit["unit"].replace(" ", "") if unit else ""
    end = unit.end() if unit and name in units_by_name() else end
    number_text = text[match.start() : end]
    start = match.start() + len(number_text) - len(number_text.lstrip())
    currency = before.strip(" -+\u2212")
    return Number(value, currency or name, number_text.strip()[:40], start, end), scale


def _share_units(first: Number, second: Number, scale: float) -> tuple[Number, Number]:
    """The ends of a range such as `3 to 5 million` or `$3-5M`, each with scale and unit."""
    units = units_by_name()
    if not first.text[-1:].isdecimal():  # it has a scale or a unit of its own
        return first, second
    if second.unit in units and first.unit not in units:
        first = first._replace(unit=second.unit)
    elif first.unit in units and not second.unit:
        second = second._replace(unit=first.unit)
    return (
        first._replace(value=first.value * scale) if first.value * scale <= second.value else first,
        second,
    )
