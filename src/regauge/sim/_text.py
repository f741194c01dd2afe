"""Words, numbers and times as the simulated model reads and counts them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts import Message

_RE: Final = Lexicon("regauge.sim", "text")


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


_CHARS_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 4


def count_tokens(text: str) -> int:
    """Characters divided by four, rounded up.

    >>> count_tokens("12345")
    2
    """
    return -(-len(text) // _CHARS_PER_TOKEN)


def count_message_tokens(messages: Sequence[Message]) -> int:
    """The tokens of a conversation: those of each message's text, and four for its frame."""
    return sum(count_tokens(m.content) + _TOKENS_PER_MESSAGE for m in messages)


def cut(text: str, tokens: int) -> str:
    """The text as far as so many tokens reach.

    >>> cut("12345678", 1)
    '1234'
    """
    return text[: tokens * _CHARS_PER_TOKEN]


STOPWORDS: Final = _RE.words("stopwords")
_SYNONYMS: Final[dict[str, str]] = {
    word: line.split()[0] for line in _RE.entry("synonyms") for word in line.split()
}
_ROOT_MIN: Final = 3
_ROOT_LONG: Final = 4
_NEGATORS: Final = frozenset({"not", "no", "never", "non", "cannot", "without", "isn", "n't"})
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "approx.", "no.", "vs.")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A lower-case word without its English ending, its synonyms folded.

    >>> [stem(word) for word in ("expires", "expiration", "pods", "unreachable", "failing")]
    ['expire', 'expire', 'pod', 'down', 'fail']
    """
    word = word.lower()
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    root = word
    for ending, put in (
        ("ies", "y"), ("sses", "ss"), ("ations", "ate"), ("ation", "ate"), ("ings", ""),
        ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", "e"), ("s", ""),
    ):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= _ROOT_MIN:
            if ending == "s" and word.endswith(("ss", "us", "is")):
                break
            root = word[: -len(ending)] + put
            if len(root) > _ROOT_MIN and root[-1] == root[-2] and root[-1] not in "lsz" and not put:
                root = root[:-1]
            break
    if root in _SYNONYMS:
        return _SYNONYMS[root]
    for guess in (root + "e", root.removesuffix("e")):
        if guess in _SYNONYMS:
            return _SYNONYMS[guess]
    return root.removesuffix("e") if len(root) > _ROOT_LONG else root


def split_name(text: str) -> list[str]:
    """The words of an identifier: camel case, underscores and dots taken apart.

    >>> split_name("KubePodNotReady"), split_name("http_requests_total")
    (['Kube', 'Pod', 'Not', 'Ready'], ['http', 'requests', 'total'])
    """
    return _RE.piece.findall(text)


@lru_cache(maxsize=4_000)
def stems(text: str) -> tuple[str, ...]:
    """The content words of a text as stems, in order; `not x` also gives `not_x`.

    >>> stems("The pod is not ready.")
    ('pod', 'ready', 'not_ready')
    """
    found: list[str] = []
    negated = False
    for piece in _RE.piece.findall(text):
        low = piece.lower()
        if low in _NEGATORS:
            negated = True
            continue
        if low.startswith("un") and len(low) > _ROOT_LONG + 1 and low[2:] in ("ready", "healthy"):
            low, negated = low[2:], True
        if low in STOPWORDS or piece[0].isdigit():
            continue
        root = stem(low)
        if len(root) <= 1 or root in STOPWORDS:
            continue
        found.append(root)
        if negated:
            found.append("not_" + root)
            negated = False
    return tuple(found)


def count_words(text: str) -> int:
    """Words as `str.split` sees them, which is also how a word limit is kept.

    >>> count_words("two words")
    2
    """
    return len(text.split())


def sentences(text: str) -> list[str]:
    """A text as sentences; abbreviations such as `e.g.` end none.

    >>> sentences("It broke. We fixed it, e.g. Twice. Done")
    ['It broke.', 'We fixed it, e.g. Twice.', 'Done']
    """
    whole: list[str] = []
    for part in _RE.sentence_end.split(" ".join(text.split())):
        if whole and whole[-1].lower().endswith(_ABBREVIATIONS):
            whole[-1] += " " + part
        elif part:
            whole.append(part)
    return whole


def first_sentence(text: str) -> str:
    """The first sentence, or the empty text.

    >>> first_sentence("One. Two.")
    'One.'
    """
    return next(iter(sentences(text)), "")


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


_UNITS: Final[dict[str, float]] = _RE.entry("units")
NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905 - it reads as a list
        start=1,
    )
}
_SAME_SCALE: Final = 0.3  # a factor of 1.35 apart leaves 1/e of the closeness


def _number(text: str) -> float:
    return float(NUMBER_WORDS.get(text.lower(), 0) or text)


def _thresholds(code: str) -> list[Quantity]:
    """The thresholds of an expression: shares below 1, percentages, seconds."""
    bare = _RE.bracketed.sub(" ", code)
    found: list[Quantity] = []
    for match in _RE.product.finditer(bare):
        value = math.prod(float(factor) for factor in match[0].split("*"))
        if value >= 60:  # noqa: PLR2004 - a small count that says itself
            found.append(Quantity(kind="seconds", value=value))
    is_percent = bool(_RE.lone_arithmetic.search(bare)) or "percent" in bare
    for match in _RE.threshold.finditer(bare):
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
        for match in _RE.percent.finditer(text)
    ]
    for match in _RE.borrowed.finditer(text):
        unit = match["unit"].lower()
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if size is not None:
            found.append(Quantity(kind="seconds", value=float(match["first"]) * size))
        elif unit in ("%", "percent"):
            found.append(Quantity(kind="percent", value=float(match["first"])))
    if _RE.half.search(text):
        found.append(Quantity(kind="percent", value=50.0))
    for match in _RE.span.finditer(text):
        unit = match["unit"].lower()
        size = _UNITS.get(unit) or _UNITS[unit.removesuffix("s")]
        found.append(Quantity(kind="seconds", value=_number(match["number"]) * size))
    return tuple(quantity for quantity in found if quantity.value > 0)


def without_quantities(text: str) -> str:
    """The text with its shares and durations taken out, so that their words do not count twice.

    >>> without_quantities("within 4 hours of now")
    'within   of now'
    """
    return _RE.span.sub(" ", _RE.percent.sub(" ", text))


def closeness(one: Quantity, other: Quantity) -> float:
    """The closeness of two numbers of one kind, from 0 to 1; different kinds are never near.

    >>> day, week = Quantity(kind="seconds", value=86400), Quantity(kind="seconds", value=604800)
    >>> closeness(day, day), closeness(day, week) < 0.05
    (1.0, True)
    """
    if one.kind != other.kind:
        return 0.0
    return math.exp(-abs(math.log(one.value / other.value)) / _SAME_SCALE)


_MONTHS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(_RE.entry("months"), start=1)
    for name in names.split()
}
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


def find_moments(text: str) -> list[Moment]:  # noqa: C901 - one step for each shape of a date
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

    def add(match: re.Match[str], date: tuple[int, int, int] | None) -> None:
        taken.append(match.span())
        start, end = match.span()
        raw = match[0].strip()
        found.append(Moment(start=start, end=end, date=date, clock=_clock(match), raw=raw))

    dated_patterns = _MOMENTS[:3] if _RE.year.search(text) else ()
    if dated_patterns and _RE.month_word.search(text):
        dated_patterns = (_RE.time_first, *_MOMENTS)
    for pattern in dated_patterns:
        for match in pattern.finditer(text):
            if not free(match):
                continue
            groups = match.groupdict()
            month = groups.get("month") or _MONTHS[str(groups["month_name"]).lower()]
            day = int(groups["day"])
            if not day:
                continue
            add(match, (int(groups["year"]), int(month), day))
    for match in _RE.clock_only.finditer(text):
        if free(match):
            add(match, None)
    found.sort(key=lambda moment: moment.start)
    last = next((moment.date for moment in found if moment.date), None)
    dated: list[Moment] = []
    for moment in found:
        last = moment.date or last
        dated.append(replace(moment, date=last))
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
    match = _RE.duration.search(text)
    return match[0].strip() if match is not None else None
