"""What a text says: equality, substrings, patterns, beginnings and ends."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import around, listed, quote, shown
from regauge.judges._json_text import JsonFault, same
from regauge.judges._rule import Check, on_answer, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        ignore_case: Lower case and upper case are alike.
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
    parts = wanted_texts(texts, "contains_any")
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
    parts = wanted_texts(texts, "contains_all")
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
    parts = wanted_texts(texts, "not_contains")
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
