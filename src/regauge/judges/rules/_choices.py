"""The answer that an output ends in: the text after a marker, or one of several options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import listed, quote, shown
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import resolve_in, rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._json_like import is_close
from regauge.judges.rules._numbers import numbers_in
from regauge.judges.rules._text import normaliser

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["answer_is", "choice_is"]

_MARKS = " \t*_`$\"'“”„‘’«»"  # noqa: RUF001 - quotation marks
_BOXED = "\\boxed{"


def _boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{...}` of a text."""
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOXED)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[begin:at]
    return None


def _after(text: str, marker: str) -> str | None:
    """The line after the last marker, or the next line with text."""
    folded, wanted = text.casefold(), marker.casefold()
    if len(folded) != len(text):
        folded, wanted = text.lower(), marker.lower()
    at = folded.rfind(wanted)
    if at < 0:
        return None
    rest = text[at + len(marker) :]
    return next((line for line in rest.splitlines() if line.strip(_MARKS + ":")), "")


def bare_answer(text: str) -> str:
    r"""An answer without the marks around it: emphasis, quotes, math, a final period.

    >>> bare_answer(" **$\\boxed{1,000}$**. ")
    '1,000'
    """
    text = text.strip(_MARKS + ":")
    boxed = _boxed(text)
    text = text if boxed is None else boxed
    return text.strip(_MARKS).removesuffix(".").strip(_MARKS)


def _alike(found: str, wanted: JSON) -> bool:
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        numbers = [*numbers_in(found)]
        return len(numbers) == 1 and is_close(numbers[0].value, wanted, within=0, relative=1e-9)
    if not isinstance(wanted, str):
        return False
    if (number := [*numbers_in(wanted)]) and number[0].text == wanted.strip():
        return _alike(found, number[0].value) or found == wanted
    simplify = normaliser(ignore_case=True, ignore_space=True, ignore_punctuation=False)
    return simplify(found) == simplify(bare_answer(wanted))


@rule(codes=("no_answer", "wrong_answer"))
def answer_is(
    to: JSON | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    after: str = "ANSWER:",
    field: str | None = None,
) -> Check:
    r"""The output ends in an answer, after a marker, and it is the right one.

    The answer is the rest of the line after the last marker, or the next line with text; without a
    marker, it is what stands in the last `\boxed{...}`. It is compared without case, emphasis,
    quotes and a final period; a number is compared as a number.

    Args:
        to: The right answer, or a list of answers that are all right; by default the case's
            `expected`.
        after: The marker, in any case.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(answer_is("Paris").check_text("It is the capital.\n**Answer:** Paris."))
    pass: the answer is 'Paris'
    >>> print(answer_is(1000).check_text("So 400 + 600.\nANSWER: 1,200"))
    fail: the answer is '1,200', not '1000'
    """
    if not after.strip():
        raise UsageError("answer_is: the marker cannot be empty")

    def check(answer: Answer) -> Verdict:
        wanted = answer.resolve(to, judge="answer_is")
        if wanted is None:
            raise answer.lacks(str(to), judge="answer_is")
        right = wanted if isinstance(wanted, list) else [wanted]
        text = answer.text or ""
        found = _after(text.replace("**", "").replace("__", ""), after)
        if found is None:
            found = _boxed(text)
        if found is None or not bare_answer(found):
            return failed(
                f"no answer after {quote(after)}", code="no_answer", expected=shown(wanted)
            )
        bare = bare_answer(found)
        if any(_alike(bare, one) for one in right):
            return passed(f"the answer is {quote(bare)}")
        return failed(
            f"the answer is {quote(bare)}, not {listed([str(one) for one in right])}",
            code="wrong_answer",
            expected=shown(wanted),
            actual=bare[:200],
        )

    return on_answer(field, check)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class _Options:
    """Reads the options that an output chooses."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = options
        one = "|".join(re.escape(option) for option in sorted(options, key=len, reverse=True))
        self._one = re.compile(rf"(?<!\w)(?i:{one})(?!\w)")
        label = rf"[*_`\"'(\[]*(?i:{one})(?![\w'’])[*_`\"')\]]*"  # noqa: RUF001
        several = rf"{label}(?:[ ]*(?:,|&|/|and|or)[ ]*{label})*"
        self._stated = re.compile(
            rf"(?i:answers?|choices?|options?|choose|pick|select|go[ ]with)\b[*_:\s]*"
            rf"(?:(?i:is|are|would[ ]be|=|-|option|choice)[*_:\s]+){{0,2}}(?P<chosen>{several})"
            rf"|(?P<judged>{several})[ ](?i:is|are)[ ](?i:the[ ])?(?i:correct|right|best|true)\b"
        )
        self._line = re.compile(
            rf"^[ \t>*_#-]*(?P<chosen>{several})[ \t]*(?:[.):\]*_]|[-\u2013\u2014][ ]|$)",
            re.MULTILINE,
        )
        self._boxed = re.compile(rf"\\boxed\{{(?:\\text\{{)?(?P<chosen>{several})")

    def known(self, value: object) -> set[str]:
        """The options that an author names as right.

        Raises:
            UsageError: There is none, or one is not among the options.
        """
        known = {option.casefold(): option for option in self.options}
        parts = list(cast("Sequence[object]", value)) if _is_list(value) else [value]
        for part in parts:
            if not isinstance(part, str) or part.casefold() not in known:
                raise UsageError(f"choice_is: {part!r} is not among {listed(self.options)}")
        if not parts:
            raise UsageError("choice_is: name at least one right option")
        return {known[str(part).casefold()] for part in parts}

    def chosen(self, text: str) -> set[str]:
        """The options that a text chooses; empty where it states none."""
        boxed = [match["chosen"] for match in self._boxed.finditer(text)]
        stated = boxed or [
            match["chosen"] or match["judged"]
            for match in self._stated.finditer(text)
            if not self._is_article(match, text)
        ]
        if stated:
            return self._named(stated[-1])
        lines = [match["chosen"] for match in self._line.finditer(text)]
        return set[str]().union(*(self._named(line) for line in lines))

    def _is_article(self, match: re.Match[str], text: str) -> bool:
        """Tell "the answer is a dog" from a choice."""
        return match["chosen"] == "a" and text[match.end() :].lstrip(" ")[:1].isalpha()

    def _named(self, text: str) -> set[str]:
        known = {option.casefold(): option for option in self.options}
        return {known[found.casefold()] for found in self._one.findall(text)}


@rule(codes=("no_choice", "wrong_choice"))
def choice_is(
    to: str | Sequence[str] | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    options: Sequence[str] = ("A", "B", "C", "D", "E"),
    field: str | None = None,
) -> Check:
    """The output chooses the right one of several options, such as `B`.

    It understands "The answer is (B).", "Answer: B", "**B)** Paris", "B" and the like. A stated
    answer counts, and of several the last; without one, the options that lines begin with. An
    output that lists all options without a choice fails.

    Args:
        to: The right option, or a list of options that must all be chosen; by default the case's
            `expected`.
        options: The labels of all options, in any case.
        field: Judge this part of a JSON output instead of the whole.

    >>> print(choice_is("B").check_text("A is too old, so the answer is (B)."))
    pass: chooses 'B'
    >>> print(choice_is("B").check_text("C) Rome"))
    fail: chooses 'C', not 'B'
    """
    if isinstance(options, str) or not options or not all(options):
        raise UsageError(f"choice_is: name the options as a list of texts, not {options!r}")
    reader = _Options(options)
    if not isinstance(to, Expected):
        reader.known(to)

    def check(answer: Answer) -> Verdict:
        value = cast("JSON", resolve_in(to, answer, "choice_is"))
        if value is None:
            raise answer.lacks(str(to), judge="choice_is")
        try:
            right = reader.known(value)
        except UsageError as error:
            raise JudgeError(str(error), judge="choice_is") from error
        found = reader.chosen(answer.text or "")
        if not found:
            return failed("states no choice", code="no_choice", expected=sorted(right))
        if found == right:
            return passed(f"chooses {listed(sorted(found))}")
        return failed(
            f"chooses {listed(sorted(found))}, not {listed(sorted(right))}",
            code="wrong_choice",
            expected=sorted(right),
            actual=sorted(found),
        )

    return on_answer(field, check)
