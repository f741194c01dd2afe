"""Options that an output chooses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._output import Expected, JudgedOutput, expected
from regauge.judges._rule import Check, on_output
from regauge.judges._rule_factory import resolve_in, rule
from regauge.judges._types import Verdict, failed, passed, quote_list
from regauge.lexicon import Lexicon
from regauge.strict_json import as_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON

__all__ = ["choice_is"]

_WORDS: Final = Lexicon("regauge.judges", file="data/values.toml")
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
    if isinstance(options, str) or not options or not all(options):
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
