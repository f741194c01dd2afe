"""Whether new text of a prompt gives away a case: its answer, its input or its name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.refine._text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.refine._policy import GuardPolicy

__all__ = ["CaseText", "Leaks"]

# A number, an identifier, a path, a name with a capital inside: what a rule seldom needs and a
# case always has.
_SPECIFIC = re.compile(r"[A-Za-z0-9](?:[\w.:/@+-]*\w)?%?")
_LONG_NUMBER = re.compile(r"\d{3,}")
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
)  # fmt: skip
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)}
_PRIVATE_WORDS_MIN = 3
_PRIVATE_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseText:
    """What a golden case says, none of which may reach the prompt.

    Attributes:
        texts: Its inputs and what is expected of it, each as text.
    """

    id: str
    texts: tuple[str, ...]


class Leaks:
    """Knows what only cases say.

    Args:
        cases: Of train and holdout alike.
        public: What anybody may say: the prompt as it was and as it was released before, what
            the checks want, and further words of the subject.
        policy: How much must be shared to be a leak.
    """

    def __init__(
        self, cases: Sequence[CaseText], public: Iterable[str], policy: GuardPolicy
    ) -> None:
        self._policy = policy
        self._public = _plain(" \n ".join(public))
        self._public_words = content_words(self._public)
        self._public_specific = set(_specific(self._public))
        self._texts = [_plain(" \n ".join((case.id, *case.texts))) for case in cases]
        self._names = [case.id for case in cases]
        self._words = [content_words(text) for text in self._texts]
        self._common_from = max(2.0, policy.common * len(cases))
        self._specific = Counter(token for text in self._texts for token in set(_specific(text)))
        self._frequency = Counter(word for words in self._words for word in words)
        self._phrases = {
            phrase: name
            for name, text in zip(self._names, self._texts, strict=True)
            for phrase in _phrases(text, policy.phrase)
        }

    def found(self, added: str) -> str:
        """What of a text gives a case away, in words; empty where nothing does."""
        for line in added.splitlines():
            leak = self._of_line(_plain(line))
            if leak:
                return leak
        return ""

    def _of_line(self, line: str) -> str:
        for token in _specific(line):
            if token not in self._public_specific and 0 < self._specific[token] < self._common_from:
                return f"{token!r} is of single cases"
        for phrase in _phrases(line, self._policy.phrase):
            if phrase in self._phrases and phrase not in self._public:
                return f"{phrase!r} is of case {self._phrases[phrase]}"
        width = self._policy.overlap
        for start in range(len(line) - width + 1):
            window = line[start : start + width]
            if not window.strip() or window in self._public:
                continue
            holders = [n for n, text in enumerate(self._texts) if window in text]
            if 0 < len(holders) < self._common_from and self._is_telling(window):
                return f"{window.strip()!r} is of case {self._names[holders[0]]}"
        return self._paraphrase(line)

    def _is_telling(self, window: str) -> bool:
        """Whether a stretch holds more than words anybody uses on the subject."""
        words = content_words(window)
        return any(
            word not in self._public_words and self._frequency[word] < self._common_from
            for word in words
        )

    def _paraphrase(self, line: str) -> str:
        """Many words that one case has and few others do, in whatever order."""
        said = content_words(line)
        for name, words in zip(self._names, self._words, strict=True):
            rare = {
                word
                for word in said & words
                if word not in self._public_words and self._frequency[word] < self._common_from
            }
            if len(rare) >= _PRIVATE_WORDS_MIN and len(rare) >= _PRIVATE_SHARE * len(said):
                return f"it retells case {name}"
        return ""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _specific(text: str) -> list[str]:
    """Numbers, also written out, and words with a digit or a mark inside."""
    found = [match[0] for match in _SPECIFIC.finditer(text)]
    tokens = [token for token in found if any(not c.isalpha() for c in token)]
    # "1315" gives "1315.50" away, too.
    whole = [
        number for token in tokens for number in _LONG_NUMBER.findall(token) if number != token
    ]
    named = [_NUMBER_WORDS[word] for word in found if word in _NUMBER_WORDS]
    return tokens + whole + named + _spelled(found)


def _spelled(words: list[str]) -> list[str]:
    """Numbers that are written digit by digit, such as "four one seven"."""
    numbers: list[str] = []
    digits = ""
    for word in [*words, ""]:
        digit = _NUMBER_WORDS.get(word, "")
        if len(digit) == 1:
            digits += digit
            continue
        if len(digits) > 1:
            numbers.append(digits)
        digits = ""
    return numbers


def _phrases(text: str, length: int) -> Iterable[str]:
    words = text.split()
    return (" ".join(words[n : n + length]) for n in range(len(words) - length + 1))
