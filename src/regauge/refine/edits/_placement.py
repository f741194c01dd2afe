"""Where a rule stands: its rivals, and the places it may be moved to. No model is needed for it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.edits._edits import Edit
from regauge.refine.edits._ops import Anchor, Delete, Insert, Replace
from regauge.refine.edits._statements import (
    Statement,
    lead_of,
    said_in,
    statements,
    statements_of,
    written_like,
)
from regauge.refine.edits._text import content_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.refine.edits._text import Line, PromptText

__all__ = [
    "TAKE_PLACE",
    "anchor_of",
    "is_garbled",
    "other_places",
    "plain",
    "rivals",
    "second_places",
]

_RIVALS_MAX = 2
_STRANGE_MAX = 2
_PLACES_MAX = 3
_GARBLED = 0.85
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")


def rivals(text: PromptText, rule: str, others: Sequence[str]) -> list[tuple[Statement, str]]:
    """What stands where a rule should, the likeliest first, and how it is to be replaced.

    These are lines, and the statements of lines that say several things.

    Args:
        text: The prompt.
        rule: What it should say.
        others: What other checks want; a line that says more of that belongs to them.
    """
    theirs = {plain(other) for other in others}
    wanted = content_words(rule)
    found: list[tuple[float, int, Statement, str]] = []
    for position, one in enumerate(_comparable(text, rule)):
        if {plain(one.text), plain(one.line.text)} & theirs:
            continue
        if one.lead and lead_of(rule) not in {"", one.lead}:
            continue  # the line is about something else
        if "{{" in one.part or len(one.text.split()) < 2:  # noqa: PLR2004 - one word is no rule
            continue
        if is_garbled(one.text, rule):
            found.append((-2.0, position, one, "replace-garbled"))
            continue
        said = content_words(one.text)
        shared = len(said & wanted)
        rival = max((len(said & content_words(other)) for other in others), default=0)
        if shared and shared >= rival:
            found.append((-shared / len(said | wanted), position, one, "replace-contradiction"))
    found.sort(key=lambda entry: entry[:2])
    return [(one, strategy) for _, _, one, strategy in found[:_RIVALS_MAX]]


def _comparable(text: PromptText, rule: str) -> Iterable[Statement]:
    """Statements, and whole lines that say several things where a rule says as many."""
    for line in text.lines:
        if line.kind in {"rule", "text"}:
            said = statements_of(line)
            as_many = len(said) <= len(said_in(rule))
            if len(said) > 1 and (as_many or is_garbled(line.text, rule)):
                yield Statement.whole(line)
            yield from said


TAKE_PLACE = "take-place"
"""The strategy of an edit that puts a rule in the place of a line which is only suspected."""


def second_places(text: PromptText, rule: Statement, others: Sequence[str]) -> tuple[Edit, ...]:
    """What may help where a rule is there and not followed well enough.

    First without what may speak against it: where that stands under the same heading it is taken
    out, elsewhere the rule takes its place, for it may have been written for that one. Then the
    rule last of all, which is followed most, or at the end of another section; a statement among
    others in one line stays where it is.

    Args:
        text: The prompt.
        rule: What is to be followed.
        others: What other checks want.
    """
    edits: list[Edit] = []
    line = rule.line
    for other in _against(text, rule, others):
        near = (other.line.message, other.line.section) == (line.message, line.section)
        if near or rule.is_part:
            edits.append(_edit("take-out", other.left_out()))
        else:
            edits.append(_edit(TAKE_PLACE, other.instead(line.text), Delete(anchor_of(line))))
    if rule.is_part:
        return tuple(edits)
    rules = [other for other in text.lines if other.kind == "rule"]
    ends = {(other.message, other.section): other for other in rules}
    places = [place for place in dict.fromkeys((*rules[-1:], *ends.values())) if place != line]
    edits += [
        _edit(
            "move-last" if place == rules[-1] else "move",
            Delete(anchor_of(line)),
            Insert(anchor_of(place), written_like(line.text, place, below=True)),
        )
        for place in places[:_PLACES_MAX]
    ]
    return tuple(edits)


def other_places(text: PromptText, edit: Edit, others: Sequence[str]) -> tuple[Edit, ...]:
    """An edit that adds one rule, with the rule in other places.

    Instead of a line that is made of the same letters, and at the end of other sections.
    """
    if len(edit.ops) != 1 or not isinstance(edit.ops[0], Insert) or "\n" in edit.added:
        return ()
    rule, at = edit.added.strip(), edit.ops[0].anchor
    found = [
        replace(edit, ops=(one.instead(rule),), strategy=strategy)
        for one, strategy in rivals(text, rule, others)
        if strategy == "replace-garbled"
    ]
    ends = {(line.message, line.section): line for line in text.lines if line.kind == "rule"}
    here = {
        (line.message, line.text.strip() if line.kind == "heading" else line.section)
        for line in text.lines
        if line.text.strip() == at.line.strip()
    }
    found += [
        replace(
            edit,
            ops=(Insert(anchor_of(line), written_like(rule, line, below=True)),),
            strategy="add-rule",
        )
        for section, line in ends.items()
        if section not in here
    ]
    return tuple(found)


def anchor_of(line: Line) -> Anchor:
    """What an operation on a line names."""
    return Anchor(line.text, line.occurrence, line.message)


def is_garbled(line: str, rule: str) -> bool:
    """Whether a line is made of nearly the letters of a rule, in other words."""
    if content_words(line) & content_words(rule):
        return False
    mine, its = Counter(plain(line).replace(" ", "")), Counter(plain(rule).replace(" ", ""))
    return 2 * (mine & its).total() >= _GARBLED * max(1, mine.total() + its.total())


def plain(text: str) -> str:
    """A line without its bullet, its case and its spacing."""
    return " ".join(_BULLET.sub("", text, count=1).casefold().split())


def _against(text: PromptText, rule: Statement, others: Sequence[str]) -> list[Statement]:
    """What may speak against a rule: on the same subject, then such as no check speaks of."""
    alike = [
        other
        for other, _ in rivals(text, rule.text, others)
        if plain(other.text) != plain(rule.text) and (other.is_part or other.line != rule.line)
    ]
    has_rules = any(line.kind == "rule" for line in text.lines)
    strange = [
        other
        for other in statements(text)
        if (other.is_part or other.line.kind == "rule" or not has_rules)
        and "{{" not in other.part
        and other != rule
        and (rule.is_part or other.line != rule.line)
        and other not in alike
        and not _is_spoken_of(other.text, (rule.text, *others))
    ]
    return [*alike, *strange[-_STRANGE_MAX:]]


def _is_spoken_of(text: str, wanted: Sequence[str]) -> bool:
    """Whether a check wants what a line says, as far as their words tell."""
    said = content_words(text)
    return any(3 * len(said & content_words(one)) > len(said) for one in wanted)


def _edit(strategy: str, *ops: Delete | Insert | Replace) -> Edit:
    return Edit(
        ops=ops,
        strategy=strategy,
        proposer="rules",
        rationale="where a rule stands, and what stands against it, decide how it is followed",
    )
