"""Numbers, final answers and options that an output has to end in."""

from __future__ import annotations

import itertools
import re
import sys
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._rule import Check, on_output
from regauge.judges._rule_factory import Amount, resolve_in, rule
from regauge.judges._types import Verdict, failed, is_number, passed, quote_list
from regauge.judges.output import Expected, JudgedOutput, expected
from regauge.judges.rules._json import is_close
from regauge.judges.rules._numbers import Mark, Number, numbers_in, units_by_name
from regauge.judges.rules._text import normaliser
from regauge.lexicon import Lexicon
from regauge.strict_json import as_list
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.digests import JSON

__all__ = ["answer_is", "choice_is", "number_near"]

_WORDS: Final = Lexicon("regauge.judges", file="data/values.toml")
Which = Literal["first", "last", "only", "any"]
# A number in parts, such as `1 d 2 h 3 min`, has at most one part per unit; the time of a judgement
# grows with this limit.
_PARTS_MAX = 32


@rule(version=6, about="correctness")
def number_near(
    to: float | Expected = expected(),
    *,
    absolute: Amount = 0.0,
    relative: Amount = 0.0,
    unit: str | None = None,
    which: Which = "last",
    decimal: Mark | None = None,
    field: str | None = None,
) -> Check:
    """A number in the output is near another one.

    Without a tolerance the numbers must be equal up to rounding. With both tolerances, one
    suffices. `1½`, `10^3` and `2億5000万` are numbers; in a range such as `$3-5M`, both numbers
    have its scale and unit.

    Args:
        to: The value or reference to compare with; by default the case's `expected`. A text such as
            `5 GB` is compared in its unit.
        absolute: The largest difference that passes.
        relative: The same as a share of the expected number; 0.05 is 5 %.
        unit: Such as `ms`, `GB`, `km`, `%` or `€`; others of its kind are converted. A number
            without a unit fails.
        which: The `last` number, the `first`, the `only` one, or `any`.
        decimal: The decimal mark, `.` or `,`; by default read from each number (`1,5` is 1.5,
            `1,234` is 1234, `0,123` is 0.123).
        field: Judge this part of a JSON output.

    Fails as: no_number, wrong_number, wrong_unit, several_numbers
    Advice: Give a number near {to:or}{inside}. | Give it in {unit:bare}.

    >>> print(number_near(100, relative=0.05).check_text("It is about 104 MB."))
    pass: 104 MB is near 100
    >>> print(number_near(1500, unit="ms").check_text("It took 1.6 s."))
    fail (0.97): 1.6 s is not near 1500 ms
    """
    if not isinstance(to, Expected):
        _target(to, UsageError("number_near: to is a number, not " + repr(to)[:80]))

    def check(output: JudgedOutput) -> Verdict:
        expected: JSON = output.resolve(to, judge="number_near")
        target = _target(
            expected,
            JudgeError(f"number_near: {to} is not a number: {expected!r}", judge="number_near"),
        )
        text = output.text or ""
        last = _PARTS_MAX if which == "last" else None
        numbers = _join_units(text, decimal, last) if unit else _plain_numbers(text, decimal, last)
        if which == "last":
            candidates = [*deque(numbers, maxlen=1)]
        else:
            candidates = [*itertools.islice(numbers, 1 if which == "first" else None)]
        name = f"{expected} {unit}" if unit else f"{expected}"
        if not candidates:
            return failed(f"no number, {name} wanted", code="no_number", expected=expected)
        if which == "only" and len(candidates) > 1:
            texts = ", ".join(part.text for part in candidates[:5])
            return failed(
                f"{len(candidates)} numbers, one wanted: {texts}",
                code="several_numbers",
                expected=expected,
            )
        return _nearest(candidates, target, name, unit, within=absolute, relative=relative)

    return on_output(field, check)


def _spell_duration(match: re.Match[str]) -> str:
    parts = zip(match.groups(), ("d", "h", "min", "s"), strict=True)
    return " ".join(f"{digits} {unit}" for digits, unit in parts if digits)


def _plain_numbers(text: str, decimal: Mark | None, last: int | None) -> Iterator[Number]:
    """The numbers of a text; a fraction alone is one number."""
    fraction = _WORDS.fraction.fullmatch(bare_answer(text.removesuffix("%").strip()))
    if fraction is None or not int(fraction[2] or fraction[4]):
        yield from numbers_in(text, decimal, last=last)
        return
    over = int((fraction[1] or fraction[3]).replace("\u2212", "-"))
    yield Number(value=over / int(fraction[2] or fraction[4]), unit="", text=fraction[0])


def _join_units(text: str, decimal: Mark | None, last: int | None) -> Iterator[Number]:
    """The numbers of a text; a number in parts, such as `1 h 30 min`, is one."""
    text = _WORDS.duration.sub(_spell_duration, text)
    total: Number | None = None
    units = units_by_name()
    for part in numbers_in(text, decimal, last=last):
        smaller = units.get(part.unit) if total and part.unit else None
        larger = units.get(total.unit) if total and smaller else None
        if (
            total
            and larger
            and smaller
            and larger[0] == smaller[0] in {"time", "length", "mass"}
            and larger[1] > smaller[1]
            and _WORDS.joined.fullmatch(text, total.end, part.start)
        ):
            sign = -1 if total.value < 0 else 1
            value = total.value + sign * part.value * smaller[1] / larger[1]
            joined_text = f"{total.text} {part.text}"[:40]
            total = total._replace(value=value, text=joined_text, end=part.end)
        else:
            if total:
                yield total
            total = part
    if total:
        yield total


def _target(value: JSON, error: JudgeError | UsageError) -> Number:
    """Parse the number to compare with, which may be a text with a unit.

    Raises:
        JudgeError, UsageError: It is not a number; the given error.
    """
    if is_number(value):
        if abs(value) <= sys.float_info.max:  # NaN is not, either
            return Number(value, "", str(value))
    elif isinstance(value, str):
        numbers = [*numbers_in(value)]
        if len(numbers) == 1:
            return numbers[0]
    raise error


def _nearest(
    numbers: Sequence[Number],
    expected: Number,
    name: str,
    unit: str | None,
    *,
    within: float,
    relative: float,
) -> Verdict:
    target = expected.value
    within = max(within, relative * abs(target))
    best: tuple[float, Number, float | None] | None = None
    for part in {(part.value, part.unit): part for part in reversed(numbers)}.values():
        value = _value_in(part, expected.unit) if unit is None else part.in_unit(unit)
        score = 0.0
        if value is not None:
            if is_close(value, target, within=within, relative=1e-9):
                return passed(f"{part.text} is near {name}", expected=target, actual=value)
            score = max(0.0, 1 - abs(value / 2 - target / 2) / (abs(value) / 2 + abs(target) / 2))
        if best is None or score > best[0]:
            best = score, part, value
    assert best is not None
    score, part, value = best
    if value is None:
        return failed(
            f"{quote(part.text)} is not a number of {unit or expected.unit}",
            code="wrong_unit",
            expected=target,
        )
    return failed(
        f"{part.text} is not near {name}",
        code="wrong_number",
        score=score,
        expected=target,
        actual=value,
    )


_AROUND_ANSWER = " \t*_`\"'“”„‘’«»「」『』"  # noqa: RUF001 - quotation marks
_PERIODS = (".", "。", "．", "।", "۔", "։")  # noqa: RUF001 - those of several scripts
_BOXED = "\\boxed{"


def _boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}` of a text; None without one."""
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOXED)
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[begin:position]
    return None


def _text_after(text: str, marker: str) -> str | None:
    """The rest of the line after the last marker, or the next line with text; None without one."""
    text_folded, folded_marker = text.casefold(), marker.casefold()
    if len(text_folded) != len(text):
        text_folded, folded_marker = text.lower(), marker.lower()
    position = text_folded.rfind(folded_marker)
    if position < 0:
        return None
    rest = text[position + len(marker) :]
    return next((line for line in rest.splitlines() if line.strip(_AROUND_ANSWER + ":$")), "")


def bare_answer(text: str) -> str:
    r"""Remove the marks around an answer: emphasis, quotes, math, a final period.

    >>> bare_answer(" **$\\boxed{1,000}$**. ")
    '1,000'
    """
    text = text.strip(_AROUND_ANSWER + ":")
    boxed = _boxed(text)
    text = text if boxed is None else boxed
    text = text.strip(_AROUND_ANSWER)
    text = text[: -1 if text.endswith(_PERIODS) else None].strip(_AROUND_ANSWER)
    is_math = text[:1] == text[-1:] == "$"
    return text.strip("$").strip(_AROUND_ANSWER) if is_math else text


def _equals_answer(text: str, expected: JSON) -> bool:
    if isinstance(expected, bool):
        return text.casefold() in {True: {"true", "yes"}, False: {"false", "no"}}[expected]
    if is_number(expected):
        numbers = [*numbers_in(text)]
        return len(numbers) == 1 and is_close(numbers[0].value, expected, within=0, relative=1e-9)
    if not isinstance(expected, str):
        return False
    if (number := [*numbers_in(expected)]) and number[0].text == expected.strip():
        return text == expected or _equals_quantity(text, number[0])
    simplify = normaliser(ignore_case=True, ignore_space=True)
    return simplify(text) == simplify(bare_answer(expected))


def _as_text(value: JSON) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equals_quantity(text: str, expected: Number) -> bool:
    """Return whether a text has one number, equal to another; a known unit is converted."""
    numbers = [*numbers_in(text)]
    if len(numbers) != 1 or re.match("0[0-9]", expected.text):  # `007` is a name
        return False
    value = _value_in(numbers[0], expected.unit)
    return value is not None and is_close(value, expected.value, within=0, relative=1e-9)


def _value_in(number: Number, unit: str) -> float | None:
    """The value in a unit; words that are not a unit, and missing ones, are ignored."""
    return number.in_unit(unit) if {number.unit, unit} <= units_by_name().keys() else number.value


@rule(version=6, about="correctness")
def answer_is(
    to: JSON | Expected = expected(), *, after: str = "ANSWER:", field: str | None = None
) -> Check:
    r"""The output ends in the correct answer, after a marker.

    The answer is the rest of the line after the last marker, the next line with text, or else the
    content of the last `\boxed{...}`. Case, emphasis, quotes and a final period are ignored;
    numbers are compared as numbers, in the unit of the correct answer if both have one. `true` is
    also `yes`, and `false` is `no`.

    Args:
        to: The correct answer, or a list of correct answers.
        after: The marker, in any case.
        field: Judge this part of a JSON output.

    Fails as: no_answer, wrong_answer
    Advice: Close with a line that begins with {after:or} and gives the answer alone. | The answer
        is {to:or}.
    Negated: The answer is not {to:or}.

    >>> print(answer_is("Paris").check_text("It is the capital.\n**Answer:** Paris."))
    pass: the answer is 'Paris'
    >>> print(answer_is(1000).check_text("So 400 + 600.\nANSWER: 1,200"))
    fail: the answer is '1,200', not '1000'
    """
    if not after.strip():
        raise UsageError("answer_is: the marker cannot be empty")
    if to == []:
        raise UsageError("answer_is: name at least one right answer")

    def check(output: JudgedOutput) -> Verdict:
        expected = output.resolve(to, judge="answer_is")
        if expected is None:
            raise output.missing_error(str(to), judge="answer_is")
        right = expected if isinstance(expected, list) else [expected]
        text = output.text or ""
        after_marker = _text_after(text.replace("**", "").replace("__", ""), after)
        if after_marker is None:
            after_marker = _boxed(text)
        if after_marker is None or not bare_answer(after_marker):
            return failed(f"no answer after {quote(after)}", code="no_answer", expected=expected)
        bare = bare_answer(after_marker)
        if any(_equals_answer(bare, value) for value in right):
            return passed(f"the answer is {quote(bare)}")
        return failed(
            f"the answer is {quote(bare)}, not {quote_list([_as_text(value) for value in right])}",
            code="wrong_answer",
            expected=expected,
            actual=bare[:200],
        )

    return on_output(field, check)


_NEXT = re.compile(r" *([^\W_])")


class _Options:
    """Recognises the options that an output chooses."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = options
        self._options = {option.casefold(): option for option in options}
        pattern = "|".join(re.escape(option) for option in sorted(options, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<!\w)(?i:{pattern})(?!\w)")
        # "Yes, it does." chooses; "A, for one, ..." does not.
        parts = {
            "one": pattern,
            "count": str(len(options)),
            "comma": ",\uff0c" if min(map(len, options)) > 1 else "_",
        }
        self._choice_pattern = _WORDS.pattern("stated", **parts)
        self._line = _WORDS.pattern("line", **parts)
        self._boxed = _WORDS.pattern("boxed", **parts)

    def right_options(self, value: object) -> set[str]:
        """Validate the right options of an author.

        Raises:
            UsageError: There is none, or one is not among the options.
        """
        parts = as_list(value)
        for part in parts:
            if not isinstance(part, str) or part.casefold() not in self._options:
                raise UsageError(f"choice_is: {part!r} is not among {quote_list(self.options)}")
        if not parts:
            raise UsageError("choice_is: name at least one right option")
        return {self._options[part.casefold()] for part in parts}

    def chosen_options(self, text: str) -> set[str]:
        """The options that a text chooses; empty for none.

        "Option A" alone is a choice; "option A is slow" is not.
        """
        labels = [match["chosen"] for match in self._boxed.finditer(text)]
        alone: set[str] = set()
        discussed: set[str] = set()
        for match in () if labels else self._choice_pattern.finditer(text):
            before = text[max(0, match.start() - 30) : match.start()]
            if self._is_article(match, text) or _WORDS.denies.search(before):
                continue
            label = match["chosen"] or match["judged"] or match["it"]
            verdict_words = _WORDS.judged.match(text, match.end())
            if self._is_stated(match) or (verdict_words and not verdict_words["weak"]):
                labels.append(label)
            elif verdict_words or _WORDS.alone.match(text, match.end()):
                alone.add(label)
            else:
                discussed.add(label)
        if labels:
            return self._options_in(labels[-1])
        if len(alone) == 1:
            return self._options_in(alone.pop())
        lines = {match["chosen"] for match in self._line.finditer(text)}
        return set[str]().union(*(self._options_in(part) for part in lines or alone | discussed))

    def _is_stated(self, match: re.Match[str]) -> bool:
        """Return whether a match is like "the answer is B" or "choose B", not "answer B"."""
        between = match.string[match.start() : max(match.start(), match.start("chosen"))]
        return bool(
            match["verb"] or match["link"] or match["it"] or re.search("[:\uff1a>]", between)
        )

    def _is_article(self, match: re.Match[str], text: str) -> bool:
        """Return whether "a" is an article, as in "the answer is a dog"."""
        if match["chosen"] != "a":
            return False
        after = _NEXT.match(text, match.end())
        return after is not None and after[1].isalpha()

    def _options_in(self, text: str) -> set[str]:
        # A pattern without case takes a dotless i for "i"; it is another letter.
        labels = {match.casefold() for match in self._pattern.findall(text)}
        return {self._options[label] for label in labels & self._options.keys()}


@rule(version=3, about="correctness")
def choice_is(
    to: str | Sequence[str] | Expected = expected(),
    *,
    options: Sequence[str] = ("A", "B", "C", "D", "E"),
    field: str | None = None,
) -> Check:
    """The output chooses the correct option, such as `B`.

    Recognises "The answer is (B).", "Answer: B", "**B)** Paris", "B" and the like, also in other
    large languages. The last stated choice counts, or else options that lines begin with, but no
    remarks on other options.

    Args:
        to: The correct option, or a list of options that must all be chosen.
        options: All labels, in any case.
        field: Judge this part of a JSON output.

    Fails as: no_choice, wrong_choice
    Advice: State which of these you choose: {options:choice}. | Choose {to:and}.
    Negated: Do not choose {to:and}.

    >>> print(choice_is("B").check_text("A is too old, so the answer is (B)."))
    pass: chooses 'B'
    >>> print(choice_is("B").check_text("C) Rome"))
    fail: chooses 'C', not 'B'
    """
    if not options or not all(options) or len({*map(str.casefold, options)}) < len(options):
        raise UsageError(f"choice_is: name the options as a list of texts, not {options!r}")
    reader = _Options(options)
    if not isinstance(to, Expected):
        reader.right_options(to)

    def check(output: JudgedOutput) -> Verdict:
        value = cast("JSON", resolve_in(to, output, "choice_is"))
        if value is None:
            raise output.missing_error(str(to), judge="choice_is")
        try:
            right = reader.right_options(value)
        except UsageError as error:
            raise JudgeError(str(error), judge="choice_is") from error
        chosen_options = reader.chosen_options(output.text or "")
        if not chosen_options:
            return failed("states no choice", code="no_choice", expected=sorted(right))
        if chosen_options == right:
            return passed(f"chooses {quote_list(sorted(chosen_options))}", expected=sorted(right))
        return failed(
            f"chooses {quote_list(sorted(chosen_options))}, not {quote_list(sorted(right))}",
            code="wrong_choice",
            expected=sorted(right),
            actual=sorted(chosen_options),
        )

    return on_output(field, check)
