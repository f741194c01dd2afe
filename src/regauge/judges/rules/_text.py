"""What a text says: equality, substrings, patterns, beginnings and ends."""

from __future__ import annotations

import bisect
import functools
import importlib
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import around, listed, quote, shown
from regauge.judges._json_text import JsonFault, same
from regauge.judges._rule import Check, on_answer, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges._words import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.digests import JSON

__all__ = [
    "contains",
    "contains_all",
    "contains_any",
    "equals",
    "not_contains",
]

_SPACE = re.compile(r"\s+")


def normaliser(
    *, ignore_case: bool, ignore_space: bool, ignore_punctuation: bool
) -> Callable[[str], str]:
    """How texts are made alike before they are compared."""

    def simplify(text: str) -> str:
        if ignore_case:
            text = text.casefold()
        if ignore_punctuation:
            text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
        return _SPACE.sub(" ", text).strip() if ignore_space else text

    return simplify


@rule(codes=("not_equal", "json_invalid"))
def equals(
    value: JSON | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    ignore_case: bool = False,
    ignore_space: bool = False,
    ignore_punctuation: bool = False,
    field: str | None = None,
) -> Check:
    """The answer is exactly this text, or this JSON value when it is not a text.

    Args:
        value: What the answer must be; by default the case's `expected`.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        ignore_space: Runs of white space count as one space, none at the ends.
        ignore_punctuation: Leave out what Unicode calls punctuation.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(equals("yes", ignore_case=True).check_text("Yes"))
    pass: equals 'Yes'
    >>> print(equals({"a": 1}).check_text('{ "a": 1.0 }'))
    pass: equals '{ "a": 1.0 }'
    """
    normalise = (
        normaliser(
            ignore_case=ignore_case,
            ignore_space=ignore_space,
            ignore_punctuation=ignore_punctuation,
        )
        if ignore_case or ignore_space or ignore_punctuation
        else str
    )

    def check(answer: Answer) -> Verdict:
        text = answer.text or ""
        wanted = answer.resolve(value, judge="equals")
        if isinstance(wanted, str):
            if text == wanted or normalise(text) == normalise(wanted):
                return passed(f"equals {quote(text)}")
            return failed(
                f"{quote(text)} is not {quote(wanted)}",
                code="not_equal",
                expected=shown(wanted),
                actual=shown(text),
            )
        found = answer.json
        if isinstance(found, JsonFault):
            return failed(
                f"not JSON: {found.message}",
                code="json_invalid",
                expected=shown(wanted),
                actual=shown(text),
            )
        if same(found, wanted):
            return passed(f"equals {quote(text)}")
        return failed(
            f"{quote(text)} is another value",
            code="not_equal",
            expected=shown(wanted),
            actual=shown(found),
        )

    return on_answer(field, check)


def occurrences(
    text: str, part: str, *, ignore_case: bool, whole_word: bool
) -> Iterator[tuple[int, int]]:
    r"""The places of a text in another, from start to end; they do not overlap.

    >>> [*occurrences("Die Stra\xdfe", "STRASSE", ignore_case=True, whole_word=True)]
    [(4, 10)]
    """
    whole = text.casefold() if ignore_case else text
    bare = part.casefold() if ignore_case else part
    if not whole_word:
        places = _places(whole, bare)
    else:
        pattern = _whole_words(bare, ascii_only=whole.isascii())
        places = (found.span() for found in pattern.finditer(whole))
    if len(whole) == len(text):
        yield from places
        return
    # Folding makes one letter two, as in "ss": count characters of the text itself.
    starts = [0, *itertools.accumulate(len(char.casefold()) for char in text)]
    for start, end in places:
        yield bisect.bisect_right(starts, start) - 1, bisect.bisect_left(starts, end)


@functools.lru_cache(maxsize=256)
def _whole_words(part: str, *, ascii_only: bool) -> Any:
    """A pattern of a text where no letter, digit or underscore is next to it.

    Letters of scripts without spaces between words are no limit, for they say nothing.
    """
    # Only `regex` counts vowel signs, as of Hindi, as letters.
    library: Any = re if ascii_only else importlib.import_module("regex")
    before = "" if re.match(f"[{UNSPACED}]", part) else rf"(?<!(?![{UNSPACED}])\w)"
    after = "" if re.search(rf"[{UNSPACED}]\Z", part) else rf"(?!(?![{UNSPACED}])\w)"
    return library.compile(f"{before}{re.escape(part)}{after}")


def _places(text: str, part: str) -> Iterator[tuple[int, int]]:
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


def finder(*, ignore_case: bool, whole_word: bool) -> Callable[[str, str], tuple[int, int] | None]:
    """How one text is looked for in another: its first place, if there is one."""

    def find(text: str, part: str) -> tuple[int, int] | None:
        return next(occurrences(text, part, ignore_case=ignore_case, whole_word=whole_word), None)

    return find


def wanted_texts(parts: Sequence[str], kind: str) -> tuple[str, ...]:
    """The texts a rule looks for.

    Raises:
        UsageError: There is none, or one is empty.
    """
    if not parts:
        raise UsageError(f"{kind}: name at least one text to look for")
    for part in parts:
        if not isinstance(part, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
            raise UsageError(f"{kind}: a text to look for cannot be {part!r}")
        if not part:
            raise UsageError(f"{kind}: every answer contains the empty text; name another")
    return tuple(parts)


@rule(codes=("missing_text",))
def contains(
    text: str | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    ignore_case: bool = False,
    whole_word: bool = False,
    field: str | None = None,
) -> Check:
    """The answer contains this text.

    Args:
        text: What must occur; by default the case's `expected`.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains("pod").check_text("The pod died."))
    pass: contains 'pod': 'The pod died.'
    >>> print(contains("pod", whole_word=True).check_text("A podcast."))
    fail: does not contain 'pod'
    """
    if not isinstance(text, Expected):
        wanted_texts([text], "contains")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(answer: Answer) -> Verdict:
        whole = answer.text or ""
        part = answer.resolve(text, judge="contains")
        if part is None:
            raise answer.lacks(str(text), judge="contains")
        if not isinstance(part, str):
            raise JudgeError(
                f"contains: {text} is not a text: {quote(str(part))}", judge="contains"
            )
        place = find(whole, part)
        if place is None:
            return failed(f"does not contain {quote(part)}", code="missing_text", expected=part)
        return passed(f"contains {quote(part)}: {around(whole, *place)}")

    return on_answer(field, check)


@rule(codes=("missing_text",))
def contains_any(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The answer contains at least one of these texts.

    Args:
        texts: One of them must occur.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_any("kubectl", "helm").check_text("Run helm ls."))
    pass: contains 'helm': 'Run helm ls.'
    """
    parts = wanted_texts(texts, "contains_any")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            if place := find(text, part):
                return passed(f"contains {quote(part)}: {around(text, *place)}")
        return failed(f"contains none of {listed(parts)}", code="missing_text", expected=parts)

    return on_text(field, check)


@rule(codes=("missing_text",))
def contains_all(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The answer contains every one of these texts; the score is the share it contains.

    Args:
        texts: Each must occur.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_all("cause", "fix").check_text("The cause is known."))
    fail (0.50): does not contain 'fix'
    """
    parts = wanted_texts(texts, "contains_all")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        missing = [part for part in parts if find(text, part) is None]
        if not missing:
            return passed(f"contains {listed(parts)}")
        return failed(
            f"does not contain {listed(missing)}",
            code="missing_text",
            score=1 - len(missing) / len(parts),
            expected=parts,
            details={"missing": missing},
        )

    return on_text(field, check)


@rule(codes=("forbidden_text",))
def not_contains(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The answer contains none of these texts.

    Args:
        texts: None of them may occur.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        whole_word: Only where no letter, digit or underscore stands next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(not_contains("as an AI", ignore_case=True).check_text("As an AI, I cannot say."))
    fail: contains 'as an AI': 'As an AI, I cannot say.'
    """
    parts = wanted_texts(texts, "not_contains")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            if place := find(text, part):
                where = around(text, *place)
                return failed(
                    f"contains {quote(part)}: {where}", code="forbidden_text", actual=where
                )
        return passed(f"does not contain {listed(parts)}")

    return on_text(field, check)
