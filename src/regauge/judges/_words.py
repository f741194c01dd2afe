"""Words and sentences of a text in any script, by rules without data or models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from collections.abc import Iterator


# Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le,
# New Tai Lue, Tai Tham, Chinese, Japanese, Yi. A class for patterns, without its brackets.
UNSPACED = (
    "\u0e00-\u0e4f\u0e81-\u0ecf\u0edc-\u0edf\u0f00-\u0fff\u1000-\u109f\u1780-\u17d3\u17d7-\u17dd"
    "\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096"
    "\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua000-\ua48c\ua9e0-\ua9ef\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_LISTS: Final = Lexicon("regauge.judges", file="data/sentences.toml")
_UNSPACED = re.compile(f"[{UNSPACED}]+")


def count_words(text: str, *, by_letters: bool) -> tuple[int, int]:
    """The least and the greatest number of words that a text may have.

    The two differ for scripts that put no spaces between words, such as Chinese, Japanese and
    Thai: each run of their letters has one word at least, and one for each letter at most.

    >>> count_words("don't re-run", by_letters=False), count_words("don't re-run", by_letters=True)
    ((2, 2), (4, 4))
    >>> count_words("\u78c1\u76d8\u5df2\u6ee1, full", by_letters=False)
    (2, 5)
    """
    runs = [] if text.isascii() else _UNSPACED.findall(text)
    if runs:
        text = _UNSPACED.sub(" ", text)
        # The rest of such a word, such as its punctuation, is not a word.
        words = [word for word in text.split() if any(map(str.isalnum, word))]
    else:
        words = text.split()
    spaced = _count_letter_runs(text) if by_letters else len(words)
    return spaced + len(runs), spaced + sum(map(len, runs))


def _count_letter_runs(text: str) -> int:
    if text.isascii():
        return len(_WORD.findall(text))
    import regex  # type: ignore[import-untyped]  # it brings no types

    # Vowel signs, as of Hindi, are parts of words for `regex` alone.
    return sum(1 for _ in regex.finditer(r"\w+", text))


_WORD = re.compile(r"\w+")

_NEXT_WORD = re.compile(r"\s*[\"'”\u2019)\]}*_]*\s*(\S+)")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\Z")


def next_word(text: str, position: int) -> str:
    match = _NEXT_WORD.match(text, position)
    return match[1] if match else ""


def opens_sentence(word: str) -> bool | None:
    """Return whether a word begins a sentence; None if it may."""
    bare = word.strip(".,;:!?\"'“”\u2018\u2019()[]*_")
    if not bare:
        return False
    if bare[0].isupper() and re.split("['\u2019]", bare.lower())[0] in _LISTS.words(
        "english_openers"
    ):
        return True
    return False if bare[0].islower() else None


def period_ends(last: str, following: str) -> bool:
    """Return whether a period between two words ends a sentence."""
    word = last.strip("'“”\u2018\u2019_").lower()
    if _NUMBER.match(word):
        return opens_sentence(following) is not False
    if word in _LISTS.words("english_titles"):
        return False
    initial = len(word) == 1 and word.isalpha()
    if initial or _LISTS.words("english_abbreviations") & {word, word.rpartition("-")[2]}:
        return opens_sentence(following) is True
    return True


_HEADING = re.compile(r"\s*#{1,6}\s")
# No abbreviation is longer.
_WORD_CHARS = 60
_NUMERAL = re.compile(r"\d.*|[IVXLC]+")
_AROUND = ".,;:!?\"'()[]*_\u00ab\u00bb\u2018\u2019\u201c\u201d\u201e"
_LETTER = re.compile(r"[^\W_]")


def count_sentences(text: str) -> tuple[int, int]:
    """The least and the greatest number of sentences that a text may have.

    The two differ for Thai and Lao, where a space may end a sentence.

    >>> count_sentences("One. Two?")
    (2, 2)
    """
    least = len(sentences_in(text))
    spaces = 0 if text.isascii() else sum(1 for _ in _LISTS.unmarked.finditer(text))
    return least, least + spaces


def sentences_in(text: str) -> list[str]:
    """The sentences of a text.

    A sentence ends at a full stop, question mark or exclamation mark of any script, at a heading,
    list item or blank line. Abbreviations, ordinals, initials, numbers and inner ellipses end none.

    >>> sentences_in('Dr. No came at 5 p.m. today. "Why?" he asked. No. 5 was out.')
    ['Dr. No came at 5 p.m. today.', '"Why?" he asked.', 'No. 5 was out.']
    """
    return [part for block in _blocks(text) for part in _split_block(block) if _LETTER.search(part)]


def _blocks(text: str) -> Iterator[str]:
    """The paragraphs, headings and list items of a text, without their marks."""
    lines: list[str] = []
    for line in text.splitlines():
        mark = _LISTS.mark.match(line)
        if (mark or not line.strip()) and lines:
            yield "\n".join(lines)
            lines = []
        if line.strip():
            lines.append(line[mark.end() :] if mark else line)
        if _HEADING.match(line):
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _split_block(text: str) -> Iterator[str]:
    start = 0
    for mark in _LISTS.end.finditer(text):
        if _sentence_continues(text, mark):
            continue
        yield text[start : mark.end()].strip()
        start = mark.end()
    yield text[start:].strip()


def _sentence_continues(text: str, mark: re.Match[str]) -> bool:
    """Return whether a sentence continues after a mark that usually ends one."""
    # A particle or a verb after a quotation: "...。」と言った".
    if mark[0][-1] in "\u300d\u300f\u201d" and _LISTS.quotation.match(text, mark.end()):
        return True
    if mark[0][0] not in ".!?":
        return False
    following = next_word(text, mark.end())[:_WORD_CHARS].strip(_AROUND)
    if not following:
        return False
    if mark[0] != ".":
        # An ellipsis or a quotation within a sentence.
        inside = mark[0].startswith("..") or mark[0][-1] not in ".!?"
        return inside and following[0].islower()
    return _continues_sentence(text, mark.start(), following)


def _continues_sentence(text: str, position: int, following: str) -> bool:
    """Return whether the sentence continues after a period.

    Args:
        text: The text.
        position: The offset of the period.
        following: The next word, without marks around it.
    """
    before, last = ["", "", *text[max(0, position - _WORD_CHARS) : position].split()][-2:]
    word = last.lstrip(_AROUND).casefold()
    first = following.replace("\u2019", "'").casefold().split("'")[0]
    if word in _LISTS.words("titles") or (
        word in _LISTS.words("numbered") and _NUMERAL.fullmatch(following)
    ):
        return True
    if word.isdigit() and len(word) <= 2:  # noqa: PLR2004 - days and small ordinals
        ordinal = before.casefold() in _LISTS.words(
            "before_ordinals"
        ) and first not in _LISTS.words("openers")
        return first in _LISTS.words("months") or ordinal or not period_ends(last, following)
    if word in _LISTS.words("abbreviations") or (len(word) == 1 and word.isalpha()):
        opens = opens_sentence(following) is True or first in _LISTS.words("openers")
        return not (opens and following[0].isupper())
    return not period_ends(last, following)
