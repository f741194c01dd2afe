"""What a text says: equality, substrings, patterns, beginnings and ends."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import around, listed, quote, shown
from regauge.judges._json import JsonFault, same
from regauge.judges._rule import Check, on_answer, on_text, rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.digests import JSON

__all__ = [
    "contains",
    "contains_all",
    "contains_any",
    "ends_with",
    "equals",
    "matches",
    "not_contains",
    "starts_with",
]

_SPACE = re.compile(r"\s+")


def normaliser(
    *, ignore_case: bool, ignore_space: bool, ignore_punctuation: bool
) -> Callable[[str], str]:
    """How texts are made alike before they are compared."""

    def normalise(text: str) -> str:
        if ignore_case:
            text = unicodedata.normalize("NFC", text).casefold()
        if ignore_punctuation:
            text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
        return _SPACE.sub(" ", text).strip() if ignore_space else text

    return normalise


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
        ignore_case: Compare as Unicode case folding makes them.
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


def finder(*, ignore_case: bool, whole_word: bool) -> Callable[[str, str], int]:
    """How one text is looked for in another: the place, or -1."""
    if whole_word:
        flags = re.IGNORECASE if ignore_case else 0

        def find_word(text: str, part: str) -> int:
            found = re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text, flags)
            return found.start() if found else -1

        return find_word
    if ignore_case:
        return lambda text, part: text.lower().find(part.lower())
    return str.find


def _wanted(parts: Sequence[str], kind: str) -> tuple[str, ...]:
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
        ignore_case: Lower case and upper case are alike.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains("pod").check_text("The pod died."))
    pass: contains 'pod': 'The pod died.'
    >>> print(contains("pod", whole_word=True).check_text("A podcast."))
    fail: does not contain 'pod'
    """
    if not isinstance(text, Expected):
        _wanted([text], "contains")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(answer: Answer) -> Verdict:
        whole = answer.text or ""
        part = answer.resolve(text, judge="contains")
        if not isinstance(part, str):
            raise JudgeError(
                f"contains: {text} is not a text: {quote(str(part))}", judge="contains"
            )
        at = find(whole, part)
        if at < 0:
            return failed(f"does not contain {quote(part)}", code="missing_text", expected=part)
        return passed(f"contains {quote(part)}: {around(whole, at, at + len(part))}")

    return on_answer(field, check)


@rule(codes=("missing_text",))
def contains_any(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The answer contains at least one of these texts.

    Args:
        texts: One of them must occur.
        ignore_case: Lower case and upper case are alike.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_any("kubectl", "helm").check_text("Run helm ls."))
    pass: contains 'helm': 'Run helm ls.'
    """
    parts = _wanted(texts, "contains_any")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            at = find(text, part)
            if at >= 0:
                return passed(f"contains {quote(part)}: {around(text, at, at + len(part))}")
        return failed(f"contains none of {listed(parts)}", code="missing_text", expected=parts)

    return on_text(field, check)


@rule(codes=("missing_text",))
def contains_all(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The answer contains every one of these texts; the score is the share it contains.

    Args:
        texts: Each must occur.
        ignore_case: Lower case and upper case are alike.
        whole_word: No letter, digit or underscore may stand next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(contains_all("cause", "fix").check_text("The cause is known."))
    fail (0.50): does not contain 'fix'
    """
    parts = _wanted(texts, "contains_all")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        missing = [part for part in parts if find(text, part) < 0]
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
        ignore_case: Lower case and upper case are alike.
        whole_word: Only where no letter, digit or underscore stands next to it.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(not_contains("as an AI", ignore_case=True).check_text("As an AI, I cannot say."))
    fail: contains 'as an AI': 'As an AI, I cannot say.'
    """
    parts = _wanted(texts, "not_contains")
    find = finder(ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            at = find(text, part)
            if at >= 0:
                where = around(text, at, at + len(part))
                return failed(
                    f"contains {quote(part)}: {where}", code="forbidden_text", actual=where
                )
        return passed(f"does not contain {listed(parts)}")

    return on_text(field, check)


@rule(codes=("no_match",))
def matches(
    pattern: str,
    *,
    whole: bool = False,
    ignore_case: bool = False,
    multiline: bool = False,
    dotall: bool = False,
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
        timeout_s: How long one search may take, in seconds.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(matches(r"SEV-[123]").check_text("This is SEV-2."))
    pass: matches 'SEV-[123]': 'This is SEV-2.'
    """
    compiled = _compiled(
        pattern, ignore_case=ignore_case, multiline=multiline, dotall=dotall, kind="matches"
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


def _compiled(pattern: str, *, ignore_case: bool, multiline: bool, dotall: bool, kind: str) -> Any:
    import regex  # type: ignore[import-untyped]  # it brings no types

    flags = (
        (regex.IGNORECASE if ignore_case else 0)
        | (regex.MULTILINE if multiline else 0)
        | (regex.DOTALL if dotall else 0)
    )
    try:
        return regex.compile(pattern, flags)
    except (regex.error, TypeError, ValueError) as error:
        raise UsageError(f"{kind}: {pattern!r} is not a regular expression: {error}") from error


@rule(codes=("wrong_start",))
def starts_with(
    *texts: str, ignore_case: bool = False, strip: bool = False, field: str | None = None
) -> Check:
    """The answer starts with this text, or with one of these.

    Args:
        texts: One of them must stand at the start.
        ignore_case: Lower case and upper case are alike.
        strip: Leave out white space around the answer first.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(starts_with("## Meaning").check_text("## Meaning of it"))
    pass: starts with '## Meaning'
    """
    return _edge(texts, "starts_with", ignore_case=ignore_case, strip=strip, field=field)


@rule(codes=("wrong_end",))
def ends_with(
    *texts: str, ignore_case: bool = False, strip: bool = False, field: str | None = None
) -> Check:
    """The answer ends with this text, or with one of these.

    Args:
        texts: One of them must stand at the end.
        ignore_case: Lower case and upper case are alike.
        strip: Leave out white space around the answer first.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(ends_with(".", "!").check_text("Done"))
    fail: ends with 'Done', not with '.', '!'
    """
    return _edge(texts, "ends_with", ignore_case=ignore_case, strip=strip, field=field)


def _edge(
    texts: Sequence[str], kind: str, *, ignore_case: bool, strip: bool, field: str | None
) -> Check:
    parts = _wanted(texts, kind)
    at_start = kind == "starts_with"
    verb, code = ("starts", "wrong_start") if at_start else ("ends", "wrong_end")
    edges = tuple(part.lower() for part in parts) if ignore_case else parts
    longest = max(len(part) for part in parts) + 10

    def check(text: str) -> Verdict:
        whole = text.strip() if strip else text
        compared = whole.lower() if ignore_case else whole
        holds = compared.startswith if at_start else compared.endswith
        for part, edge in zip(parts, edges, strict=True):
            if holds(edge):
                return passed(f"{verb} with {quote(part)}")
        edge = whole[:longest] if at_start else whole[-longest:]
        return failed(
            f"{verb} with {quote(edge)}, not with {listed(parts)}",
            code=code,
            expected=parts,
            actual=edge,
        )

    return on_text(field, check)
