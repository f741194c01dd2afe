"""How often a text, a pattern or a letter occurs in an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import JudgeError, UsageError
from regauge.judges._evidence import quote
from regauge.judges._rule_factory import rule
from regauge.judges.rules._counts import counted
from regauge.judges.rules._patterns import compiled_pattern
from regauge.judges.rules._text import occurrences

if TYPE_CHECKING:
    from regauge.judges._rule import Check

__all__ = ["match_count", "text_count"]


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
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        whole_word: Only where no letter, digit or underscore stands next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(text_count("disk", at_least=2, ignore_case=True).check_text("Disk? No disk."))
    pass: 2 times 'disk', at least 2 wanted
    """
    if not text:
        raise UsageError("text_count: the text to count cannot be empty")
    return counted(
        "text_count",
        lambda whole: sum(
            1 for _ in occurrences(whole, text, ignore_case=ignore_case, whole_word=whole_word)
        ),
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
