"""What an answer looks like: case, commas, quotation, title, postscript, fixed options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.judges._evidence import around, listed, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._text import finder

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "is_lower_case",
    "is_quoted",
    "is_upper_case",
    "no_comma",
    "one_of",
]

# Fullwidth, ideographic, small, small ideographic, Arabic.
_COMMA = re.compile("[,\uff0c\u3001\ufe50\ufe51\u060c]")
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "'": "'", "‘": "’"}  # noqa: RUF001 - quotation marks are the point


@rule(codes=("wrong_case", "no_letters"))
def is_upper_case(*, field: str | None = None) -> Check:
    """Every letter that has a case is a capital, and there is one at least.

    Args:
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(is_upper_case().check_text("DISK FULL on 3"))
    fail: 'o' is no capital: 'DISK FULL on 3'
    """
    return _case(upper=True, field=field)


@rule(codes=("wrong_case", "no_letters"))
def is_lower_case(*, field: str | None = None) -> Check:
    """No letter is a capital, and there is one letter at least that has a case.

    Args:
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(is_lower_case().check_text("disk full"))
    pass: no capital
    """
    return _case(upper=False, field=field)


def _mixed(char: str) -> bool:
    """Whether a character is a title-case pair, such as U+01C5, and so both and neither."""
    return char.istitle() and not char.isupper()


def _case(*, upper: bool, field: str | None) -> Check:
    def check(text: str) -> Verdict:
        if text.isupper() if upper else text.islower():
            return passed("all capitals" if upper else "no capital")
        for at, char in enumerate(text):
            if (char.islower() if upper else char.isupper()) or _mixed(char):
                word = "no capital" if upper else "a capital"
                return failed(f"{char!r} is {word}: {around(text, at, at + 1)}", code="wrong_case")
        return failed("no letter that has a case", code="no_letters")

    return on_text(field, check)


@rule(codes=("comma",))
def no_comma(*, any_script: bool = False, field: str | None = None) -> Check:
    """The answer has no comma.

    Args:
        any_script: Commas of other scripts, such as `、` and `،`, count too.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(no_comma().check_text("First, restart."))
    fail: a comma: 'First, restart.'
    """

    def check(text: str) -> Verdict:
        at = text.find(",")
        if at < 0 and any_script and (found := _COMMA.search(text)):
            at = found.start()
        if at < 0:
            return passed("no comma")
        return failed(f"a comma: {around(text, at, at + 1)}", code="comma")

    return on_text(field, check)


@rule(codes=("not_quoted",))
def is_quoted(*, any_marks: bool = False, field: str | None = None) -> Check:
    """The whole answer stands between double quotation marks.

    Args:
        any_marks: Pairs such as “…”, «…», „…“ and '…' count too.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(is_quoted().check_text('"All is well."'))
    pass: stands in quotation marks
    """

    def check(text: str) -> Verdict:
        bare = text.strip()
        marks = _QUOTES if any_marks else {'"': '"'}
        if len(bare) > 1 and bare[-1] == marks.get(bare[0]):
            return passed("stands in quotation marks")
        return failed(f"is not in quotation marks: {quote(bare, 40)}", code="not_quoted")

    return on_text(field, check)


@rule(codes=("not_allowed",), version=2)
def one_of(
    options: Sequence[str],
    *,
    anywhere: bool = False,
    ignore_case: bool = False,
    field: str | None = None,
) -> Check:
    """The answer is one of a few fixed options, white space around it aside.

    Args:
        options: What is allowed.
        anywhere: It is enough that one of them occurs in the output, as whole words.
        ignore_case: Compare as Unicode case folding makes them: `ß` is `ss`.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(one_of(["yes", "no"], ignore_case=True).check_text("No"))
    pass: is 'no'
    """
    if isinstance(options, str) or not options or not all(options):
        raise UsageError(f"one_of: name the options as a list of texts, not {options!r}")
    find = finder(ignore_case=ignore_case, whole_word=True)
    fold = str.casefold if ignore_case else str

    def check(text: str) -> Verdict:
        bare = fold(text.strip())
        for option in options:
            if find(text, option) if anywhere else fold(option) == bare:
                return passed(f"{'contains' if anywhere else 'is'} {quote(option)}")
        verb = "contains none" if anywhere else f"{quote(text)} is none"
        return failed(
            f"{verb} of {listed(options)}",
            code="not_allowed",
            expected=list(options),
            actual=text[:200],
        )

    return on_text(field, check)
