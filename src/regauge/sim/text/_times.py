"""Points in time as people write them in reports, and how to write them as asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Moment", "duration_text", "find_moments", "write_moment"]

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            ("jan", "january", "januar"), ("feb", "february", "februar"), ("mar", "march", "märz"),
            ("apr", "april"), ("may", "mai"), ("jun", "june", "juni"), ("jul", "july", "juli"),
            ("aug", "august"), ("sep", "sept", "september"), ("oct", "october", "okt", "oktober"),
            ("nov", "november"), ("dec", "december", "dez", "dezember"),
        ),
        start=1,
    )
    for name in names
}  # fmt: skip
_MONTH: Final = "(?P<month_name>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_CLOCK: Final = (
    r"(?P<hour>[01]?\d|2[0-3])(?:[:.](?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d+)?)?"
    r"|(?<=\d\d)(?P<tight>[0-5]\d)\b)(?:\s*(?P<half>[ap])\.?m\b\.?)?"
)
_ZONE: Final = r"(?:\s*(?P<zone>Z|UTC|GMT|BST|CET|CEST|[+-]\d{2}:?\d{2})\b|\s*(?:Uhr)\b)?"
_GAP: Final = r"(?:T|,?\s+(?:at\s+|um\s+)?|\s*[-–]\s*)"  # noqa: RUF001 - texts in the wild hold this character
_DATES: Final = (
    r"(?P<year>(?:19|20)\d\d)[-/.](?P<month>0?[1-9]|1[0-2])[-/.](?P<day>[0-2]?\d|3[01])(?!\d)",
    r"(?P<day>[0-2]?\d|3[01])\.\s?(?P<month>0?[1-9]|1[0-2])\.\s?(?P<year>(?:19|20)\d\d)",
    r"(?P<day>[0-2]?\d|3[01])/(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)",
    rf"(?P<day>[0-2]?\d|3[01])(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH},?\s+(?P<year>(?:19|20)\d\d)",
    rf"{_MONTH}\s+(?P<day>[0-2]?\d|3[01])(?:st|nd|rd|th)?,?\s+(?P<year>(?:19|20)\d\d)",
)
_MOMENTS: Final = tuple(
    re.compile(rf"(?<![\d-]){date}(?:{_GAP}{_CLOCK}{_ZONE})?", re.IGNORECASE) for date in _DATES
)
_TIME_FIRST: Final = re.compile(
    rf"(?<![\d:.-]){_CLOCK}{_ZONE},?\s+(?:on\s+|am\s+)(?:the\s+)?(?P<day>[0-2]?\d|3[01])(?:st|nd|rd|th|\.)?\s+(?:of\s+)?"
    rf"{_MONTH},?\s+(?P<year>(?:19|20)\d\d)",
    re.IGNORECASE,
)
_CLOCK_ONLY: Final = re.compile(
    r"(?<![\d:.,/-])(?P<hour>[01]?\d|2[0-3])(?::|\.(?=\d\d\s*(?:Uhr|[ap]\.?m)))(?P<minute>[0-5]\d)(?::[0-5]\d)?(?![\d%:-]|\.\d)(?:\s*(?P<half>[ap])\.?m\b\.?)?"
    + _ZONE,
    re.IGNORECASE,
)
_DURATION: Final = re.compile(
    r"(?<![\w:])(?:about\s+|around\s+|approximately\s+|~\s*)?(?:\d+(?:\.\d+)?|an?|one|two|three"
    r"|four|five|six|seven|eight|nine|ten|half an)\s*"
    r"(?:d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?|weeks?|tag(?:e|en)?|stunden?|minuten?)\b"
    r"(?:(?:\s*,?\s*(?:and|und)?\s*)\d+\s*(?:h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?|stunden?|minuten?)\b)*",
    re.IGNORECASE,
)
# The dear patterns run only where a year, or the name of a month, stands in the text at all.
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_BARE_MONTH: Final = _MONTH.replace("?P<month_name>", "?:")
_MONTH_WORD: Final = re.compile(
    rf"\d(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_BARE_MONTH}|\b{_BARE_MONTH}\s+\d", re.IGNORECASE
)
_NOON: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One point in time found in a text.

    Attributes:
        start: Where it begins in the text.
        end: Where it ends.
        date: Year, month and day; None where only a clock was read.
        clock: Hour and minute, or None.
        raw: As it was written.
    """

    start: int
    end: int
    date: tuple[int, int, int] | None
    clock: tuple[int, int] | None
    raw: str


def _clock(match: re.Match[str]) -> tuple[int, int] | None:
    groups = match.groupdict()
    if not groups.get("hour"):
        return None
    hour, minute = int(groups["hour"]), int(groups.get("minute") or groups.get("tight") or 0)
    half = (groups.get("half") or "").lower()
    if half == "p" and hour < _NOON:
        hour += _NOON
    elif half == "a" and hour == _NOON:
        hour = 0
    return hour, minute


def find_moments(text: str) -> list[Moment]:
    """All points in time, in order; a bare clock takes the date of the one before it.

    >>> [m.clock for m in find_moments("12.03.2024 um 14:05 Uhr, behoben 14:40 Uhr")]
    [(14, 5), (14, 40)]
    >>> [m.date for m in find_moments("on 2 May 2024 at 9:05 am")]
    [(2024, 5, 2)]
    """
    found: list[Moment] = []
    taken: list[tuple[int, int]] = []

    def free(match: re.Match[str]) -> bool:
        return all(match.end() <= start or match.start() >= end for start, end in taken)

    dated_patterns = _MOMENTS[:3] if _YEAR.search(text) else ()
    if dated_patterns and _MONTH_WORD.search(text):
        dated_patterns = (_TIME_FIRST, *_MOMENTS)
    for pattern in dated_patterns:
        for match in pattern.finditer(text):
            if not free(match):
                continue
            groups = match.groupdict()
            month = groups.get("month") or _MONTHS[str(groups["month_name"]).lower()]
            day = int(groups["day"])
            if not day:
                continue
            date = (int(groups["year"]), int(month), day)
            taken.append(match.span())
            found.append(
                Moment(
                    start=match.start(),
                    end=match.end(),
                    date=date,
                    clock=_clock(match),
                    raw=match[0].strip(),
                )
            )
    for match in _CLOCK_ONLY.finditer(text):
        if free(match):
            taken.append(match.span())
            found.append(
                Moment(
                    start=match.start(),
                    end=match.end(),
                    date=None,
                    clock=_clock(match),
                    raw=match[0].strip(),
                )
            )
    found.sort(key=lambda moment: moment.start)
    dated: list[Moment] = []
    last = next((moment.date for moment in found if moment.date), None)
    for moment in found:
        last = moment.date or last
        dated.append(
            moment
            if moment.date
            else Moment(
                start=moment.start, end=moment.end, date=last, clock=moment.clock, raw=moment.raw
            )
        )
    return dated


def write_moment(moment: Moment, pattern: str | None) -> str:
    """A moment in the asked format, or as the document wrote it when none was asked for.

    >>> write_moment(find_moments("2024-01-02 9.05")[0], "YYYY-MM-DD HH:MM")
    '2024-01-02 09:05'
    """
    if pattern is None or moment.date is None:
        return moment.raw
    year, month, day = moment.date
    text = pattern
    if moment.clock is None:
        text = re.split(r"[ T]HH", text)[0]
    hour, minute = moment.clock or (0, 0)
    for mark, value in (
        ("YYYY", f"{year:04}"), ("DD", f"{day:02}"), ("HH:MM:SS", f"{hour:02}:{minute:02}:00"),
        ("HH:MM", f"{hour:02}:{minute:02}"), ("MM", f"{month:02}"),
    ):  # fmt: skip
        text = text.replace(mark, value, 1)
    return text


def duration_text(text: str) -> str | None:
    """The first duration of a text as it is written, or None.

    >>> duration_text("4h 9m (support hours)"), duration_text("no idea")
    ('4h 9m', None)
    """
    match = _DURATION.search(text)
    return match[0].strip() if match is not None else None
