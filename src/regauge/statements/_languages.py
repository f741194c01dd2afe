"""Facts of languages: common words, negation, abbreviations. Scripts need no list.

A language without a list is treated with care: no word of it is taken for common, and whether a
sentence of it is negated is unknown.
"""

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
def abbreviations() -> frozenset[str]:
    """Abbreviations that end in a full stop within a sentence."""
    return _RE.words("abbreviations")


@cache
def _common() -> dict[str, frozenset[str]]:
    """The function words of each language; those of all languages for an unknown one."""
    languages = {name: frozenset(words.split()) for name, words in _RE.entry("common").items()}
    return {**languages, "": frozenset[str]().union(*languages.values())}


@cache
def _negations() -> dict[str, re.Pattern[str]]:
    return _RE.patterns("negation")


def guess_language(text: str) -> str:
    """The language of a text as its code, such as `de`; empty where it is unknown.

    >>> guess_language("Answer in one sentence."), guess_language("Antworte in einem Satz.")
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
    # One word in eight is a function word in any text of a language, and two are no accident.
    return best if hits[best] >= max(1, len(words) / 8) else ""


def has_ordinal_dots(text: str) -> bool:
    """Return whether a full stop after a number may mean an ordinal, as in German."""
    return guess_language(text) in _ORDINAL_DOTS


def is_negated(text: str) -> bool | None:
    """Return whether a sentence forbids or negates; None for an unknown language."""
    language = guess_language(text)
    if language:
        return bool(_negations()[language].search(text))
    # Short texts have too few function words; a negation of any language is still one.
    return True if any(_negations()[name].search(text) for name in _LATIN) else None


def negations(text: str) -> Iterator[re.Match[str]]:
    """The words of a text that negate, in its language."""
    language = guess_language(text)
    return _negations()[language].finditer(text) if language else iter(())


def content_words(text: str) -> frozenset[str]:
    """The words of a text that show its subject, without endings such as a plural's.

    Scripts that put no space between words give pairs of signs.

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
    """A word without its commonest endings; crude, and the same for both sides of a comparison."""
    # The plural's first, so that "greetings" and "greeting" end up the same.
    for endings in (("ies", "es", "s"), ("ing", "ed")):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004 - a stem
                word = word[: -len(ending)] + ("y" if ending == "ies" else "")
                break
    # "value" has to meet "values", and "close" "closed".
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004 - a stem
