"""Splits text into sentences in any script by Unicode rules (UAX 29), with abbreviations."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from collections.abc import Iterator


_RE = Lexicon("regauge.statements", "languages")
_LATIN = ("en", "de", "fr", "es", "pt", "it", "nl", "tr")
# Languages that write "3." for "third"; Slavic, Nordic and Hungarian ones have no list here.
_ORDINAL_DOTS = frozenset({"de", "tr", ""})
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e]+[^\W_]*)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\uac00-\ud7af]")
# Grammar of Japanese; content is written in the other two scripts or in longer runs of this one.
_KANA = re.compile(r"[\u3040-\u309f]")


@cache
def _common() -> dict[str, frozenset[str]]:
    """The function words by language; under the empty name those of all languages."""
    languages = {name: frozenset(words.split()) for name, words in _RE.entry("common").items()}
    return {**languages, "": frozenset[str]().union(*languages.values())}


@cache
def _negations() -> dict[str, re.Pattern[str]]:
    return _RE.patterns("negation")


def guess_language(text: str) -> str:
    """Guess the language code of a text, such as `de`; empty if unknown.

    >>> guess_language("Reply in one sentence."), guess_language("Antworte in einem Satz.")
    ('en', 'de')
    """
    letters = sum(sign.isalpha() for sign in text)
    for name, script in _SCRIPTS:
        if letters and 4 * len(script.findall(text)) >= letters:
            return name
    if not letters:
        return ""
    words = [word.casefold() for word in _WORD.findall(text)]
    hits = {name: sum(word in _common()[name] for word in words) for name in _LATIN}
    best = max(hits, key=lambda name: hits[name])
    # In any text of a language at least one word in eight is a function word.
    return best if hits[best] >= max(1, len(words) / 8) else ""


def is_negated(text: str) -> bool | None:
    """Return whether a sentence forbids or negates; None for an unknown language."""
    language = guess_language(text)
    if language:
        return bool(_negations()[language].search(text))
    # Short texts have too few function words, but a negation of any language counts.
    return True if any(_negations()[name].search(text) for name in _LATIN) else None


def negations(text: str) -> Iterator[re.Match[str]]:
    """Yield the negations of a text, in its language."""
    language = guess_language(text)
    return _negations()[language].finditer(text) if language else iter(())


def content_words(text: str) -> frozenset[str]:
    """The content words of a text, stemmed.

    Scripts without spaces between words yield pairs of characters.

    >>> sorted(content_words("Write every timestamp in `UTC`; timestamps end in Z."))
    ['end', 'timestamp', 'utc', 'z']
    >>> sorted(content_words("Wohngebäude in 東京都"))
    ['wohngebäud', '京都', '東京']
    """
    language = guess_language(text)
    common = _common()[language if language in _LATIN else ""]
    words: set[str] = set()
    for match in _WORD.findall(text):
        if _UNSPACED.search(match):
            pairs = [match[n : n + 2] for n in range(max(1, len(match) - 1))]
            words |= {pair for pair in pairs if not all(map(_KANA.match, pair))}
        elif not match.isdigit() and (word := match.casefold()) not in common:
            words.add(stem(word))
    return frozenset(words)


def stem(word: str) -> str:
    """A word without its most common endings; crude, but the same for both compared texts."""
    # The plural's first, so that "greetings" and "greeting" end up the same.
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 - a stem
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    # "value" has to meet "values", and "close" "closed".
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004 - a stem


_STOP = re.compile(r"[.!?…‽؟۔।॥።。！？．]+[\"'”’»›)\]）」』】*_`]*")
_WIDE = frozenset("。！？．।॥")
_LAST_WORD = re.compile(r"[^\s(\[\"'“„«]*$")
_JOINT = re.compile(
    r"[;；]\s*|,\s+(?:and also|and|but|while|whereas|und|aber|sondern|et|mais|y|pero|e|ma|en|maar)"
    r"\s+|、かつ|，并且|，但"
)
_LEAD = re.compile(r"[\w`][\w` /-]{0,30}[:：]\s*(?=[^\s:：])")
_ENTRY = re.compile(r",\s+|、|，")
# A joint between fewer words joins the entries of an enumeration, and not two clauses.
_CLAUSE_WORDS = 3
# An entry of more words is a clause that happens to have a comma.
_ENTRY_WORDS = 8
# The last letter of a sentence is within so many signs of its end.
_NEAR = 20
# A line this long, and this share of the longest line, was wrapped.
_WRAPPED, _FULL = 50, 0.7

Span = tuple[int, int]


def sentences(text: str, start: int, end: int) -> Iterator[tuple[Span, list[Span]]]:
    """Yield the sentences in a range of a text, each with its clauses.

    A sentence with one clause has an empty list; clauses exclude marks and conjunctions.
    """
    for begin, stop in _sentences(text, start, end):
        text_inside = text[begin:stop].strip()
        if text_inside:
            first = text.index(text_inside, begin)
            yield (first, first + len(text_inside)), _clauses(text, first, first + len(text_inside))


def _sentences(text: str, start: int, end: int) -> Iterator[Span]:
    begin = start
    for stop in sorted({*_stops(text, start, end), *_line_ends(text, start, end), end}):
        yield begin, stop
        begin = stop


def _stops(text: str, start: int, end: int) -> Iterator[int]:
    inside = text[start:end]
    ordinals = "." in inside and guess_language(inside) in _ORDINAL_DOTS
    for stop in _STOP.finditer(text, start, end):
        after = stop.end()
        if after == end:
            continue
        if stop[0][0] in _WIDE or stop[0][-1] in _WIDE:
            yield after
            continue
        if not text[after].isspace() or _continues(text, after, end):
            continue
        word = _LAST_WORD.search(text, start, stop.start())
        word_before = word[0] if word else ""
        if stop[0] == "." and (
            word_before.casefold().rstrip(".") in _RE.words("abbreviations")
            or (len(word_before) == 1 and word_before.isalpha() and word_before.isupper())
            or (ordinals and word_before.isdecimal() and len(word_before) < 3)  # noqa: PLR2004 - "3. Mai"
        ):
            continue
        yield after


def _continues(text: str, offset: int, end: int) -> bool:
    """Return whether the next word is in lower case, so the sentence continues.

    A field in backticks begins a sentence, and so does a Latin word behind a script without case.
    """
    last_letter = next(
        (sign for sign in reversed(text[max(0, offset - _NEAR) : offset]) if sign.isalpha()), "A"
    )
    if last_letter.lower() == last_letter.upper() or text[offset:end].lstrip().startswith("`"):
        return False
    return next((sign for sign in text[offset:end] if sign.isalpha()), "").islower()


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield line breaks that end a sentence without a mark: the line was not wrapped.

    A paragraph is wrapped if one of its lines continues in lower case, or its script has no case.
    """
    lines = text[start:end].split("\n")
    longest = max(map(len, lines))
    continuations = [
        line.lstrip()[:1].islower() and not _LEAD.match(line.lstrip()) for line in lines[1:]
    ]
    broken = any(continuations) or not any(sign.islower() for sign in text[start:end])
    offset = start
    for line, below, continues in zip(lines, lines[1:], continuations, strict=False):
        offset += len(line) + 1
        begins = below.lstrip()
        width = 2 * len(line) if line and ord(line[-1]) > 0x2E80 else len(line)  # noqa: PLR2004
        full = broken and width >= _WRAPPED and len(line) >= _FULL * longest
        if not continues and not (full and begins[:1].isalnum() and not _LEAD.match(begins)):
            yield offset


def _clauses(text: str, start: int, end: int) -> list[Span]:
    """The ranges of a sentence's clauses, or of the entries of a list within it."""
    body = end
    while body > start and _STOP.match(text[body - 1]):
        body -= 1
    entries = _entries(text, start, body)
    if entries:
        return entries
    clauses = _split(_JOINT, text, start, body)
    if len(clauses) > 1 and all(_words(text[a:b]) >= _CLAUSE_WORDS for a, b in clauses):
        return clauses
    return []


def _entries(text: str, start: int, end: int) -> list[Span]:
    """The entries of an enumeration behind a label: `Fields: a, b, c`."""
    lead = _LEAD.match(text, start, end)
    if lead is None or ":" in text[lead.end() : end] or "{{" in text[start:end]:
        return []
    parts = _split(_ENTRY, text, lead.end(), end)
    short = all(_words(text[a:b]) <= _ENTRY_WORDS for a, b in parts)
    return parts if len(parts) > 1 and short else []


def _words(text: str) -> int:
    """The number of words by spaces; two wide characters count as one word."""
    wide = sum(ord(sign) > 0x2E80 for sign in text)  # noqa: PLR2004 - scripts without spaces
    return len(text.split()) + wide // 2


def _split(separator: re.Pattern[str], text: str, start: int, end: int) -> list[Span]:
    cuts = [(match.start(), match.end()) for match in separator.finditer(text, start, end)]
    starts, ends = [start, *(b for _, b in cuts)], [*(a for a, _ in cuts), end]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a < b]
