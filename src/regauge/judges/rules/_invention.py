"""What an answer says that its input does not: figures, times, names."""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from regauge.judges._evidence import listed
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.judges._answer import Answer

__all__ = ["no_new_names", "no_new_numbers", "no_new_times"]


def _source(answer: Answer, inputs: Sequence[str]) -> str:
    """The text of the case's inputs: all of them, or those named."""
    chosen = inputs or sorted(answer.inputs)
    missing = [name for name in chosen if name not in answer.inputs]
    if missing:
        raise answer.lacks(f"input {listed(missing)}", judge="the input")
    parts = [answer.inputs[name] for name in chosen]
    return "\n".join(
        part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts
    )


_NUMBER = re.compile(
    r"(?:\d{1,3}(?P<group>[,.'\u2019\u00a0\u202f])\d{3}(?:(?P=group)\d{3})*(?!\d)(?:[.,]\d+)?"
    r"|\d+[.,]\d+|(?<![\w.,])\.\d+|\d+)(?:[eE][+-]?\d{1,3}(?![\w.]))?"
)
_LIST_MARK = re.compile(r"^[^\S\n]*(?:#{1,6}[^\S\n]*)?\(?\d{1,3}[.)](?=\s)", re.MULTILINE)
_GROUPED = re.compile(r"[1-9]\d{0,2}([,.'\u2019\u00a0\u202f])\d{3}(?:\1\d{3})*(?:[.,]\d+)?(?:e.*)?")


def numbers_in(text: str) -> Iterator[tuple[str, list[set[str]]]]:
    """The numbers of a text as written, and their readings; marks of lists are left out.

    A reading is one number, or several that a comma parts. A period before three digits may group
    them or begin a fraction.

    >>> list(numbers_in("1. It took 1,200 ms, 1.50 s"))
    [('1,200', [{'1200'}]), ('1.50', [{'1.5'}])]
    """
    for match in _NUMBER.finditer(_LIST_MARK.sub("", text)):
        yield match[0], _readings(match[0])


@functools.lru_cache(maxsize=4096)
def _readings(found: str) -> list[set[str]]:
    if found.isascii() and found.isdigit():
        return [{found.lstrip("0") or "0"}]
    # Digits of any script, such as Arabic ones.
    bare = "".join(str(int(char)) if char.isdecimal() else char for char in found.lower())
    readings: list[set[str]] = []
    if grouped := _GROUPED.fullmatch(bare):
        readings.append({_canonical(bare.replace(grouped[1], "").replace(",", "."))})
    if sum(map(bare.count, ",.'\u2019\u00a0\u202f")) <= 1 and not (grouped and grouped[1] != "."):
        readings.append({_canonical(bare.replace(",", "."))})
    if "," in bare and not grouped:
        readings.append({_canonical(part) for part in bare.split(",")})
    return readings


def _canonical(number: str) -> str:
    """A number without an exponent, and without zeros that say nothing."""
    plain = format(Decimal(number), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return plain.lstrip("0") or "0" if not plain.startswith("0.") else plain


@rule(codes=("invented_number",), version=2)
def no_new_numbers(
    *inputs: str, allow: Sequence[float] = (), up_to: int = 0, field: str | None = None
) -> Check:
    """Every number in the answer stands in the case's inputs too.

    1,200, 1.200 and 1200 are the same; so are 1.5, 1,5 and 1.50, 1e3 and 1000, and digits of any
    script. The marks of numbered lists do not count. The score is the share of known numbers.

    Args:
        inputs: Names of the inputs to look in; all by default.
        allow: Numbers that may occur anyway.
        up_to: Whole numbers up to this one may occur anyway.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(no_new_numbers().check_text("2 of 7 pods", inputs={"report": "2 pods of 5 died"}))
    fail (0.50): 1 number that the input does not have: '7'
    """
    allowed = {_canonical(f"{value:.10f}") for value in allow}

    def check(answer: Answer) -> Verdict:
        given = numbers_in(_source(answer, inputs))
        known = allowed.union(*(reading for _, readings in given for reading in readings))
        found = list(numbers_in(answer.text or ""))
        new = [
            text
            for text, readings in found
            if not any(
                all(part in known or _is_small(part, up_to) for part in reading)
                for reading in readings
            )
        ]
        return _invented(new, len(found), "number", "invented_number")

    return on_answer(field, check)


def _is_small(number: str, up_to: int) -> bool:
    return number.isdigit() and len(number) < 19 and int(number) <= up_to  # noqa: PLR2004 - no limit is longer


def _invented(new: list[str], total: int, noun: str, code: str) -> Verdict:
    if not new:
        return passed(f"{plural(total, noun)}, none of them new")
    unique = list(dict.fromkeys(new))
    return failed(
        f"{plural(len(unique), noun)} that the input does not have: {listed(unique)}",
        code=code,
        score=1 - len(new) / total,
        details={"new": unique[:20]},
    )


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"(?:uary|ruary|ch|il|e|y|ust|t(?:ember)?|ober|ember)?\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4}))?"
_DATES = (
    re.compile(r"\b(?P<year>\d{4})[-/.](?P<number>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)"),
    re.compile(rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}{_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}{_YEAR}\b", re.IGNORECASE),
)
_CLOCK = re.compile(
    r"(?<![\d:.])(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
    r"(?:\.\d+)?\s*(?P<half>[ap]\.?m\b)?",
    re.IGNORECASE,
)
_T_CLOCK = re.compile(r"(?<=\d)[Tt](?=\d{2}:\d{2})")


def times_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """The dates and times of day of a text as they stand there, and in their forms.

    A date with a year has two forms, the fuller one first.

    >>> list(times_in("On 3 May 2024 at 2:05 pm"))
    [('3 May 2024', ['2024-05-03', '05-03']), ('2:05 pm', ['14:05'])]
    """
    spaced = _T_CLOCK.sub(" ", text)
    found: list[tuple[int, str, list[str]]] = []
    for pattern in _DATES:
        for date in pattern.finditer(spaced):
            parts = date.groupdict()
            month = parts.get("number") or _MONTHS.index((parts.get("month") or "jan").lower()) + 1
            day = f"{int(month):02}-{int(parts['day']):02}"
            year = parts.get("year")
            found.append((date.start(), date[0], [f"{year}-{day}", day] if year else [day]))
    for clock in _CLOCK.finditer(spaced):
        hour = int(clock["hour"])
        if clock["half"]:
            hour = hour % 12 + (12 if clock["half"][0] in "pP" else 0)
        second = clock["second"] or "00"
        form = f"{hour:02}:{clock['minute']}" + (f":{second}" if second != "00" else "")
        found.append((clock.start(), clock[0].strip(), [form]))
    for _, shown, forms in sorted(found, key=lambda part: part[0]):
        yield shown, forms


@rule(codes=("invented_time",))
def no_new_times(*inputs: str, field: str | None = None) -> Check:
    """Every date and time of day in the answer stands in the case's inputs too.

    `3 May 2024`, `May 3rd, 2024` and `2024-05-03` are the same; so are `2:05 pm`, `14:05` and
    `14:05:00`. Time zones are not converted.

    Args:
        inputs: Names of the inputs to look in; all by default.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(no_new_times().check_text(
    ...     "Down from 14:05 to 14:30.", inputs={"report": "2024-05-03T14:05Z: page"}))
    fail (0.50): 1 time that the input does not have: '14:30'
    """

    def check(answer: Answer) -> Verdict:
        known = {form for _, forms in times_in(_source(answer, inputs)) for form in forms}
        found = list(times_in(answer.text or ""))
        new = [shown for shown, forms in found if forms[0] not in known]
        return _invented(new, len(found), "time", "invented_time")

    return on_answer(field, check)


_IDENTIFIER = re.compile(r"\b[A-Za-z][\w.-]*[\w]")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n|>*#\"“-])\s*$")


def names_in(text: str) -> Iterator[str]:
    """Words that look like names: capitals inside a sentence, CamelCase, digits, `-`, `_`, `.`.

    >>> list(names_in("The pod api-7 of Frankfurt died. It was fine."))
    ['api-7', 'Frankfurt']
    """
    for found in _IDENTIFIER.finditer(text):
        word = found[0]
        inner = word[1:]
        marked = any(char in "_.-" or char.isdigit() for char in inner)
        if (
            (marked and (any(char.isdigit() for char in inner) or "_" in inner or "." in inner))
            or any(char.isupper() for char in inner)
            or (
                word[0].isupper()
                and not _SENTENCE_START.search(text, max(0, found.start() - 8), found.start())
            )
        ):
            yield word


@rule(codes=("invented_name",))
def no_new_names(*inputs: str, allow: Sequence[str] = (), field: str | None = None) -> Check:
    """Every name in the answer stands in the case's inputs too.

    Names are words with a capital inside a sentence, in CamelCase, or with digits, dots or
    underscores in them, such as hosts and services. A heuristic: allow what it should not mind.

    Args:
        inputs: Names of the inputs to look in; all by default.
        allow: Names that may occur anyway, in any case.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(no_new_names().check_text(
    ...     "The pod api-7 moved to Frankfurt.", inputs={"report": "api-7 was evicted"}))
    fail (0.50): 1 name that the input does not have: 'Frankfurt'
    """
    allowed = {name.lower() for name in allow}

    def check(answer: Answer) -> Verdict:
        source = _source(answer, inputs).lower()
        found = list(names_in(answer.text or ""))
        new = [name for name in found if name.lower() not in source and name.lower() not in allowed]
        return _invented(new, len(found), "name", "invented_name")

    return on_answer(field, check)
