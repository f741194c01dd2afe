"""Whether words were taken from one place of a case: more of them than chance explains."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from regauge.refine.guards._traces import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

__all__ = ["Stretches"]

# A stretch has so many words, and the next one begins in the middle of it: a sentence that is told
# again stands in one of them.
_LENGTH = 40
# A retelling takes this share of its words from the case. Any other sentence finds a word that few
# cases have in a given stretch at least this often, however rare the word.
_TAKEN = 0.65
_BY_CHANCE = 0.02
_MET_MIN = 2
# How much likelier a retelling must be than chance, as a logarithm.
_NEEDED = 5.0
_ABBREVIATED_MIN = 3
_MISSED = math.log(1 - _TAKEN)


class Stretches:
    """The words of cases, place by place.

    Args:
        texts: Of cases, by their numbers, and whether they are answers. Of a short answer nobody
            finds words by chance, however many answers have them.
        is_private: Whether few cases and nobody else has a word.
        share: The share of cases that have a word.
    """

    def __init__(
        self,
        texts: Iterable[tuple[int, str, bool]],
        is_private: Callable[[str], bool],
        share: Callable[[str], float],
    ) -> None:
        self._share = share
        self._cases: list[int] = []
        self._holding: dict[str, set[int]] = defaultdict(set)
        self._answers: set[int] = set()
        for case, text, is_answer in texts:
            words = keys(text)
            for start in range(0, max(1, len(words) - _LENGTH // 2), _LENGTH // 2):
                held = {word for word in words[start : start + _LENGTH] if is_private(word)}
                if len(held) >= _MET_MIN:
                    for word in held:
                        self._holding[word].add(len(self._cases))
                    if is_answer and len(words) <= _LENGTH:
                        self._answers.add(len(self._cases))
                    self._cases.append(case)
        self._longer: dict[str, set[str]] = defaultdict(set)
        for word in self._holding:
            for end in range(_ABBREVIATED_MIN, len(word)):
                self._longer[word[:end]].add(word)

    def source_of(self, said: Collection[str]) -> int | None:
        """The number of the case that words were taken from; None where chance explains them.

        Args:
            said: Words that not everybody says.
        """
        weight: dict[int, float] = defaultdict(float)
        met: Counter[int] = Counter()
        for word in sorted(said):
            meant = {word} if word in self._holding else self._longer.get(word, set())
            chance = max((self._share(one) / 2 for one in meant), default=0.0)
            for place in {place for one in meant for place in self._holding[one]}:
                by_chance = _BY_CHANCE if place in self._answers else max(_BY_CHANCE, chance)
                weight[place] += math.log(_TAKEN / by_chance) - _MISSED
                met[place] += 1
        likely = [place for place in weight if met[place] >= _MET_MIN]
        best = max(likely, key=lambda place: (weight[place], -place), default=None)
        if best is None or weight[best] + _MISSED * len(said) < _NEEDED:
            return None
        return self._cases[best]
