"""Verdicts that prose states: `Score: 4/5`, `Verdict: pass`, `A is better`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.judges.model._numbers import SCORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.prompts import RubricSpec

__all__ = ["stated_in", "stated_label"]

_MARKS: Final = r"[*_`\"' \t]{0,6}"
_GRADE: Final = re.compile(
    rf"\b(?:score|rating|grade)\b{_MARKS}(?:is|of|:|=)?{_MARKS}:?{_MARKS}"
    # `a score of 1 to 5` names the scale.
    rf"(?P<value>{SCORE})(?![\w/%])(?![ \t]*(?:to|and|-|\u2013)[ \t]*[0-9])",
    re.IGNORECASE,
)
_BARE_GRADE: Final = re.compile(
    r"(?<![\w./-])(?P<value>[0-9]+(?:\.[0-9]+)?[ \t]*(?:/|out[ \t]of)[ \t]*[0-9]+)"
    r"(?![\w/%]|\.[0-9])"
)


def stated_in(prose: str, spec: RubricSpec) -> Iterator[tuple[int, str, str]]:
    """What prose states as verdicts: the place, the words, and the value."""
    if spec.kind != "graded":
        keys = (spec.verdict_key, "verdict")
        yield from _labels_in(prose, {label: label for label in spec.labels}, keys)
        return
    if re.fullmatch(SCORE, prose.strip()):
        yield 0, prose.strip(), prose.strip()
        return
    named = [(m.start(), m[0], m["value"]) for m in _GRADE.finditer(prose)]
    if named:
        yield from named
        return
    bare = [(m.start(), m[0], m["value"]) for m in _BARE_GRADE.finditer(prose)]
    # `3/5` may count steps; only where nothing else of the kind is said does it grade.
    if len({value.replace(" ", "") for _, _, value in bare}) == 1:
        yield bare[-1]


def stated_label(text: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """The last verdict that a text states in words, with its place: the better one of `names`.

    A verdict is `NAME is better` (or preferred, the winner, the better one), `winner: NAME`,
    or a line with the name and nothing else.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.

    >>> stated_label("B is better at first. No: A is better.", {"A": "first", "B": "second"})
    ('first', 26)
    """
    found = [(at, label) for at, _, label in _labels_in(text, names, ("winner", "verdict"))]
    at, label = max(found, default=(-1, ""))
    return (label, at) if at >= 0 else None


def _labels_in(
    text: str, names: Mapping[str, str], keys: tuple[str, ...]
) -> Iterator[tuple[int, str, str]]:
    labels = {name.casefold(): label for name, label in names.items()}
    # Longest first, so that no name is read as another that it begins with.
    one_of = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    name = rf"(?<!\w)(?P<name>{one_of})(?!\w)"
    patterns = (
        rf"\b(?:{'|'.join(keys)})\b{_MARKS}(?:is|:|=){_MARKS}{name}(?!{_MARKS}(?:/|\||or\b))",
        rf"{name}{_MARKS}is{_MARKS}(?:the[ \t]+)?(?:better|best|preferred|winner|superior)\b",
        rf"^[ \t>#-]*{_MARKS}{name}{_MARKS}[.!]?[ \t]*$",
    )
    for pattern in patterns:
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
            yield match.start("name"), match[0], labels[match["name"].casefold()]
