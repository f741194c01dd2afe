"""The guard of every edit: limits, invariants, and leaks of cases in new text."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Final

from regauge.lexicon import Lexicon
from regauge.prompts import SectionError, input_text
from regauge.refine.edits import (
    PromptText,
    ReplaceSection,
    bared_input,
    changed_lines,
    changed_texts,
    comparisons,
    count_words,
    headless,
    left_open,
    lost_statements,
    miscounted,
    new_statements,
    restates,
    section_at,
    section_text,
    torn_block,
    units_of,
)
from regauge.refine.feedback import is_injection
from regauge.statements import (
    content_words,
    guess_language,
    is_negated,
    labelled,
    normalise,
    parse,
    stem,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.prompts import Replaceable
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.edits import Edit
    from regauge.statements import Tree

_RE = Lexicon("regauge.refine", "leaks")

# Decoded bytes are a text with so many characters, of which nearly all are printable.
_PRINTABLE: Final = 0.9
_PRINTED_MIN: Final = 3

_ARTICLES: Final = frozenset({"one", "ein", "un", "uno", "once", "six", "null", "mil", "mille"})


def decoded(text: str) -> Iterator[str]:
    """Decoded forms of a text: base64, hex, spaced letters, broken lines; empty for plain text.

    >>> list(decoded("- Mind cXVva2thIDc3MzE= here."))
    ['quokka 7731']
    >>> list(decoded("- Mind q u o k k a."))
    ['- Mind quokka.']
    """
    for match in _RE.base64.findall(text):
        bare = match.rstrip("=").replace("-", "+").replace("_", "/")
        with suppress(binascii.Error, ValueError):
            padded = bare + "=" * (-len(bare) % 4)
            yield from _printable(base64.b64decode(padded, validate=True))
    for match in _RE.hex.findall(text):
        bare = re.sub(r"\\x|0x|[ :,]", "", match)
        yield from _printable(bytes.fromhex(bare[: len(bare) // 2 * 2]))
    close = _RE.spaced.sub(lambda match: _RE.between.sub("", match[0]), text)
    close = _RE.digits_apart.sub(lambda match: _RE.between.sub("", match[0]), close)
    if close != text:
        yield close
    lines = [line.strip().rstrip("-") for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        yield "".join(lines)
        yield " ".join(lines)


def backwards(text: str) -> str:
    """A text in reverse, and with each word in reverse."""
    words = " ".join(word[::-1] for word in text.split())
    return f"{text[::-1]}\n{words}"


def in_digits(text: str) -> str:
    """Plain text with its numbers in digits, also those that are spelled digit by digit.

    >>> in_digits("after two hundred and forty-nine minutes, code four one seven")
    'after 249 minutes, code 417'
    >>> in_digits("zweihundertneunundvierzig minuten")
    '249 minuten'
    """
    return _numerals()[1].sub(lambda match: _number(match[0]), text)


@cache
def _numerals() -> tuple[Mapping[str, int], re.Pattern[str], re.Pattern[str]]:
    """Values of number words, which add up or multiply; a pattern of a number; one of a word."""
    lists = _RE.entry("numbers")
    values: dict[str, int] = {
        **{word: n for words in lists["units"] for n, word in enumerate(words.split())},
        **{word: 10 * n for words in lists["tens"] for n, word in enumerate(words.split(), 2)},
        **lists["others"],
    }
    pattern = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
    joint = r"(?:[ -]?(?:and|und|et|y)[ -]?|[ -])?"
    pattern_text = rf"(?<![^\W\d_])(?:{pattern})(?:s?{joint}(?:{pattern}))*(?![^\W\d_])"
    parts = rf"(?:und|and|(?<![^\W\d_])(?:et|y)(?![^\W\d_]))|({pattern})"
    return values, re.compile(pattern_text), re.compile(parts)


def _number(number: str) -> str:
    """A written number; a lone word that is an article as well stays."""
    by_word, _, single = _numerals()
    words = [word for word in single.findall(number) if word]
    if words == [number] and number in _ARTICLES:
        return number
    values = [by_word[word] for word in words]
    if len(values) > 1 and max(values) < 10:  # noqa: PLR2004 - digits
        return "".join(map(str, values))
    parts: list[int] = []
    total = current = 0
    for value in values:
        if value in {100, 1000}:
            current = (current or 1) * value
            if value == 1000:  # noqa: PLR2004
                total, current = total + current, 0
            continue
        # Units add to tens, and tens to units as in German.
        rest = current % 100
        adds = (rest % 10 == 0 and value < 20) or (rest < 10 and value % 10 == 0)  # noqa: PLR2004
        if current and rest and not adds:
            parts.append(total + current)
            total = current = 0
        current += value
    return " ".join(map(str, [*parts, total + current]))


def _printable(data: bytes) -> Iterator[str]:
    with suppress(UnicodeDecodeError):
        text = data.decode()
        printable_signs = sum(sign.isprintable() for sign in text)
        if len(text) >= _PRINTED_MIN and printable_signs >= _PRINTABLE * len(text):
            yield text


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# Inflections of a word share so many letters.
_KEY = 6
# Shorter numbers are in any text.
_DIGITS_MIN = 3
# `GitHub` is a product, `KubePodReloads` and a long `WorkerHeartbeat` are coined.
_HUMPS = 2
_COINED_LENGTH = 15
# German writes every noun so, which is more than a fifth of its words.
_NAMES_SHARE = 0.2
_NOON = 12


def plain(text: str) -> str:
    """A text without case and with single spaces."""
    return " ".join(text.casefold().split())


def specific(text: str) -> set[str]:
    """Numbers, dates, times and identifiers, each in one notation.

    >>> sorted(specific("On 18 Feb at 2:13 pm host web-7 failed for 1h 5m"))
    ['--02-18', '14:13', '18', '65', 'web-7']
    """
    coined = {word.casefold() for word in _RE.letters.findall(text) if _is_coined_name(word)}
    text = in_digits(plain(text))
    forms = coined | {
        f"--{int(month):02}-{int(day):02}" for _, month, day in _RE.iso_date.findall(text)
    }
    dates = [
        *_RE.day_month.findall(text),
        *((day, month) for month, day in _RE.month_day.findall(text)),
    ]
    forms |= {f"--{1 + _MONTHS.index(month[:3]):02}-{int(day):02}" for day, month in dates}
    for pair in _RE.short_date.findall(text):
        forms |= {f"--{int(day):02}-{int(other):02}" for day, other in (pair, pair[::-1])}
    for hour, minute, half, hour_12, minute_12, half_12 in _RE.time.findall(text):
        later = 12 if (half or half_12) == "p" and int(hour or hour_12) < _NOON else 0
        forms.add(f"{int(hour or hour_12) + later:02}:{minute or minute_12 or '00'}")
    forms |= {str(60 * int(hours) + int(minutes)) for hours, minutes in _RE.span.findall(text)}
    rest = _RE.how_much.sub(" ", _RE.time.sub(" ", text))
    for token in _RE.identifier.findall(rest):
        forms |= set(_of_token(token))
    return forms


def _of_token(token: str) -> Iterator[str]:
    has_digit = any(sign.isdigit() for sign in token)
    if _RE.inner_mark.search(token) or (has_digit and any(sign.isalpha() for sign in token)):
        parts = re.split(r"[\W_]+", token)
        # "e.g" is an abbreviation, and "36m" a number with its unit.
        if any(len(part) > 1 for part in parts) and not re.fullmatch(r"\d+[a-z]{1,3}", token):
            yield token
            for part in parts:
                if len(part) > _DIGITS_MIN and not part.isalpha() and not part.isdigit():
                    yield part
    for number in _RE.number.findall(token):
        # A single digit tells nothing about a case, nor does the "03" of a date.
        if len(number.lstrip("0")) < 2:  # noqa: PLR2004
            continue
        bare = number.replace(",", "").replace("_", "")
        if not has_digit or not token[0].isalpha() or len(bare) >= _DIGITS_MIN:
            yield bare
        # "1315" gives "1315.50" away, too.
        integer = bare.partition(".")[0]
        if len(integer) >= _DIGITS_MIN:
            yield integer


def _is_coined_name(word: str) -> bool:
    """Return whether several words are joined; two short ones may name a product."""
    humps = len(_RE.hump.split(word))
    return humps > _HUMPS or (humps == _HUMPS and len(word) >= _COINED_LENGTH)


def keys(text: str) -> list[str]:
    """The words of a text by the first letters of their stems, in order.

    >>> keys("KubePodReloads; reloading, réseau")
    ['kub', 'pod', 'reload', 'reload', 'réseau']
    """
    stems: list[str] = []
    for run in _RE.letters.findall(text):
        if _RE.unspaced.search(run):
            stems += [run[n : n + 2] for n in range(max(1, len(run) - 1))]
            continue
        for word in _RE.hump.split(run) if _is_coined_name(run) else [run]:
            stems.append(stem(word.casefold())[:_KEY])
    return stems


def names(text: str) -> set[str]:
    """Words with a capital inside a sentence, in lower case.

    >>> sorted(names("Dear Rosalba, the contract of Liora. Later it ended."))
    ['liora', 'rosalba']
    """
    return {name.casefold() for name in _RE.name.findall(text)}


def capitals_mark_names(text: str) -> bool:
    """Return whether a capital marks a name: not in a language with capital nouns.

    >>> capitals_mark_names("we met Rosalba at home"), capitals_mark_names("der Kunde will Geld")
    (True, False)
    """
    return len(_RE.name.findall(text)) <= _NAMES_SHARE * len(_RE.letters.findall(text))


@cache
def _ordinary() -> frozenset[str]:
    """The words of any instruction, which identify no case."""
    return frozenset(keys(_RE.entry("ordinary")))


# The words of a section; the next one begins in the middle of it, so that one of them has a whole
# retold sentence.
_LENGTH = 40
# A retelling takes this share of its words from the case. Any other sentence finds a word that few
# cases have in a given stretch at least this often, however rare the word.
_TAKEN = 0.65
_BY_CHANCE = 0.02
# One shared word is a coincidence.
_MET_MIN = 2
# How much likelier a retelling must be than chance, as a logarithm.
_NEEDED = 5.0
# Shorter beginnings of a word belong to many words.
_ABBREVIATED_MIN = 3
_MISSED = math.log(1 - _TAKEN)


class CaseSections:
    """The words of cases, by overlapping sections of their texts."""

    def __init__(
        self,
        texts: Iterable[tuple[int, str, bool]],
        is_private: Callable[[str], bool],
        share: Callable[[str], float],
    ) -> None:
        self._share = share
        self._cases: list[int] = []
        self._sections_with: dict[str, set[int]] = defaultdict(set)
        self._short_outputs: set[int] = set()
        for case, text, is_answer in texts:
            words = keys(text)
            for start in range(0, max(1, len(words) - _LENGTH // 2), _LENGTH // 2):
                private_words = {
                    word for word in words[start : start + _LENGTH] if is_private(word)
                }
                if len(private_words) >= _MET_MIN:
                    for word in private_words:
                        self._sections_with[word].add(len(self._cases))
                    if is_answer and len(words) <= _LENGTH:
                        self._short_outputs.add(len(self._cases))
                    self._cases.append(case)
        self._abbreviations: dict[str, set[str]] = defaultdict(set)
        for word in self._sections_with:
            for end in range(_ABBREVIATED_MIN, len(word)):
                self._abbreviations[word[:end]].add(word)

    def source_of(self, words: Collection[str]) -> int | None:
        """The number of the case that words were taken from; None if chance explains them."""
        weight: dict[int, float] = defaultdict(float)
        matches: Counter[int] = Counter()
        for word in sorted(words):
            matching_words = (
                {word} if word in self._sections_with else self._abbreviations.get(word, set())
            )
            chance = max((self._share(key) / 2 for key in matching_words), default=0.0)
            for place in {place for key in matching_words for place in self._sections_with[key]}:
                by_chance = _BY_CHANCE if place in self._short_outputs else max(_BY_CHANCE, chance)
                weight[place] += math.log(_TAKEN / by_chance) - _MISSED
                matches[place] += 1
        likely = [place for place in weight if matches[place] >= _MET_MIN]
        best = max(likely, key=lambda place: (weight[place], -place), default=None)
        if best is None or weight[best] + _MISSED * len(words) < _NEEDED:
            return None
        return self._cases[best]


# This number of private words in a row identifies a case.
_PRIVATE_MIN = 3
# Clauses of this number of words are common.
_SHORT = 2
# A line with this share of its words from one output repeats the output.
_MADE_OF = 0.8
# A longer output has the words of any sentence on its subject.
_ANSWER = 40
# Longer runs are found by their beginnings.
_RUN = 8
# Shorter numbers are numbers from either end.
_REVERSED = 3
# Longer values are found verbatim.
_VALUE_WORDS = 5
_MARKS = " .,;:!?\"'`()[]{}-*"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseText:
    """The texts of a golden case; they must not reach the prompt."""

    id: str
    texts: tuple[str, ...]
    expected: str = ""

    @classmethod
    def from_case(cls, case: GoldenCase) -> CaseText:
        """The inputs and the expected output of a case."""
        expected = json.dumps(case.golden, ensure_ascii=False) if case.golden is not None else ""
        texts = tuple(input_text(value) for value in case.inputs.values())
        return cls(id=case.id, texts=texts, expected=expected)


class Leaks:
    """Finds words of cases in new text."""

    def __init__(
        self, cases: Sequence[CaseText], public: Iterable[str], policy: GuardPolicy
    ) -> None:
        public_text = " \n ".join(public)
        self._policy = policy
        self._public = f" {plain(public_text)} "
        self._public_specific = specific(public_text)
        self._public_keys = frozenset(keys(public_text)) | _ordinary()
        self._cases = [case.id for case in cases]
        self._common_from = max(2.0, policy.common * len(cases))
        self._rare_to = max(2.0, policy.rare * len(cases))
        self._texts = ["\n".join((case.id, *case.texts, case.expected)) for case in cases]
        self._plain = [f" {plain(text)} " for text in self._texts]
        self._frequency = _count(keys(text) for text in self._texts)
        self._specific = _count(specific(text) for text in self._texts)
        self._output_tokens = _count(specific(case.expected) for case in cases)
        outputs = "\n".join(case.expected for case in cases)
        output_names = (
            (names(case.expected) for case in cases) if capitals_mark_names(outputs) else ()
        )
        self._output_names = _count(output_names)
        words = [keys(case.expected) for case in cases]
        self._answer_words = [frozenset(w if len(w) <= _ANSWER else ()) for w in words]
        self._values = _count(_values(case.expected) for case in cases)
        self._sections_of_cases = CaseSections(
            [
                (number, text, place == 0)
                for number, case in enumerate(cases)
                for place, text in enumerate((case.expected, *case.texts))
            ],
            self._is_private,
            lambda word: self._frequency[word] / max(1, len(cases)),
        )

    def with_public(self, text: str) -> Leaks:
        """The same cases, with a further public text."""
        other = copy(self)
        other._public += f"{plain(text)} "  # noqa: SLF001 - its own class
        other._public_specific = self._public_specific | specific(text)  # noqa: SLF001 - its own class
        return other

    def describe_leak(self, new_text: str) -> str:
        """The part of a text that leaks a case, also decoded; empty without one."""
        readings = (new_text, *dict.fromkeys(decoded(new_text)))
        leak = next((leak for reading in readings if (leak := self._find_plain(reading))), "")
        return leak or self._find_backwards(new_text)

    def is_public(self, words: str) -> bool:
        """Return whether all words are known from other sources than cases."""
        return not specific(words) - self._public_specific and not any(
            map(self._is_private, keys(words))
        )

    def _find_backwards(self, new_text: str) -> str:
        """Words and long identifiers in reverse."""
        for line in backwards(new_text).splitlines():
            tokens = specific(line) - self._public_specific
            leaked = (t for t in sorted(tokens) if len(t) > _REVERSED and self._specific[t])
            token = next(leaked, "") or self._find_verbatim(line)
            if token:
                return f"it is written backwards: {token}"
        return ""

    def _find_plain(self, new_text: str) -> str:
        lines = [line for line in new_text.splitlines() if line.strip()]
        leak = next((leak for line in lines if (leak := self._find_in_line(line))), "")
        return leak or (self._find_retold(new_text) if len(lines) > 1 else "")

    def _find_in_line(self, line: str) -> str:
        return (
            self._find_token(line)
            or self._find_name(line)
            or self._find_value(line)
            or self._find_verbatim(line)
            or self._find_output_words(line)
            or self._find_retold(line)
        )

    def _find_token(self, line: str) -> str:
        """Numbers, dates and identifiers of a few cases."""
        for token in sorted(specific(line) - self._public_specific):
            # Any long text has small numbers; those of outputs are the expected values.
            counts = self._output_tokens if _RE.small_number.fullmatch(token) else self._specific
            if 0 < counts[token] < self._common_from:
                return f"{token!r} is of single cases"
        return ""

    def _find_name(self, line: str) -> str:
        """Names in a few outputs."""
        for name in sorted(names(line)):
            (key, *_) = keys(name)
            if (
                self._output_names[name]
                and self._is_private(key)
                and self._frequency[key] <= self._rare_to
            ):
                return f"{name!r} is of single answers"
        return ""

    def _find_value(self, line: str) -> str:
        """A whole value of a few outputs."""
        text = f" {plain(line)} "
        words = text.split()
        for length in range(2, _VALUE_WORDS + 1):
            for start in range(len(words) - length + 1):
                run = " ".join(words[start : start + length]).strip(_MARKS)
                if 0 < self._values[run] < self._common_from and run not in self._public:
                    return f"{run!r} is a whole answer"
        return ""

    def _find_verbatim(self, line: str) -> str:
        """A clause or a run of words in cases."""
        words = plain(line).split()
        runs = [plain(clause) for clause in _RE.clauses.split(line) if len(clause.split()) > _SHORT]
        for start in range(len(words)):
            ends = range(start + 2, min(start + _RUN, len(words)) + 1)
            end = next((end for end in ends if self._is_telling(words[start:end])), None)
            if end is not None:
                runs.append(" ".join(words[start:end]))
        for run in (run.strip(_MARKS) for run in runs):
            if len(run) < self._policy.overlap or run in self._public:
                continue
            holders = [number for number, text in enumerate(self._plain) if run in text]
            # A run in many cases may be a planted order.
            if 0 < len(holders) < (math.inf if self._is_long(run) else self._common_from):
                return f"{run!r} is of case {self._cases[holders[0]]}"
        return ""

    def _is_telling(self, words: Sequence[str]) -> bool:
        """Return whether this order of words is not chance."""
        run = " ".join(words)
        private = {word for word in keys(run) if self._is_private(word)}
        return len(private) >= _PRIVATE_MIN or self._is_long(run)

    def _is_long(self, run: str) -> bool:
        return len(run.split()) >= self._policy.phrase and len(content_words(run)) >= _PRIVATE_MIN

    def _find_output_words(self, line: str) -> str:
        """Nearly only words of one output, common ones or not."""
        line_keys = {word for public_word in content_words(line) for word in keys(public_word)}
        if len(line_keys) < _PRIVATE_MIN or not any(map(self._is_private, line_keys)):
            return ""
        for number, answer in enumerate(self._answer_words):
            shared_words = line_keys & answer
            if len(shared_words) >= _MADE_OF * len(line_keys) and any(
                map(self._is_private, shared_words)
            ):
                return f"it says what the answer of case {self._cases[number]} says"
        return ""

    def _is_private(self, word: str) -> bool:
        """Return whether a word is in a few cases and nowhere else."""
        return word not in self._public_keys and 0 < self._frequency[word] < self._common_from

    def _find_retold(self, text: str) -> str:
        """Words of one section of a case, in any order."""
        for part in (text, *_RE.clauses.split(text)):
            part_keys = frozenset(keys(part)) - self._public_keys
            case = self._sections_of_cases.source_of(
                {word for word in part_keys if self._frequency[word] < self._common_from}
            )
            if case is not None:
                return f"it retells case {self._cases[case]}"
        return ""


def _count(groups: Iterable[Iterable[str]]) -> Counter[str]:
    """The number of groups with each token."""
    return Counter(token for tokens in groups for token in set(tokens))


def _values(answer: str) -> list[str]:
    """The short texts in an output: the whole, or its values."""
    strings = [plain(value) for value in (_RE.string.findall(answer) or [answer])]
    return [v.strip(_MARKS) for v in strings if 1 < len(v.split()) <= _VALUE_WORDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSection:
    """A section that may be replaced, with its current place.

    Attributes:
        heading: The line that begins it.
        first: The number of its first line in the message, from 1.
        words_max: The limit of words and marks.
    """

    heading: str
    message: int
    first: int
    last: int
    words_max: int


def replaces_section(edit: Edit) -> bool:
    """Return whether an edit replaces a whole section."""
    return any(isinstance(op, ReplaceSection) for op in edit.ops)


def _words(text: PromptText, mark: Replaceable) -> int:
    try:
        return count_words(section_text(text, *mark.locate(text.messages)))
    except SectionError:
        return 0


_WORD_RUN = re.compile(r"[\w'-]+")
# This number of content words in one order identifies a source.
_TELLING = 3
# Numbers such as 1.2 at the beginning of a line, which no edit renumbers.
_DOTTED = re.compile(r"^[ \t]*(\d{1,2}(?:\.\d{1,2})+)[ \t]", re.MULTILINE)
_SLOT = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
# The common share of words; a suspicion needs more evidence and rejects nothing, so it may be low.
_SAME_SUBJECT = 0.5
# The categories of Unicode without a visible sign of their own, apart from spaces.
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# With fewer words in common, two lines may have different subjects.
_PLAINLY = 3


@dataclass(eq=False)
class Guard:
    """The rules for every edit.

    Attributes:
        public: Further texts that edits may contain: advice of checks, older versions.
        frozen: Lines that must stay.
        released: Texts of earlier versions: edits may restore any number of their lines, and these
            do not contradict each other.
        replaceable: The sections that an edit may replace as a whole.
        feedback: Remarks of users, whose words an edit must not copy.
    """

    base: PromptText
    cases: Sequence[CaseText]
    public: Iterable[str]
    policy: GuardPolicy
    frozen: Sequence[str] = field(default=(), kw_only=True)
    released: Iterable[str] = field(default=(), kw_only=True)
    replaceable: Sequence[Replaceable] = field(default=(), kw_only=True)
    feedback: Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        self._public = (self.base.full_text, *self.public)
        self._released = [_statements(parse(text)) for text in self.released]
        self._base_statements = _statements(*self.base.trees)

    # Computed on the first proposal: a sound prompt needs none of it.

    @cached_property
    def _leaks(self) -> Leaks:
        return Leaks(self.cases, self._public, self.policy)

    @cached_property
    def _copies(self) -> set[str]:
        """Runs of words in feedback and in no other text."""
        if not self.feedback:
            return set()
        public = {run for text in self._public for run in self._runs(text)}
        return {run for text in self.feedback for run in self._runs(text)} - public

    @cached_property
    def _case_words(self) -> dict[str, frozenset[str]]:
        """The words of each case's input that identify it: neither public nor common."""
        words = {case.id: content_words("\n".join(case.texts)) for case in self.cases}
        frequency = Counter(word for case_words in words.values() for word in case_words)
        public = content_words("\n".join(self._public))
        public |= {word for word, number in frequency.items() if 2 * number > len(self.cases)}
        return {case: case_words - public for case, case_words in words.items()}

    def objection(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        """The objection to an edit, in words; empty without one."""
        return (
            self._sections(edit, before, after)
            or self._size(edit, before, after)
            or self._invariants(edit, before, after)
            or self._find_copied(before, after)
        )

    def suspicion(self, before: PromptText, after: PromptText) -> str:
        """A possible problem of an edit by its words: it needs more evidence, without a veto."""
        if clash := self.restated(before, after) or self._find_clash(before, after, _contradicts):
            return clash
        new, _ = changed_texts(before, after)
        new_instructions = [statement for statement in _instructions(after) if statement in new]
        clashes = (
            f"{first!r} may contradict {other!r}"
            for first, other in combinations(new_instructions, 2)
            if _contradicts(first, other)
        )
        return next(clashes, "")

    def restated(self, before: PromptText, after: PromptText) -> str:
        """A new statement that is one that stays with other values, in words; empty for none."""
        return self._find_clash(before, after, restates)

    def _find_clash(
        self, before: PromptText, after: PromptText, clashes: Callable[[str, str], bool]
    ) -> str:
        """A new statement that clashes with one that stays, in words; empty for none."""
        new, _ = changed_texts(before, after)
        old_instructions = [statement for statement in _instructions(after) if statement not in new]
        new_instructions = [statement for statement in _instructions(after) if statement in new]
        for statement in new_instructions:
            rivals = old_instructions
            if self._was_released(statement):  # a release had it next to other released statements
                rivals = [other for other in old_instructions if not self._was_released(other)]
            clash = next((other for other in rivals if clashes(statement, other)), None)
            if clash is not None:
                return f"{statement!r} may contradict {clash!r}, which stays"
        return ""

    def open_sections(self, text: PromptText) -> tuple[OpenSection, ...]:
        """The sections of a text that may be replaced, in the order of their marks."""
        policy, sections = self.policy, list[OpenSection]()
        for mark in self.replaceable:
            grown = (1 + policy.section_growth) * _words(self.base, mark) + policy.section_words
            with suppress(SectionError):
                index, place = mark.locate(text.messages)
                section = OpenSection(
                    heading=mark.section,
                    message=index,
                    first=place.first + 1,
                    last=place.end,
                    words_max=int(grown) if mark.words is None else mark.words,
                )
                sections.append(section)
        return tuple(sections)

    def cases_named_in(self, text: str) -> frozenset[str]:
        """The ids of the cases with a word of a text in their input, without public words."""
        added_words = content_words(text)
        return frozenset(case for case, words in self._case_words.items() if added_words & words)

    def _sections(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        old_sections = self.open_sections(before)
        new_headings = {section.heading for section in self.open_sections(after)}
        missing = next(
            (section.heading for section in old_sections if section.heading not in new_headings), ""
        )
        if missing:
            return f"it takes away {missing!r}, which begins a section that may be replaced"
        replaced = [op for op in edit.ops if isinstance(op, ReplaceSection)]
        text = next(
            (text for op in replaced if (text := self._section(op, before, old_sections))), ""
        )
        return text or self._outgrown(before, after)

    def _section(
        self, op: ReplaceSection, before: PromptText, marked: Sequence[OpenSection]
    ) -> str:
        index, place = section_at(before, op.anchor)
        heading, words = op.anchor.line.strip(), count_words(op.text)
        section = next((m for m in marked if (m.heading, m.message) == (heading, index)), None)
        if section is None:
            return f"the section {heading!r} is not marked as replaceable"
        least = (1 - self.policy.section_shrink) * count_words(section_text(before, index, place))
        would = f"the section {heading!r} would have {words} words"
        if words > section.words_max:
            return f"{would}, more than {section.words_max}"
        return f"{would}, fewer than {least:.0f}" if words < least else ""

    def _outgrown(self, before: PromptText, after: PromptText) -> str:
        """A section that any edit makes longer than its limit."""
        for mark in self.replaceable:
            words = _words(after, mark)
            if mark.words is not None and words > max(mark.words, _words(before, mark)):
                return (
                    f"the section {mark.section!r} would have {words} words, more than {mark.words}"
                )
        return ""

    def _size(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        policy = self.policy
        if after.shape == before.shape:
            return "it changes nothing"
        units = units_of(before, after)
        has_any_size = replaces_section(edit) or self._only_restores(before, after)
        if len(units) > policy.ops and not has_any_size:
            return f"it makes {len(units)} changes, more than {policy.ops}"
        grown = after.size - before.size - self._restored_words(before, after)
        allowed = policy.growth * self.base.size + policy.growth_words
        # A section has limits of its own.
        if grown > allowed and not replaces_section(edit):
            return f"it adds {grown} words, more than {allowed:.0f}"
        limit = (1 + policy.growth_hard) * self.base.size + policy.growth_words
        size = after.size - self._restored_words(self.base, after)
        if size > limit:
            return f"the prompt would have {size} words, more than {limit:.0f}"
        return ""

    def _restored_words(self, before: PromptText, after: PromptText) -> int:
        """The number of words in restored statements of a release."""
        new, _ = changed_texts(before, after)
        return sum(count_words(statement) for statement in new if self._was_released(statement))

    def _only_restores(self, before: PromptText, after: PromptText) -> bool:
        """Return whether one release has all that is added, and nothing that is removed."""
        new, old = ({*map(normalise, texts)} for texts in changed_texts(before, after))
        return bool(new) and any(new <= version and not old & version for version in self._released)

    def _was_released(self, statement: str) -> bool:
        return any(normalise(statement) in version for version in self._released)

    def _invariants(self, edit: Edit, before: PromptText, after: PromptText) -> str:
        slots, slots_before = _slots(after), _slots(before)
        if slots != slots_before and not (
            self._only_restores(before, after) and [*map(set, slots)] == [*map(set, slots_before)]
        ):
            return "it changes which inputs the prompt takes"
        statements = _statements(*after.trees)
        for line in sorted({line.strip() for line in self.frozen}):
            if not _statements(parse(line)) <= statements:
                return f"it changes a line that is frozen: {line!r}"
        misled = [statement for pair in comparisons(before, after) for statement in pair.misled]
        if misled:
            return f"it takes out the step that {misled[0]!r} refers to"
        label = miscounted(before, after)
        if label or replaces_section(edit) or self._only_restores(before, after):
            return f"it leaves {label!r} out of order" if label else ""
        lost_sentences = [
            texts
            for texts in lost_statements(before, after)
            if any(normalise(text) in self._base_statements for text in texts)
        ]
        if (number := len(lost_sentences)) > self.policy.deletions:
            return f"it takes {number} statements out, more than {self.policy.deletions}"
        return _find_torn(before, after)

    def _find_copied(self, before: PromptText, after: PromptText) -> str:
        """Hidden characters, or text copied from an injection, a case or a user."""
        signs = sorted({*after.full_text}.difference(*self._public))
        hidden_sign = next((sign for sign in signs if _is_hidden(sign)), "")
        if hidden_sign:
            return f"it adds the invisible character U+{ord(hidden_sign):04X}"
        if is_injection(changed_lines(before, after)[0]):
            return "it speaks to the model in another's name"
        leaks = self._leaks.with_public(before.full_text)
        new_text = "\n".join(new_statements(before, after, leaks.is_public))
        leak = leaks.describe_leak(new_text)
        if leak:
            return f"it gives a case away: {leak}"
        runs = (run for line in new_text.splitlines() for run in self._runs(line))
        copied_run = next((run for run in runs if run in self._copies), "")
        return f"it takes a person's words into the prompt: {copied_run!r}" if copied_run else ""

    def _runs(self, text: str) -> Iterator[str]:
        words, phrase = _WORD_RUN.findall(text.casefold()), self.policy.phrase
        for start in range(len(words) - phrase + 1):
            run = " ".join(words[start : start + phrase])
            if len(content_words(run)) >= _TELLING:
                yield run


def text_warnings(text: PromptText) -> list[str]:
    """Repeated and contradicting statements of a prompt, as far as words show them."""
    instructions = _instructions(text)
    warnings = [
        f"{instruction!r} is repeated"
        for instruction, times in Counter(instructions).items()
        if times > 1 and content_words(instruction)
    ]
    warnings += [
        f"{other!r} may contradict {first!r}"
        for first, other in combinations(dict.fromkeys(instructions), 2)
        if _contradicts(first, other)
        and len(content_words(first) & content_words(other)) >= _PLAINLY
    ]
    if instructions and not guess_language("\n".join(instructions)):
        warnings.append("its language is unknown here, so contradictions in it were not looked for")
    return warnings


def _statements(*trees: Tree) -> set[str]:
    """The normalised texts of all atoms."""
    return {
        normalise(text)
        for tree in trees
        for atom in tree.atoms
        for text in (tree.text_of(atom), labelled(tree, atom))
    }


def _instructions(text: PromptText) -> list[str]:
    """The instructions of a prompt: no examples, no data, no inputs."""
    return [labelled(tree, statement) for tree in text.trees for statement in tree.statements]


def _is_hidden(sign: str) -> bool:
    """Return whether a character is invisible, such as a format or control character."""
    return unicodedata.category(sign) in _HIDDEN or "\U000e0100" <= sign <= "\U000e01ef"


def _slots(text: PromptText) -> list[Counter[str]]:
    return [Counter(_SLOT.findall(message.content)) for message in text.messages]


def _find_torn(before: PromptText, after: PromptText) -> str:
    """A part of the layout that is torn from what it belongs to, in words; empty for none."""
    if heading := headless(before, after):
        return f"it takes away {heading!r}, the heading of lines that stay"
    if mark := left_open(before, after):
        return f"it leaves {mark} open"
    if bared := bared_input(before, after):
        return f"it takes {bared}"
    if kind := torn_block(before, after):
        return f"it tears {kind}"
    old, new = (Counter(_DOTTED.findall(text.full_text)) for text in (before, after))
    if repeated_number := next((number for number in new if new[number] > max(1, old[number])), ""):
        return f"it repeats the number {repeated_number}"
    above = _beside_input(before, after)
    return f"it puts text between {above!r} and its input" if above else ""


def _beside_input(before: PromptText, after: PromptText) -> str:
    """A label or tag that new statements part from the input right below it; empty for none."""
    for comparison in comparisons(before, after):
        tree = comparison.after
        new = {id(c.now) for c in comparison.changes if c.kind == "added" and c.now}
        inline = new & {id(atom) for atom in tree.atoms if atom.kind in {"sentence", "clause"}}
        for number, atom in enumerate(tree.atoms):
            if not _SLOT.fullmatch(tree.text_of(atom)):
                continue
            place = number - 1
            while place > 0 and id(tree.atoms[place]) in inline:
                place -= 1
            above = tree.atoms[place]
            label = tree.text_of(above).strip()
            if place < number - 1 and (above.kind == "tag" or label.endswith((":", "\uff1a"))):
                return label
    return ""


def _contradicts(first: str, other: str) -> bool:
    """Return whether one statement forbids what the other one demands, by their words."""
    negated = is_negated(first), is_negated(other)
    if None in negated or negated[0] == negated[1]:
        return False
    words, other_words = content_words(first), content_words(other)
    least = min(len(words), len(other_words))
    return least > 1 and len(words & other_words) >= _SAME_SUBJECT * len(words | other_words)
