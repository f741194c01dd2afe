"""Limits, sections and forbidden content that the prompt asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from regauge.sim.text import NUMBER_WORDS

__all__ = ["Limits", "Section", "read_limits", "read_sections", "time_format"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long an answer, or one field of it, may be. None is no limit.

    Attributes:
        emphatic: The prompt insists ("strictly", "never more than", "hard limit").
    """

    words_max: int | None = None
    words_min: int | None = None
    sentences_max: int | None = None
    bullets: int | None = None
    chars_max: int | None = None
    emphatic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One Markdown section that is asked for by name, and what is to stand in it."""

    name: str
    description: str = ""


_N: Final = r"(?P<n>\d{1,5}|" + "|".join(NUMBER_WORDS) + ")"
_AT_MOST: Final = (
    r"(?:at most|no more than|not more than|never more than|maximum(?: of)?|max\.?|up to|under"
    r"|below|fewer than"
    r"|less than|within|limit(?:ed)?(?: it| the \w+)? to|not exceed|exceed|in|about|around"
    r"|exactly|<=?|≤)"
)
_WORDS_MAX: Final = re.compile(
    rf"{_AT_MOST}\s+{_N}[\s-]*words?|{_N.replace('?P<n>', '?P<m>')}[\s-]*words?\s+"
    r"(?:or (?:less|fewer)|at most|max(?:imum)?|limit|summary)",
    re.IGNORECASE,
)
_WORDS_MIN: Final = re.compile(
    rf"(?:at least|no fewer than|minimum(?: of)?|not less than|more than)\s+{_N}\s*words?",
    re.IGNORECASE,
)
_SENTENCES: Final = re.compile(
    rf"(?:{_AT_MOST}\s+)?(?:a |an )?(?:{_N}|(?P<single>single))[\s-]+(?:short |plain |concise "
    rf")?sentences?",
    re.IGNORECASE,
)
_BULLETS: Final = re.compile(
    rf"(?:{_AT_MOST}\s+)?{_N}[\s-]+(?:short |concise |key )?(?:bullets?|bullet points?|items?"
    rf"|points?)",
    re.IGNORECASE,
)
_CHARS: Final = re.compile(rf"{_AT_MOST}\s+{_N}\s*char(?:acter)?s?", re.IGNORECASE)
_EMPHATIC: Final = re.compile(
    r"\b(?:strict(?:ly)?|never more|hard limit|must not exceed|do not exceed|at most|no more "
    r"than)\b",
    re.IGNORECASE,
)
_SECTION_CUE: Final = re.compile(
    r"(?:\bsections?\b|\bheadings?\b|\bheaders?\b|\bstructure\b)", re.IGNORECASE
)
_HASHED: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])?[ \t]*[`\"*]*#{1,4}[ \t]+(?P<name>[A-Z][\w /&-]{1,40}?)[`\"*]*"
    r"[ \t]*(?:(?::|—|–|-)[ \t]*(?P<text>[^\n]*))?$",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_INLINE_HASHED: Final = re.compile(r"[`\"]#{1,4} (?P<name>[A-Z][\w /&-]{1,40}?)[`\"]")
_LISTED: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+[`\"*_]*(?P<name>[A-Z][\w /&-]{1,40}?)[`\"*_]*"
    r"[ \t]*(?:(?::|—|–|-)[*_]*[ \t]*(?P<text>[^\n]*(?:\n[ \t]{2,}(?![-*•])[^\n]+)*))?$",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_ENUMERATED: Final = re.compile(
    r"\b(?:sections?|headings?|headers?)\b[^.\n]{0,40}?[: ]\s*(?P<list>[`\"*]*[A-Z][\w-]*(?: "
    r"[A-Z&][\w-]*)*[`\"*]*"
    r"(?:\s*(?:,\s*and|,|and|/|;)\s*[`\"*]*[A-Z][\w-]*(?: [A-Z&][\w-]*)*[`\"*]*)+)"
)
_TIME_FORMAT: Final = re.compile(
    r"YYYY[-/.]MM[-/.]DD(?:[ T]HH:MM(?::SS)?Z?)?|DD[./-]MM[./-]YYYY(?: HH:MM)?"
)
_ISO: Final = re.compile(r"\bISO[ -]?8601\b", re.IGNORECASE)


def _value(match: re.Match[str], *names: str) -> int:
    text = next(match[name] for name in names if match[name])
    return NUMBER_WORDS.get(text.lower(), 0) or int(text)


@lru_cache(maxsize=500)
def read_limits(text: str) -> Limits:
    """The limits that a text states.

    >>> read_limits("at most 80 words, in one sentence").words_max
    80
    """
    words, fewest = _WORDS_MAX.search(text), _WORDS_MIN.search(text)
    ends, points, chars = _SENTENCES.search(text), _BULLETS.search(text), _CHARS.search(text)
    return Limits(
        words_max=_value(words, "n", "m") if words else None,
        words_min=_value(fewest, "n") if fewest else None,
        sentences_max=(1 if ends["single"] else _value(ends, "n")) if ends else None,
        bullets=_value(points, "n") if points else None,
        chars_max=_value(chars, "n") if chars else None,
        emphatic=_EMPHATIC.search(text) is not None,
    )


def _listed_sections(text: str) -> list[Section]:
    for cue in _SECTION_CUE.finditer(text):
        end_of_line = text.find("\n", cue.end())
        if end_of_line < 0 or not text[cue.start() : end_of_line].rstrip().endswith(":"):
            continue
        block = re.split(
            r"\n[ \t]*\n(?![ \t]*(?:[-*•]|\d+[.)]))", text[end_of_line:].lstrip("\n"), maxsplit=1
        )[0]
        found = [
            Section(name=m["name"].strip(), description=(m["text"] or "").strip())
            for m in _LISTED.finditer(block)
        ]
        if len(found) > 1:
            return found
    return []


def read_sections(text: str) -> tuple[Section, ...]:
    """The Markdown sections that are asked for by name, in order.

    >>> [s.name for s in read_sections("Write the sections Meaning, Impact and Next Steps.")]
    ['Meaning', 'Impact', 'Next Steps']
    """
    hashed = [
        Section(name=m["name"].strip(), description=(m["text"] or "").strip())
        for m in _HASHED.finditer(text)
    ]
    if len(hashed) > 1:
        return tuple(hashed)
    inline = [Section(name=m["name"]) for m in _INLINE_HASHED.finditer(text)]
    if len(inline) > 1:
        return tuple(inline)
    listed = _listed_sections(text)
    if listed:
        return tuple(listed)
    match = _ENUMERATED.search(text)
    if match is None:
        return ()
    names = re.split(r"\s*(?:,\s*and\b|,|\band\b|/|;)\s*", match["list"])
    return tuple(Section(name=name.strip('`"* ')) for name in names if name.strip('`"* '))


def time_format(text: str) -> str | None:
    """How times are to be written, as a pattern such as `YYYY-MM-DD HH:MM`, or None.

    >>> time_format("Write times as YYYY-MM-DD HH:MM.")
    'YYYY-MM-DD HH:MM'
    """
    match = _TIME_FORMAT.search(text)
    if match is not None:
        return match[0]
    return "YYYY-MM-DDTHH:MM:SS" if _ISO.search(text) else None
