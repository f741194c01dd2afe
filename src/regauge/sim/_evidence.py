"""The parts of a judging prompt, and the words and figures that support a statement."""

from __future__ import annotations

import ast
import json
import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from regauge.lexicon import Lexicon
from regauge.sim._text import (
    NUMBER_WORDS,
    is_list,
    is_object,
    plain,
    read_json,
    sentences,
    stems,
    without_bullet,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.prompts import Message

_RE: Final = Lexicon("regauge.sim", "evidence")


_DATE_CHARS: Final = 10  # 2026-11-29
# Words of a report for the moments in a summary's keys.
_ALIKE: Final = (
    frozenset({"start", "begin", "began", "first", "detect", "occur", "fault"}),
    frozenset({"resolv", "end", "clos", "restor", "resolution"}),
)
# Numbers below without another source were chosen by hand, so that `tests/unit/sim` passes. A
# change moves verdicts of the simulated judge and makes its recordings stale.

# Bounds of time for long sources and outputs. Tests pass with 15 and 60 statements.
_LINES_MAX: Final = 4_000
_STATEMENTS_MAX: Final = 30
# Shorter sentences state nothing. Tests fail at 1 and 3.
_STATEMENT_WORDS: Final = 2
# The nearness from which other figures or a denial contradict a statement whose figures are
# elsewhere in the source. Tests pass at 0.6 and 0.8.
_SAME_PASSAGE: Final = 0.7
# The score without the figures. Tests fail at 0.2 and pass at 0.4.
_CONTRADICTED: Final = 0.3
# The nearness from which foreign figures or a denial count. Tests pass at 0.3 and 0.5.
_CONTRADICTION: Final = 0.4
# More words of a value are a text of its own. Tests pass at 4 and 8.
_LABELLED_WORDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The support of one statement by a source.

    Attributes:
        score: From 0 (no support) to 1 (full support).
        contradicted: The source has other figures for the same thing, or denies it.
        missing: Figures and names that are not in the source.
        passage: The nearest passage of the source; empty without one.
    """

    score: float
    contradicted: bool = False
    missing: tuple[str, ...] = ()
    passage: str


def words_of(text: str) -> frozenset[str]:
    """Return the content words of a text, without negations and addresses."""
    return frozenset(
        word for word in stems(_RE.address.sub(" ", text)) if not word.startswith("not_")
    )


def _figures(text: str) -> list[str]:
    matches = (m[0].lstrip("0").replace(".", ":") or "0" for m in _RE.figure.finditer(text))
    figures = (str(NUMBER_WORDS.get(figure.lower(), figure)) for figure in matches)
    # A date with an additional digit in front is still that date.
    return [f[-_DATE_CHARS:] if _RE.mistyped.fullmatch(f) else f for f in figures]


def figures(text: str) -> frozenset[str]:
    """Return numbers, times and dates without leading zeros, with colons instead of points.

    >>> sorted(figures("At 09.05 two of 12 pods, 3.5 GB"))
    ['12', '2', '3:5', '9:05']
    """
    return frozenset(_figures(text))


def without_figures(text: str) -> str:
    """Return the text without its figures.

    >>> without_figures("Down for 20 minutes")
    'Down for minutes'
    """
    return " ".join(_RE.figure.sub(" ", text).split())


def overlap(required: frozenset[str], words: frozenset[str]) -> float:
    """Return the share of the required words that occur; 1 if none is required."""
    return len(required & words) / len(required) if required else 1.0


def similarity(first: frozenset[str], other: frozenset[str]) -> float:
    """Return the shared words over the root of both counts, from 0 to 1."""
    return len(first & other) / math.sqrt(len(first) * len(other)) if first and other else 0.0


@lru_cache(maxsize=500)
def sections_of(text: str) -> dict[str, str]:
    """Return the text below each heading of a Markdown text, by heading in lower case."""
    heads = list(_RE.heading.finditer(text))
    ends = (*(head.start() for head in heads[1:]), len(text))
    sections = zip(heads, ends, strict=False)
    return {head["name"].strip().lower(): text[head.end() : end] for head, end in sections}


def _leaves(value: Any, key: str) -> list[str]:
    if is_object(value):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, str(name))]
    if is_list(value):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    if value is None or not (text := str(value)).strip():
        return []
    label = key.replace("_", " ")
    if len(text.split()) > _LABELLED_WORDS:
        return [s for line in text.split("\n") for s in sentences(line)]
    return [f"{label}: {text}" if label else text]


@lru_cache(maxsize=500)
def statements_of(text: str) -> tuple[str, ...]:
    """Split a text into statements: sentences, bullets, and the values of a JSON object.

    >>> statements_of('{"title": "Door stuck", "impact": null}')
    ('title: Door stuck',)
    """
    body = text.strip()
    # A JSON object on separate lines, with any text around it.
    begin, end = f"\n{body}".find("\n{\n"), f"{body}\n".rfind("\n}\n")
    body = body[begin : end + 2] if 0 <= begin < end else body
    if body.startswith(("{", "[")) and (value := read_json(body)) is not None:
        return tuple(_leaves(value, ""))[:_STATEMENTS_MAX]
    statements: list[str] = []
    for line in _RE.fence.sub("", body).split("\n"):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        text_of_line = plain(re.sub(r"^(?:[-*•>]|\d+[.)])\s+", "", bare))
        statements += [s for s in sentences(text_of_line) if len(s.split()) >= _STATEMENT_WORDS]
    return tuple(dict.fromkeys(statements or sentences(plain(body))))[:_STATEMENTS_MAX]


@lru_cache(maxsize=200)
def _lines(source: str) -> tuple[tuple[str, frozenset[str]], ...]:
    lines: list[str] = []
    for line in source.split("\n"):
        lines += sentences(plain(without_bullet(line)))
        if len(lines) > _LINES_MAX:
            break
    return tuple((line, words_of(line)) for line in lines)


@lru_cache(maxsize=200)
def _passages(source: str) -> tuple[tuple[str, frozenset[str]], ...]:
    lines = [line for line, _ in _lines(source)]
    # A heading and the text below it, or two sentences, may support a statement together.
    passages = [*lines, *(f"{a} {b}" for a, b in pairwise(lines))]
    return tuple((line, words_of(line)) for line in passages)


def _is_denied(statement: str, passage: str) -> bool:
    claim_words, passage_words = set(stems(statement)), set(stems(passage))
    negated = {word[4:] for word in claim_words if word.startswith("not_")}
    theirs = {word[4:] for word in passage_words if word.startswith("not_")}
    return bool((negated ^ theirs) & words_of(statement) & words_of(passage))


def _related_words(words: frozenset[str]) -> frozenset[str]:
    return words.union(*(group for group in _ALIKE if group & words))


def _find_labelled(key: str, value: str, source: str) -> Support | None:
    """Return the support for `key: value` if the value is a figure, which needs its key nearby."""
    claim_figures = figures(value)
    if not claim_figures or len(value.split()) > _LABELLED_WORDS:
        return None
    key_words, lines = _related_words(words_of(key)), _lines(source)
    near = [(text, words) for text, words in lines if claim_figures <= figures(text)]
    for text, words in near:
        if key_words & _related_words(words):
            return Support(score=1.0, passage=text)
    other_line = next(
        (t for t, words in lines if key_words & words and figures(t) - claim_figures), ""
    )
    missing = tuple(sorted(claim_figures - figures(source)))
    score = _CONTRADICTED if other_line or missing else 0.5
    passage = other_line or (near[0][0] if near else "")
    return Support(score=score, contradicted=bool(other_line), missing=missing, passage=passage)


def nearest_line(key: str, source: str) -> str:
    """Return the line with figures that states what a key is about; empty without one."""
    key_words = words_of(key)
    kin = _related_words(key_words)
    lines = [line for line in _lines(source) if kin & line[1] and figures(line[0])]
    return max(lines, key=lambda t: (len(kin & t[1]), len(key_words & t[1])), default=("", kin))[0]


@lru_cache(maxsize=8_000)
def measure_support(statement: str, source: str) -> Support:
    """Return the support of a statement by the words and figures of a source.

    The score is half the share of its words in the nearest passage, plus half the share in the
    source, to the power of 1.5. A missing figure, or another one in the nearest passage, costs most
    of the score. Missing names, other negations, guesses stated as facts and reordered figures cost
    some.
    """
    label = _RE.label.match(statement)
    if label and (support := _find_labelled(label["key"], label["value"], source)) is not None:
        return support
    claim_words = words_of(statement)
    passages = sorted(_passages(source), key=lambda p: (-overlap(claim_words, p[1]), len(p[1])))[:3]
    passage, nearest_words = passages[0] if passages else ("", frozenset[str]())
    near = overlap(claim_words, nearest_words)
    score = (0.5 * near + 0.5 * overlap(claim_words, words_of(source))) ** 1.5
    claim_figures = figures(statement)
    foreign_figures, other_figures = (
        claim_figures - figures(source),
        figures(passage) - claim_figures,
    )
    contradicted = False
    if foreign_figures:
        score *= 0.35
        contradicted = near >= _CONTRADICTION and bool(other_figures)
    elif claim_figures and not any(claim_figures <= figures(text) for text, _ in passages):
        contradicted = near >= _SAME_PASSAGE and bool(other_figures)
        score *= _CONTRADICTED if contradicted else 0.75
    lowered = source.lower()
    names = {name for name in _RE.name.findall(statement) if name.lower() not in lowered}
    if names:
        score *= 1 - 0.5 * min(1.0, len(names) / 2)
    if near >= _CONTRADICTION and _is_denied(statement, passage):
        score *= 0.6
        contradicted = contradicted or near >= _SAME_PASSAGE
    if _RE.hedge.search(passage) and not _RE.hedge.search(statement):
        score *= 0.4
    in_order, other = _figures(statement), _figures(passage)
    if len(in_order) > 1 and in_order != other and sorted(in_order) == sorted(other):
        score *= 0.5
    missing = (*sorted(foreign_figures), *sorted(names))
    return Support(score=score, contradicted=contradicted, missing=missing, passage=passage)


_SHEET_RE: Final = Lexicon("regauge.sim", "sheet")


_TAGS: Final[dict[str, str]] = {
    tag: part for part, tags in _SHEET_RE.entry("tags").items() for tag in tags.split()
}

_ANY_NAME: Final = "NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The parts of one judging prompt.

    Attributes:
        criteria: All text on how to judge.
        parts: The texts to judge by, by kind.
        other_texts: Texts of an unknown kind, in order.
    """

    criteria: str
    parts: Mapping[str, str]
    other_texts: tuple[str, ...] = ()

    def text(self, *names: str) -> str:
        """Return the first of these parts that is present; empty without one."""
        return next((self.parts[name] for name in names if self.parts.get(name)), "")

    @property
    def judged_text(self) -> str:
        """The judged text."""
        return self.text("answer", "text", "talk", "first")

    @property
    def ground(self) -> str:
        """The text to compare with: a source, else an input or any other text."""
        source = join_list(self.text("source")) or "\n".join(self.other_texts)
        return source or self.text("input", "task", "tools")


def _pieces(text: str) -> list[tuple[str, str]]:
    """Split the text in order: into tagged parts with their name, and others without a name."""
    tags = list(_SHEET_RE.tag.finditer(text))
    closing: dict[tuple[str, str], list[int]] = {}
    for index, tag in enumerate(tags):
        if tag["close"]:
            closing.setdefault((tag["name"], tag["mark"] or ""), []).append(index)
    pieces: list[tuple[str, str]] = []
    start = end = 0
    for index, tag in enumerate(tags):
        if index < start or tag["close"] or tag["name"] == _ANY_NAME:
            continue
        # A tag with attributes is closed by its bare name.
        mark = tag["mark"] or ""
        places = closing.get((tag["name"], "" if mark[:1].isspace() else mark), [])
        place = bisect_right(places, index)
        if place == len(places):
            continue
        close = tags[places[place]]
        pieces += [("", text[end : tag.start()]), (tag["name"], text[tag.end() : close.start()])]
        start, end = places[place] + 1, close.end()
    return [*pieces, ("", text[end:])]


def _tagged_sheet(messages: Sequence[Message]) -> Sheet | None:
    parts: dict[str, str] = {}
    outside: list[str] = []
    other_texts: list[str] = []
    for name, body in (piece for message in messages for piece in _pieces(message.content)):
        part = _TAGS.get(name.lower())
        if not name:
            outside.append(body)
        elif part is None or part in parts:
            other_texts.append(body)
        else:
            parts[part] = body.strip()
    if not parts.keys() & {"answer", "first", "source", "items"}:
        return None
    paragraphs = "\n".join(outside).split("\n\n")
    # The explanation of the tags is not a criterion.
    criteria = "\n\n".join(text for text in paragraphs if f"<{_ANY_NAME}" not in text)
    return Sheet(criteria=criteria, parts=parts, other_texts=tuple(other_texts))


def _unfence(messages: Sequence[Message]) -> tuple[str, list[tuple[int, int]]]:
    """Return a conversation without tags around fields, and the spans of these fields.

    The words that explain the tags are left out, too.
    """
    has_fields = any(_SHEET_RE.field.search(message.content) for message in messages)
    explanation = f"<{_ANY_NAME}-"
    text = "\n\n".join(
        message.content
        for message in messages
        if not (has_fields and message.role == "system" and explanation in message.content)
    )
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    start = length = 0
    for field in _SHEET_RE.field.finditer(text):
        before = text[start : field.start()]
        pieces += [before, field["text"]]
        spans.append((length + len(before), length + len(before) + len(field["text"])))
        start, length = field.end(), spans[-1][1]
    return "".join([*pieces, text[start:]]), spans


def text_of(messages: Sequence[Message]) -> str:
    """Return the text of a conversation, without tags around the fields of a metric."""
    return _unfence(messages)[0]


def _headed_sheet(messages: Sequence[Message]) -> Sheet:
    text, fields = _unfence(messages)

    def is_outside(match: re.Match[str]) -> bool:
        return not any(start <= match.start() < end for start, end in fields)

    example_ends = filter(is_outside, _SHEET_RE.examples_end.finditer(text))
    begin = max((match.end() for match in example_ends), default=0)
    heads = list(filter(is_outside, _SHEET_RE.heading.finditer(text, begin)))
    starts = [*(head.start() for head in heads), len(text)]
    parts: dict[str, str] = {}
    for head, end in zip(heads, starts[1:], strict=True):
        body = text[head.end() : end]
        tail = _SHEET_RE.tail.search(body)
        body = (body[: tail.start()] if tail is not None else body).strip().strip("-").strip()
        if body:
            # The last part is the judged one; earlier parts are examples.
            parts[str(head.lastgroup)] = body
    criteria = parts.pop("criteria", "")
    return Sheet(criteria=criteria or text[: starts[0]], parts=parts)


def read_sheet(messages: Sequence[Message]) -> Sheet:
    """Split a judging prompt into its parts, by tags if it has them, else by its headings."""
    return _tagged_sheet(messages) or _headed_sheet(messages)


def join_list(text: str) -> str:
    """Join a text that is a list of texts."""
    return "\n".join(parse_list(text)) if text.lstrip().startswith("[") else text


def _literal(text: str) -> Any:
    """Return the JSON or Python value of a text; None if it is neither."""
    value = read_json(text)
    if value is not None:
        return value
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def parse_list(text: str) -> list[str]:
    r"""Parse a list in a prompt: JSON, Python, bullets, or one entry a line.

    >>> parse_list("['a b', 'c']"), parse_list("- a b\n- c")
    (['a b', 'c'], ['a b', 'c'])
    """
    body = text.strip()
    calls = _SHEET_RE.tool_call.findall(body)
    if calls:
        return [" ".join(call.split()) for call in calls]
    if body.startswith(("[", "{")):
        value = _literal(body)
        if value is None:  # instructions may follow the list
            value = _literal(body.partition("\n")[0])
        if is_object(value):
            value = next((inner for inner in value.values() if is_list(inner)), [value])
        if is_list(value):
            return [e if isinstance(e, str) else json.dumps(e, default=str) for e in value]
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) > 1:
        return [re.sub(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+", "", line).strip() for line in lines]
    return list(statements_of(body)) or ([body] if body else [])
