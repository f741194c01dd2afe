"""What speaks in words and figures for a statement: the only evidence this model has."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from regauge.sim._document import plain
from regauge.sim._shapes import is_list, is_object
from regauge.sim._words import sentences, stems

__all__ = ["Finding", "figures", "overlap", "statements_of", "supported", "words_of"]

_FIGURE: Final = re.compile(r"\d+(?:[.:,/-]\d+)*")
_NAME: Final = re.compile(
    r"(?<![\w`])(?:[A-Za-z]\w*(?:[._/-]\w+)+|[A-Z]\w*[A-Z]\w*|(?<=[a-z,] )[A-Z][a-z]{2,})"
)
_FENCE: Final = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
_STATEMENTS_MAX: Final = 30
_STATEMENT_WORDS: Final = 3
_BEST_PASSAGES: Final = 3
_SAME_PASSAGE: Final = 0.7
_FOREIGN_FIGURE: Final = 0.35
_CONTRADICTED: Final = 0.3
_MOVED_FIGURE: Final = 0.75
_NEGATED: Final = 0.6
_FOREIGN_NAME: Final = 0.5
_CONTRADICTION: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How far a source carries one statement.

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
    """The content words of a text, negations left out."""
    return frozenset(word for word in stems(text) if not word.startswith("not_"))


def figures(text: str) -> frozenset[str]:
    """Numbers, times and dates as they are written, without leading zeros.

    >>> sorted(figures("At 09:05 two of 12 pods, 3.5 GB"))
    ['12', '3.5', '9:05']
    """
    return frozenset(match.lstrip("0") or "0" for match in _FIGURE.findall(text))


def overlap(wanted: frozenset[str], given: frozenset[str]) -> float:
    """The share of the wanted words that are given; 1 where nothing is wanted."""
    return len(wanted & given) / len(wanted) if wanted else 1.0


def _leaves(value: Any, key: str) -> list[str]:
    if is_object(value):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, str(name))]
    if is_list(value):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    if value is None:
        return []
    text = str(value)
    named = key.replace("_", " ")
    if len(text.split()) > 2 * _STATEMENT_WORDS:
        return [s for line in text.split("\n") for s in sentences(line)]
    return [f"{named}: {text}" if named else text]


@lru_cache(maxsize=500)
def statements_of(text: str) -> tuple[str, ...]:
    """A text as single statements: sentences, bullets, and the values of a JSON object.

    >>> statements_of('{"title": "Door stuck", "impact": null}')
    ('title: Door stuck',)
    """
    body = text.strip()
    if body.startswith(("{", "[")):
        try:
            value: Any = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if is_object(value) or is_list(value):
            return tuple(_leaves(value, ""))[:_STATEMENTS_MAX]
    found: list[str] = []
    for line in _FENCE.sub("", body).split("\n"):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        told = plain(re.sub(r"^(?:[-*•>]|\d+[.)])\s+", "", bare))
        found += [s for s in sentences(told) if len(s.split()) >= _STATEMENT_WORDS]
    return tuple(dict.fromkeys(found or sentences(plain(body))))[:_STATEMENTS_MAX]


@lru_cache(maxsize=200)
def _passages(source: str) -> tuple[tuple[str, frozenset[str]], ...]:
    lines: list[str] = []
    for line in source.split("\n"):
        told = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", line))
        lines += sentences(told)
    # A heading and what follows it, or a sentence and the next, may carry a statement together.
    joined = [*lines, *(f"{a} {b}" for a, b in pairwise(lines))]
    return tuple((line, words_of(line)) for line in joined)


def _denied(statement: str, passage: str) -> bool:
    said, there = set(stems(statement)), set(stems(passage))
    ours = {word[4:] for word in said if word.startswith("not_")}
    theirs = {word[4:] for word in there if word.startswith("not_")}
    return bool((ours ^ theirs) & words_of(statement) & words_of(passage))


@lru_cache(maxsize=8_000)
def supported(statement: str, source: str) -> Finding:
    """How far the words and figures of a source carry a statement.

    Half of the score is the share of its words in the nearest passage, half that in the whole
    source. A figure that the source lacks, or that its nearest passage has otherwise, costs most
    of the score; a name that is lacking and a negation that differs cost some.
    """
    wanted = words_of(statement)
    passages = _passages(source)
    ranked = sorted(
        passages, key=lambda p: (-overlap(wanted, p[1]), len(p[1]))
    )[:_BEST_PASSAGES]  # fmt: skip
    nearest, nearest_words = ranked[0] if ranked else ("", frozenset[str]())
    near = overlap(wanted, nearest_words)
    score = 0.5 * near + 0.5 * overlap(wanted, words_of(source))
    said, there = figures(statement), figures(source)
    foreign = said - there
    contradicted = False
    if foreign:
        score *= _FOREIGN_FIGURE
        contradicted = near >= _CONTRADICTION and bool(figures(nearest) - said)
    elif said and not any(said <= figures(text) for text, _ in ranked):
        contradicted = near >= _SAME_PASSAGE and bool(figures(nearest) - said)
        score *= _CONTRADICTED if contradicted else _MOVED_FIGURE
    lowered = source.lower()
    names = {name for name in _NAME.findall(statement) if name.lower() not in lowered}
    if names:
        score *= 1 - _FOREIGN_NAME * min(1.0, len(names) / 2)
    if near >= _CONTRADICTION and _denied(statement, nearest):
        score *= _NEGATED
        contradicted = contradicted or near >= _SAME_PASSAGE
    return Finding(
        score=score,
        contradicted=contradicted,
        missing=tuple(sorted(foreign) + sorted(names)),
        passage=nearest,
    )
