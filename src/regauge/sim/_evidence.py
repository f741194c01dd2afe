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
from typing import TYPE_CHECKING, Any, Final, Literal

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


_DATE_CHARS: Final = 10
# What a report calls the moments that a summary's keys ask for.
_ALIKE: Final = (
    frozenset({"start", "begin", "began", "first", "detect", "occur", "fault"}),
    frozenset({"resolv", "end", "clos", "restor", "resolution"}),
)
_LINES_MAX: Final = 4_000
_STATEMENTS_MAX: Final = 30
_STATEMENT_WORDS: Final = 2
_BEST_PASSAGES: Final = 3
_SAME_PASSAGE: Final = 0.7
_FOREIGN_FIGURE: Final = 0.35
_CONTRADICTED: Final = 0.3
_MOVED_FIGURE: Final = 0.75
_NEGATED: Final = 0.6
_STRICT: Final = 1.5
_CERTAIN: Final = 0.4
_REORDERED: Final = 0.5
_UNRELATED: Final = 0.5
_FOREIGN_NAME: Final = 0.5
_CONTRADICTION: Final = 0.4
_LABELLED_WORDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The support of one statement by a source.

    Attributes:
        score: From 0 (nothing of it is there) to 1 (all of it is).
        contradicted: The source speaks of the same thing with other figures, or denies it.
        missing: Figures and names that the source lacks.
        passage: The passage of the source that comes nearest; empty when there is none.
    """

    score: float
    contradicted: bool = False
    missing: tuple[str, ...] = ()
    passage: str


def words_of(text: str) -> frozenset[str]:
    """The content words of a text, negations and addresses left out."""
    return frozenset(
        word for word in stems(_RE.address.sub(" ", text)) if not word.startswith("not_")
    )


def _figures(text: str) -> list[str]:
    matches = (m[0].lstrip("0").replace(".", ":") or "0" for m in _RE.figure.finditer(text))
    figures = (str(NUMBER_WORDS.get(figure.lower(), figure)) for figure in matches)
    # A date with a digit too many at its front is still that date.
    return [f[-_DATE_CHARS:] if _RE.mistyped.fullmatch(f) else f for f in figures]


def figures(text: str) -> frozenset[str]:
    """Numbers, times and dates without leading zeros, points written as colons.

    >>> sorted(figures("At 09.05 two of 12 pods, 3.5 GB"))
    ['12', '2', '3:5', '9:05']
    """
    return frozenset(_figures(text))


def without_figures(text: str) -> str:
    """The text with its figures taken out.

    >>> without_figures("Down for 20 minutes")
    'Down for minutes'
    """
    return " ".join(_RE.figure.sub(" ", text).split())


def overlap(required: frozenset[str], words: frozenset[str]) -> float:
    """The share of the wanted words that are given; 1 where nothing is wanted."""
    return len(required & words) / len(required) if required else 1.0


def likeness(first: frozenset[str], other: frozenset[str]) -> float:
    """The shared words over the root of both counts, from 0 to 1."""
    return len(first & other) / math.sqrt(len(first) * len(other)) if first and other else 0.0


@lru_cache(maxsize=500)
def sections_of(text: str) -> dict[str, str]:
    """The text below each heading of a Markdown text, by the heading in lower case."""
    heads = list(_RE.heading.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    sections = zip(heads, ends, strict=False)
    return {head["name"].strip().lower(): text[head.end() : end] for head, end in sections}


def _leaves(value: Any, key: str) -> list[str]:
    if is_object(value):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, str(name))]
    if is_list(value):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    text = str(value) if value is not None else ""
    if not text.strip():
        return []
    named = key.replace("_", " ")
    if len(text.split()) > _LABELLED_WORDS:
        return [s for line in text.split("\n") for s in sentences(line)]
    return [f"{named}: {text}" if named else text]


@lru_cache(maxsize=500)
def statements_of(text: str) -> tuple[str, ...]:
    """A text as single statements: sentences, bullets, and the values of a JSON object.

    >>> statements_of('{"title": "Door stuck", "impact": null}')
    ('title: Door stuck',)
    """
    body = text.strip()
    # A JSON object on lines of its own, whatever is said around it.
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
    # A heading and what follows it, or a sentence and the next, may carry a statement together.
    joined = [*lines, *(f"{a} {b}" for a, b in pairwise(lines))]
    return tuple((line, words_of(line)) for line in joined)


def _is_denied(statement: str, passage: str) -> bool:
    claim_words, passage_words = set(stems(statement)), set(stems(passage))
    negated = {word[4:] for word in claim_words if word.startswith("not_")}
    theirs = {word[4:] for word in passage_words if word.startswith("not_")}
    return bool((negated ^ theirs) & words_of(statement) & words_of(passage))


def _kin(words: frozenset[str]) -> frozenset[str]:
    return words.union(*(group for group in _ALIKE if group & words))


def _find_labelled(key: str, value: str, source: str) -> Finding | None:
    """The evidence for `key: value`, where the value is a figure: it has to stand by its key."""
    claimed = figures(value)
    if not claimed or len(value.split()) > _LABELLED_WORDS:
        return None
    key_words = _kin(words_of(key))
    near: list[str] = []
    for text, words in _lines(source):
        if claimed <= figures(text):
            near.append(text)
            if key_words & _kin(words):
                return Finding(score=1.0, passage=text)
    line_there = next((t for t, w in _lines(source) if key_words & w and figures(t) - claimed), "")
    missing = tuple(sorted(claimed - figures(source)))
    score = _CONTRADICTED if line_there or missing else _UNRELATED
    return Finding(
        score=score,
        contradicted=bool(line_there),
        missing=missing,
        passage=line_there or next(iter(near), ""),
    )


def nearest(key: str, source: str) -> str:
    """The line with figures that states what a key asks for; empty when there is none."""
    key_words = words_of(key)
    kin = _kin(key_words)
    lines_there = [(text, words) for text, words in _lines(source) if kin & words and figures(text)]
    return min(
        lines_there, key=lambda t: (-len(kin & t[1]), -len(key_words & t[1])), default=("", kin)
    )[0]


@lru_cache(maxsize=8_000)
def supported(statement: str, source: str) -> Finding:
    """The support of a statement by the words and figures of a source.

    Half of the score is the share of its words in the nearest passage, half that in the whole
    source, to the power of 1.5. A figure that the source lacks, or that its nearest passage has
    otherwise, costs most of the score; names that are lacking, negations that differ, guesses told
    as facts and figures in another order cost some.
    """
    label = _RE.label.match(statement)
    labelled = _find_labelled(label["key"], label["value"], source) if label is not None else None
    if labelled is not None:
        return labelled
    claim_words = words_of(statement)
    passages = sorted(_passages(source), key=lambda p: (-overlap(claim_words, p[1]), len(p[1])))
    ranked = passages[:_BEST_PASSAGES]
    passage, nearest_words = ranked[0] if ranked else ("", frozenset[str]())
    near = overlap(claim_words, nearest_words)
    score = (0.5 * near + 0.5 * overlap(claim_words, words_of(source))) ** _STRICT
    claimed, stated = figures(statement), figures(source)
    foreign = claimed - stated
    contradicted = False
    if foreign:
        score *= _FOREIGN_FIGURE
        contradicted = near >= _CONTRADICTION and bool(figures(passage) - claimed)
    elif claimed and not any(claimed <= figures(text) for text, _ in ranked):
        contradicted = near >= _SAME_PASSAGE and bool(figures(passage) - claimed)
        score *= _CONTRADICTED if contradicted else _MOVED_FIGURE
    lowered = source.lower()
    names = {name for name in _RE.name.findall(statement) if name.lower() not in lowered}
    if names:
        score *= 1 - _FOREIGN_NAME * min(1.0, len(names) / 2)
    if near >= _CONTRADICTION and _is_denied(statement, passage):
        score *= _NEGATED
        contradicted = contradicted or near >= _SAME_PASSAGE
    if _RE.hedge.search(passage) and not _RE.hedge.search(statement):
        score *= _CERTAIN
    in_order, other = _figures(statement), _figures(passage)
    if len(in_order) > 1 and in_order != other and sorted(in_order) == sorted(other):
        score *= _REORDERED
    return Finding(
        score=score,
        contradicted=contradicted,
        missing=tuple(sorted(foreign) + sorted(names)),
        passage=passage,
    )


_SHEET_RE: Final = Lexicon("regauge.sim", "sheet")


Part = Literal[
    "answer", "expected", "source", "input", "text", "items", "criteria", "bands", "first",
    "second", "question", "contestants", "mapping", "task", "talk", "role", "topics", "tools",
    "score", "findings", "rest",
]  # fmt: skip

_TAGS: Final[dict[str, Part]] = {
    tag: part for part, tags in _SHEET_RE.entry("tags").items() for tag in tags.split()
}

_ANY_NAME: Final = "NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One judging prompt, taken apart.

    Attributes:
        criteria: Everything that says how to judge.
        parts: The texts to judge by, by what they are.
        others: Named texts whose name says nothing known, in order.
    """

    criteria: str
    parts: Mapping[Part, str]
    others: tuple[tuple[str, str], ...] = ()

    def text(self, *names: Part) -> str:
        """The first of these parts that is there; empty when none is."""
        return next((self.parts[name] for name in names if self.parts.get(name)), "")

    @property
    def judged(self) -> str:
        """The judged text."""
        return self.text("answer", "text", "talk", "first")

    @property
    def ground(self) -> str:
        """The text to compare with: a source, else an input or any other text."""
        others = "\n".join(text for _, text in self.others)
        return joined(self.text("source")) or others or self.text("input", "task", "tools")


def _pieces(text: str) -> list[tuple[str, str]]:
    """The text in order: between tags under their name, and outside them under no name."""
    tags = list(_SHEET_RE.tag.finditer(text))
    closing: dict[tuple[str, str], list[int]] = {}
    for index, tag in enumerate(tags):
        if tag["close"]:
            closing.setdefault((tag["name"], tag["mark"] or ""), []).append(index)
    pieces: list[tuple[str, str]] = []
    index = end = 0
    while index < len(tags):
        tag = tags[index]
        # A tag with attributes is closed by its bare name.
        mark = tag["mark"] or ""
        places = closing.get((tag["name"], "" if mark[:1].isspace() else mark), [])
        place = bisect_right(places, index)
        if tag["close"] or tag["name"] == _ANY_NAME or place == len(places):
            index += 1
            continue
        close = tags[places[place]]
        pieces += [("", text[end : tag.start()]), (tag["name"], text[tag.end() : close.start()])]
        index, end = places[place] + 1, close.end()
    return [*pieces, ("", text[end:])]


def _tagged_sheet(messages: Sequence[Message]) -> Sheet | None:
    parts: dict[Part, str] = {}
    others: list[tuple[str, str]] = []
    outside: list[str] = []
    for message in messages:
        for tag, body in _pieces(message.content):
            name = tag.lower()
            part = _TAGS.get(name)
            if not name:
                outside.append(body)
            elif part is None or part in parts:
                others.append((name, body))
            else:
                parts[part] = body.strip()
    if not parts.keys() & {"answer", "first", "source", "items"}:
        return None
    paragraphs = "\n".join(outside).split("\n\n")
    # How the texts are marked is no criterion to judge them by.
    criteria = "\n\n".join(text for text in paragraphs if f"<{_ANY_NAME}" not in text)
    return Sheet(criteria=criteria, parts=parts, others=tuple(others))


def _unfence(messages: Sequence[Message]) -> tuple[str, list[tuple[int, int]]]:
    """A conversation without tags around fields, and where those fields are.

    The words that explain the tags are left out, too.
    """
    has_fields = any(_SHEET_RE.field_opens.search(message.content) for message in messages)
    text = "\n\n".join(
        message.content
        for message in messages
        if not (has_fields and message.role == "system" and f"<{_ANY_NAME}-" in message.content)
    )
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    at = length = 0
    while (tag := _SHEET_RE.field_opens.search(text, at)) is not None:
        closing = f"\n</field.{tag['name']}-{tag['mark']}>"
        end = text.find(closing, tag.end())
        if end < 0:
            break
        before, inside = text[at : tag.start()], text[tag.end() : end]
        pieces += [before, inside]
        spans.append((length + len(before), length + len(before) + len(inside)))
        at, length = end + len(closing), spans[-1][1]
    return "".join([*pieces, text[at:]]), spans


def text_of(messages: Sequence[Message]) -> str:
    """The text of a conversation, without tags around the fields of a metric."""
    return _unfence(messages)[0]


def _headed_sheet(messages: Sequence[Message]) -> Sheet:
    text, fields = _unfence(messages)

    def is_outside(match: re.Match[str]) -> bool:
        return not any(start <= match.start() < end for start, end in fields)

    ends = filter(is_outside, _SHEET_RE.examples_end.finditer(text))
    begin = max((match.end() for match in ends), default=0)
    heads = list(filter(is_outside, _SHEET_RE.heading.finditer(text, begin)))
    parts: dict[Part, str] = {}
    first = heads[0].start() if heads else len(text)
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        body = text[head.end() : end]
        tail = _SHEET_RE.tail.search(body)
        body = (body[: tail.start()] if tail is not None else body).strip().strip("-").strip()
        part: Any = head.lastgroup
        if body:
            # What comes last is what is asked about; what came before is an example of it.
            parts[part] = body
    criteria = parts.pop("criteria", "")
    return Sheet(criteria=criteria or text[:first], parts=parts)


def read_sheet(messages: Sequence[Message]) -> Sheet:
    """Take a judging prompt apart, by tags where it has them, else by its headings."""
    return _tagged_sheet(messages) or _headed_sheet(messages)


def joined(text: str) -> str:
    """A text that is shown as a list of texts, put together again."""
    return "\n".join(listed(text)) if text.lstrip().startswith("[") else text


def _literal(text: str) -> Any:
    """The JSON or Python value of a text; None if it is neither."""
    value = read_json(text)
    if value is not None:
        return value
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def listed(text: str) -> list[str]:
    r"""A list as a prompt shows one: JSON, Python, bullets, or one entry a line.

    >>> listed("['a b', 'c']"), listed("- a b\n- c")
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
            return [
                entry if isinstance(entry, str) else json.dumps(entry, default=str)
                for entry in value
            ]
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) > 1:
        return [re.sub(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+", "", line).strip() for line in lines]
    return list(statements_of(body)) or ([body] if body else [])
