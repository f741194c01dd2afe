"""The order of cases for a mutant: those first that share most with the mutated text."""

from __future__ import annotations

from collections import Counter
from math import log
from typing import TYPE_CHECKING

from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from regauge.mutate._types import Case

# The words of a section say which group of cases a text is for; its own words say which case.
_SECTION_WEIGHT = 0.25


class Ranking:
    """Ranks the cases of a suite; rare words count more than common ones."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._words = [content_words(case.text) for case in cases]
        met = Counter(word for words in self._words for word in words)
        self._weights = {word: log(len(cases) / count) for word, count in met.items()}

    def rank(
        self, text: str, section: str = "", *, first: Collection[str] = ()
    ) -> list[tuple[Case, float]]:
        """The cases with their relevance, the most relevant first.

        Args:
            section: The heading above the text.
            first: Cases that killed this mutant before.
        """
        own = content_words(text)
        above = content_words(section) - own
        scored = [
            (case, self._shared(own, words), self._shared(above, words))
            for case, words in zip(self._cases, self._words, strict=True)
        ]
        scored.sort(
            key=lambda one: (
                one[0].key not in first,
                not one[0].blocks or _passes(one[0]) < 1 / 2,
                -(one[1] + _SECTION_WEIGHT * one[2]),
                -_passes(one[0]),
            )
        )
        return [(case, score) for case, score, _ in scored]

    def _shared(self, words: Collection[str], of_case: Collection[str]) -> float:
        return sum(self._weights[word] for word in words if word in of_case)


def _passes(case: Case) -> float:
    """The base's pass rate: a case that fails anyway cannot show that it breaks."""
    known = case.history
    return known.whole.rate if known is not None and known.whole.trials else 1.0
