"""Numbers, times and names in an output that the inputs of its case do not have."""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from regauge.judges._rule import Check, on_output
from regauge.judges._rule_factory import Name, Names, Whole, rule
from regauge.judges._types import Verdict, failed, passed, quote_list
from regauge.judges.rules._numbers import MONEY_SCALES, exponent_of, scale_of, spell_number
from regauge.lexicon import Lexicon
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.judges.output import JudgedOutput

__all__ = ["no_new_names", "no_new_numbers", "no_new_times"]

_WORDS: Final = Lexicon("regauge.judges", file="data/values.toml")


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
        readings = [{_canonical(spell_number(special))}] if special else _readings(match[0])
        unit = _WORDS.unit.match(text, match.end())
        scale, end = scale_of(unit) if unit else (1.0, match.end())
        if scale != 1:
            if numbers and _WORDS.range.fullmatch(text, previous_end, match.start()):
                first, first_readings = numbers[-1]
                numbers[-1] = first, first_readings + _multiply(first_readings, scale)
            readings = _multiply(readings, scale)
        elif (letter := text[end : end + 1]) and not text[end + 1 : end + 2].isalpha():
            is_money = _WORDS.money.search(text, max(0, match.start() - 5), match.start())
            if letter == "k" or (is_money and letter in MONEY_SCALES):
                readings = _multiply(readings, MONEY_SCALES[letter])
            elif letter in "KMB":
                readings = readings + _multiply(readings, MONEY_SCALES[letter])
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
    bare = _WORDS.times_ten.sub(lambda power: exponent_of(power[0]), bare)
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


@rule(version=5, about="correctness")
def no_new_numbers(
    *inputs: Name, allow: Sequence[float] = (), up_to: Whole = 0, field: str | None = None
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
    """The forms of a date, with its year first; empty for numbers that are not a date.

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
def no_new_times(*inputs: Name, field: str | None = None) -> Check:
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
def no_new_names(*inputs: Name, allow: Names = (), field: str | None = None) -> Check:
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
