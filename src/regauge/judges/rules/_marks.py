"""How often something stands in an answer: words, letters, bullets, placeholders, headings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, UsageError
from regauge.judges._evidence import quote
from regauge.judges._rule import Check, rule
from regauge.judges._words import capital_words
from regauge.judges.rules._counts import counted
from regauge.judges.rules._patterns import compiled_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "bullet_count",
    "capital_word_count",
    "highlight_count",
    "letter_count",
    "match_count",
    "numbered_part_count",
    "placeholder_count",
    "text_count",
]

_STAR_BULLET = re.compile(r"^\s*\*[^\*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^\s*-.*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\[[^\]\n]*\]")
_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")


@rule(codes=("too_few", "too_many"))
def text_count(
    text: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    ignore_case: bool = False,
    whole_word: bool = False,
    field: str | None = None,
) -> Check:
    """A text occurs so often; occurrences do not overlap.

    Args:
        text: What is counted.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        ignore_case: Lower case and upper case are alike.
        whole_word: Only where no letter, digit or underscore stands next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(text_count("disk", at_least=2, ignore_case=True).check_text("Disk? No disk."))
    pass: 2 times 'disk', at least 2 wanted
    """
    if not text:
        raise UsageError("text_count: the text to count cannot be empty")
    bare = re.escape(text)
    pattern = re.compile(
        rf"(?<!\w){bare}(?!\w)" if whole_word else bare, re.IGNORECASE if ignore_case else 0
    )
    return counted(
        "text_count",
        lambda whole: len(pattern.findall(whole)),
        f"time {quote(text)}",
        f"times {quote(text)}",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("too_few", "too_many"))
def match_count(
    pattern: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    ignore_case: bool = False,
    multiline: bool = False,
    timeout_s: float = 1.0,
    field: str | None = None,
) -> Check:
    r"""A regular expression matches so often; matches do not overlap.

    Args:
        pattern: The regular expression, as for `matches`.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        ignore_case: Lower case and upper case are alike.
        multiline: `^` and `$` match at every line.
        timeout_s: How long the search may take, in seconds; then it is a JudgeError.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(match_count(r"\d+", exactly=2).check_text("3 pods of 12"))
    pass: 2 matches of '\\d+', exactly 2 wanted
    """
    compiled = compiled_pattern(
        pattern, ignore_case=ignore_case, multiline=multiline, kind="match_count"
    )

    def count(text: str) -> int:
        try:
            return sum(1 for _ in compiled.finditer(text, timeout=timeout_s))
        except TimeoutError:
            raise JudgeError(
                f"match_count: the pattern {quote(pattern)} took more than {timeout_s} s on an "
                f"answer of {len(text)} characters\n  write it without nested repetition",
                judge=f"match_count({pattern})",
            ) from None

    return counted(
        "match_count",
        count,
        f"match of {quote(pattern)}",
        f"matches of {quote(pattern)}",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


@rule(codes=("too_few", "too_many"))
def letter_count(
    letter: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    field: str | None = None,
) -> Check:
    """A character occurs so often, in lower or upper case.

    Args:
        letter: One character: a letter, a digit or a sign.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(letter_count("s", at_most=2).check_text("Sees"))
    pass: 2 times 's', at most 2 wanted
    """
    if len(letter) != 1:
        raise UsageError(f"letter_count: one character is wanted, not {letter!r}")
    wanted = letter.lower()
    return counted(
        "letter_count",
        lambda text: text.lower().count(wanted),
        f"time {quote(letter)}",
        f"times {quote(letter)}",
        at_least=at_least,
        at_most=at_most,
        exactly=exactly,
        field=field,
    )


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
_placeholders = _simple(
    "placeholder_count", lambda text: len(_PLACEHOLDER.findall(text)), "placeholder"
)
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
