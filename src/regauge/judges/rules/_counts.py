"""How long an answer is: words and characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from regauge.errors import UsageError
from regauge.judges._evidence import plural
from regauge.judges._rule import Check, on_text, rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bounds", "max_chars", "max_words", "min_words", "word_count"]

WordUnit = Literal["spaces", "letters"]
_WORD = re.compile(r"\w+")


def words_in(text: str, by: WordUnit) -> int:
    """How many words a text has.

    >>> words_in("don't re-run", "spaces"), words_in("don't re-run", "letters")
    (2, 4)
    """
    return len(text.split()) if by == "spaces" else len(_WORD.findall(text))


def bounds(
    kind: str, *, at_least: int | None, at_most: int | None, exactly: int | None
) -> tuple[int | None, int | None, str]:
    """The limits of a count and how people say them.

    Raises:
        UsageError: No limit, one below zero, or limits that exclude each other.
    """
    given = [limit for limit in (at_least, at_most, exactly) if limit is not None]
    if not given:
        raise UsageError(f"{kind}: say at_least, at_most or exactly")
    if exactly is not None and len(given) > 1:
        raise UsageError(f"{kind}: exactly stands alone, without at_least and at_most")
    for limit in given:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
            raise UsageError(f"{kind}: a limit is a whole number from 0 up, not {limit!r}")
    low, high = (exactly, exactly) if exactly is not None else (at_least, at_most)
    if low is not None and high is not None and low > high:
        raise UsageError(f"{kind}: at least {low} and at most {high} exclude each other")
    if low == high:
        return low, high, f"exactly {low}"
    words = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return low, high, " and ".join(words)


def counted(
    kind: str,
    count: Callable[[str], int],
    noun: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """A check that something occurs as often as it should.

    The score of a failure is how near the count came: limit over count, or count over limit.
    """
    low, high, wish = bounds(kind, at_least=at_least, at_most=at_most, exactly=exactly)

    def check(text: str) -> Verdict:
        found = count(text)
        if low is not None and found < low:
            return failed(
                f"{plural(found, noun)}, {wish} wanted",
                code="too_few" if kind != "min_words" else "too_short",
                score=found / low,
                expected=wish,
                actual=found,
            )
        if high is not None and found > high:
            return failed(
                f"{plural(found, noun)}, {wish} wanted",
                code="too_many" if kind not in _LENGTHS else "too_long",
                score=high / found,
                expected=wish,
                actual=found,
            )
        return passed(f"{plural(found, noun)}, {wish} wanted", actual=found)

    return on_text(field, check)


_LENGTHS = frozenset({"max_words", "max_chars"})


@rule(codes=("too_few", "too_many"))
def word_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    by: WordUnit = "spaces",
    field: str | None = None,
) -> Check:
    """The answer has so many words.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        by: `spaces` counts what white space separates; `letters` counts runs of letters, digits
            and underscores, so that "don't" is two.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(word_count(at_least=2, at_most=4).check_text("The disk is full."))
    pass: 4 words, at least 2 and at most 4 wanted
    """
    return counted(
        "word_count",
        lambda text: words_in(text, by),
        "word",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("too_long",))
def max_words(n: int, *, by: WordUnit = "spaces", field: str | None = None) -> Check:
    """The answer has at most `n` words.

    Args:
        n: The most that passes.
        by: `spaces` counts what white space separates; `letters` counts runs of letters, digits
            and underscores.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(max_words(3).check_text("The disk is full."))
    fail (0.75): 4 words, at most 3 wanted
    """
    return counted("max_words", lambda text: words_in(text, by), "word", at_most=n, field=field)


@rule(codes=("too_short",))
def min_words(n: int, *, by: WordUnit = "spaces", field: str | None = None) -> Check:
    """The answer has at least `n` words.

    Args:
        n: The least that passes.
        by: `spaces` counts what white space separates; `letters` counts runs of letters, digits
            and underscores.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(min_words(3).check_text("Disk full."))
    fail (0.67): 2 words, at least 3 wanted
    """
    return counted("min_words", lambda text: words_in(text, by), "word", at_least=n, field=field)


@rule(codes=("too_long",))
def max_chars(n: int, *, field: str | None = None) -> Check:
    """The answer has at most `n` characters (Unicode code points).

    Args:
        n: The most that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(max_chars(10).check_text("Disk full."))
    pass: 10 characters, at most 10 wanted
    """
    return counted("max_chars", len, "character", at_most=n, field=field)
