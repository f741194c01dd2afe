"""Values in an output: numbers, final answers, choices, and values missing in the inputs."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import sys
import unicodedata
from collections import deque
from collections.abc import Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._output import Expected, JudgedOutput, expected
from regauge.judges._rule import Check, on_output
from regauge.judges._rule_factory import Amount, resolve_in, rule
from regauge.judges._types import Verdict, failed, is_number, passed, quote, quote_list
from regauge.judges.rules._json import is_close
from regauge.judges.rules._text import normaliser
from regauge.lexicon import Lexicon
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON

__all__ = [
    "answer_is",
    "choice_is",
    "no_new_names",
    "no_new_numbers",
    "no_new_times",
    "number_near",
]

_WORDS: Final = Lexicon("regauge.judges", file="data/values.toml")
Which = Literal["first", "last", "only", "any"]
Mark = Literal[".", ","]

# Arabic decimal, group and percent marks, and full-width marks.
_MARKS = str.maketrans("\u066b\u066c\u066a\uff0e\uff0c\uff05\uff04\uffe5", ".,%.,%$\u00a5")
# Letters after a number; K is a temperature, and B bytes.
_LETTER_SCALES: Mapping[str, float] = MappingProxyType({"k": 1e3, "M": 1e6})
# After an amount of money, which has no such unit.
_MONEY_SCALES: Mapping[str, float] = MappingProxyType(
    {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "b": 1e9, "B": 1e9, "t": 1e12, "T": 1e12}
)
_AMBIGUOUS_LETTERS = frozenset("KMB")
_ABBREVIATED_MAX = 3  # letters of a scale that may end in a period, such as `Mio.`
# Korean scales as the characters whose value Unicode knows.
_HANGUL = str.maketrans("백천만억조", "百千万億兆")
# A number in parts, such as `1 d 2 h 3 min`, has at most one part per unit; the time of a judgement
# grows with this limit.
_PARTS_MAX = 32
_IN_PARTS = frozenset({"time", "length", "mass"})


@functools.cache
def _units() -> dict[str, tuple[str, float, float]]:
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


def _scale_of(unit: re.Match[str]) -> tuple[float, int]:
    """The factor of a scale where a unit may be, and the offset of its end; 1 without a scale.

    >>> [_scale_of(_WORDS.unit.match(text, 1)) for text in ("3 Mio. Euro", "3万人", "3 pods")]
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
        source, target = _units().get(self.unit), _units().get(unit)
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
    return min(float(number_text + _exponent(power)), sys.float_info.max)


def _exponent(power: str) -> str:
    """The power of ten after a number in Python's form, such as `e3`."""
    if not power or power[0] in "eE":
        return power
    digits = unicodedata.normalize("NFKC", power).rpartition("10")[2]
    return f"e{digits.strip('^*{}() ').replace(chr(0x2212), '-')}"


def _spell(special: str) -> str:
    """Write a number of another form in digits.

    >>> [_spell(text) for text in ("1½", "10³", "2億5000万", "3만 5천")]
    ['1.5', '1e3', '250000000', '35000']
    """
    if parts := _WORDS.mixed.fullmatch(special):
        return f"{int(parts[1] or 0) + unicodedata.numeric(parts[2]):.12g}"
    if _WORDS.ten_power.fullmatch(special):
        return f"1{_exponent(special)}"
    total = Decimal(0)
    for digits, scale in _WORDS.scaled.findall(special.translate(_HANGUL)):
        factor = math.prod(int(unicodedata.numeric(character)) for character in scale)
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
        digits, decimal = _spell(digits), "."
    value = _value(digits, decimal, power or "")
    before = before or ""
    if (sign or before.strip()[:1]) in {"-", "\u2212"}:
        value = -value
    unit = _WORDS.unit.match(text, end)
    name, scale = "", 1.0
    if unit:
        letters = _MONEY_SCALES if before else _LETTER_SCALES
        word = unit["unit"].partition("/")[0]
        # An adjacent letter is a scale: `1.2k`, `$3M`.
        if word in letters and word == text[end]:
            scale, end = letters[word], end + 1
        else:
            scale, end = _scale_of(unit)
        if scale != 1:
            value *= scale
            unit = _WORDS.unit.match(text, end)
        name = unit["unit"].replace(" ", "") if unit else ""
    end = unit.end() if unit and name in _units() else end
    number_text = text[match.start() : end]
    start = match.start() + len(number_text) - len(number_text.lstrip())
    currency = before.strip(" -+\u2212")
    return Number(value, currency or name, number_text.strip()[:40], start, end), scale


def _share_units(first: Number, second: Number, scale: float) -> tuple[Number, Number]:
    """The ends of a range such as `3 to 5 million` or `$3-5M`, each with scale and unit."""
    units = _units()
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


@rule(version=5, about="correctness")
def number_near(
    to: float | Expected = expected(),
    *,
    absolute: Amount = 0.0,
    relative: Amount = 0.0,
    unit: str | None = None,
    which: Which = "last",
    decimal: Mark | None = None,
    field: str | None = None,
) -> Check:
    """A number in the output is near another one.

    Without a tolerance the numbers must be equal up to rounding. With both tolerances, one
    suffices. `1½`, `10^3` and `2億5000万` are numbers; in a range such as `$3-5M`, both numbers
    have its scale and unit.

    Args:
        to: The value or reference to compare with; by default the case's `expected`. A text such as
            `5 GB` is compared in its unit.
        absolute: The largest difference that passes.
        relative: The same as a share of the expected number; 0.05 is 5 %.
        unit: Such as `ms`, `GB`, `km`, `%` or `€`; others of its kind are converted. A number
            without a unit fails.
        which: The `last` number, the `first`, the `only` one, or `any`.
        decimal: The decimal mark, `.` or `,`; by default read from each number (`1,5` is 1.5,
            `1,234` is 1234, `0,123` is 0.123).
        field: Judge this part of a JSON output.

    Fails as: no_number, wrong_number, wrong_unit, several_numbers
    Advice: Give a number near {to:or}{inside}. | Give it in {unit:bare}.

    >>> print(number_near(100, relative=0.05).check_text("It is about 104 MB."))
    pass: 104 MB is near 100
    >>> print(number_near(1500, unit="ms").check_text("It took 1.6 s."))
    fail (0.97): 1.6 s is not near 1500 ms
    """
    if not isinstance(to, Expected):
        _target(to, UsageError("number_near: to is a number, not " + repr(to)[:80]))

    def check(output: JudgedOutput) -> Verdict:
        expected: JSON = output.resolve(to, judge="number_near")
        target = _target(
            expected,
            JudgeError(f"number_near: {to} is no number: {expected!r}", judge="number_near"),
        )
        text = output.text or ""
        last = _PARTS_MAX if which == "last" else None
        numbers = _join_units(text, decimal, last) if unit else _plain(text, decimal, last)
        if which == "last":
            candidates = [*deque(numbers, maxlen=1)]
        else:
            candidates = [*itertools.islice(numbers, 1 if which == "first" else None)]
        name = f"{expected} {unit}" if unit else f"{expected}"
        if not candidates:
            return failed(f"no number, {name} wanted", code="no_number", expected=expected)
        if which == "only" and len(candidates) > 1:
            texts = ", ".join(part.text for part in candidates[:5])
            return failed(
                f"{len(candidates)} numbers, one wanted: {texts}",
                code="several_numbers",
                expected=expected,
            )
        return _nearest(candidates, target, name, unit, within=absolute, relative=relative)

    return on_output(field, check)


def _spell_duration(match: re.Match[str]) -> str:
    parts = zip(match.groups(), ("d", "h", "min", "s"), strict=True)
    return " ".join(f"{digits} {unit}" for digits, unit in parts if digits)


def _plain(text: str, decimal: Mark | None, last: int | None) -> Iterator[Number]:
    """The numbers of a text; a fraction alone is one number."""
    fraction = _WORDS.fraction.fullmatch(bare_answer(text.removesuffix("%").strip()))
    if fraction is None or not int(fraction[2] or fraction[4]):
        yield from numbers_in(text, decimal, last=last)
        return
    over = int((fraction[1] or fraction[3]).replace("\u2212", "-"))
    yield Number(value=over / int(fraction[2] or fraction[4]), unit="", text=fraction[0])


def _join_units(text: str, decimal: Mark | None, last: int | None) -> Iterator[Number]:
    """The numbers of a text; a number in parts, such as `1 h 30 min`, is one."""
    text = _WORDS.duration.sub(_spell_duration, text)
    total: Number | None = None
    units = _units()
    for part in numbers_in(text, decimal, last=last):
        smaller = units.get(part.unit) if total and part.unit else None
        larger = units.get(total.unit) if total and smaller else None
        if (
            total
            and larger
            and smaller
            and larger[0] == smaller[0] in _IN_PARTS
            and larger[1] > smaller[1]
            and _WORDS.joined.fullmatch(text, total.end, part.start)
        ):
            sign = -1 if total.value < 0 else 1
            value = total.value + sign * part.value * smaller[1] / larger[1]
            joined_text = f"{total.text} {part.text}"[:40]
            total = total._replace(value=value, text=joined_text, end=part.end)
        else:
            if total:
                yield total
            total = part
    if total:
        yield total


def _target(value: JSON, error: JudgeError | UsageError) -> Number:
    """Parse the number to compare with, which may be a text with a unit.

    Raises:
        JudgeError, UsageError: It is no number; the given error.
    """
    if is_number(value):
        if abs(value) <= sys.float_info.max:  # NaN is not, either
            return Number(value, "", str(value))
    elif isinstance(value, str):
        numbers = [*numbers_in(value)]
        if len(numbers) == 1:
            return numbers[0]
    raise error


def _nearest(
    numbers: Sequence[Number],
    expected: Number,
    name: str,
    unit: str | None,
    *,
    within: float,
    relative: float,
) -> Verdict:
    target = expected.value
    within = max(within, relative * abs(target))
    best: tuple[float, Number, float | None] | None = None
    for part in {(part.value, part.unit): part for part in reversed(numbers)}.values():
        value = _value_in(part, expected.unit) if unit is None else part.in_unit(unit)
        score = 0.0
        if value is not None:
            if is_close(value, target, within=within, relative=1e-9):
                return passed(f"{part.text} is near {name}", expected=target, actual=value)
            score = max(0.0, 1 - abs(value / 2 - target / 2) / (abs(value) / 2 + abs(target) / 2))
        if best is None or score > best[0]:
            best = score, part, value
    assert best is not None
    score, part, value = best
    if value is None:
        return failed(
            f"{quote(part.text)} is no number of {unit or expected.unit}",
            code="wrong_unit",
            expected=target,
        )
    return failed(
        f"{part.text} is not near {name}",
        code="wrong_number",
        score=score,
        expected=target,
        actual=value,
    )


_AROUND_ANSWER = " \t*_`\"'“”„‘’«»「」『』"  # noqa: RUF001 - quotation marks
_PERIODS = (".", "。", "．", "।", "۔", "։")  # noqa: RUF001 - those of several scripts
_BOXED = "\\boxed{"


def _boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}` of a text; None without one."""
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOXED)
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[begin:position]
    return None


def _after(text: str, marker: str) -> str | None:
    """The rest of the line after the last marker, or the next line with text; None without one."""
    text_folded, folded_marker = text.casefold(), marker.casefold()
    if len(text_folded) != len(text):
        text_folded, folded_marker = text.lower(), marker.lower()
    position = text_folded.rfind(folded_marker)
    if position < 0:
        return None
    rest = text[position + len(marker) :]
    return next((line for line in rest.splitlines() if line.strip(_AROUND_ANSWER + ":$")), "")


def bare_answer(text: str) -> str:
    r"""Remove the marks around an answer: emphasis, quotes, math, a final period.

    >>> bare_answer(" **$\\boxed{1,000}$**. ")
    '1,000'
    """
    text = text.strip(_AROUND_ANSWER + ":")
    boxed = _boxed(text)
    text = text if boxed is None else boxed
    text = text.strip(_AROUND_ANSWER)
    text = text[: -1 if text.endswith(_PERIODS) else None].strip(_AROUND_ANSWER)
    is_math = text[:1] == text[-1:] == "$"
    return text.strip("$").strip(_AROUND_ANSWER) if is_math else text


def _equals_answer(text: str, expected: JSON) -> bool:
    if is_number(expected):
        numbers = [*numbers_in(text)]
        return len(numbers) == 1 and is_close(numbers[0].value, expected, within=0, relative=1e-9)
    if not isinstance(expected, str):
        return False
    if (number := [*numbers_in(expected)]) and number[0].text == expected.strip():
        return text == expected or _equals_quantity(text, number[0])
    simplify = normaliser(ignore_case=True, ignore_space=True)
    return simplify(text) == simplify(bare_answer(expected))


def _equals_quantity(text: str, expected: Number) -> bool:
    """Return whether a text has one number, equal to another; a known unit is converted."""
    numbers = [*numbers_in(text)]
    if len(numbers) != 1 or re.match("0[0-9]", expected.text):  # `007` is a name
        return False
    value = _value_in(numbers[0], expected.unit)
    return value is not None and is_close(value, expected.value, within=0, relative=1e-9)


def _value_in(number: Number, unit: str) -> float | None:
    """The value in a unit; words that are no unit, and missing ones, are ignored."""
    return number.in_unit(unit) if {number.unit, unit} <= _units().keys() else number.value


@rule(version=4, about="correctness")
def answer_is(
    to: JSON | Expected = expected(), *, after: str = "ANSWER:", field: str | None = None
) -> Check:
    r"""The output ends in the correct answer, after a marker.

    The answer is the rest of the line after the last marker, the next line with text, or else the
    content of the last `\boxed{...}`. Case, emphasis, quotes and a final period are ignored;
    numbers are compared as numbers, in the unit of the correct answer if both have one.

    Args:
        to: The correct answer, or a list of correct answers.
        after: The marker, in any case.
        field: Judge this part of a JSON output.

    Fails as: no_answer, wrong_answer
    Advice: Close with a line that begins with {after:or} and gives the answer alone. | The answer
        is {to:or}.
    Negated: The answer is not {to:or}.

    >>> print(answer_is("Paris").check_text("It is the capital.\n**Answer:** Paris."))
    pass: the answer is 'Paris'
    >>> print(answer_is(1000).check_text("So 400 + 600.\nANSWER: 1,200"))
    fail: the answer is '1,200', not '1000'
    """
    if not after.strip():
        raise UsageError("answer_is: the marker cannot be empty")

    def check(output: JudgedOutput) -> Verdict:
        expected = output.resolve(to, judge="answer_is")
        if expected is None:
            raise output.missing_error(str(to), judge="answer_is")
        right = expected if isinstance(expected, list) else [expected]
        text = output.text or ""
        after_marker = _after(text.replace("**", "").replace("__", ""), after)
        if after_marker is None:
            after_marker = _boxed(text)
        if after_marker is None or not bare_answer(after_marker):
            return failed(f"no answer after {quote(after)}", code="no_answer", expected=expected)
        bare = bare_answer(after_marker)
        if any(_equals_answer(bare, value) for value in right):
            return passed(f"the answer is {quote(bare)}")
        return failed(
            f"the answer is {quote(bare)}, not {quote_list([str(value) for value in right])}",
            code="wrong_answer",
            expected=expected,
            actual=bare[:200],
        )

    return on_output(field, check)


_NEXT = re.compile(r" *([^\W_])")


class _Options:
    """Recognises the options that an output chooses."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = options
        self._options = {option.casefold(): option for option in options}
        pattern = "|".join(re.escape(option) for option in sorted(options, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<!\w)(?i:{pattern})(?!\w)")
        # "Yes, it does." chooses; "A, for one, ..." does not.
        parts = {
            "one": pattern,
            "count": str(len(options)),
            "comma": ",\uff0c" if min(map(len, options)) > 1 else "_",
        }
        self._choice_pattern = _WORDS.pattern("stated", **parts)
        self._line = _WORDS.pattern("line", **parts)
        self._boxed = _WORDS.pattern("boxed", **parts)

    def right_options(self, value: object) -> set[str]:
        """Validate the right options of an author.

        Raises:
            UsageError: There is none, or one is not among the options.
        """
        parts = [value]
        if isinstance(value, Sequence) and not isinstance(value, str):
            parts = list(cast("Sequence[object]", value))
        for part in parts:
            if not isinstance(part, str) or part.casefold() not in self._options:
                raise UsageError(f"choice_is: {part!r} is not among {quote_list(self.options)}")
        if not parts:
            raise UsageError("choice_is: name at least one right option")
        return {self._options[str(part).casefold()] for part in parts}

    def chosen_options(self, text: str) -> set[str]:
        """The options that a text chooses; empty for none.

        "Option A" alone is a choice; "option A is slow" is not.
        """
        labels = [match["chosen"] for match in self._boxed.finditer(text)]
        alone: set[str] = set()
        discussed: set[str] = set()
        for match in () if labels else self._choice_pattern.finditer(text):
            before = text[max(0, match.start() - 30) : match.start()]
            if self._is_article(match, text) or _WORDS.denies.search(before):
                continue
            label = match["chosen"] or match["judged"] or match["it"]
            verdict_words = _WORDS.judged.match(text, match.end())
            if self._is_stated(match) or (verdict_words and not verdict_words["weak"]):
                labels.append(label)
            elif verdict_words or _WORDS.alone.match(text, match.end()):
                alone.add(label)
            else:
                discussed.add(label)
        if labels:
            return self._options_in(labels[-1])
        if len(alone) == 1:
            return self._options_in(alone.pop())
        lines = {match["chosen"] for match in self._line.finditer(text)}
        return set[str]().union(*(self._options_in(part) for part in lines or alone | discussed))

    def _is_stated(self, match: re.Match[str]) -> bool:
        """Return whether a match is like "the answer is B" or "choose B", not "answer B"."""
        between = match.string[match.start() : max(match.start(), match.start("chosen"))]
        return bool(
            match["verb"] or match["link"] or match["it"] or re.search("[:\uff1a>]", between)
        )

    def _is_article(self, match: re.Match[str], text: str) -> bool:
        """Return whether "a" is an article, as in "the answer is a dog"."""
        if match["chosen"] != "a":
            return False
        after = _NEXT.match(text, match.end())
        return after is not None and after[1].isalpha()

    def _options_in(self, text: str) -> set[str]:
        # A pattern without case takes a dotless i for "i"; it is another letter.
        labels = {match.casefold() for match in self._pattern.findall(text)}
        return {self._options[label] for label in labels & self._options.keys()}


@rule(version=3, about="correctness")
def choice_is(
    to: str | Sequence[str] | Expected = expected(),
    *,
    options: Sequence[str] = ("A", "B", "C", "D", "E"),
    field: str | None = None,
) -> Check:
    """The output chooses the correct option, such as `B`.

    Recognises "The answer is (B).", "Answer: B", "**B)** Paris", "B" and the like, also in other
    large languages. The last stated choice counts, or else options that lines begin with, but no
    remarks on other options.

    Args:
        to: The correct option, or a list of options that must all be chosen.
        options: All labels, in any case.
        field: Judge this part of a JSON output.

    Fails as: no_choice, wrong_choice
    Advice: State which of these you choose: {options:choice}. | Choose {to:and}.
    Negated: Do not choose {to:and}.

    >>> print(choice_is("B").check_text("A is too old, so the answer is (B)."))
    pass: chooses 'B'
    >>> print(choice_is("B").check_text("C) Rome"))
    fail: chooses 'C', not 'B'
    """
    if isinstance(options, str) or not options or not all(options):
        raise UsageError(f"choice_is: name the options as a list of texts, not {options!r}")
    reader = _Options(options)
    if not isinstance(to, Expected):
        reader.right_options(to)

    def check(output: JudgedOutput) -> Verdict:
        value = cast("JSON", resolve_in(to, output, "choice_is"))
        if value is None:
            raise output.missing_error(str(to), judge="choice_is")
        try:
            right = reader.right_options(value)
        except UsageError as error:
            raise JudgeError(str(error), judge="choice_is") from error
        chosen_options = reader.chosen_options(output.text or "")
        if not chosen_options:
            return failed("states no choice", code="no_choice", expected=sorted(right))
        if chosen_options == right:
            return passed(f"chooses {quote_list(sorted(chosen_options))}", expected=sorted(right))
        return failed(
            f"chooses {quote_list(sorted(chosen_options))}, not {quote_list(sorted(right))}",
            code="wrong_choice",
            expected=sorted(right),
            actual=sorted(chosen_options),
        )

    return on_output(field, check)


def _source(output: JudgedOutput, inputs: Sequence[str]) -> str:
    """The text of the case's inputs: those named, or all."""
    names = inputs or sorted(output.inputs)
    missing = [name for name in names if name not in output.inputs]
    if missing:
        raise output.missing_error(f"input {quote_list(missing)}", judge="the input")
    parts = [output.inputs[name] for name in names]
    return "\n".join(
        part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts
    )


def number_readings(text: str) -> list[tuple[str, list[set[str]]]]:
    """The numbers of a text as written, with their readings, without list marks.

    A reading is one number, or several with commas between them. A period before three digits may
    group them or begin a fraction. A letter such as `M` may be a scale or a unit.

    >>> number_readings("1. It took 1,200 ms, 1.50 s")
    [('1,200', [{'1200'}]), ('1.50', [{'1.5'}])]
    >>> number_readings("3 million, 1.2k, 5M")
    [('3 million', [{'3000000'}]), ('1.2', [{'1200'}]), ('5', [{'5'}, {'5000000'}])]
    >>> number_readings("3 to 4 million")[0]
    ('3', [{'3'}, {'3000000'}])
    """
    text = _WORDS.list_mark.sub("", text)
    numbers: list[tuple[str, list[set[str]]]] = []
    previous_end = 0
    for match in _WORDS.written_number.finditer(text):
        special = match["special"]
        readings = [{_canonical(_spell(special))}] if special else _readings(match[0])
        unit = _WORDS.unit.match(text, match.end())
        scale, end = _scale_of(unit) if unit else (1.0, match.end())
        if scale != 1:
            if numbers and _WORDS.range.fullmatch(text, previous_end, match.start()):
                first, first_readings = numbers[-1]
                numbers[-1] = first, first_readings + _multiply(first_readings, scale)
            readings = _multiply(readings, scale)
        elif (letter := text[end : end + 1]) and not text[end + 1 : end + 2].isalpha():
            is_money = _WORDS.money.search(text, max(0, match.start() - 5), match.start())
            if letter == "k" or (is_money and letter in _MONEY_SCALES):
                readings = _multiply(readings, _MONEY_SCALES[letter])
            elif letter in _AMBIGUOUS_LETTERS:
                readings = readings + _multiply(readings, _MONEY_SCALES[letter])
        numbers.append((text[match.start() : end], readings))
        previous_end = end
    return numbers


def _multiply(readings: list[set[str]], scale: float) -> list[set[str]]:
    """The readings times a scale; of several numbers, each."""
    return [
        {_canonical(str(Decimal(part) * int(scale))) for part in reading} for reading in readings
    ]


@functools.lru_cache(maxsize=4096)
def _readings(text: str) -> list[set[str]]:
    if text.isascii() and text.isdigit():
        return [{text.lstrip("0") or "0"}]
    # Digits of any script, such as Arabic ones.
    bare = "".join(str(int(char)) if char.isdecimal() else char for char in text.lower())
    bare = _WORDS.times_ten.sub(lambda power: _exponent(power[0]), bare)
    readings: list[set[str]] = []
    if grouped := _WORDS.grouped.fullmatch(bare):
        readings.append({_canonical(bare.replace(grouped[1], "").replace(",", "."))})
    if sum(map(bare.count, ",.'\u2019\u00a0\u202f")) <= 1 and not (grouped and grouped[1] != "."):
        readings.append({_canonical(bare.replace(",", "."))})
    if "," in bare and not grouped:
        readings.append({_canonical(part) for part in bare.split(",")})
    if grouped and grouped[1] == " " and " 0" not in bare:  # or several numbers
        readings.append({_canonical(part) for part in bare.replace(",", ".").split(" ")})
    return readings


def _canonical(number: str) -> str:
    """Write a number without an exponent and without redundant zeros."""
    plain = format(Decimal(number), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0" if not plain.startswith("0.") else plain


@rule(version=4, about="correctness")
def no_new_numbers(
    *inputs: str, allow: Sequence[float] = (), up_to: int = 0, field: str | None = None
) -> Check:
    """Every number in the output is also in the inputs of the case.

    1,200, 1.200, 1 200 and 1200 are the same; so are 1.5, 1,5 and 1½, 1e3, 10^3 and 1000, 3 million
    and 3,000,000, and digits of any script. Marks of numbered lists do not count.

    Args:
        inputs: The inputs to search; by default all.
        allow: Exceptions.
        up_to: Allow whole numbers up to this one.
        field: Judge this part of a JSON output.

    Fails as: invented_number
    Advice: Use only numbers that stand in the input{inside}; never calculate or invent one.

    >>> print(no_new_numbers().check_text("2 of 7 pods", inputs={"report": "2 pods of 5 died"}))
    fail (0.50): 1 number that the input does not have: '7'
    """
    allowed = {_canonical(f"{value:.10f}") for value in allow}

    def check(output: JudgedOutput) -> Verdict:
        sources = number_readings(_source(output, inputs))
        allowed_readings = allowed.union(
            *(reading for _, readings in sources for reading in readings)
        )
        numbers = number_readings(output.text or "")
        new = [
            text
            for text, readings in numbers
            if not any(
                all(part in allowed_readings or _is_small(part, up_to) for part in reading)
                for reading in readings
            )
        ]
        return _verdict_on_new(new, len(numbers), "number", "invented_number")

    return on_output(field, check)


def _is_small(number: str, up_to: int) -> bool:
    return number.isdigit() and len(number) < 19 and int(number) <= up_to  # noqa: PLR2004 - no limit is longer


def _verdict_on_new(new: list[str], total: int, noun: str, code: str) -> Verdict:
    if not new:
        return passed(f"{plural(total, noun)}, none of them new")
    unique = list(dict.fromkeys(new))
    return failed(
        f"{plural(len(unique), noun)} that the input does not have: {quote_list(unique)}",
        code=code,
        score=1 - len(new) / total,
        details={"new": unique[:20]},
    )


@functools.cache
def _months() -> dict[str, int]:
    """The number of each month, by its names in nine languages."""
    lines = _WORDS.entry("months").split("\n")[:12]
    return {name: number for number, line in enumerate(lines, start=1) for name in line.split()}


@functools.cache
def _dates() -> tuple[re.Pattern[str], ...]:
    """The forms of a date."""
    names = "|".join(sorted(_months(), key=len, reverse=True))
    forms = ("date_iso", "date_numeric", "date_cjk", "date_day_first", "date_month_first")
    return tuple(_WORDS.pattern(form, months=names) for form in forms)


_MONTHS = 12
_DAYS_MAX = 31
_T_CLOCK = re.compile(r"(?<=\d)[Tt](?=\d{2}:\d{2})")


def _date_forms(parts: Mapping[str, str | None]) -> list[str]:
    """The forms of a date, with its year first; empty for numbers that are no date.

    `3/5/2024` has both orders, and first the form of a date of unknown order.
    """
    month = int(parts.get("number") or _months()[str(parts.get("month")).lower()])
    day, year, mark = int(str(parts["day"])), parts.get("year"), parts.get("mark")
    any_order = mark is not None and mark != "."
    if any_order and month > _MONTHS:
        day, month = month, day
    if mark and not (0 < month <= _MONTHS and 0 < day <= _DAYS_MAX):
        return []
    days = [f"{month:02}-{day:02}"]
    if not year:
        return days
    unordered = f"{year} {min(day, month):02}/{max(day, month):02}"
    if any_order and day <= _MONTHS:
        days.append(f"{day:02}-{month:02}")
        return [unordered, *(f"{year}-{name}" for name in days), *days]
    return [f"{year}-{days[0]}", *days, unordered]


def times_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """The dates and times of day in a text as written, each with its forms.

    A date with a year and a time with seconds have two forms, the longer one first.

    >>> list(times_in("On 3 May 2024 at 2:05 pm"))
    [('3 May 2024', ['2024-05-03', '05-03', '2024 03/05']), ('2:05 pm', ['14:05'])]
    """
    spaced = _T_CLOCK.sub(" ", text)
    hits = [
        (date.start(), date[0], _date_forms(date.groupdict()))
        for pattern in _dates()
        for date in pattern.finditer(spaced)
    ]
    for clock in (*_WORDS.clock.finditer(spaced), *_WORDS.clock_named.finditer(spaced)):
        parts = clock.groupdict()
        hour = int(clock["hour"])
        if half := clock["half"] or ("p" if clock["afternoon"] else ""):
            hour = hour % 12 + (12 if half[0] in "pP" else 0)
        minute = clock["minute"] or parts.get("minute_ja") or parts.get("minute_zh") or "0"
        form, second = f"{hour:02}:{int(minute):02}", parts.get("second") or "00"
        forms = [form] if second == "00" else [f"{form}:{second}", form]
        hits.append((clock.start(), clock[0].strip(), forms))
    for _, time_text, forms in sorted(hits, key=lambda part: part[0]):
        if forms:
            yield time_text, forms


@rule(version=4, about="correctness")
def no_new_times(*inputs: str, field: str | None = None) -> Check:
    """Every date and time of day in the output is also in the inputs of the case.

    `3 May 2024`, `3.5.2024` and `2024-05-03` are the same; so are `2:05 pm`, `14.05 Uhr` and
    `14:05:00`. `3/5/2024` is either of its two days. Year and seconds may be missing. Months may be
    named in nine large languages. Time zones are not converted.

    Args:
        inputs: The inputs to search; by default all.
        field: Judge this part of a JSON output.

    Fails as: invented_time
    Advice: Use only dates and times that stand in the input{inside}; never invent one.

    >>> print(no_new_times().check_text(
    ...     "Down from 14:05 to 14:30.", inputs={"report": "2024-05-03T14:05Z: page"}))
    fail (0.50): 1 time that the input does not have: '14:30'
    """

    def check(output: JudgedOutput) -> Verdict:
        source_forms = {form for _, forms in times_in(_source(output, inputs)) for form in forms}
        times = list(times_in(output.text or ""))
        new = [time_text for time_text, forms in times if forms[0] not in source_forms]
        return _verdict_on_new(new, len(times), "time", "invented_time")

    return on_output(field, check)


_IDENTIFIER = re.compile(r"\b[A-Za-z][\w.-]*[\w]")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n|>*#\"“-])\s*$")


def names_in(text: str) -> Iterator[str]:
    """Words that look like names: capitals inside a sentence, CamelCase, digits, `-`, `_`, `.`.

    >>> list(names_in("The pod api-7 of Frankfurt died. It was fine."))
    ['api-7', 'Frankfurt']
    """
    for match in _IDENTIFIER.finditer(text):
        word = match[0]
        inner = word[1:]
        if any(char in "_." or char.isdigit() or char.isupper() for char in inner) or (
            word[0].isupper()
            and not _SENTENCE_START.search(text, max(0, match.start() - 8), match.start())
        ):
            yield word


@rule(about="correctness")
def no_new_names(*inputs: str, allow: Sequence[str] = (), field: str | None = None) -> Check:
    """Every name in the output is also in the inputs of the case.

    Names are words with a capital inside a sentence, in CamelCase, or with digits, dots or
    underscores. This is a heuristic.

    Args:
        inputs: The inputs to search; by default all.
        allow: Exceptions.
        field: Judge this part of a JSON output.

    Fails as: invented_name
    Advice: Use only names that stand in the input{inside}; never invent one.

    >>> print(no_new_names().check_text(
    ...     "The pod api-7 moved to Frankfurt.", inputs={"report": "api-7 was evicted"}))
    fail (0.50): 1 name that the input does not have: 'Frankfurt'
    """
    allowed = {name.lower() for name in allow}

    def check(output: JudgedOutput) -> Verdict:
        source = _source(output, inputs).lower()
        names = list(names_in(output.text or ""))
        new = [name for name in names if name.lower() not in source and name.lower() not in allowed]
        return _verdict_on_new(new, len(names), "name", "invented_name")

    return on_output(field, check)
