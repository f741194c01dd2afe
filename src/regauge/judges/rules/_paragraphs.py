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

__all__ = ["filled_parts", "paragraph_count", "splitter"]

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def splitter(separator: str | None, kind: str) -> Callable[[str], list[str]]:
    """How a text is split into paragraphs.

    Raises:
        UsageError: The separator is empty.
    """
    if separator is None:
        return _BLANK_LINES.split
    if not separator:
        raise UsageError(f"{kind}: a separator cannot be empty")
    return lambda text: text.split(separator)


def filled_parts(parts: list[str]) -> tuple[int, bool]:
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
    split = splitter(separator, "paragraph_count")
    gaps_count = separator is not None and bool(separator.strip())

    def check(text: str) -> Verdict:
        count, gap = filled_parts(split(text))
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
