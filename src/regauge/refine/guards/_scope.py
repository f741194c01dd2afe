"""Which cases a text speaks of: an edit that names some of them may help no others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.refine.guards._leaks import CaseText

__all__ = ["Scope"]


class Scope:
    """Knows the words of every case's input.

    Args:
        cases: Of train and holdout alike.
        public: What is said of all cases: the prompt as it was, what checks want.
    """

    def __init__(self, cases: Sequence[CaseText], public: Iterable[str]) -> None:
        self._words = {case.id: content_words("\n".join(case.texts)) for case in cases}
        held = Counter(word for words in self._words.values() for word in words)
        # What most cases have belongs to the subject and tells none apart.
        common = {word for word, number in held.items() if 2 * number > len(cases)}
        self._public = content_words("\n".join(public)) | common

    def named(self, text: str) -> frozenset[str]:
        """The ids of the cases whose input has a word that a text says and nothing public does."""
        said = content_words(text) - self._public
        return frozenset(case for case, words in self._words.items() if said & words)
