"""Words of a text, and sentences as Punkt counts them, by rules that need no data and no model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "UNSPACED",
    "capital_words",
    "count_words",
    "next_word",
    "opens_sentence",
    "period_ends",
    "sentences_in",
    "tokens",
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

# A mark that may end a sentence, before white space or before a closing mark.
_END = re.compile("[.?!](?=[)\";}\\]*:@'({\\[!?\u201d]|\\s+\\S)")
_LAST_WORD = re.compile(r"[^\s()\[\]{}\";:*@!?]+\Z")
_NEXT_WORD = re.compile(r"\s*[\"'”\u2019)\]}*_]*\s*(\S+)")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\Z")
_CLOSERS = re.compile("[\"')\\]}\u201d]+(?=\\s|\\Z)")

_TITLE_WORDS = """
mr mrs ms dr prof rev hon gen col capt lt sgt cmdr sen rep gov pres messrs mme mlle adm maj
"""
_ABBREVIATED_WORDS = """
st jr sr vs inc ltd co corp bros e.g i.e a.m p.m u.s u.k u.n d.c ph.d m.d b.a m.a cf al figs
approx dept est jan feb mar apr jun jul aug sep sept oct nov dec tue wed thu fri ave
blvd rd mt ft tel ext vol nos
"""
# Words that begin with a capital only where a sentence begins.
_OPENING_WORDS = """
a about after again all also although an and another any are as at be because before but by can
could did do does each even every first for from had has have he her here his how however i if in
is it its just last let many may more most much my never next no not now of on once one only or
other our out over perhaps please she should since so some such than that the their then there
these they this those though through to too under until up use was we were what when where which
while who why will with without would yes yet you your
"""
_TITLES = frozenset(_TITLE_WORDS.split())
_ABBREVIATIONS = frozenset(_ABBREVIATED_WORDS.split())
_OPENERS = frozenset(_OPENING_WORDS.split())


def next_word(text: str, at: int) -> str:
    found = _NEXT_WORD.match(text, at)
    return found[1] if found else ""


def opens_sentence(word: str) -> bool | None:
    """Whether a word surely begins a sentence (True), surely does not (False), or may (None)."""
    bare = word.strip(".,;:!?\"'“”\u2018\u2019()[]*_")
    if not bare:
        return False
    if bare[0].isupper() and re.split("['\u2019]", bare.lower())[0] in _OPENERS:
        return True
    return False if bare[0].islower() else None


def period_ends(last: str, following: str) -> bool:
    """Whether a period between two words ends a sentence."""
    word = last.strip("'“”\u2018\u2019_").lower()
    if _NUMBER.match(word):
        return opens_sentence(following) is not False
    if word in _TITLES:
        return False
    initial = len(word) == 1 and word.isalpha()
    if initial or word in _ABBREVIATIONS or word.rpartition("-")[2] in _ABBREVIATIONS:
        return opens_sentence(following) is True
    return True


def sentences_in(text: str) -> list[str]:
    """The sentences of a text.

    A sentence ends at `?` or `!`, and at a period that does not belong to an abbreviation, an
    initial, a number or an ellipsis which the sentence goes on after. Line ends end none.

    >>> sentences_in('Dr. No came at 5 p.m. today. "Why?" he asked.')
    ['Dr. No came at 5 p.m. today.', '"Why?"', 'he asked.']
    """
    return [part for part in _sentences(text) if part]


def _ends(text: str, at: int) -> bool:
    following = next_word(text, at + 1)
    if text[at - 1 : at] == ".":
        return opens_sentence(following) is True
    before = _LAST_WORD.search(text, max(0, at - 60), at)
    return period_ends(before[0] if before else "", following)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for mark in _END.finditer(text):
        at = mark.start()
        if text[at] == "." and not _ends(text, at):
            continue
        if text[at + 1 : at + 2] in {"!", "?"}:
            continue
        closers = _CLOSERS.match(text, at + 1)
        end = closers.end() if closers else at + 1
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()


_APART = re.compile(r"\.{2,}|--|[;\u2012-\u2015@#$%&?!*()\[\]{}<>\"`«»“”„\u2018\u2019]|[:,](?!\d)")
_CLITIC = re.compile(
    r"(?i)\b(CAN)(NOT)\b|\b(GIM|LEM)(ME)\b|\b(GON|WAN)(NA)\b|\b(GOT)(TA)\b|\b(D)('YE)\b"
    r"|(?<=[^' ])('(?:S|M|D|LL|RE|VE))(?=\s|$)|(?<=\S)(N'T)(?=\s|$)"
)


def tokens(text: str, *, marks: bool = True) -> list[str]:
    """The words and marks of a text, each on its own; without `marks`, the words.

    Punctuation and brackets stand apart from words, hyphens and slashes do not. A period stands
    apart at the end of the text only, so that `3.50` and `e.g.` stay whole. `don't` is `do`,
    `n't`; `it's` is `it`, `'s`.

    >>> tokens("It's $3.50 (net), isn't it?")
    ['It', "'s", '$', '3.50', '(', 'net', ')', ',', 'is', "n't", 'it', '?']
    """
    spaced = _APART.sub(r" \g<0> " if marks else " ", text.rstrip())
    if spaced.endswith(".") and not spaced.endswith(".."):
        spaced = spaced[:-1] + " ."
    spaced = _CLITIC.sub(lambda found: " " + " ".join(filter(None, found.groups())) + " ", spaced)
    return spaced.split()


def capital_words(text: str) -> list[str]:
    """The words whose letters are all capitals, `I` among them.

    Punctuation and brackets stand apart from words, hyphens and slashes do not; `DON'T` is two
    words, `DO` and `N'T`.

    >>> capital_words("I SAID: read the API-DOCS (v2), NOW!")
    ['I', 'SAID', 'API-DOCS', 'NOW']
    """
    return [word for word in tokens(text, marks=False) if word.isupper()]
