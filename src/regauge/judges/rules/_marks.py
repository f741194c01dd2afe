"""How many marks of form an answer has: bullets, placeholders, highlights, capitals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.judges._rule_factory import rule
from regauge.judges._words import capital_words
from regauge.judges.rules._counts import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.judges._rule import Check

__all__ = [
    "bullet_count",
    "capital_word_count",
    "highlight_count",
    "numbered_part_count",
    "placeholder_count",
]

_STAR_BULLET = re.compile(r"^[^\S\n]*\*[^\*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^[^\S\n]*-.*$", re.MULTILINE)
_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")


def _count_placeholders(text: str) -> int:
    """How often `[...]` stands on one line; a pattern would read to the end for every bracket."""
    count, at = 0, text.find("[")
    while at >= 0:
        close = text.find("]", at)
        if close < 0:
            break
        line_end = text.rfind("\n", at, close)
        if line_end < 0:
            count += 1
            at = text.find("[", close)
        else:
            at = text.find("[", line_end)
    return count


def _simple(
    kind: str, count: Callable[[str], int], noun: str, nouns: str = ""
) -> Callable[[int | None, int | None, int | None, str | None], Check]:
    def build(
        at_least: int | None, at_most: int | None, exactly: int | None, field: str | None
    ) -> Check:
        return counted(
            kind,
            count,
            noun,
            nouns,
            at_least=at_least,
            at_most=at_most,
            exactly=exactly,
            field=field,
        )

    return build


_bullets = _simple(
    "bullet_count",
    lambda text: len(_STAR_BULLET.findall(text)) + len(_DASH_BULLET.findall(text)),
    "bullet",
)
_placeholders = _simple("placeholder_count", _count_placeholders, "placeholder")
_highlights = _simple(
    "highlight_count",
    lambda text: sum(
        1
        for found in (*_EMPHASIS.findall(text), *_STRONG.findall(text))
        if found.strip("*").strip()
    ),
    "highlight",
)
_capitals = _simple(
    "capital_word_count",
    lambda text: len(capital_words(text)),
    "word in capitals",
    "words in capitals",
)


@rule(codes=("too_few", "too_many"))
def bullet_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    r"""The answer has so many bullets: lines that begin with `*` or `-`, indented or not.

    A line that begins with `**` is bold text and none.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(bullet_count(at_most=3).check_text("Do:\n* this\n- that"))
    pass: 2 bullets, at most 3 wanted
    """
    return _bullets(at_least, at_most, exactly, field)


@rule(codes=("too_few", "too_many"))
def placeholder_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The answer has so many placeholders in square brackets, such as `[name]`.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(placeholder_count(exactly=0).check_text("Dear [name],"))
    fail: 1 placeholder, exactly 0 wanted
    """
    return _placeholders(at_least, at_most, exactly, field)


@rule(codes=("too_few", "too_many"))
def highlight_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The answer has so many highlighted parts: `*emphasis*` or `**strong**`, on one line.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(highlight_count(at_least=2).check_text("It is *full*, **now**."))
    pass: 2 highlights, at least 2 wanted
    """
    return _highlights(at_least, at_most, exactly, field)


@rule(codes=("too_few", "too_many"))
def capital_word_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The answer has so many words all in capitals; `I` is one, `API-DOCS` is one.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(capital_word_count(at_most=1).check_text("DO NOT restart it."))
    fail (0.50): 2 words in capitals, at most 1 wanted
    """
    return _capitals(at_least, at_most, exactly, field)


@rule(codes=("too_few", "too_many"))
def numbered_part_count(
    word: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """The answer has so many parts marked by a word and a number, such as `SECTION 1`.

    Args:
        word: The word before the number, in this case.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(numbered_part_count("Step", at_least=2).check_text("Step 1: look. Step 2: act."))
    pass: 2 parts 'Step N', at least 2 wanted
    """
    if not word.strip():
        raise UsageError("numbered_part_count: the word cannot be empty")
    pattern = re.compile(rf"{re.escape(word)}\s?\d+")
    return counted(
        "numbered_part_count",
        lambda text: len(pattern.findall(text)),
        f"part '{word} N'",
        f"parts '{word} N'",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )
