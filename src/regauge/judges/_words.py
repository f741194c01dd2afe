"""Words and sentences of a text in any script, by stated rules that need no data and no model."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "UNSPACED",
    "count_sentences",
    "count_words",
    "next_word",
    "opens_sentence",
    "period_ends",
    "sentences_in",
]

# Letters of scripts that put no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le,
# New Tai Lue, Tai Tham, Chinese, Japanese, Yi. A class for patterns, without its brackets.
UNSPACED = (
    "\u0e00-\u0e4f\u0e81-\u0ecf\u0edc-\u0edf\u0f00-\u0fff\u1000-\u109f\u1780-\u17d3\u17d7-\u17dd"
    "\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096"
    "\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua000-\ua48c\ua9e0-\ua9ef\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
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
        # What is left of such a word, as its punctuation, is no word.
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
_ENGLISH_TITLE_WORDS = """
mr mrs ms dr prof rev hon gen col capt lt sgt cmdr sen rep gov pres messrs mme mlle adm maj
"""
_ENGLISH_ABBREVIATED_WORDS = """
st jr sr vs inc ltd co corp bros e.g i.e a.m p.m u.s u.k u.n d.c ph.d m.d b.a m.a cf al figs
approx dept est jan feb mar apr jun jul aug sep sept oct nov dec tue wed thu fri ave
blvd rd mt ft tel ext vol nos
"""
# Words that begin with a capital only where a sentence begins.
_ENGLISH_OPENING_WORDS = """
a about after again all also although an and another any are as at be because before but by can
could did do does each even every first for from had has have he her here his how however i if in
is it its just last let many may more most much my never next no not now of on once one only or
other our out over perhaps please she should since so some such than that the their then there
these they this those though through to too under until up use was we were what when where which
while who why will with without would yes yet you your
"""
_ENGLISH_TITLES = frozenset(_ENGLISH_TITLE_WORDS.split())
_ENGLISH_ABBREVIATIONS = frozenset(_ENGLISH_ABBREVIATED_WORDS.split())
_ENGLISH_OPENERS = frozenset(_ENGLISH_OPENING_WORDS.split())


def next_word(text: str, at: int) -> str:
    found = _NEXT_WORD.match(text, at)
    return found[1] if found else ""


def opens_sentence(word: str) -> bool | None:
    """Return whether a word begins a sentence; None if it may."""
    bare = word.strip(".,;:!?\"'“”\u2018\u2019()[]*_")
    if not bare:
        return False
    if bare[0].isupper() and re.split("['\u2019]", bare.lower())[0] in _ENGLISH_OPENERS:
        return True
    return False if bare[0].islower() else None


def period_ends(last: str, following: str) -> bool:
    """Return whether a period between two words ends a sentence."""
    word = last.strip("'“”\u2018\u2019_").lower()
    if _NUMBER.match(word):
        return opens_sentence(following) is not False
    if word in _ENGLISH_TITLES:
        return False
    initial = len(word) == 1 and word.isalpha()
    if initial or _ENGLISH_ABBREVIATIONS & {word, word.rpartition("-")[2]}:
        return opens_sentence(following) is True
    return True


# Full stops, question and exclamation marks of scripts other than Latin: Greek, Armenian, Hebrew,
# Arabic, Syriac, Devanagari, Tibetan, Myanmar, Ethiopic, Mongolian, Khmer, Chinese and Japanese.
_STOPS = (
    "\u0589\u05c3\u061d-\u061f\u06d4\u0700-\u0702\u0964\u0965\u0f0d\u0f0e\u104b\u1362"
    "\u1367\u1368\u1803\u1809\u17d4\u17d5\u203c\u203d\u2047-\u2049\u3002\ufe52\ufe56\ufe57\uff01\uff0e"
    "\uff1f\uff61"
)
# Quotation marks and brackets that may close a sentence; quotation marks open in some languages
# and close in others, so what counts is the white space behind.
_CLOSERS = (
    "\"')\\]}*_\u00bb\u00ab\u2018\u2019\u201c\u201d\u203a\u2039\u3009\u300b\u300d\u300f\u3011\uff09"
)
_END = re.compile(
    rf"[{_STOPS}]+[{_CLOSERS}]*"
    rf"|(?<![.!?])[.!?]++(?:[{_CLOSERS}]++|[ \u00a0\u202f]\u00bb)?(?=\s|\Z|[{_STOPS}])"
    r"|(?<=[\u0370-\u03ff\u1f00-\u1fff])[;\u037e](?=\s|\Z)"
)
_QUOTATION = re.compile("と(?!ころ)|って|なんて")
# A heading, a rule, the mark of a list item or a quotation begins a block of its own.
_MARK = re.compile(r"\s*(?:>\s*)*(?:#{1,6}\s|[*+\-\u2022]\s|\d{1,3}[.)]\s|\||```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s")
# As much of a word as abbreviations have.
_WORD_CHARS = 60
_NUMERAL = re.compile(r"\d.*|[IVXLC]+")
_AROUND = ".,;:!?\"'()[]*_\u00ab\u00bb\u2018\u2019\u201c\u201d\u201e"
_LETTER = re.compile(r"[^\W_]")

# These end a sentence only where the next word surely begins one.
_ABBREVIATED_WORDS = """
fig eq bzw ca evtl ggf inkl exkl max min zzgl vgl bspw sog geb gest jh jhd mio mrd allg einschl
ex env chap tél aprox pág págs núm tel avda ud uds pag sig ecc bijv enz np itd itp tzn vb
т.е т.д т.п см рис руб млн млрд тыс гг ул стр
"""  # noqa: RUF001 - words of languages in other scripts
# These stand before a name and end no sentence.
_TITLE_WORDS = "sra srta dra hr fr mme mlle mgr dott sig.ra ing г-н г-жа"  # noqa: RUF001 - Russian
# These end none before a number.
_NUMBERED_WORDS = """
no nr fig sec eq art abs kap bd tab vol ch p pp s nº n° № pos ziff par cap nos abb anm aufl
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED_WORDS.split())
_TITLES = frozenset(_TITLE_WORDS.split())
_NUMBERED = frozenset(_NUMBERED_WORDS.split())

# German ordinals are numbers with a period: "am 3. Mai", "der 2. Weltkrieg". So are those of other
# languages before a month.
_BEFORE_ORDINAL_WORDS = """
am im vom zum zur beim bis ab seit der die das den dem des ein eine einen einem einer jede jeden
jeder jedes jedem und oder het de dne dnia - \u2013
"""
_BEFORE_ORDINALS = frozenset(_BEFORE_ORDINAL_WORDS.split())
_MONTH_WORDS = """
januar jänner februar feber märz april mai juni juli august september oktober november dezember
jan feb mär apr jun jul aug sep sept okt nov dez januari februari maart mei oktober augustus
januar februar mars april maj juni juli oktober desember december tammikuuta helmikuuta
maaliskuuta
huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta joulukuuta
ledna února března dubna května června července srpna září října listopadu prosince
"""
_MONTHS = frozenset(_MONTH_WORDS.split())
# Words that begin with a capital only where a sentence begins, in languages other than English.
_OPENING_WORDS = """
der die das ein eine er sie es wir ich ihr dann danach aber und wenn weil dort hier nun jetzt
bitte
le la les un une il elle ils elles nous vous je puis ensuite mais et si quand ce cette ces
el los las una uno ella ellos nosotros yo luego después pero y cuando este esta
lo gli i poi ma e quando questo questa o os as um uma ele ela eles nós eu depois mas se este
de het een hij zij wij ik daarna maar als dit deze
он она они мы я вы это потом затем но и если
"""
_OPENERS = frozenset(_OPENING_WORDS.split())
# Scripts without marks at the end of sentences: Thai and Lao put a space there, and elsewhere.
_UNMARKED = re.compile(r"[\u0e00-\u0e4f\u0e80-\u0eff]\s+(?=[\u0e00-\u0e4f\u0e80-\u0eff])")


def count_sentences(text: str) -> tuple[int, int]:
    """The least and the greatest number of sentences that a text may have.

    The two differ for Thai and Lao, where a space may end a sentence.

    >>> count_sentences("One. Two?")
    (2, 2)
    """
    least = len(sentences_in(text))
    spaces = 0 if text.isascii() else sum(1 for _ in _UNMARKED.finditer(text))
    return least, least + spaces


def sentences_in(text: str) -> list[str]:
    """The sentences of a text.

    A sentence ends at a full stop, a question mark or an exclamation mark of any script, unless it
    belongs to an abbreviation, an ordinal, an initial, a number or an ellipsis after which the
    sentence goes on. Headings, list items and blank lines end one, too.

    >>> sentences_in('Dr. No came at 5 p.m. today. "Why?" he asked. No. 5 was out.')
    ['Dr. No came at 5 p.m. today.', '"Why?" he asked.', 'No. 5 was out.']
    """
    return [part for block in _blocks(text) for part in _split_block(block) if _LETTER.search(part)]


def _blocks(text: str) -> Iterator[str]:
    """The paragraphs, headings and list items of a text, without their marks."""
    lines: list[str] = []
    for line in text.splitlines():
        mark = _MARK.match(line)
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
    for mark in _END.finditer(text):
        if _goes_on(text, mark):
            continue
        yield text[start : mark.end()].strip()
        start = mark.end()
    yield text[start:].strip()


def _goes_on(text: str, mark: re.Match[str]) -> bool:
    """Return whether a sentence goes on behind a mark that ends others."""
    if mark[0][0] not in ".!?":
        # A particle of quotation: "...。」と言った".
        quoted = mark[0][-1] in "\u300d\u300f"
        return quoted and _QUOTATION.match(text, mark.end()) is not None
    following = next_word(text, mark.end())[:_WORD_CHARS].strip(_AROUND)
    if not following:
        return False
    if mark[0] != ".":
        # An ellipsis or a quotation within a sentence.
        inside = mark[0].startswith("..") or mark[0][-1] not in ".!?"
        return inside and following[0].islower()
    return _goes_on_behind_period(text, mark.start(), following)


def _goes_on_behind_period(text: str, at: int, following: str) -> bool:
    words = text[max(0, at - _WORD_CHARS) : at].split()[-2:]
    return _continues(words[0] if len(words) > 1 else "", words[-1] if words else "", following)


@functools.lru_cache(maxsize=4096)
def _continues(before: str, last: str, following: str) -> bool:
    """Return whether a period behind a word is none that ends the sentence.

    Args:
        before: The word before the last one.
        last: The word that the period follows.
        following: The next word, without marks around it.
    """
    word = last.lstrip(_AROUND).casefold()
    first = following.replace("\u2019", "'").casefold().split("'")[0]
    if word in _TITLES or (word in _NUMBERED and _NUMERAL.fullmatch(following)):
        return True
    if word.isdigit() and len(word) <= 2:  # noqa: PLR2004 - days and small ordinals
        ordinal = before.casefold() in _BEFORE_ORDINALS and first not in _OPENERS
        return first in _MONTHS or ordinal or not period_ends(last, following)
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        opens = opens_sentence(following) is True or first in _OPENERS
        return not (opens and following[0].isupper())
    return not period_ends(last, following)
