"""What a text says once it is decoded: ways to write a case down that hide it from a reader."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["backwards", "decoded", "in_digits"]

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX: Final = re.compile(r"(?:(?:\\x|0x)?[0-9A-Fa-f]{2}[ :,]?){4,}")
_SPACED: Final = re.compile(r"(?<![^\W_])(?:[^\W_][ .,*_·|/-]){2,}[^\W_](?![^\W_])")
_DIGITS_APART: Final = re.compile(r"(?<![^\W_])\d(?:[ .,-]\d)+(?![^\W_])")
_BETWEEN: Final = re.compile(r"[\W_]")
_PRINTABLE: Final = 0.9
_SHORT: Final = 3

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
    if len(text) >= _SHORT and shown >= _PRINTABLE * len(text):
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
