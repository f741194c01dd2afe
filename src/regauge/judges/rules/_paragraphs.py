"""Parts of an answer that a separator marks off: paragraphs, responses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.judges._evidence import quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._counts import bounds
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["paragraph_count", "paragraph_starts_with", "response_count"]

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_EDGE_MARKS = frozenset(".,?!'\"")


def _splitter(separator: str | None, kind: str) -> Callable[[str], list[str]]:
    if separator is None:
        return _BLANK_LINES.split
    if not separator:
        raise UsageError(f"{kind}: a separator cannot be empty")
    return lambda text: text.split(separator)


def _between(parts: list[str]) -> tuple[int, bool]:
    """How many parts hold text, and whether one between two others is blank."""
    full = [bool(part.strip()) for part in parts]
    return sum(full), not all(full[1:-1])


@rule(codes=("too_few", "too_many", "empty_paragraph"))
def paragraph_count(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    exactly: int | None = None,
    separator: str | None = None,
    field: str | None = None,
) -> Check:
    r"""The answer has so many paragraphs.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        separator: What stands between paragraphs, such as `***`; blank lines by default. Between
            two marks there must be text; before the first and after the last may be none.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(paragraph_count(exactly=2).check_text("One.\n\nTwo."))
    pass: 2 paragraphs, exactly 2 wanted
    """
    low, high, wish = bounds("paragraph_count", at_least=at_least, at_most=at_most, exactly=exactly)
    split = _splitter(separator, "paragraph_count")
    gaps_count = separator is not None and bool(separator.strip())

    def check(text: str) -> Verdict:
        count, gap = _between(split(text))
        if gap and gaps_count:
            return failed(
                f"nothing stands between two {quote(separator or '')}", code="empty_paragraph"
            )
        reason = f"{plural(count, 'paragraph')}, {wish} wanted"
        if low is not None and count < low:
            return failed(reason, code="too_few", score=count / low, expected=wish, actual=count)
        if high is not None and count > high:
            return failed(reason, code="too_many", score=high / count, expected=wish, actual=count)
        return passed(reason, actual=count)

    return on_text(field, check)


@rule(codes=("too_few", "too_many", "empty_response", "same_response"))
def response_count(n: int = 2, *, separator: str = "******", field: str | None = None) -> Check:
    """The answer holds `n` different responses with a separator between them.

    Args:
        n: How many.
        separator: What stands between them.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(response_count(2).check_text("Restart it. ****** Roll it back."))
    pass: 2 different responses
    """
    bounds("response_count", at_least=None, at_most=None, exactly=n)
    if not separator:
        raise UsageError("response_count: a separator cannot be empty")

    def check(text: str) -> Verdict:
        parts = text.split(separator)
        count, gap = _between(parts)
        if gap:
            return failed(f"nothing stands between two {quote(separator)}", code="empty_response")
        if count != n:
            return failed(
                f"{plural(count, 'response')}, {n} wanted",
                code="too_few" if count < n else "too_many",
                score=min(count, n) / max(count, n),
                actual=count,
            )
        if len({part.strip() for part in parts if part.strip()}) != n:
            return failed("two responses are the same", code="same_response")
        return passed(f"{n} different responses")

    return on_text(field, check)


@rule(codes=("too_few", "wrong_start"))
def paragraph_starts_with(
    word: str, *, nth: int = 1, separator: str | None = None, field: str | None = None
) -> Check:
    r"""A paragraph starts with a certain word, without regard to case, quotes and punctuation.

    Args:
        word: The word.
        nth: Which paragraph, from 1.
        separator: What stands between paragraphs, such as `***`; blank lines by default.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(paragraph_starts_with("then", nth=2).check_text("First.\n\nThen, stop."))
    pass: paragraph 2 starts with 'then'
    """
    if nth < 1:
        raise UsageError(f"paragraph_starts_with: paragraphs count from 1, not {nth}")
    if not word.strip():
        raise UsageError("paragraph_starts_with: the word cannot be empty")
    split = _splitter(separator, "paragraph_starts_with")
    wanted = word.lower()

    def check(text: str) -> Verdict:
        parts = split(text)
        count = sum(1 for part in parts if part.strip())
        if nth > count:
            return failed(f"{plural(count, 'paragraph')}, so none is number {nth}", code="too_few")
        chosen = parts[nth - 1].split()
        if not chosen:
            return failed(f"paragraph {nth} is empty", code="too_few")
        found = ""
        for char in chosen[0].lstrip("'").lstrip('"'):
            if char in _EDGE_MARKS:
                break
            found += char.lower()
        if found == wanted:
            return passed(f"paragraph {nth} starts with {quote(word)}")
        return failed(
            f"paragraph {nth} starts with {quote(found)}, not with {quote(word)}",
            code="wrong_start",
            expected=word,
            actual=found,
        )

    return on_text(field, check)
