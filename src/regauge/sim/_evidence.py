"""The words and figures that support a statement: the only evidence of this model."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from regauge.lexicon import Lexicon
from regauge.sim._document import plain
from regauge.sim._text import NUMBER_WORDS, is_list, is_object, sentences, stems

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
    contradicted: bool
    missing: tuple[str, ...]
    passage: str


def words_of(text: str) -> frozenset[str]:
    """The content words of a text, negations and addresses left out."""
    return frozenset(
        word for word in stems(_RE.address.sub(" ", text)) if not word.startswith("not_")
    )


def _figures(text: str) -> list[str]:
    found = (m[0].lstrip("0").replace(".", ":") or "0" for m in _RE.figure.finditer(text))
    said = (str(NUMBER_WORDS.get(figure.lower(), figure)) for figure in found)
    # A date with a digit too many at its front is still that date.
    return [one[-_DATE_CHARS:] if _RE.mistyped.fullmatch(one) else one for one in said]


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


def overlap(wanted: frozenset[str], given: frozenset[str]) -> float:
    """The share of the wanted words that are given; 1 where nothing is wanted."""
    return len(wanted & given) / len(wanted) if wanted else 1.0


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The shared words over the root of both counts, from 0 to 1."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0


@lru_cache(maxsize=500)
def sections_of(text: str) -> dict[str, str]:
    """The text below each heading of a Markdown text, by the heading in lower case."""
    heads = list(_RE.heading.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)][: len(heads)]
    return {
        head["name"].strip().lower(): text[head.end() : end]
        for head, end in zip(heads, ends, strict=True)
    }


def _leaves(value: Any, key: str) -> list[str]:
    if is_object(value):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, str(name))]
    if is_list(value):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    if value is None:
        return []
    text = str(value)
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
    if body.startswith(("{", "[")):
        try:
            value: Any = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if is_object(value) or is_list(value):
            return tuple(_leaves(value, ""))[:_STATEMENTS_MAX]
    found: list[str] = []
    for line in _RE.fence.sub("", body).split("\n"):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        told = plain(re.sub(r"^(?:[-*•>]|\d+[.)])\s+", "", bare))
        found += [s for s in sentences(told) if len(s.split()) >= _STATEMENT_WORDS]
    return tuple(dict.fromkeys(found or sentences(plain(body))))[:_STATEMENTS_MAX]


@lru_cache(maxsize=200)
def _lines(source: str) -> tuple[tuple[str, frozenset[str]], ...]:
    lines: list[str] = []
    for line in source.split("\n"):
        told = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", line))
        lines += sentences(told)
        if len(lines) > _LINES_MAX:
            break
    return tuple((line, words_of(line)) for line in lines)


@lru_cache(maxsize=200)
def _passages(source: str) -> tuple[tuple[str, frozenset[str]], ...]:
    lines = [line for line, _ in _lines(source)]
    # A heading and what follows it, or a sentence and the next, may carry a statement together.
    joined = [*lines, *(f"{a} {b}" for a, b in pairwise(lines))]
    return tuple((line, words_of(line)) for line in joined)


def _denied(statement: str, passage: str) -> bool:
    said, there = set(stems(statement)), set(stems(passage))
    ours = {word[4:] for word in said if word.startswith("not_")}
    theirs = {word[4:] for word in there if word.startswith("not_")}
    return bool((ours ^ theirs) & words_of(statement) & words_of(passage))


def _kin(words: frozenset[str]) -> frozenset[str]:
    return words.union(*(group for group in _ALIKE if group & words))


def _labelled(key: str, value: str, source: str) -> Finding | None:
    """The evidence for `key: value`, where the value is a figure: it has to stand by its key."""
    said = figures(value)
    if not said or len(value.split()) > _LABELLED_WORDS:
        return None
    wanted = _kin(words_of(key))
    near: list[str] = []
    for text, words in _lines(source):
        if said <= figures(text):
            near.append(text)
            if wanted & _kin(words):
                return Finding(score=1.0, contradicted=False, missing=(), passage=text)
    told = next((t for t, w in _lines(source) if wanted & w and figures(t) - said), "")
    missing = tuple(sorted(said - figures(source)))
    score = _CONTRADICTED if told or missing else _UNRELATED
    return Finding(
        score=score, contradicted=bool(told), missing=missing, passage=told or next(iter(near), "")
    )


def nearest(key: str, source: str) -> str:
    """The line with figures that states what a key asks for; empty when there is none."""
    wanted = words_of(key)
    kin = _kin(wanted)
    told = [(text, words) for text, words in _lines(source) if kin & words and figures(text)]
    return min(told, key=lambda t: (-len(kin & t[1]), -len(wanted & t[1])), default=("", kin))[0]


@lru_cache(maxsize=8_000)
def supported(statement: str, source: str) -> Finding:
    """The support of a statement by the words and figures of a source.

    Half of the score is the share of its words in the nearest passage, half that in the whole
    source, to the power of 1.5. A figure that the source lacks, or that its nearest passage has
    otherwise, costs most of the score; names that are lacking, negations that differ, guesses told
    as facts and figures in another order cost some.
    """
    label = _RE.label.match(statement)
    found = _labelled(label["key"], label["value"], source) if label is not None else None
    if found is not None:
        return found
    wanted = words_of(statement)
    passages = _passages(source)
    ranked = sorted(
        passages, key=lambda p: (-overlap(wanted, p[1]), len(p[1]))
    )[:_BEST_PASSAGES]  # fmt: skip
    passage, nearest_words = ranked[0] if ranked else ("", frozenset[str]())
    near = overlap(wanted, nearest_words)
    score = (0.5 * near + 0.5 * overlap(wanted, words_of(source))) ** _STRICT
    said, there = figures(statement), figures(source)
    foreign = said - there
    contradicted = False
    if foreign:
        score *= _FOREIGN_FIGURE
        contradicted = near >= _CONTRADICTION and bool(figures(passage) - said)
    elif said and not any(said <= figures(text) for text, _ in ranked):
        contradicted = near >= _SAME_PASSAGE and bool(figures(passage) - said)
        score *= _CONTRADICTED if contradicted else _MOVED_FIGURE
    lowered = source.lower()
    names = {name for name in _RE.name.findall(statement) if name.lower() not in lowered}
    if names:
        score *= 1 - _FOREIGN_NAME * min(1.0, len(names) / 2)
    if near >= _CONTRADICTION and _denied(statement, passage):
        score *= _NEGATED
        contradicted = contradicted or near >= _SAME_PASSAGE
    if _RE.hedge.search(passage) and not _RE.hedge.search(statement):
        score *= _CERTAIN
    in_order, told = _figures(statement), _figures(passage)
    if len(in_order) > 1 and sorted(in_order) == sorted(told) and in_order != told:
        score *= _REORDERED
    return Finding(
        score=score,
        contradicted=contradicted,
        missing=tuple(sorted(foreign) + sorted(names)),
        passage=passage,
    )
