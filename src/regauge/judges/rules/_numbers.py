"""Numbers in an output, their units, and a comparison within a tolerance."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import quote
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._json_like import check_tolerance, is_close

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.digests import JSON

__all__ = ["Number", "number_near", "numbers_in"]

Which = Literal["first", "last", "only", "any"]
Mark = Literal[".", ","]

_SPACES = "\u00a0\u202f\u2009"
_NUMBER = re.compile(
    rf"""
    (?<![\w.,])(?<![^\W\d_]-)(?P<before>[-+\u2212]?\s?[$€£¥]\s?)?(?<!\w)(?P<sign>[-+\u2212])?
    (?P<digits>\d{{1,3}}(?:[,.'’_{_SPACES} ]\d{{3}})+(?![\d])(?:[.,]\d+)?
      |\d+(?:[.,]\d+)?
      |(?<!\d)[.,]\d+)
    (?P<power>[eE][-+]?\d{{1,3}}(?!\w))?
    (?![.,]?\d)
    """,  # noqa: RUF001 - the typographic apostrophe groups digits
    re.VERBOSE,
)
_UNIT = re.compile(rf"[ {_SPACES}]?(?P<unit>[%‰$€£¥]|°\s?[CF]\b|[^\W\d_]+(?:/[^\W\d_]+)?)")
# Arabic decimal mark and group mark, the full-width ones.
_MARKS = str.maketrans({"\u066b": ".", "\u066c": ",", "\uff0e": ".", "\uff0c": ","})
_SCALES: Mapping[str, float] = MappingProxyType(
    {"thousand": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
)

_UNIT_TABLE = """
time: ns 1e-9, us µs μs 1e-6, ms millisecond milliseconds 1e-3, s sec secs second seconds 1,
   min mins minute minutes 60, h hr hrs hour hours 3600, d day days 86400, week weeks 604800
data: b bit bits 0.125, B byte bytes 1, kB KB 1e3, MB 1e6, GB 1e9, TB 1e12, PB 1e15,
   KiB Ki 1024, MiB Mi 1048576, GiB Gi 1073741824, TiB Ti 1099511627776
length: nm 1e-9, µm μm um 1e-6, mm 1e-3, cm 1e-2, m metre metres meter meters 1,
   km kilometre kilometres kilometer kilometers 1e3, in inch inches 0.0254,
   ft foot feet 0.3048, yd yard yards 0.9144, mi mile miles 1609.344
mass: mg 1e-6, g gram grams 1e-3, kg kilogram kilograms 1, t tonne tonnes 1e3,
   oz ounce ounces 0.028349523125, lb lbs pound pounds 0.45359237
frequency: Hz 1, kHz 1e3, MHz 1e6, GHz 1e9
power: mW 1e-3, W watt watts 1, kW 1e3, MW 1e6, GW 1e9
energy: J 1, kJ 1e3, MJ 1e6, Wh 3600, kWh 3.6e6, MWh 3.6e9, cal 4.184, kcal 4184
volume: ml mL 1e-3, cl cL 1e-2, l L litre litres liter liters 1
share: ‰ 0.001, % percent pct 0.01
dollar: $ USD dollar dollars 1
euro: € EUR euro euros 1
sterling: £ GBP 1
yen: ¥ JPY yen 1
"""


def _table() -> dict[str, tuple[str, float, float]]:
    """Units by name: what they measure, their factor and their offset."""
    units: dict[str, tuple[str, float, float]] = {
        "K": ("temperature", 1.0, 0.0),
        "°C": ("temperature", 1.0, 273.15),
        "°F": ("temperature", 5 / 9, 273.15 - 32 * 5 / 9),
    }
    for row in _UNIT_TABLE.replace(",\n", ",").strip().splitlines():
        kind, _, groups = row.partition(":")
        for group in groups.split(","):
            *names, factor = group.split()
            units |= dict.fromkeys(names, (kind, float(factor), 0.0))
    return units


_UNITS: Mapping[str, tuple[str, float, float]] = MappingProxyType(_table())


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in a text.

    Attributes:
        text: As it is written, with its unit.
        unit: What follows it, or the currency before it; empty for none.
    """

    value: float
    unit: str
    text: str

    def in_unit(self, unit: str) -> float | None:
        """The value in a unit; None where this number has none or another kind of unit."""
        known, wanted = _UNITS.get(self.unit), _UNITS.get(unit)
        if self.unit == unit or (wanted is None and self.unit.casefold() == unit.casefold()):
            return self.value
        if known is None or wanted is None or known[0] != wanted[0]:
            return None
        return (self.value * known[1] + known[2] - wanted[2]) / wanted[1]


def _value(digits: str, decimal: Mark | None, power: str) -> float:
    """The value of digits with marks between them.

    Without `decimal`, the later of two kinds of marks is the decimal one; a mark that occurs
    more than once, or a comma before exactly three digits, separates groups.
    """
    bare = re.sub(rf"['’_{_SPACES} ]", "", digits)  # noqa: RUF001
    if decimal is None:
        dot, comma = bare.rfind("."), bare.rfind(",")
        if dot >= 0 and comma >= 0:
            decimal = "." if dot > comma else ","
        elif comma >= 0:
            groups = bare.count(",") > 1 or (len(bare) - comma == 4 and comma > 0)  # noqa: PLR2004
            decimal = "." if groups else ","
        else:
            decimal = "," if bare.count(".") > 1 else "."
    whole = bare.replace("," if decimal == "." else ".", "").replace(decimal, ".")
    if whole.count(".") > 1:
        whole = whole.replace(".", "")
    return min(float(whole + power), sys.float_info.max)


def numbers_in(text: str, decimal: Mark | None = None) -> Iterator[Number]:
    """The numbers of a text, in order; parts of names and versions, such as `api-7`, are none.

    >>> [(part.value, part.unit) for part in numbers_in("-1,234.5 ms of 1.5e3, 20 % on api-7")]
    [(-1234.5, 'ms'), (1500.0, ''), (20.0, '%')]
    """
    text = text.translate(_MARKS)
    for match in _NUMBER.finditer(text):
        before = match["before"] or ""
        value = _value(match["digits"], decimal, match["power"] or "")
        if (match["sign"] or before.strip()[:1]) in {"-", "\u2212"}:
            value = -value
        end = match.end()
        unit = _UNIT.match(text, end)
        if unit and unit["unit"].casefold() in _SCALES:
            value *= _SCALES[unit["unit"].casefold()]
            end = unit.end()
            unit = _UNIT.match(text, end)
        name = unit["unit"].replace(" ", "") if unit else ""
        currency = before.strip(" -+\u2212")
        yield Number(
            value=value,
            unit=currency or name,
            text=text[match.start() : unit.end() if unit and name in _UNITS else end].strip()[:40],
        )


@rule(codes=("no_number", "wrong_number", "wrong_unit", "several_numbers"))
def number_near(
    to: float | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
    unit: str | None = None,
    which: Which = "last",
    decimal: Mark | None = None,
    field: str | None = None,
) -> Check:
    """A number in the output is near another one.

    Without a tolerance, the numbers must be equal, up to the rounding of a computer: `0.1 + 0.2`
    is `0.3`. With both tolerances, either is enough. A score below 1 is how near the number came.

    Args:
        to: The number to compare with; by default the case's `expected`.
        absolute: The largest difference that passes.
        relative: The largest difference that passes, as a share of the number to compare with;
            0.05 is 5 %.
        unit: The unit of the number, such as `ms`, `GB`, `km`, `%` or `€`. A number in another
            unit of the same kind is converted; one without a unit fails.
        which: The number that counts: the `last` of the output, the `first`, the `only` one, or
            `any` of them.
        decimal: The decimal mark, `.` or `,`; by default, it is read from each number: `1,234.5`,
            `1.234,5` and `1,5` are understood, and `1,234` is 1234.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(number_near(100, relative=0.05).check_text("It is about 104 MB."))
    pass: 104 MB is near 100
    >>> print(number_near(1500, unit="ms").check_text("It took 1.6 s."))
    fail (0.97): 1.6 s is not near 1500 ms
    """
    check_tolerance("number_near", "absolute", absolute)
    check_tolerance("number_near", "relative", relative)
    if which not in {"first", "last", "only", "any"}:
        raise UsageError(f"number_near: which is first, last, only or any, not {which!r}")
    if decimal not in {".", ",", None}:
        raise UsageError(f"number_near: decimal is '.' or ',', not {decimal!r}")
    if not isinstance(to, Expected):
        _target(to, UsageError("number_near: to is a number, not " + repr(to)[:80]))

    def check(answer: Answer) -> Verdict:
        given: JSON = answer.resolve(to, judge="number_near")
        target = _target(
            given, JudgeError(f"number_near: {to} is no number: {given!r}", judge="number_near")
        )
        found = [*numbers_in(answer.text or "", decimal)]
        chosen = {"first": found[:1], "last": found[-1:]}.get(which, found)
        name = f"{given} {unit}" if unit else f"{given}"
        if not chosen:
            return failed(f"no number, {name} wanted", code="no_number", expected=given)
        if which == "only" and len(chosen) > 1:
            texts = ", ".join(part.text for part in chosen[:5])
            return failed(
                f"{len(chosen)} numbers, one wanted: {texts}",
                code="several_numbers",
                expected=given,
            )
        return _nearest(chosen, target, name, unit, within=absolute, relative=relative)

    return on_answer(field, check)


def _target(value: JSON, error: JudgeError | UsageError) -> float:
    """A number to compare with, also where it is written as text.

    Raises:
        JudgeError, UsageError: It is none; the given error.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) <= sys.float_info.max:  # NaN is not, either
            return value
    elif isinstance(value, str):
        found = [*numbers_in(value)]
        if len(found) == 1:
            return found[0].value
    raise error


def _nearest(
    found: Sequence[Number],
    target: float,
    name: str,
    unit: str | None,
    *,
    within: float,
    relative: float,
) -> Verdict:
    best: Verdict | None = None
    for part in found:
        value = part.value if unit is None else part.in_unit(unit)
        if value is None:
            verdict = failed(
                f"{quote(part.text)} is no number of {unit}", code="wrong_unit", expected=target
            )
        elif is_close(value, target, within=max(within, relative * abs(target)), relative=1e-9):
            return passed(f"{part.text} is near {name}", expected=target, actual=value)
        else:
            size = abs(value) / 2 + abs(target) / 2
            verdict = failed(
                f"{part.text} is not near {name}",
                code="wrong_number",
                score=max(0.0, 1 - abs(value / 2 - target / 2) / size),
                expected=target,
                actual=value,
            )
        if best is None or verdict.score > best.score:
            best = verdict
    assert best is not None
    return best
