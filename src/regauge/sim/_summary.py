"""Extractive summaries: whole sentences of the document, picked and kept in order."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from regauge.sim._document import Document, plain
from regauge.sim._text import count_words, sentences, stems

if TYPE_CHECKING:
    from regauge.sim._instructions import Limits

__all__ = ["shorten", "summarise"]

_WEIGHTY: Final = re.compile(
    r"\b(?:impact|identified|resolution|resolved|cause[ds]?|because|due to|outage|unavailable"
    r"|users?|failed|failure"
    r"|down|restored|rolled? ?back|fixed|affected)\b",
    re.IGNORECASE,
)
_DULL: Final = re.compile(
    r"https?://|\bslack thread\b|\btimeline\b|^\W*\d{1,2}[:.]\d\d|\[#\d+\]", re.IGNORECASE
)
_DULL_FIELDS: Final = re.compile(
    r"time to|key events|review|action|timeline|context|link|slack", re.IGNORECASE
)
_GOOD_FIELDS: Final = re.compile(
    r"impact|identified|resolution|summary|cause|background|problem|what happened|description"
    r"|fix|message|body|auswirkung|ursache|lösung",
    re.IGNORECASE,
)
_NO_LIMIT_SHARE: Final = 0.7
_NO_LIMIT_WORDS: Final = 130
_CLAUSE_END: Final = re.compile(r"[,;:]\s|\s(?:and|which|so|but|because)\s")


def shorten(text: str, words: int) -> str:
    """A text of at most so many words, cut at a clause where one ends late enough.

    >>> shorten("The disk was full, so the pods were evicted from the node.", 6)
    'The disk was full.'
    """
    given = text.split()
    if len(given) <= words:
        return text
    cut = " ".join(given[:words])
    ends = [m.start() for m in _CLAUSE_END.finditer(cut) if m.start() > len(cut) * 0.4]
    if ends:
        cut = cut[: ends[-1]]
    return cut.rstrip(" ,;:-(") + "."


def _candidates(document: Document) -> list[tuple[float, int, str]]:  # noqa: C901 - one step for each shape of line or message
    """Sentences with a worth and a position; labelled pieces that matter come first."""
    counts: Counter[str] = Counter(w for p in document.prose for w in set(stems(p)))
    found: list[tuple[float, int, str]] = []
    seen: set[str] = set()

    def add(sentence: str, bonus: float) -> None:
        sentence = sentence.strip()
        if not sentence or sentence in seen or _DULL.search(sentence):
            return
        seen.add(sentence)
        own = set(stems(sentence))
        central = sum(counts[w] for w in own) / (len(own) + 3)
        worth = bonus + min(central, 3.0) / 3 + 0.4 * len(_WEIGHTY.findall(sentence))
        worth -= 0.02 * max(0, count_words(sentence) - 30)
        found.append((worth - 0.01 * len(found), len(found), sentence))

    for field in document.fields:
        if _DULL_FIELDS.search(field.key):
            continue
        good = _GOOD_FIELDS.search(field.key) is not None
        for index, line in enumerate(field.value.split("\n")):
            cleaned = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", line))
            for sentence in sentences(cleaned):
                if count_words(sentence) > 2:  # noqa: PLR2004 - a small count that says itself
                    ended = sentence if sentence[-1] in ".!?" else sentence + "."
                    add(ended, (1.2 if good else 0.0) - 0.1 * index)
    if len(found) < 3:  # noqa: PLR2004 - a small count that says itself
        for index, paragraph in enumerate(document.prose):
            for sentence in sentences(paragraph):
                add(sentence if sentence[-1] in ".!?" else sentence + ".", 0.8 / (1 + index))
    return found


def summarise(document: Document, limits: Limits, *, words: int | None = None) -> str:
    """The sentences that tell most, within the limit; without one, as long as it gets.

    Args:
        document: What to summarise.
        limits: What the prompt allows for this text.
        words: Overrides the limit on words.
    """
    limit = words if words is not None else limits.words_max
    target = limit
    if target is None:
        target = max(_NO_LIMIT_WORDS, int(_NO_LIMIT_SHARE * count_words(document.text)))
        target = min(target, 3 * _NO_LIMIT_WORDS)
    most = limits.sentences_max or 1000
    chosen: list[tuple[int, str]] = []
    left = target
    for _, position, sentence in sorted(_candidates(document), key=lambda c: (-c[0], c[1])):
        length = count_words(sentence)
        if len(chosen) >= most:
            break
        if length <= left:
            chosen.append((position, sentence))
            left -= length
        elif not chosen:
            chosen.append((position, shorten(sentence, left)))
            break
    chosen.sort()
    text = " ".join(sentence for _, sentence in chosen)
    if limit is None and text and count_words(text) < _NO_LIMIT_WORDS:
        # Without a limit it talks: the rest of the document follows, whatever it is worth.
        rest = [s for p in document.prose for s in sentences(p) if s.rstrip(".") not in text]
        for sentence in rest:
            text += " " + (sentence if sentence[-1] in ".!?" else sentence + ".")
            if count_words(text) >= _NO_LIMIT_WORDS:
                break
    return text or shorten(plain(document.text), target)
