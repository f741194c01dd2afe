"""The content of a text: parts, start and end, case and language."""

from __future__ import annotations

import bisect
import functools
import importlib
import itertools
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.errors import JudgeError, UsageError
from regauge.judges._rule import Check, on_output, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import (
    Verdict,
    abstained,
    failed,
    format_number,
    passed,
    quote_around,
    quote_list,
)
from regauge.judges._words import UNSPACED
from regauge.judges.output import Expected, JsonProblem, JudgedOutput, expected, json_equal
from regauge.lexicon import Lexicon
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.digests import JSON

__all__ = [
    "contains",
    "contains_all",
    "contains_any",
    "ends_with",
    "equals",
    "is_language",
    "is_lower_case",
    "is_quoted",
    "is_upper_case",
    "matches",
    "no_comma",
    "not_contains",
    "one_of",
    "starts_with",
]

_SPACE = re.compile(r"\s+")
# White space, byte order mark, marks of direction.
_INVISIBLE = r"[\s\ufeff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_EDGE = re.compile(rf"\A{_INVISIBLE}++|(?<!{_INVISIBLE}){_INVISIBLE}++\Z")


def normaliser(
    *, ignore_case: bool, ignore_space: bool = False, ignore_punctuation: bool = False
) -> Callable[[str], str]:
    """Return the function that normalises texts for comparison."""

    def simplify(text: str) -> str:
        if ignore_case:
            text = text.casefold()
        if ignore_punctuation:
            text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
        return _SPACE.sub(" ", text).strip() if ignore_space else text

    return simplify


@rule(about="correctness")
def equals(
    value: JSON | Expected = expected(),
    *,
    ignore_case: bool = False,
    ignore_space: bool = False,
    ignore_punctuation: bool = False,
    field: str | None = None,
) -> Check:
    """The output is exactly this text, or this JSON value if it is not a text.

    Args:
        value: The value or reference to compare with; by default the case's `expected`.
        ignore_case: Ignore case, by Unicode case folding.
        ignore_space: Treat runs of white space as one space; strip the ends.
        ignore_punctuation: Ignore Unicode punctuation.
        field: Judge this part of a JSON output.

    Fails as: not_equal, json_invalid
    Advice: Write exactly {value:or}{inside}.
    Negated: Never write just {value:or}{inside}.

    >>> print(equals("yes", ignore_case=True).check_text("Yes"))
    pass: equals 'Yes'
    >>> print(equals({"a": 1}).check_text('{ "a": 1.0 }'))
    pass: equals '{ "a": 1.0 }'
    """
    normalise = normaliser(
        ignore_case=ignore_case, ignore_space=ignore_space, ignore_punctuation=ignore_punctuation
    )

    def check(output: JudgedOutput) -> Verdict:
        text = output.text or ""
        expected = output.resolve(value, judge="equals")
        if isinstance(expected, str):
            if text == expected or normalise(text) == normalise(expected):
                return passed(f"equals {quote(text)}", expected=expected)
            return failed(
                f"{quote(text)} is not {quote(expected)}",
                code="not_equal",
                expected=expected,
                actual=text,
            )
        actual = output.json
        if isinstance(actual, JsonProblem):
            return failed(
                f"not JSON: {actual.message}", code="json_invalid", expected=expected, actual=text
            )
        if json_equal(actual, expected):
            return passed(f"equals {quote(text)}", expected=expected)
        return failed(
            f"{quote(text)} is another value", code="not_equal", expected=expected, actual=actual
        )

    return on_output(field, check)


def occurrences(
    text: str, part: str, *, ignore_case: bool, whole_word: bool
) -> Iterator[tuple[int, int]]:
    r"""The places of a text in another, in order, without overlaps.

    >>> [*occurrences("Die Stra\xdfe", "STRASSE", ignore_case=True, whole_word=True)]
    [(4, 10)]
    """
    full_text = text.casefold() if ignore_case else text
    bare = part.casefold() if ignore_case else part
    if not whole_word:
        places = _places(full_text, bare)
    else:
        pattern = _whole_words(bare, ascii_only=full_text.isascii())
        places = (match.span() for match in pattern.finditer(full_text))
    if len(full_text) == len(text):
        yield from places
        return
    # Case folding can lengthen a text, as in "ss": map places back to the text itself.
    starts = [0, *itertools.accumulate(len(char.casefold()) for char in text)]
    for start, end in places:
        yield bisect.bisect_right(starts, start) - 1, bisect.bisect_left(starts, end)


@functools.lru_cache(maxsize=256)
def _whole_words(part: str, *, ascii_only: bool) -> Any:
    """Return a pattern of a text without adjacent letters, digits or underscores.

    Letters of scripts without spaces between words may be adjacent.
    """
    # Only `regex` counts vowel signs, as of Hindi, as letters.
    library: Any = re if ascii_only else importlib.import_module("regex")
    before = "" if re.match(f"[{UNSPACED}]", part) else rf"(?<!(?![{UNSPACED}])\w)"
    after = "" if re.search(rf"[{UNSPACED}]\Z", part) else rf"(?!(?![{UNSPACED}])\w)"
    return library.compile(f"{before}{re.escape(part)}{after}")


def _places(text: str, part: str) -> Iterator[tuple[int, int]]:
    position = text.find(part)
    while position >= 0:
        yield position, position + len(part)
        position = text.find(part, position + len(part))


def find_text(
    text: str, part: str, *, ignore_case: bool, whole_word: bool
) -> tuple[int, int] | None:
    """The first place of a text in another; None for none."""
    return next(occurrences(text, part, ignore_case=ignore_case, whole_word=whole_word), None)


def check_texts(parts: Sequence[str], kind: str) -> tuple[str, ...]:
    """Validate the texts to look for.

    Raises:
        UsageError: There is none, or one is empty.
    """
    if not parts:
        raise UsageError(f"{kind}: name at least one text to look for")
    for part in parts:
        if not part:
            raise UsageError(f"{kind}: every output contains the empty text; name another")
    return tuple(parts)


@rule(about="completeness")
def contains(
    text: str | Expected = expected(),
    *,
    ignore_case: bool = False,
    whole_word: bool = False,
    field: str | None = None,
) -> Check:
    """The output contains this text.

    Args:
        text: The text; by default the case's `expected`.
        ignore_case: Ignore case, by Unicode case folding.
        whole_word: Match whole words only.
        field: Judge this part of a JSON output.

    Fails as: missing_text
    Advice: Write {text:or}{inside}.
    Negated: Do not write {text:or}{inside}.

    >>> print(contains("pod").check_text("The pod died."))
    pass: contains 'pod': 'The pod died.'
    >>> print(contains("pod", whole_word=True).check_text("A podcast."))
    fail: does not contain 'pod'
    """
    if not isinstance(text, Expected):
        check_texts([text], "contains")
    find = functools.partial(find_text, ignore_case=ignore_case, whole_word=whole_word)

    def check(output: JudgedOutput) -> Verdict:
        output_text = output.text or ""
        part = output.resolve_text(text, judge="contains")
        place = find(output_text, part)
        if place is None:
            return failed(f"does not contain {quote(part)}", code="missing_text", expected=part)
        return passed(f"contains {quote(part)}: {quote_around(output_text, *place)}")

    return on_output(field, check)


@rule(about="completeness")
def contains_any(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The output contains at least one of these texts.

    Args:
        texts: The texts.
        ignore_case: Ignore case, by Unicode case folding.
        whole_word: Match whole words only.
        field: Judge this part of a JSON output.

    Fails as: missing_text
    Advice: Write {texts:one}{inside}.
    Negated: Do not write {texts:or}{inside}.

    >>> print(contains_any("kubectl", "helm").check_text("Run helm ls."))
    pass: contains 'helm': 'Run helm ls.'
    """
    parts = check_texts(texts, "contains_any")
    find = functools.partial(find_text, ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            if place := find(text, part):
                return passed(f"contains {quote(part)}: {quote_around(text, *place)}")
        return failed(f"contains none of {quote_list(parts)}", code="missing_text", expected=parts)

    return on_text(field, check)


def verdict_on_parts(
    parts: Sequence[str], missing: Sequence[str], *, has: str, lacks: str, code: str
) -> Verdict:
    """The verdict on an output with several required parts; the score is the share it has."""
    if not missing:
        return passed(f"{has} {quote_list(parts)}")
    return failed(
        f"{lacks} {quote_list(missing)}",
        code=code,
        score=1 - len(missing) / len(parts),
        expected=list(parts),
        details={"missing": list(missing)},
    )


@rule(about="completeness")
def contains_all(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The output contains all of these texts; the score is the share it contains.

    Args:
        texts: The texts.
        ignore_case: Ignore case, by Unicode case folding.
        whole_word: Match whole words only.
        field: Judge this part of a JSON output.

    Fails as: missing_text
    Advice: Write {texts:and}{inside}.
    Negated: Leave out {texts:one}{inside}.

    >>> print(contains_all("cause", "fix").check_text("The cause is known."))
    fail (0.50): does not contain 'fix'
    """
    parts = check_texts(texts, "contains_all")
    find = functools.partial(find_text, ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        missing = [part for part in parts if find(text, part) is None]
        return verdict_on_parts(
            parts, missing, has="contains", lacks="does not contain", code="missing_text"
        )

    return on_text(field, check)


@rule(about="format")
def not_contains(
    *texts: str, ignore_case: bool = False, whole_word: bool = False, field: str | None = None
) -> Check:
    """The output contains none of these texts.

    Args:
        texts: The texts.
        ignore_case: Ignore case, by Unicode case folding.
        whole_word: Match whole words only.
        field: Judge this part of a JSON output.

    Fails as: forbidden_text
    Advice: Do not write {texts:or}{inside}.
    Negated: Write {texts:one}{inside}.

    >>> print(not_contains("as an AI", ignore_case=True).check_text("As an AI, I cannot say."))
    fail: contains 'as an AI': 'As an AI, I cannot say.'
    """
    parts = check_texts(texts, "not_contains")
    find = functools.partial(find_text, ignore_case=ignore_case, whole_word=whole_word)

    def check(text: str) -> Verdict:
        for part in parts:
            if place := find(text, part):
                excerpt = quote_around(text, *place)
                return failed(
                    f"contains {quote(part)}: {excerpt}", code="forbidden_text", actual=excerpt
                )
        return passed(f"does not contain {quote_list(parts)}")

    return on_text(field, check)


@rule(version=2, about="format")
def starts_with(
    *texts: str, ignore_case: bool = False, strip: bool = False, field: str | None = None
) -> Check:
    """The output starts with one of these texts.

    Args:
        texts: The texts.
        ignore_case: Ignore case, by Unicode case folding.
        strip: Strip white space and invisible marks of direction first.
        field: Judge this part of a JSON output.

    Fails as: wrong_start
    Advice: Start {it} with {texts:or}.
    Negated: Do not start {it} with {texts:or}.

    >>> print(starts_with("## Meaning").check_text("## Meaning of it"))
    pass: starts with '## Meaning'
    """
    return _edge(texts, at_start=True, ignore_case=ignore_case, strip=strip, field=field)


@rule(version=2, about="format")
def ends_with(
    *texts: str,
    ignore_case: bool = False,
    strip: bool = False,
    strip_quotes: bool = False,
    field: str | None = None,
) -> Check:
    """The output ends with one of these texts.

    Args:
        texts: The texts.
        ignore_case: Ignore case, by Unicode case folding.
        strip: Strip white space and invisible marks of direction first.
        strip_quotes: Then strip double quotation marks.
        field: Judge this part of a JSON output.

    Fails as: wrong_end
    Advice: End {it} with {texts:or}, and write nothing after it.
    Negated: Do not end {it} with {texts:or}.

    >>> print(ends_with(".", "!").check_text("Done"))
    fail: ends with 'Done', not with '.', '!'
    """
    return _edge(
        texts,
        at_start=False,
        ignore_case=ignore_case,
        strip=strip,
        strip_quotes=strip_quotes,
        field=field,
    )


def _edge(
    texts: Sequence[str],
    *,
    at_start: bool,
    ignore_case: bool,
    strip: bool,
    strip_quotes: bool = False,
    field: str | None,
) -> Check:
    """Build a check of the start or the end of a text, after stripping."""
    verb, kind = ("starts", "starts_with") if at_start else ("ends", "ends_with")
    parts = check_texts(texts, kind)
    edges = [part[0] if at_start else part[-1] for part in parts]
    if strip and not all(_EDGE.sub("", edge) for edge in edges):
        raise UsageError(f"{kind}: with strip, no text {verb} with white space\n  fix: remove it")
    expected = tuple(part.casefold() for part in parts) if ignore_case else parts
    longest = max(len(part) for part in parts) + 10

    def check(text: str) -> Verdict:
        stripped = _EDGE.sub("", text) if strip else text
        stripped = stripped.strip('"') if strip_quotes else stripped
        cased_output = stripped.casefold() if ignore_case else stripped
        is_match = cased_output.startswith if at_start else cased_output.endswith
        for part, cased_part in zip(parts, expected, strict=True):
            if is_match(cased_part):
                return passed(f"{verb} with {quote(part)}")
        edge_text = stripped[:longest] if at_start else stripped[-longest:]
        return failed(
            f"{verb} with {quote(edge_text)}, not with {quote_list(parts)}",
            code="wrong_start" if at_start else "wrong_end",
            expected=parts,
            actual=edge_text,
        )

    return on_text(field, check)


@rule(about="format")
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
    r"""The output matches a regular expression, anywhere.

    Python patterns, with the additions of the `regex` package (`\p{L}`, look-behind of any length).
    A search that takes too long gives no verdict.

    Args:
        pattern: The regular expression.
        whole: Match the whole output.
        ignore_case: Ignore case, by Unicode case folding.
        multiline: `^` and `$` match at every line.
        dotall: `.` matches line ends too.
        ascii_only: `\d`, `\w`, `\s` and `\b` match ASCII only.
        timeout_s: Seconds until the judge gives up, without a verdict.
        field: Judge this part of a JSON output.

    Fails as: no_match
    Advice: Write {it} so that it matches the regular expression {pattern:code}.
    Negated: Write {it} so that it does not match the regular expression {pattern:code}.

    >>> print(matches(r"SEV-[123]").check_text("This is SEV-2."))
    pass: matches 'SEV-[123]': 'This is SEV-2.'
    """
    if not pattern and not whole:
        raise UsageError("matches: every output matches the empty pattern; name another")
    compiled = compiled_pattern(
        pattern,
        ignore_case=ignore_case,
        multiline=multiline,
        dotall=dotall,
        ascii_only=ascii_only,
        kind="matches",
    )
    method = compiled.fullmatch if whole else compiled.search
    search = within_time(method, kind="matches", pattern=pattern, timeout_s=timeout_s)

    def check(text: str) -> Verdict:
        match = search(text)
        if match is None:
            return failed(f"does not match {quote(pattern)}", code="no_match", expected=pattern)
        return passed(f"matches {quote(pattern)}: {quote_around(text, *match.span())}")

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
        (regex.IGNORECASE | regex.FULLCASE if ignore_case else 0)
        | (regex.MULTILINE if multiline else 0)
        | (regex.DOTALL if dotall else 0)
        | (regex.ASCII if ascii_only else 0)
    )
    try:
        return regex.compile(pattern, flags)
    except (regex.error, ValueError) as error:
        raise UsageError(f"{kind}: {pattern!r} is not a regular expression: {error}") from error


def within_time(
    search: Callable[..., Any], *, kind: str, pattern: str, timeout_s: float
) -> Callable[[str], Any]:
    """Return a search of a text with a time limit, after which it raises a `JudgeError`.

    Args:
        search: A method of a compiled pattern.
        kind: The kind of rule, for the error.
        pattern: The pattern, for the error.
        timeout_s: The time limit in seconds.

    Raises:
        UsageError: The time limit is not above 0.
    """
    if timeout_s <= 0:
        raise UsageError(f"{kind}: timeout_s is a number above 0, not {timeout_s!r}")

    def find(text: str) -> Any:
        try:
            return search(text, timeout=timeout_s)
        except TimeoutError:
            raise JudgeError(
                f"{kind}: the pattern {quote(pattern)} took more than {timeout_s:g} s on an output"
                f" of {len(text)} characters\n  fix: write it without nested repetition",
                judge=f"{kind}({pattern})",
            ) from None

    return find


# Fullwidth, ideographic, small, small ideographic, Arabic.
_COMMA = re.compile("[,\uff0c\u3001\ufe50\ufe51\u060c]")
_QUOTES = frozenset("\"\" “” „“ „” ”” «» »« ‹› ›‹ 「」 『』 《》 '' ‘’ ‚‘ ‚’ ’’".split())  # noqa: RUF001, SIM905 - quotation marks are the point


@rule(about="format")
def is_upper_case(*, field: str | None = None) -> Check:
    """The output has letters, and all of them are capitals.

    Args:
        field: Judge this part of a JSON output.

    Fails as: wrong_case, no_letters
    Advice: Write {it} in capital letters only.
    Negated: Use lower case{inside}, too.

    >>> print(is_upper_case().check_text("DISK FULL on 3"))
    fail: 'o' is not a capital: 'DISK FULL on 3'
    """
    return _case(upper=True, field=field)


@rule(about="format")
def is_lower_case(*, field: str | None = None) -> Check:
    """The output has letters, and none of them is a capital.

    Args:
        field: Judge this part of a JSON output.

    Fails as: wrong_case, no_letters
    Advice: Write {it} in lower case only.
    Negated: Use capital letters{inside}, too.

    >>> print(is_lower_case().check_text("disk full"))
    pass: no capital
    """
    return _case(upper=False, field=field)


def _is_mixed(char: str) -> bool:
    """Return whether a character is title case, such as U+01C5: neither upper nor lower."""
    return char.istitle() and not char.isupper()


def _case(*, upper: bool, field: str | None) -> Check:
    def check(text: str) -> Verdict:
        if text.isupper() if upper else text.islower():
            return passed("all capitals" if upper else "no capital")
        for position, char in enumerate(text):
            if (char.islower() if upper else char.isupper()) or _is_mixed(char):
                word = "not a capital" if upper else "a capital"
                return failed(
                    f"{char!r} is {word}: {quote_around(text, position, position + 1)}",
                    code="wrong_case",
                )
        return failed("no letter that has a case", code="no_letters")

    return on_text(field, check)


@rule(about="format")
def no_comma(*, any_script: bool = False, field: str | None = None) -> Check:
    """The output has no comma.

    Args:
        any_script: Commas of other scripts, such as `、` and `،`, count too.
        field: Judge this part of a JSON output.

    Fails as: comma
    Advice: Do not use any commas{inside}.
    Negated: Use at least one comma{inside}.

    >>> print(no_comma().check_text("First, restart."))
    fail: a comma: 'First, restart.'
    """

    def check(text: str) -> Verdict:
        position = text.find(",")
        if position < 0 and any_script and (match := _COMMA.search(text)):
            position = match.start()
        if position < 0:
            return passed("no comma")
        return failed(f"a comma: {quote_around(text, position, position + 1)}", code="comma")

    return on_text(field, check)


@rule(about="format")
def is_quoted(*, any_marks: bool = False, field: str | None = None) -> Check:
    """The output is in double quotation marks.

    Args:
        any_marks: Pairs such as “…”, «…» and '…' count too.
        field: Judge this part of a JSON output.

    Fails as: not_quoted
    Advice: Put the whole of {it} between double quotation marks.
    Negated: Do not put {it} between quotation marks.

    >>> print(is_quoted().check_text('"All is well."'))
    pass: is in quotation marks
    """

    def check(text: str) -> Verdict:
        bare = text.strip()
        if len(bare) > 1 and bare[0] + bare[-1] in (_QUOTES if any_marks else {'""'}):
            return passed("is in quotation marks")
        return failed(f"is not in quotation marks: {quote(bare, 40)}", code="not_quoted")

    return on_text(field, check)


@rule(version=2, about="format")
def one_of(
    options: Sequence[str],
    *,
    anywhere: bool = False,
    ignore_case: bool = False,
    field: str | None = None,
) -> Check:
    """The output is one of these options, apart from white space around it.

    Args:
        options: The allowed options.
        anywhere: One of them may occur anywhere, as whole words.
        ignore_case: Ignore case, by Unicode case folding.
        field: Judge this part of a JSON output.

    Fails as: not_allowed
    Advice: Answer{inside} with one of these only: {options:choice}.
    Negated: Answer{inside} with none of these: {options:choice}.

    >>> print(one_of(["yes", "no"], ignore_case=True).check_text("No"))
    pass: is 'no'
    """
    if not options or not all(options):
        raise UsageError(f"one_of: name the options as a list of texts, not {options!r}")
    if not anywhere and (spaced := [option for option in options if option != option.strip()]):
        raise UsageError(f"one_of: write {spaced[0]!r} without white space around it")
    find = functools.partial(find_text, ignore_case=ignore_case, whole_word=True)
    fold = str.casefold if ignore_case else str

    def check(text: str) -> Verdict:
        bare = fold(text.strip())
        for option in options:
            if find(text, option) if anywhere else fold(option) == bare:
                return passed(f"{'contains' if anywhere else 'is'} {quote(option)}")
        verb = "contains none" if anywhere else f"{quote(text)} is none"
        return failed(
            f"{verb} of {quote_list(options)}",
            code="not_allowed",
            expected=list(options),
            actual=text[:200],
        )

    return on_text(field, check)


# The least probability of a letter sequence in a language, as in langdetect.
_FLOOR = 0.5 / 10_000
_SAMPLES = 50


@functools.cache
def _factory() -> Any:
    from langdetect.detector_factory import (  # type: ignore[import-untyped]  # it brings no types
        PROFILES_DIRECTORY,
        DetectorFactory,
    )

    factory: Any = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


def _grams(text: str) -> list[str]:
    """The letter sequences of a text that distinguish languages."""
    from langdetect.lang_detect_exception import (  # type: ignore[import-untyped]  # no types
        LangDetectException,
    )

    detector = _factory().create()
    try:
        detector.append(text)
        detector.cleaning_text()
        # The package's own loop over them takes 5 to 25 ms per output, this one about 1.
        grams: list[str] = detector._extract_ngrams()  # noqa: SLF001 - see above
    except LangDetectException:
        return []
    return grams


def language_chances(text: str) -> dict[str, float]:
    """The probability of each language, by its ISO 639-1 code; empty for no evidence.

    langdetect samples letter sequences at random until it is sure. This is the limit of its
    estimates: all sequences count, so the result is deterministic.
    """
    import numpy as np

    grams = Counter(_grams(text))
    if not grams:
        return {}
    factory = _factory()
    counts = np.fromiter(grams.values(), dtype=float)
    weights = [factory.word_lang_prob_map[gram] for gram in grams]
    logs = counts @ np.log(_FLOOR + np.array(weights))
    # The number of samples after which langdetect is sure of a clear text.
    chances = np.exp((logs - logs.max()) * min(1.0, _SAMPLES / counts.sum()))
    chances /= chances.sum()
    return dict(zip(factory.langlist, chances.tolist(), strict=True))


_CODES: Final = Lexicon("regauge.judges", file="data/formats.toml")
# Letters of languages that also use Chinese characters; without them a text is most likely Chinese.
_HAN: Final = re.compile("[\u3400-\u9fff]")
_SCRIPT_LETTERS: Final = {"ja": re.compile("[\u3041-\u30ff]"), "ko": re.compile("[\uac00-\ud7a3]")}
# A shorter text is unclear unless the likeliest language has at least the first probability and, if
# it is another one, the expected language less than the second. Stricter numbers make more short
# texts unclear.
_LETTERS_MIN = 20
_SURE = 0.9
_UNLIKELY = 1e-3


def _language(code: str) -> str:
    """The language of a code, without its region.

    Raises:
        UsageError: The language cannot be recognised.
    """
    full = code.lower().replace("_", "-")
    bare = full.partition("-")[0]
    aliases, languages = _CODES.entry("language_aliases"), _CODES.words("languages")
    for name in (full, aliases.get(full), bare, aliases.get(bare)):
        if name in languages:
            return name
    raise UsageError(
        f"is_language: {code!r} cannot be recognised; there are {', '.join(sorted(languages))}"
    )


@rule(version=3, about="format", required_module="langdetect")
def is_language(
    code: str, *, unclear: Literal["abstain", "pass", "fail"] = "abstain", field: str | None = None
) -> Check:
    """The output is in this language.

    By letter sequences of the first 10,000 characters. Fewer than 20 letters with weak evidence are
    unclear; names, numbers and code mislead.

    Args:
        code: ISO 639-1 code; regions are ignored (`pt-br`), except `zh-cn` and `zh-tw`.
        unclear: The outcome for a text without a clear language, such as "42".
        field: Judge this part of a JSON output.

    Fails as: wrong_language, no_language
    Advice: Write {it} in the language with the code {code:code}.
    Negated: Do not write {it} in the language with the code {code:code}.

    >>> print(is_language("de").check_text("Die Platte ist voll und der Dienst steht."))
    pass: written in 'de'
    """
    expected = _language(code)

    def undecided(reason: str) -> Verdict:
        if unclear == "pass":
            return passed(reason)
        if unclear == "fail":
            return failed(reason, code="no_language", expected=expected)
        return abstained(reason, code="no_language")

    def check(text: str) -> Verdict:
        chances = language_chances(text)
        if not chances:
            return undecided("no language shows")
        if _HAN.search(text):
            excluded = {
                name for name, letters in _SCRIPT_LETTERS.items() if not letters.search(text)
            }
            remaining_chance = sum(
                chance for name, chance in chances.items() if name not in excluded
            )
            chances = {
                name: 2 * _UNLIKELY if name in excluded else chance / remaining_chance
                for name, chance in chances.items()
            }
        if expected == "zh":
            chances["zh"] = chances.pop("zh-cn") + chances.pop("zh-tw")
        likeliest = max(chances, key=lambda name: chances[name])
        is_short = sum(map(str.isalpha, text[: 10 * _LETTERS_MIN])) < _LETTERS_MIN
        is_sure = chances[likeliest] >= _SURE and (
            likeliest == expected or chances[expected] < _UNLIKELY
        )
        if is_short and not is_sure:
            return undecided(f"too short to recognise its language: {quote(text)}")
        if likeliest == expected:
            return passed(f"written in {quote(likeliest)}")
        return failed(
            f"written in {quote(likeliest)} (probability {format_number(chances[likeliest])}),"
            f" not {quote(expected)}",
            code="wrong_language",
            expected=expected,
            actual=likeliest,
        )

    return on_text(field, check)
