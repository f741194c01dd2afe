"""METEOR: words paired one by one, by form and by stem."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from regauge.judges._answer import expected
from regauge.judges._rule_factory import rule
from regauge.judges.rules._overlap import References, overlap, unended

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.judges._rule import Check

__all__ = ["meteor"]


def _align(words: list[tuple[int, str]], others: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """Pair equal words from the end, each with the last that is free; paired ones are removed."""
    pairs: list[tuple[int, int]] = []
    free: dict[str, list[int]] = {}
    for place, (_, word) in enumerate(others):
        free.setdefault(word, []).append(place)
    used: set[int] = set()
    for at in range(len(words) - 1, -1, -1):
        places = free.get(words[at][1])
        if places:
            place = places.pop()
            used.add(place)
            pairs.append((words[at][0], others[place][0]))
            del words[at]
    others[:] = [other for place, other in enumerate(others) if place not in used]
    return pairs


def meteor_score(text: str, reference: str, stem: Callable[[str], str]) -> float:
    """METEOR of one answer against one reference, as `meteor` states it."""
    words = list(enumerate(unended(text)))
    others = list(enumerate(unended(reference)))
    total, wanted = len(words), len(others)
    pairs = _align(words, others)
    stems = [(at, stem(word)) for at, word in words], [(at, stem(word)) for at, word in others]
    pairs += _align(*stems)
    if not pairs:
        return 0.0
    pairs.sort()
    chunks = 1 + sum(1 for one, two in pairwise(pairs) if two != (one[0] + 1, one[1] + 1))
    precision, recall = len(pairs) / total, len(pairs) / wanted
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return mean * (1 - 0.5 * (chunks / len(pairs)) ** 3)


@rule(codes=("not_similar",))
def meteor(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_least: float = 0.5,
    field: str | None = None,
) -> Check:
    """METEOR with exact and stemmed words; no synonyms, which would need a dictionary.

    Words are in lower case and what white space separates, without periods at their ends. They
    are paired from the end, first equal ones, then those with the same stem (Porter). With
    precision p, recall r, m pairs in c runs, the score is
    p r / (0.9 p + 0.1 r) x (1 - 0.5 (c / m)^3). Of several references the best counts.

    Args:
        to: The reference or references; by default the case's `expected`.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(meteor("the disks filled up").check_text("the disk filled up"))
    pass (0.99): meteor 0.9922 to 'the disks filled up', 0.5 wanted
    """

    def score(text: str, references: list[str]) -> float:
        import snowballstemmer  # type: ignore[import-untyped]  # it brings no types

        library: Any = snowballstemmer
        stem: Callable[[str], str] = cache(library.stemmer("porter").stemWord)
        return max(meteor_score(text, reference, stem) for reference in references)

    return overlap("meteor", to, at_least, score, field)
