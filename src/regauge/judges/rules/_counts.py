"""Amounts of text: words, sentences, lines, paragraphs, occurrences."""

from __future__ import annotations

import functools
import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack

from regauge.errors import UsageError
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import Whole, rule, split_sections
from regauge.judges._types import Verdict, abstained, failed, passed
from regauge.judges._words import count_sentences, count_words
from regauge.judges.rules._text import compiled_pattern, occurrences, within_time
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON
    from regauge.judges._rule import Rule

__all__ = [
    "line_count",
    "match_count",
    "max_chars",
    "max_words",
    "min_chars",
    "min_words",
    "paragraph_count",
    "sentence_count",
    "text_count",
    "word_count",
]

WordUnit = Literal["spaces", "letters"]
Count = int | tuple[int, int]


class CountLimits(TypedDict, total=False):
    """The limits of a count, as parameters of a rule."""

    at_least: int | None
    at_most: int | None
    exactly: int | None


def parse_limits(kind: str, **limits: Unpack[CountLimits]) -> tuple[int | None, int | None, str]:
    """Parse the limits of a count: the least, the most, and both in words.

    Raises:
        UsageError: There is no limit, or limits are invalid or exclude each other.
    """
    at_least, at_most = limits.get("at_least"), limits.get("at_most")
    exactly = limits.get("exactly")
    limit_values = [limit for limit in (at_least, at_most, exactly) if limit is not None]
    if not limit_values:
        raise UsageError(f"{kind}: set at_least, at_most or exactly")
    if exactly is not None and len(limit_values) > 1:
        raise UsageError(f"{kind}: set exactly without at_least and at_most")
    for limit in limit_values:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
            raise UsageError(f"{kind}: a limit is a whole number from 0 up, not {limit!r}")
    low, high = (exactly, exactly) if exactly is not None else (at_least, at_most)
    if low is not None and high is not None and low > high:
        raise UsageError(f"{kind}: at least {low} and at most {high} exclude each other")
    if low == high:
        return low, high, f"exactly {low}"
    words = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return low, high, " and ".join(words)


def count_check(
    kind: str,
    count: Callable[[str], Count],
    noun: str,
    nouns: str = "",
    *,
    field: str | None = None,
    **limits: Unpack[CountLimits],
) -> Check:
    """Build a check of a count.

    The score of a failure is limit over count, or count over limit. A count may be a range; the
    check abstains if a limit is inside the range.
    """
    low, high, wish = parse_limits(kind, **limits)

    def check(text: str) -> Verdict:
        counts = count(text)
        minimum, maximum = (counts, counts) if isinstance(counts, int) else counts
        if low is not None and maximum < low:
            minimum = maximum
        elif high is not None and minimum > high:
            maximum = minimum
        elif (low is not None and minimum < low) or (high is not None and maximum > high):
            return abstained(
                f"between {minimum} and {plural(maximum, noun, nouns)}, {wish} wanted: the script"
                " does not mark them; limit the characters instead (max_chars, min_chars)",
                code="uncountable",
            )
        codes = ("too_short", "too_long") if kind in _LENGTHS else ("too_few", "too_many")
        reason = f"{plural(minimum, noun, nouns)}, {wish} wanted"
        return verdict_on_count(minimum, low, high, reason, wish=wish, codes=codes)

    return on_text(field, check)


def verdict_on_count(
    count: int,
    low: int | None,
    high: int | None,
    reason: str,
    *,
    wish: JSON = None,
    codes: tuple[str, str] = ("too_few", "too_many"),
) -> Verdict:
    """Compare a count with two limits; a failure scores limit over count, or count over limit."""
    if low is not None and count < low:
        return failed(reason, code=codes[0], score=count / low, expected=wish, actual=count)
    if high is not None and count > high:
        return failed(reason, code=codes[1], score=high / count, expected=wish, actual=count)
    return passed(reason, actual=count)


class CountRule(Protocol):
    """A kind of rule that limits a count."""

    def __call__(self, *, field: str | None = None, **limits: Unpack[CountLimits]) -> Rule:
        """Make a rule."""
        ...


_LIMITS = """

Args:
    at_least: The least that passes.
    at_most: The most that passes.
    exactly: The only count that passes.
    field: Judge this part of a JSON output.

Fails as: too_few, too_many
"""


def count_rule(
    noun: str, nouns: str = "", *, version: int = 1
) -> Callable[[Callable[[str], Count]], CountRule]:
    """Turn a function that counts something in a text into a kind of rule.

    Args:
        noun: The name of one counted thing.
        nouns: Its plural; by default with an s.
        version: Raised when the rule may judge an output differently than before.
    """

    def wrap(count: Callable[[str], Count]) -> CountRule:
        def build(*, field: str | None = None, **limits: Unpack[CountLimits]) -> Check:
            return count_check(count.__name__, count, noun, nouns, field=field, **limits)

        build.__name__ = build.__qualname__ = count.__name__
        build.__module__ = count.__module__
        text, _, example = cleandoc(count.__doc__ or "").partition("\n\n>>> ")
        text, sections = split_sections(text)
        for title, amount in (("Advice", "{bounds}"), ("Negated", "{unbounded}")):
            sections.setdefault(title, f"Write {amount} {nouns or noun + 's'}{{inside}}.")
        advice = "".join(f"{title}: {sentence}\n" for title, sentence in sections.items())
        build.__doc__ = f"{text}{_LIMITS}{advice}\n>>> {example}"
        return rule(version=version, about="format")(build)

    return wrap


_LENGTHS = frozenset({"max_words", "max_chars", "min_words", "min_chars"})


def _word_counter(unit: WordUnit) -> Callable[[str], Count]:
    return functools.partial(count_words, by_letters=unit == "letters")


@rule(version=2, about="format")
def word_count(
    *, by: WordUnit = "spaces", field: str | None = None, **limits: Unpack[CountLimits]
) -> Check:
    """The number of words.

    In scripts without spaces it abstains if possible counts give different verdicts.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        by: `spaces` splits at white space; `letters` counts runs of letters, digits and underscores
            ("don't" is two).
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many
    Advice: Write {bounds} words{inside}.
    Negated: Write {unbounded} words{inside}.

    >>> print(word_count(at_least=2, at_most=4).check_text("The disk is full."))
    pass: 4 words, at least 2 and at most 4 wanted
    """
    return count_check("word_count", _word_counter(by), "word", field=field, **limits)


@rule(version=2, about="format")
def max_words(n: Whole, *, by: WordUnit = "spaces", field: str | None = None) -> Check:
    """The output has at most `n` words.

    Abstains if words of a script without spaces (Chinese, Japanese, Thai) cannot be counted; limit
    characters there.

    Args:
        n: The most that passes.
        by: `spaces` splits at white space; `letters` counts runs of letters, digits and underscores
            ("don't" is two).
        field: Judge this part of a JSON output.

    Fails as: too_long
    Advice: Keep {it} to at most {n} words.
    Negated: Write more than {n} words{inside}.

    >>> print(max_words(3).check_text("The disk is full."))
    fail (0.75): 4 words, at most 3 wanted
    """
    return count_check("max_words", _word_counter(by), "word", at_most=n, field=field)


@rule(version=2, about="format")
def min_words(n: Whole, *, by: WordUnit = "spaces", field: str | None = None) -> Check:
    """The output has at least `n` words.

    Abstains as `max_words` does.

    Args:
        n: The least that passes.
        by: `spaces` splits at white space; `letters` counts runs of letters, digits and underscores
            ("don't" is two).
        field: Judge this part of a JSON output.

    Fails as: too_short
    Advice: Write at least {n} words{inside}.
    Negated: Keep {it} under {n} words.

    >>> print(min_words(3).check_text("Disk full."))
    fail (0.67): 2 words, at least 3 wanted
    """
    return count_check("min_words", _word_counter(by), "word", at_least=n, field=field)


@rule(about="format")
def max_chars(n: Whole, *, field: str | None = None) -> Check:
    """The output has at most `n` characters (Unicode code points in NFC).

    Args:
        n: The most that passes.
        field: Judge this part of a JSON output.

    Fails as: too_long
    Advice: Keep {it} to at most {n} characters.
    Negated: Write more than {n} characters{inside}.

    >>> print(max_chars(10).check_text("Disk full."))
    pass: 10 characters, at most 10 wanted
    """
    return count_check("max_chars", len, "character", at_most=n, field=field)


@rule(about="format")
def min_chars(n: Whole, *, field: str | None = None) -> Check:
    """The output has at least `n` characters (Unicode code points in NFC).

    Args:
        n: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: too_short
    Advice: Write at least {n} characters{inside}.
    Negated: Keep {it} under {n} characters.

    >>> print(min_chars(20).check_text("Disk full."))
    fail (0.50): 10 characters, at least 20 wanted
    """
    return count_check("min_chars", len, "character", at_least=n, field=field)


@count_rule("sentence", version=4)
def sentence_count(text: str) -> Count:
    """The number of sentences.

    Sentences end at full stops, question and exclamation marks of any script, headings, list items
    and blank lines, not at abbreviations, ordinals ("3. Mai"), initials, numbers or inner ellipses.
    Abstains for Thai and Lao if spaces matter.

    >>> print(sentence_count(exactly=2).check_text("It was Dr. No, at 5 p.m. today. Who else?"))
    pass: 2 sentences, exactly 2 wanted
    """
    return count_sentences(text)


@count_rule("line")
def line_count(text: str) -> Count:
    r"""The number of lines that are not blank.

    >>> print(line_count(exactly=2).check_text("one\n\ntwo\n"))
    pass: 2 lines, exactly 2 wanted
    """
    return sum(1 for line in text.splitlines() if line.strip())


@rule(about="format")
def text_count(
    text: str,
    *,
    ignore_case: bool = False,
    whole_word: bool = False,
    field: str | None = None,
    **limits: Unpack[CountLimits],
) -> Check:
    """The number of occurrences of a text, without overlaps.

    Args:
        text: The text.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        ignore_case: Ignore case, by Unicode case folding.
        whole_word: Match whole words only.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many
    Advice: Write {text:or} {bounds} times{inside}.
    Negated: Write {text:or} {unbounded} times{inside}.

    >>> print(text_count("disk", at_least=2, ignore_case=True).check_text("Disk? No disk."))
    pass: 2 times 'disk', at least 2 wanted
    """
    if not text:
        raise UsageError("text_count: the text to count cannot be empty")
    return count_check(
        "text_count",
        lambda output: sum(
            1 for _ in occurrences(output, text, ignore_case=ignore_case, whole_word=whole_word)
        ),
        f"time {quote(text)}",
        f"times {quote(text)}",
        field=field,
        **limits,
    )


@rule(about="format")
def match_count(
    pattern: str,
    *,
    ignore_case: bool = False,
    multiline: bool = False,
    timeout_s: float = 1.0,
    field: str | None = None,
    **limits: Unpack[CountLimits],
) -> Check:
    r"""The number of matches of a regular expression, without overlaps.

    Args:
        pattern: The regular expression.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        ignore_case: Ignore case, by Unicode case folding.
        multiline: `^` and `$` match at every line.
        timeout_s: Seconds until the judge gives up, without a verdict.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many
    Advice: Write what matches the regular expression {pattern:code} {bounds} times{inside}.
    Negated: Write what matches the regular expression {pattern:code} {unbounded} times{inside}.

    >>> print(match_count(r"\d+", exactly=2).check_text("3 pods of 12"))
    pass: 2 matches of '\\d+', exactly 2 wanted
    """
    if not pattern:
        raise UsageError("match_count: the pattern to count cannot be empty")
    compiled = compiled_pattern(
        pattern, ignore_case=ignore_case, multiline=multiline, kind="match_count"
    )

    find_all = within_time(
        compiled.findall, kind="match_count", pattern=pattern, timeout_s=timeout_s
    )
    return count_check(
        "match_count",
        lambda text: len(find_all(text)),
        f"match of {quote(pattern)}",
        f"matches of {quote(pattern)}",
        field=field,
        **limits,
    )


_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def paragraph_splitter(separator: str | None, kind: str) -> Callable[[str], list[str]]:
    """Return the function that splits a text into paragraphs.

    Raises:
        UsageError: The separator is empty.
    """
    if separator is None:
        return _BLANK_LINES.split
    if not separator:
        raise UsageError(f"{kind}: a separator cannot be empty")
    return lambda text: text.split(separator)


def count_filled_parts(parts: list[str]) -> tuple[int, bool]:
    """Count the parts with text; also return whether one between two others is blank."""
    full = [bool(part.strip()) for part in parts]
    return sum(full), not all(full[1:-1])


@rule(about="format")
def paragraph_count(
    *, separator: str | None = None, field: str | None = None, **limits: Unpack[CountLimits]
) -> Check:
    r"""The number of paragraphs.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        separator: The text between paragraphs, such as `***`; by default blank lines. Paragraphs
            between two separators must not be empty.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many, empty_paragraph
    Advice: Write {bounds} paragraphs{inside}. | Separate them by {separator:or}.
    Negated: Write {unbounded} paragraphs{inside}. | Separate them by {separator:or}.

    >>> print(paragraph_count(exactly=2).check_text("One.\n\nTwo."))
    pass: 2 paragraphs, exactly 2 wanted
    """
    low, high, wish = parse_limits("paragraph_count", **limits)
    split = paragraph_splitter(separator, "paragraph_count")
    gaps_count = separator is not None and bool(separator.strip())

    def check(text: str) -> Verdict:
        count, gap = count_filled_parts(split(text))
        if gap and gaps_count:
            return failed(f"nothing between two {quote(separator or '')}", code="empty_paragraph")
        reason = f"{plural(count, 'paragraph')}, {wish} wanted"
        return verdict_on_count(count, low, high, reason, wish=wish)

    return on_text(field, check)
