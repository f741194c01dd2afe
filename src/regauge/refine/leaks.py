"""Whether new text of a prompt gives away a case: its answer, its input or its name."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.refine.traces import (
    ORDINARY,
    backwards,
    capitals_tell,
    decoded,
    keys,
    names,
    plain,
    specific,
)
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from regauge.refine._policy import GuardPolicy

# A stretch has so many words, and the next one begins in the middle of it: a sentence that is told
# again stands in one of them.
_LENGTH = 40
# A retelling takes this share of its words from the case. Any other sentence finds a word that few
# cases have in a given stretch at least this often, however rare the word.
_TAKEN = 0.65
_BY_CHANCE = 0.02
# One shared word is a coincidence.
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


# So many private words next to each other are nobody else's.
_PRIVATE_MIN = 3
# Clauses of so many words are anybody's.
_SHORT = 2
# A line that takes this share of its words from one answer says what the answer says.
_MADE_OF = 0.8
# A longer answer has the words of any sentence on its subject.
_ANSWER = 40
# Longer runs need not be looked at: their beginnings are found.
_RUN = 8
# Shorter numbers are numbers from either end.
_REVERSED = 3
_SMALL_NUMBER = re.compile(r"\d{1,2}|\d\.\d")
_VALUE_WORDS = 5
_MARKS = " .,;:!?\"'`()[]{}-*"
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CLAUSES = re.compile(r"[.;:!?]\s+|\n|^\s*[-*+]\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseText:
    """What a golden case says, none of which may reach the prompt."""

    id: str
    texts: tuple[str, ...]
    expected: str = ""


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
        said = " \n ".join(public)
        self._policy = policy
        self._public = f" {plain(said)} "
        self._public_specific = specific(said)
        self._public_keys = frozenset(keys(said)) | ORDINARY
        self._cases = [case.id for case in cases]
        self._common_from = max(2.0, policy.common * len(cases))
        self._rare_to = max(2.0, policy.rare * len(cases))
        self._texts = ["\n".join((case.id, *case.texts, case.expected)) for case in cases]
        self._plain = [f" {plain(text)} " for text in self._texts]
        self._frequency = _counted(keys(text) for text in self._texts)
        self._specific = _counted(specific(text) for text in self._texts)
        self._answered = _counted(specific(case.expected) for case in cases)
        answers = "\n".join(case.expected for case in cases)
        named = (names(case.expected) for case in cases) if capitals_tell(answers) else ()
        self._named = _counted(named)
        words = [keys(case.expected) for case in cases]
        self._answer_words = [frozenset(w if len(w) <= _ANSWER else ()) for w in words]
        self._values = _counted(_values(case.expected) for case in cases)
        self._stretches = Stretches(
            _told(cases),
            self._is_private,
            lambda word: self._frequency[word] / max(1, len(cases)),
        )

    def found(self, added: str) -> str:
        """What of a text gives a case away, in words, also once decoded; empty where none does."""
        readings = (added, *dict.fromkeys(decoded(added)))
        leak = next((leak for one in readings if (leak := self._plainly(one))), "")
        return leak or self._backwards(added)

    def _backwards(self, added: str) -> str:
        """Words and long identifiers that are written from their end."""
        for line in backwards(added).splitlines():
            tokens = specific(line) - self._public_specific
            held = (t for t in sorted(tokens) if len(t) > _REVERSED and self._specific[t])
            token = next(held, "") or self._word_for_word(line)
            if token:
                return f"it is written backwards: {token}"
        return ""

    def _plainly(self, added: str) -> str:
        lines = [line for line in added.splitlines() if line.strip()]
        leak = next((leak for line in lines if (leak := self._of_line(line))), "")
        return leak or (self._retold(added) if len(lines) > 1 else "")

    def _of_line(self, line: str) -> str:
        return (
            self._token(line)
            or self._name(line)
            or self._value(line)
            or self._word_for_word(line)
            or self._made_of_an_answer(line)
            or self._retold(line)
        )

    def _token(self, line: str) -> str:
        """Numbers, dates and identifiers of a few cases."""
        for token in sorted(specific(line) - self._public_specific):
            # Any long text has small numbers; those of answers are what is asked for.
            held = self._answered if _SMALL_NUMBER.fullmatch(token) else self._specific
            if 0 < held[token] < self._common_from:
                return f"{token!r} is of single cases"
        return ""

    def _name(self, line: str) -> str:
        """Names of a few answers."""
        for name in sorted(names(line)):
            (key, *_) = keys(name)
            if (
                self._named[name]
                and self._is_private(key)
                and self._frequency[key] <= self._rare_to
            ):
                return f"{name!r} is of single answers"
        return ""

    def _value(self, line: str) -> str:
        """A whole value of a few answers."""
        text = f" {plain(line)} "
        words = text.split()
        for length in range(2, _VALUE_WORDS + 1):
            for start in range(len(words) - length + 1):
                run = " ".join(words[start : start + length]).strip(_MARKS)
                if 0 < self._values[run] < self._common_from and run not in self._public:
                    return f"{run!r} is a whole answer"
        return ""

    def _word_for_word(self, line: str) -> str:
        """A clause or a run of words that cases have just so."""
        words = plain(line).split()
        runs = [plain(clause) for clause in _CLAUSES.split(line) if len(clause.split()) > _SHORT]
        for start in range(len(words)):
            ends = range(start + 2, min(start + _RUN, len(words)) + 1)
            end = next((end for end in ends if self._is_telling(words[start:end])), None)
            if end is not None:
                runs.append(" ".join(words[start:end]))
        for run in (run.strip(_MARKS) for run in runs):
            if len(run) < self._policy.overlap or run in self._public:
                continue
            holders = [number for number, text in enumerate(self._plain) if run in text]
            # What many cases say in as many words may be an order that was planted in them.
            if 0 < len(holders) < (math.inf if self._is_long(run) else self._common_from):
                return f"{run!r} is of case {self._cases[holders[0]]}"
        return ""

    def _is_telling(self, words: Sequence[str]) -> bool:
        """Whether nobody puts these words into this order by chance."""
        run = " ".join(words)
        private = {word for word in keys(run) if self._is_private(word)}
        return len(private) >= _PRIVATE_MIN or self._is_long(run)

    def _is_long(self, run: str) -> bool:
        return len(run.split()) >= self._policy.phrase and len(content_words(run)) >= _PRIVATE_MIN

    def _made_of_an_answer(self, line: str) -> str:
        """Nearly nothing but the words of one answer, be they common to many or not."""
        said = {word for one in content_words(line) for word in keys(one)}
        if len(said) < _PRIVATE_MIN or not any(map(self._is_private, said)):
            return ""
        for number, answer in enumerate(self._answer_words):
            both = said & answer
            if len(both) >= _MADE_OF * len(said) and any(map(self._is_private, both)):
                return f"it says what the answer of case {self._cases[number]} says"
        return ""

    def _is_private(self, word: str) -> bool:
        """Whether few cases and nobody else has a word."""
        return word not in self._public_keys and 0 < self._frequency[word] < self._common_from

    def _retold(self, text: str) -> str:
        """Words that one stretch of a case has and others have not, in whatever order."""
        for part in (text, *_CLAUSES.split(text)):
            said = frozenset(keys(part)) - self._public_keys
            case = self._stretches.source_of(
                {word for word in said if self._frequency[word] < self._common_from}
            )
            if case is not None:
                return f"it retells case {self._cases[case]}"
        return ""


def _told(cases: Sequence[CaseText]) -> Iterator[tuple[int, str, bool]]:
    """All texts of all cases, and whether each is an answer."""
    for number, case in enumerate(cases):
        yield number, case.expected, True
        for text in case.texts:
            yield number, text, False


def _counted(found: Iterable[Iterable[str]]) -> Counter[str]:
    """In how many cases each of them occurs."""
    return Counter(token for tokens in found for token in set(tokens))


def _values(answer: str) -> list[str]:
    """What an answer says in a few words, as a whole or as one of its values."""
    found = [plain(value) for value in (_STRING.findall(answer) or [answer])]
    return [v.strip(_MARKS) for v in found if 1 < len(v.split()) <= _VALUE_WORDS]
