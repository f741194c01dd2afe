"""Words that people said of answers: whoever wrote them, they are no part of a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Copies"]

_WORD: Final = re.compile(r"[\w'-]+")
# So many words that mean something, in one order, are nobody else's.
_TELLING: Final = 3


class Copies:
    """Knows runs of words that people said and nobody else does.

    Args:
        said: What people said.
        public: What anybody may say.
        phrase: How many words in a row are a copy.
    """

    def __init__(self, said: Sequence[str], public: Iterable[str], phrase: int) -> None:
        self._phrase = phrase
        allowed = {run for text in public for run in self._runs(text)} if said else set[str]()
        self._private = {run for text in said for run in self._runs(text)} - allowed

    def found(self, added: str) -> str:
        """A run of words of a person in new text; empty where there is none."""
        if not self._private:
            return ""
        runs = (run for line in added.splitlines() for run in self._runs(line))
        return next((run for run in runs if run in self._private), "")

    def _runs(self, text: str) -> Iterator[str]:
        words = _WORD.findall(text.casefold())
        for start in range(len(words) - self._phrase + 1):
            run = " ".join(words[start : start + self._phrase])
            if len(content_words(run)) >= _TELLING:
                yield run
