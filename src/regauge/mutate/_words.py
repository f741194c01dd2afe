"""Words that negate, weaken or measure, by language; an unknown language has none."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from regauge.lexicon import Lexicon
from regauge.statements import content_words, guess_language, negations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RE = Lexicon("regauge.mutate", "words")
_UNSPACED = frozenset({"ja", "zh", "ko"})


@cache
def _pairs(listed: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for pair in filter(None, listed.split("|")):
        before, both, after = pair.partition("<>")
        if both:
            found += [(before, after), (after, before)]
        else:
            before, _, after = pair.partition(">")
            found.append((before, after))
    return tuple(found)


def _exchanged(text: str, listed: Sequence[str], *, spaced: bool = True) -> Iterator[str]:
    """The texts with one word of a list exchanged each; a longer match hides shorter ones in it."""
    edge = r"(?<!\w){}(?!\w)" if spaced else "{}"
    taken: list[tuple[int, int]] = []
    for before, after in _pairs("".join(listed)):
        match = re.search(edge.format(re.escape(before)), text, re.IGNORECASE)
        if match is None or any(
            match.start() < end and start < match.end() for start, end in taken
        ):
            continue
        taken.append(match.span())
        yield _put(text, *match.span(), after)


def _put(text: str, start: int, end: int, new: str) -> str:
    """The text with another word at a place; its first letter stays as large as it was."""
    if not new and text[end : end + 1] == " ":
        end += 1
    after = text[:start] + new + text[end:]
    if start == 0 and text[:1].isupper():
        return after[:1].upper() + after[1:]
    return after


def negated(text: str) -> Iterator[str]:
    """The text with one thing turned into its opposite.

    >>> list(negated("The summary must have at most 80 words."))
    ['The summary must have at least 80 words.', 'The summary must not have at most 80 words.']
    >>> list(negated("Schreibe nicht mehr."))
    ['Schreibe mehr.']
    """
    language = guess_language(text)
    spaced = language not in _UNSPACED
    found = list(_exchanged(text, _RE.entry("opposites").get(language, ""), spaced=spaced))
    if not found:
        for match in negations(text):
            found.append(_put(text, *match.span(), ""))
            break
    first = text.split(maxsplit=1)[:1]
    if not found and language == "en" and first and first[0].istitle() and content_words(first[0]):
        # An order begins with its verb.
        found.append(f"Do not {text[:1].lower()}{text[1:]}")
    yield from found


def weakened(text: str) -> Iterator[str]:
    """The text with one thing said less strictly.

    >>> list(weakened("Only answer in JSON."))
    ['Answer in JSON.']
    """
    language = guess_language(text)
    yield from _exchanged(
        text, _RE.entry("weaker").get(language, ""), spaced=language not in _UNSPACED
    )


def with_other_unit(text: str) -> Iterator[str]:
    """The text with another unit or date format.

    >>> list(with_other_unit("Write the date as YYYY-MM-DD."))
    ['Write the date as DD/MM/YYYY.']
    """
    language = guess_language(text)
    yield from _exchanged(text, _RE.entry("units"))
    if any(sign.isdigit() for sign in text):
        listed = _RE.entry("unit_words").get(language, "")
        yield from _exchanged(text, listed, spaced=language not in _UNSPACED)
