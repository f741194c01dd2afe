"""Regular expressions, with a limit of time."""

from __future__ import annotations

from typing import Any

from regauge.errors import JudgeError, UsageError
from regauge.judges._evidence import around, quote
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

__all__ = ["compiled_pattern", "matches"]


@rule(codes=("no_match",))
def matches(
    pattern: str,
    *,
    whole: bool = False,
    ignore_case: bool = False,
    multiline: bool = False,
    dotall: bool = False,
    ascii_only: bool = False,
    timeout_s: float = 1.0,
    field: str | None = None,
) -> Check:
    r"""The answer matches a regular expression, anywhere in it.

    Patterns are those of Python, with what the `regex` package adds (`\p{L}`, look-behind of any
    length). A pattern that takes too long ends in a JudgeError: it is no verdict.

    Args:
        pattern: The regular expression.
        whole: It must match the whole answer.
        ignore_case: Lower case and upper case are alike.
        multiline: `^` and `$` match at every line.
        dotall: `.` matches line ends too.
        ascii_only: `\d`, `\w`, `\s` and `\b` know ASCII alone.
        timeout_s: How long one search may take, in seconds.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(matches(r"SEV-[123]").check_text("This is SEV-2."))
    pass: matches 'SEV-[123]': 'This is SEV-2.'
    """
    compiled = compiled_pattern(
        pattern,
        ignore_case=ignore_case,
        multiline=multiline,
        dotall=dotall,
        ascii_only=ascii_only,
        kind="matches",
    )
    search = compiled.fullmatch if whole else compiled.search

    def check(text: str) -> Verdict:
        try:
            found = search(text, timeout=timeout_s)
        except TimeoutError:
            raise JudgeError(
                f"matches: the pattern {quote(pattern)} took more than {timeout_s} s on an answer "
                f"of {len(text)} characters\n  write it without nested repetition",
                judge=f"matches({pattern})",
            ) from None
        if found is None:
            return failed(f"does not match {quote(pattern)}", code="no_match", expected=pattern)
        return passed(f"matches {quote(pattern)}: {around(text, *found.span())}")

    return on_text(field, check)


def compiled_pattern(
    pattern: str,
    *,
    ignore_case: bool,
    kind: str,
    multiline: bool = False,
    dotall: bool = False,
    ascii_only: bool = False,
) -> Any:
    import regex  # type: ignore[import-untyped]  # it brings no types

    flags = (
        (regex.IGNORECASE if ignore_case else 0)
        | (regex.MULTILINE if multiline else 0)
        | (regex.DOTALL if dotall else 0)
        | (regex.ASCII if ascii_only else 0)
    )
    try:
        return regex.compile(pattern, flags)
    except (regex.error, TypeError, ValueError) as error:
        raise UsageError(f"{kind}: {pattern!r} is not a regular expression: {error}") from error
