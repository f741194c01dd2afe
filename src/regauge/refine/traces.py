"""What of a text is recognised however it is told: numbers, dates, names, stems, decoded text."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from regauge.statements import stem

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re.compile(r"(?:(?:\\x|0x)?[0-9A-Fa-f]{2}[ :,]?){4,}")
_SPACED: Final = re.compile(r"(?<![^\W_])(?:[^\W_][ .,*_·|/-]){2,}[^\W_](?![^\W_])")
_DIGITS_APART: Final = re.compile(r"(?<![^\W_])\d(?:[ .,-]\d)+(?![^\W_])")
_BETWEEN: Final = re.compile(r"[\W_]")
_PRINTABLE: Final = 0.9
_PRINTED_MIN: Final = 3

# Number words of languages that cases and prompts are written in; each adds up or multiplies.
_COUNTED: Final = (
    (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
        " fifteen sixteen seventeen eighteen nineteen"
    ),
    (
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn"
        " fünfzehn sechzehn siebzehn achtzehn neunzehn"
    ),
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
        " dieciséis diecisiete dieciocho diecinueve"
    ),
)
_TENS: Final = (
    "twenty thirty forty fifty sixty seventy eighty ninety hundred",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
    "vingt trente quarante cinquante soixante",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien",
)
_NUMBERS: Final = {
    **{word: n for words in _COUNTED for n, word in enumerate(words.split())},
    **{word: 10 * n for words in _TENS for n, word in enumerate(words.split(), 2)},
    "eins": 1,
    "dreissig": 30,
    "cent": 100,
    "ciento": 100,
    "quatre-vingt": 80,
    "veinti": 20,
    **dict.fromkeys(("thousand", "tausend", "mille", "mil"), 1000),
}
_NUMERAL: Final = "|".join(sorted(map(re.escape, _NUMBERS), key=len, reverse=True))
_JOINT: Final = r"(?:[ -]?(?:and|und|et|y)[ -]?|[ -])?"
_WRITTEN: Final = re.compile(
    rf"(?<![^\W\d_])(?:{_NUMERAL})(?:s?{_JOINT}(?:{_NUMERAL}))*(?![^\W\d_])"
)
_ONE: Final = re.compile(rf"(?:und|and|(?<![^\W\d_])(?:et|y)(?![^\W\d_]))|({_NUMERAL})")
_ARTICLES: Final = frozenset({"one", "ein", "un", "uno", "once", "six", "null", "mil", "mille"})


def decoded(text: str) -> Iterator[str]:
    """Readings of a text: base64, hex, letters apart, broken over lines; none it states plainly.

    >>> list(decoded("- Mind cXVva2thIDc3MzE= here."))
    ['quokka 7731']
    >>> list(decoded("- Mind q u o k k a."))
    ['- Mind quokka.']
    """
    for found in _BASE64.findall(text):
        yield from _printable(_from_base64(found))
    for found in _HEX.findall(text):
        yield from _printable(_from_hex(found))
    close = _SPACED.sub(lambda found: _BETWEEN.sub("", found[0]), text)
    close = _DIGITS_APART.sub(lambda found: _BETWEEN.sub("", found[0]), close)
    if close != text:
        yield close
    lines = [line.strip().rstrip("-") for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        yield "".join(lines)
        yield " ".join(lines)


def backwards(text: str) -> str:
    """A text read from its end, and each of its words read so."""
    words = " ".join(word[::-1] for word in text.split())
    return f"{text[::-1]}\n{words}"


def in_digits(text: str) -> str:
    """Plain text with its numbers in digits, also those that are spelled digit by digit.

    >>> in_digits("after two hundred and forty-nine minutes, code four one seven")
    'after 249 minutes, code 417'
    >>> in_digits("zweihundertneunundvierzig minuten")
    '249 minuten'
    """
    return _WRITTEN.sub(lambda found: _number(found[0]), text)


def _number(said: str) -> str:
    """A written number; a lone word that is an article as well stays."""
    words = [word for word in _ONE.findall(said) if word]
    if words == [said] and said in _ARTICLES:
        return said
    values = [_NUMBERS[word] for word in words]
    if len(values) > 1 and max(values) < 10:  # noqa: PLR2004 - digits
        return "".join(map(str, values))
    parts: list[int] = []
    total = current = 0
    for value in values:
        if value == 1000:  # noqa: PLR2004
            total, current = total + (current or 1) * value, 0
        elif value == 100:  # noqa: PLR2004
            current = (current or 1) * value
        elif current and not _fits(current, value):
            parts.append(total + current)
            total, current = 0, value
        else:
            current += value
    return " ".join(map(str, [*parts, total + current]))


def _fits(current: int, value: int) -> bool:
    """Whether a value adds to what was said: units to tens, or tens to units as in German."""
    rest = current % 100
    if not rest:
        return value < 100  # noqa: PLR2004
    return (rest % 10 == 0 and value < 20) or (rest < 10 and value % 10 == 0)  # noqa: PLR2004


def _printable(found: bytes) -> Iterator[str]:
    try:
        text = found.decode()
    except UnicodeDecodeError:
        return
    shown = sum(sign.isprintable() for sign in text)
    if len(text) >= _PRINTED_MIN and shown >= _PRINTABLE * len(text):
        yield text


def _from_base64(text: str) -> bytes:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _from_hex(text: str) -> bytes:
    bare = re.sub(r"\\x|0x|[ :,]", "", text)
    return bytes.fromhex(bare[: len(bare) // 2 * 2])


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)

_ISO_DATE = re.compile(r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\b")
_MONTH_DAY = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b")
_SHORT_DATE = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.]\d{4}\b")
_TIME = re.compile(
    r"(?<![\d:.])(?:([01]?\d|2[0-3]):([0-5]\d)(?::\d{2})?(?: ?([ap])\.?m\b)?"
    r"|([01]?\d)(?:[.]([0-5]\d))? ?([ap])\.?m\b)"
)
_SPAN = re.compile(r"\b(\d+) ?h(?:ours?|rs?)?,?(?: and)? ?(\d+) ?m(?:in(?:ute)?s?)?\b")
_NUMBER = re.compile(r"\d+(?:[,_]\d{3})*(?:\.\d+)?")
# How much to write is no fact of a case.
_HOW_MUCH = re.compile(
    r"\b\d{1,3}(?:(?:-| to | or | and )\d{1,3})?(?: \w+)? ?"
    r"(?:words?|sentences?|characters?|lines?|paragraphs?|bullets?|items?|entries|sections?|%"
    r"|points?|steps?|examples?|decimals?|digits?|letters?|levels?|headings?|keys?|fields?"
    r"|places?|tokens?)\b"
)
_IDENTIFIER = re.compile(r"[^\W_](?:[\w.:/@+-]*\w)?")
_INNER_MARK = re.compile(r"[_.:@+]")
_LETTERS = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts that put no space between words are compared by pairs of signs.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_NAME = re.compile(r"(?<=[a-z,;)] )[A-Z][^\W\d_]{2,}")
_KEY = 6
_DIGITS_MIN = 3
_HUMPS = 2
_NAMES_SHARE = 0.2
_COINED_LENGTH = 15
_NOON = 12


def plain(text: str) -> str:
    """Without case and with single spaces."""
    return " ".join(text.casefold().split())


def specific(text: str) -> set[str]:
    """Numbers, dates, times and identifiers, each in one way of writing.

    >>> sorted(specific("On 18 Feb at 2:13 pm host web-7 failed for 1h 5m"))
    ['--02-18', '14:13', '18', '65', 'web-7']
    """
    coined = {word.casefold() for word in _LETTERS.findall(text) if _is_coined_name(word)}
    text = in_digits(plain(text))
    found = coined | {
        f"--{int(month):02}-{int(day):02}" for _, month, day in _ISO_DATE.findall(text)
    }
    found |= {f"--{_month(month):02}-{int(day):02}" for day, month in _DAY_MONTH.findall(text)}
    found |= {f"--{_month(month):02}-{int(day):02}" for month, day in _MONTH_DAY.findall(text)}
    for one, other in _SHORT_DATE.findall(text):
        found |= {f"--{int(one):02}-{int(other):02}", f"--{int(other):02}-{int(one):02}"}
    for hour, minute, half, hour_12, minute_12, half_12 in _TIME.findall(text):
        later = 12 if (half or half_12) == "p" and int(hour or hour_12) < _NOON else 0
        found.add(f"{int(hour or hour_12) + later:02}:{minute or minute_12 or '00'}")
    found |= {str(60 * int(hours) + int(minutes)) for hours, minutes in _SPAN.findall(text)}
    rest = _HOW_MUCH.sub(" ", _TIME.sub(" ", text))
    for token in _IDENTIFIER.findall(rest):
        found |= set(_of_token(token))
    return found


def _of_token(token: str) -> Iterator[str]:
    has_digit = any(sign.isdigit() for sign in token)
    if _INNER_MARK.search(token) or (has_digit and any(sign.isalpha() for sign in token)):
        parts = re.split(r"[\W_]+", token)
        # "e.g" is an abbreviation, and "36m" a number with its unit.
        if any(len(part) > 1 for part in parts) and not re.fullmatch(r"\d+[a-z]{1,3}", token):
            yield token
            yield from (part for part in parts if _is_coined(part))
    for number in _NUMBER.findall(token):
        # A single digit tells nothing about a case.
        if len(number) == 1:
            continue
        bare = number.replace(",", "").replace("_", "")
        if not has_digit or not token[0].isalpha() or len(bare) >= _DIGITS_MIN:
            yield bare
        # "1315" gives "1315.50" away, too.
        whole = bare.partition(".")[0]
        if len(whole) >= _DIGITS_MIN:
            yield whole


def _is_coined_name(word: str) -> bool:
    """Whether words were run together to name one thing; two short ones may name a product."""
    humps = len(_HUMP.split(word))
    return humps > _HUMPS or (humps == _HUMPS and len(word) >= _COINED_LENGTH)


def _is_coined(part: str) -> bool:
    """Whether a part of an identifier is one by itself."""
    return len(part) > _DIGITS_MIN and not part.isalpha() and not part.isdigit()


def _month(name: str) -> int:
    return 1 + next(n for n, month in enumerate(_MONTHS) if month.startswith(name[:3]))


def keys(text: str) -> list[str]:
    """The words of a text by their stems' first letters, in their order.

    >>> keys("KubePodReloads; reloading, réseau")
    ['kub', 'pod', 'reload', 'reload', 'réseau']
    """
    found: list[str] = []
    for run in _LETTERS.findall(text):
        if _UNSPACED.search(run):
            found += [run[n : n + 2] for n in range(max(1, len(run) - 1))]
            continue
        for word in _HUMP.split(run) if _is_coined_name(run) else [run]:
            found.append(stem(word.casefold())[:_KEY])
    return found


def names(text: str) -> set[str]:
    """Words with a capital where no sentence begins, in lower case.

    >>> sorted(names("Dear Rosalba, the contract of Liora. Later it ended."))
    ['liora', 'rosalba']
    """
    return {name.casefold() for name in _NAME.findall(text)}


def capitals_tell(text: str) -> bool:
    """Whether a capital marks a name: not in a language that writes all nouns so.

    >>> capitals_tell("we told Rosalba about it"), capitals_tell("der Kunde will das Geld zurück")
    (True, False)
    """
    return len(_NAME.findall(text)) <= _NAMES_SHARE * len(_LETTERS.findall(text))


_SAID_ANYWHERE = """
a about above after again all also always an and another any are as at be because been before below
between both but by can could did do does during each either else even every few for from had has
have he her here his how i if in into is it its just less like many may might more most much must
my near never no none nor not now of off often on once one only or other our out over own per please
quite rather same she should since so some still such than that the their them then there these they
this those through to too two under until up upon us use very was we were what when where whether
which while who whose why will with within without would yes yet you your

accurate action actual add address allow alone answer appear apply array asked avoid base begin
bold brief bullet capital careful carefully case cause change character check choose clear close
code column comma common complete consider contain content context copy correct count date default
describe detail different digit document double empty end english entry error exact exactly example
exclude expect explain explicit extra fact false field fill find finish first follow following form
format found full general get given give good group guess heading help high hour identify ignore
impact important include individual information input instead instruction integer invent item json
keep key kind know known label language last later least leave length letter level line link list
long look low lower lowercase main make mark markdown match maximum mean measure mention message
minimum minute missing model multiple name need new next nothing null number object omit open option
order original output owner paragraph part period person phrase place plain point possible precise
prefer present problem produce prompt prose provide put question quote range read reader reason
refer relevant remain remove repeat replace reply report request require reserve respond response
result return review right round row rule say schema second section see select sentence separate
set short show sign similar simple single sort space specific spell start state step stop string
structure style subject sum summary sure system table tag take team tell term text thing think time
title together tone top topic total treat true try turn type uncertain understand unit unknown
unless upper uppercase user valid value verify version want way whole wide word work write wrong
year zone
"""

ORDINARY = frozenset(keys(_SAID_ANYWHERE))
"""The words of any language and of any instruction: none tells on what it is about."""
