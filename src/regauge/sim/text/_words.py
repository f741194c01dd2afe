"""Words as the simulated model sees them: split, lowered, stemmed, with synonyms folded."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["STOPWORDS", "count_words", "first_sentence", "sentences", "split_name", "stem", "stems"]

STOPWORDS: Final = frozenset(
    """a an and any are as at be been being both but by can could did do does each either every few
    for from had has have her here his how i if in into is it its itself just like may might more
    most must no not now of on only or other our out over own per rather same shall she should so
    some still such than that the their them then there these they this those through to too under
    until up use used using very was we were what when where which while who whose will with within
    without would you your also about after again all because before between during even ever
    around etc eg ie us least one alert fire fires firing labels value printf humanize
    humanizepercentage humanizeduration job name""".split()  # noqa: SIM905 - words read best as a line
)
# Words that mean the same to an operator, folded to the first of each line. Kept general: no
# line names a product, an alert or a metric.
_SYNONYMS: Final = {
    word: line.split()[0]
    for line in (
        "down unreachable unavailable offline dead outage disappear vanish absent",
        "fail failure error fault broken",
        "restart crashloop crashlooping crash",
        "soon shortly imminent",
        "disk filesystem storage volume persistentvolume",
        "full exhaust exhaustion capacity",
        "slow latency sluggish",
        "increase elevate rise grow",
        "quick fast rapid",
        "expire expiry expiration",
        "config configuration",
        "mismatch differ different inconsistent inconsistency",
        "overcommit overcommitted oversubscribed",
        "fill filling",
        "user customer client",
        "evict eviction",
        "throttle throttling",
    )
    for word in line.split()
}
_ROOT_MIN: Final = 3
_ROOT_LONG: Final = 4
_PIECE: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+(?:\.\d+)?")
_NEGATORS: Final = frozenset({"not", "no", "never", "non", "cannot", "without", "isn", "n't"})
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z0-9\"'(`*\[])")
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
    return _PIECE.findall(text)


@lru_cache(maxsize=4_000)
def stems(text: str) -> tuple[str, ...]:
    """The content words of a text as stems, in order; `not x` also gives `not_x`.

    >>> stems("The pod is not ready.")
    ('pod', 'ready', 'not_ready')
    """
    found: list[str] = []
    negated = False
    for piece in _PIECE.findall(text):
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
    for part in _SENTENCE_END.split(" ".join(text.split())):
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
