"""Rules by IFEval's definitions, where these differ from common usage.

YAML and `regauge judges list` name them like other rules; Python imports them from here.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from regauge.errors import UsageError
from regauge.judges._rule import on_text
from regauge.judges._rule_factory import Place, rule
from regauge.judges._types import Verdict, failed, passed, quote_around
from regauge.judges._words import next_word, opens_sentence, period_ends
from regauge.judges.rules._counts import (
    Count,
    CountLimits,
    count_check,
    count_filled_parts,
    count_rule,
    paragraph_splitter,
    parse_limits,
)
from regauge.judges.rules._text import language_chances
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.judges._rule import Check

__all__ = [
    "asterisk_part_count",
    "bracket_count",
    "capital_word_count",
    "detected_language",
    "has_postscript",
    "has_title",
    "letter_count",
    "line_bullet_count",
    "numbered_part_count",
    "paragraph_starts_with",
    "punkt_sentence_count",
    "response_count",
]

_STAR_BULLET = re.compile(r"^[^\S\n]*\*[^\*].*$", re.MULTILINE)
_DASH_BULLET = re.compile(r"^[^\S\n]*-.*$", re.MULTILINE)
_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")


_TITLE = re.compile(r"<<[^\n]+>>")
_POSTSCRIPTS = {
    "p.p.s": r"p\.\s?p\.\s?s",
    "p.p.s.": r"p\.\s?p\.\s?s",
    "p.s.": r"p\.\s?s\.",
}
_EDGE_MARKS = frozenset(".,?!'\"")


@rule(about="format", required_module="langdetect")
def detected_language(language: str, *, field: str | None = None) -> Check:
    """The most likely language by langdetect, even for short texts.

    A text without telling letters passes.

    Args:
        language: langdetect's code, such as `en` or `zh-cn`.
        field: Judge this part of a JSON output.

    Fails as: wrong_language
    Advice: Write {it} in the language with the code {language:code}.
    Negated: Do not write {it} in the language with the code {language:code}.

    >>> from regauge.judges.ifeval import detected_language
    >>> print(detected_language("en").check_text("The disk is full."))
    pass: most likely 'en'
    """
    from langdetect.detector_factory import PROFILES_DIRECTORY  # type: ignore[import-untyped]

    codes = sorted(path.name for path in Path(PROFILES_DIRECTORY).iterdir())
    if language not in codes:
        problem = f"{language!r} cannot be detected; there are {', '.join(codes)}"
        raise UsageError(f"detected_language: {problem}")

    def check(text: str) -> Verdict:
        chances = language_chances(text)
        likeliest = max(chances, key=lambda name: chances[name], default=language)
        if likeliest == language:
            return passed(f"most likely {likeliest!r}")
        return failed(
            f"most likely {likeliest!r}, not {language!r}", code="wrong_language", actual=likeliest
        )

    return on_text(field, check)


@count_rule("sentence")
def punkt_sentence_count(text: str) -> Count:
    """The number of sentences, by the English Punkt tokenizer.

    The number of a list item ("1. Item") is a sentence; line ends, headings and marks of other
    scripts end none.

    >>> from regauge.judges.ifeval import punkt_sentence_count
    >>> print(punkt_sentence_count(exactly=2).check_text("1. Look at the disk."))
    pass: 2 sentences, exactly 2 wanted
    """
    return len(sentences_in(text))


@count_rule("bullet")
def line_bullet_count(text: str) -> Count:
    r"""The number of lines that begin with `*` or `-`, also in code and rules.

    Lines that begin with `**` do not count.

    >>> from regauge.judges.ifeval import line_bullet_count
    >>> print(line_bullet_count(at_most=3).check_text("Do:\n* this\n- that"))
    pass: 2 bullets, at most 3 wanted
    """
    return len(_STAR_BULLET.findall(text)) + len(_DASH_BULLET.findall(text))


@count_rule("highlight")
def asterisk_part_count(text: str) -> Count:
    """The number of parts between asterisks on one line: `*one*` or `**two**`.

    Advice: Highlight {bounds} parts{inside} between asterisks, like `*this*`.
    Negated: Highlight {unbounded} parts{inside} between asterisks.

    >>> from regauge.judges.ifeval import asterisk_part_count
    >>> print(asterisk_part_count(at_least=2).check_text("It is *full*, **now**."))
    pass: 2 highlights, at least 2 wanted
    """
    parts = (*_EMPHASIS.findall(text), *_STRONG.findall(text))
    return sum(1 for part in parts if part.strip("*").strip())


@count_rule("placeholder")
def bracket_count(text: str) -> Count:
    """The number of parts in square brackets, such as `[name]`, links included.

    Advice: Use {bounds} placeholders in square brackets{inside}, like `[name]`.
    Negated: Use {unbounded} placeholders in square brackets{inside}.

    >>> from regauge.judges.ifeval import bracket_count
    >>> print(bracket_count(exactly=0).check_text("Dear [name],"))
    fail: 1 placeholder, exactly 0 wanted
    """
    return sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1])


@count_rule("word in capitals", "words in capitals")
def capital_word_count(text: str) -> Count:
    """The number of words in capitals; `I` and `API-DOCS` are one each.

    Advice: Write {bounds} words all in capitals{inside}.
    Negated: Write {unbounded} words all in capitals{inside}.

    >>> from regauge.judges.ifeval import capital_word_count
    >>> print(capital_word_count(at_most=1).check_text("DO NOT restart it."))
    fail (0.50): 2 words in capitals, at most 1 wanted
    """
    return len(capital_words(text))


@rule(about="format")
def has_postscript(marker: str = "P.S.", *, field: str | None = None) -> Check:
    """The output has a postscript that begins with a marker, in any case.

    `P.S.` and `P.P.S` may have spaces between the letters.

    Args:
        marker: The start of the postscript.
        field: Judge this part of a JSON output.

    Fails as: no_postscript
    Advice: Close with a postscript that begins with {marker:or}.
    Negated: Do not add a postscript that begins with {marker:or}.

    >>> from regauge.judges.ifeval import has_postscript
    >>> print(has_postscript().check_text("Fixed. P. S. Look at the logs too."))
    pass: a postscript: 'Fixed. P. S. Look at the logs to…'
    """
    bare = marker.strip().lower()
    if not bare:
        raise UsageError("has_postscript: the marker cannot be empty")
    pattern = re.compile(_POSTSCRIPTS.get(bare, re.escape(bare)))

    def check(text: str) -> Verdict:
        match = pattern.search(text.lower())
        if match is None:
            return failed(f"no postscript {quote(marker)}", code="no_postscript", expected=marker)
        return passed(f"a postscript: {quote_around(text, *match.span())}")

    return on_text(field, check)


@rule(about="format")
def has_title(*, field: str | None = None) -> Check:
    """The output has a title in double angular brackets: `<<title>>`, on one line.

    Args:
        field: Judge this part of a JSON output.

    Fails as: no_title
    Advice: Give {it} a title in double angular brackets, like `<<title>>`.
    Negated: Do not give {it} a title in double angular brackets.

    >>> from regauge.judges.ifeval import has_title
    >>> print(has_title().check_text("<<Disk full>> It was full."))
    pass: a title: '<<Disk full>>'
    """

    def check(text: str) -> Verdict:
        for title in _TITLE.findall(text):
            if title.lstrip("<").rstrip(">").strip():
                return passed(f"a title: {quote(title)}")
        return failed("no title in << >>", code="no_title")

    return on_text(field, check)


@rule(about="format")
def response_count(n: Place = 2, *, separator: str = "******", field: str | None = None) -> Check:
    """The output has `n` different responses, separated by a marker.

    Args:
        n: The number of responses.
        separator: The text between them.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many, empty_response, same_response
    Advice: Give {n} different responses, with {separator:or} between them.
    Negated: Do not give {n} responses with {separator:or} between them.

    >>> from regauge.judges.ifeval import response_count
    >>> print(response_count(2).check_text("Restart it. ****** Roll it back."))
    pass: 2 different responses
    """
    parse_limits("response_count", exactly=n)
    if not separator:
        raise UsageError("response_count: a separator cannot be empty")

    def check(text: str) -> Verdict:
        parts = text.split(separator)
        count, gap = count_filled_parts(parts)
        if gap:
            return failed(f"nothing between two {quote(separator)}", code="empty_response")
        if count != n:
            return failed(
                f"{plural(count, 'response')}, {n} wanted",
                code="too_few" if count < n else "too_many",
                score=min(count, n) / max(count, n),
                actual=count,
            )
        if len({part.strip() for part in parts if part.strip()}) != n:
            return failed("two responses are the same", code="same_response")
        return passed(f"{n} different responses")

    return on_text(field, check)


@rule(about="format")
def paragraph_starts_with(
    word: str, *, nth: Place = 1, separator: str | None = None, field: str | None = None
) -> Check:
    r"""A paragraph starts with a word; case, quotes and punctuation are ignored.

    Args:
        word: The word.
        nth: The paragraph, from 1.
        separator: The text between paragraphs, such as `***`; by default blank lines.
        field: Judge this part of a JSON output.

    Fails as: too_few, wrong_start
    Advice: Start paragraph {nth} of {it} with {word:or}.
    Negated: Do not start paragraph {nth} of {it} with {word:or}.

    >>> from regauge.judges.ifeval import paragraph_starts_with
    >>> print(paragraph_starts_with("then", nth=2).check_text("First.\n\nThen, stop."))
    pass: paragraph 2 starts with 'then'
    """
    if not word.strip():
        raise UsageError("paragraph_starts_with: the word cannot be empty")
    split = paragraph_splitter(separator, "paragraph_starts_with")
    keyword = word.lower()

    def check(text: str) -> Verdict:
        parts = split(text)
        count = sum(1 for part in parts if part.strip())
        if nth > count:
            return failed(f"{plural(count, 'paragraph')}, so none is number {nth}", code="too_few")
        words = parts[nth - 1].split()
        if not words:
            return failed(f"paragraph {nth} is empty", code="too_few")
        bare = words[0].lstrip("'").lstrip('"')
        chars = itertools.takewhile(lambda char: char not in _EDGE_MARKS, bare)
        answer_text = "".join(char.lower() for char in chars)
        if answer_text == keyword:
            return passed(f"paragraph {nth} starts with {quote(word)}")
        return failed(
            f"paragraph {nth} starts with {quote(answer_text)}, not with {quote(word)}",
            code="wrong_start",
            expected=word,
            actual=answer_text,
        )

    return on_text(field, check)


@rule(about="format")
def letter_count(letter: str, *, field: str | None = None, **limits: Unpack[CountLimits]) -> Check:
    """The number of occurrences of a character, in any case.

    Args:
        letter: One character.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many
    Advice: Use the character {letter:or} {bounds} times{inside}.
    Negated: Use the character {letter:or} {unbounded} times{inside}.

    >>> from regauge.judges.ifeval import letter_count
    >>> print(letter_count("s", at_most=2).check_text("Sees"))
    pass: 2 times 's', at most 2 wanted
    """
    if len(letter) != 1:
        raise UsageError(f"letter_count: one character is wanted, not {letter!r}")
    lower = letter.lower()
    return count_check(
        "letter_count",
        lambda text: text.lower().count(lower),
        f"time {quote(letter)}",
        f"times {quote(letter)}",
        field=field,
        **limits,
    )


@rule(about="format")
def numbered_part_count(
    word: str, *, field: str | None = None, **limits: Unpack[CountLimits]
) -> Check:
    """The number of parts marked by a word and a number, such as `SECTION 1`.

    Args:
        word: The word before the number; case counts.
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.
        field: Judge this part of a JSON output.

    Fails as: too_few, too_many
    Advice: Divide {it} into {bounds} parts, each marked by {word:or} and its number.
    Negated: Divide {it} into {unbounded} parts marked by {word:or} and a number.

    >>> from regauge.judges.ifeval import numbered_part_count
    >>> print(numbered_part_count("Step", at_least=2).check_text("Step 1: look. Step 2: act."))
    pass: 2 parts 'Step N', at least 2 wanted
    """
    if not word.strip():
        raise UsageError("numbered_part_count: the word cannot be empty")
    pattern = re.compile(rf"{re.escape(word)}\s?\d+")
    return count_check(
        "numbered_part_count",
        lambda text: len(pattern.findall(text)),
        f"part '{word} N'",
        f"parts '{word} N'",
        field=field,
        **limits,
    )


# A mark that may end a sentence, before white space or before a closing mark.
_END = re.compile("[.?!](?=[)\";}\\]*:@'({\\[!?\u201d]|\\s+\\S)")
_LAST_WORD = re.compile(r"[^\s()\[\]{}\";:*@!?]+\Z")
_CLOSERS = re.compile("[\"')\\]}\u201d]+(?=\\s|\\Z)")


def sentences_in(text: str) -> list[str]:
    """The sentences of a text.

    A sentence ends at `?`, `!` or a period. Periods of abbreviations, initials, numbers and inner
    ellipses end none, nor do line ends.

    >>> sentences_in('Dr. No came at 5 p.m. today. "Why?" he asked.')
    ['Dr. No came at 5 p.m. today.', '"Why?"', 'he asked.']
    """
    return list(filter(None, _sentences(text)))


def _ends_sentence(text: str, position: int) -> bool:
    following = next_word(text, position + 1)
    if text[position - 1 : position] == ".":
        return opens_sentence(following) is True
    before = _LAST_WORD.search(text, max(0, position - 60), position)
    return period_ends(before[0] if before else "", following)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for mark in _END.finditer(text):
        position = mark.start()
        if text[position] == "." and not _ends_sentence(text, position):
            continue
        if text[position + 1 : position + 2] in {"!", "?"}:
            continue
        closers = _CLOSERS.match(text, position + 1)
        end = closers.end() if closers else position + 1
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()


_APART = re.compile(r"\.{2,}|--|[;\u2012-\u2015@#$%&?!*()\[\]{}<>\"`«»“”„\u2018\u2019]|[:,](?!\d)")
_CLITIC = re.compile(
    r"(?i)\b(CAN)(NOT)\b|\b(GIM|LEM)(ME)\b|\b(GON|WAN)(NA)\b|\b(GOT)(TA)\b|\b(D)('YE)\b"
    r"|(?<=[^' ])('(?:S|M|D|LL|RE|VE))(?=\s|$)|(?<=\S)(N'T)(?=\s|$)"
)


def tokens(text: str, *, marks: bool = True) -> list[str]:
    """Split a text into words and marks; without `marks`, into words.

    Punctuation and brackets are separate, hyphens and slashes are parts of words. A period is
    separate only at the end of the text, so `3.50` and `e.g.` stay words. `don't` is `do`, `n't`;
    `it's` is `it`, `'s`.

    >>> tokens("It's $3.50 (net), isn't it?")
    ['It', "'s", '$', '3.50', '(', 'net', ')', ',', 'is', "n't", 'it', '?']
    """
    spaced = _APART.sub(r" \g<0> " if marks else " ", text.rstrip())
    if spaced.endswith(".") and not spaced.endswith(".."):
        spaced = spaced[:-1] + " ."
    spaced = _CLITIC.sub(lambda match: " " + " ".join(filter(None, match.groups())) + " ", spaced)
    return spaced.split()


def capital_words(text: str) -> list[str]:
    """The words whose letters are all capitals, `I` among them.

    Words are those of `tokens`; `DON'T` is two, `DO` and `N'T`.

    >>> capital_words("I SAID: read the API-DOCS (v2), NOW!")
    ['I', 'SAID', 'API-DOCS', 'NOW']
    """
    return [word for word in tokens(text, marks=False) if word.isupper()]
