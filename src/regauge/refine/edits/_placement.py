"""Where a rule stands: its rivals, and the places it may be moved to. No model is needed for it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.refine.edits._edits import Edit
from regauge.refine.edits._ops import Anchor, Delete, Insert, Replace
from regauge.refine.edits._text import content_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.refine.edits._text import Line, PromptText

__all__ = [
    "TAKE_PLACE",
    "anchor_of",
    "bulleted",
    "indented",
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


def rivals(text: PromptText, rule: str, others: Sequence[str]) -> list[tuple[Line, str]]:
    """Lines that stand where a rule should, the likeliest first, and how they are to be replaced.

    Args:
        text: The prompt.
        rule: What it should say.
        others: What other checks want; a line that says more of that belongs to them.
    """
    theirs = {plain(other) for other in others}
    wanted = content_words(rule)
    found: list[tuple[float, int, Line, str]] = []
    for position, line in enumerate(text.lines):
        if line.kind not in {"rule", "text"} or plain(line.text) in theirs:
            continue
        if "{{" in line.text or len(line.text.split()) < 2:  # noqa: PLR2004 - one word is no rule
            continue
        if is_garbled(line.text, rule):
            found.append((-2.0, position, line, "replace-garbled"))
            continue
        said = content_words(line.text)
        shared = len(said & wanted)
        rival = max((len(said & content_words(other)) for other in others), default=0)
        if shared and shared >= rival:
            found.append((-shared / len(said | wanted), position, line, "replace-contradiction"))
    found.sort(key=lambda entry: entry[:2])
    return [(line, strategy) for _, _, line, strategy in found[:_RIVALS_MAX]]


TAKE_PLACE = "take-place"
"""The strategy of an edit that puts a rule in the place of a line which is only suspected."""


def second_places(text: PromptText, line: Line, others: Sequence[str]) -> tuple[Edit, ...]:
    """What may help where a rule is there and not followed well enough.

    First without a line that may speak against it: where that stands under the same heading it is
    taken out, elsewhere the rule takes its place, for it may have been written for that one. Then
    the rule last of all, which is followed most, or at the end of another section.

    Args:
        text: The prompt.
        line: The rule.
        others: What other checks want.
    """
    edits: list[Edit] = []
    for other in _against(text, line, others):
        if (other.message, other.section) == (line.message, line.section):
            edits.append(_edit("take-out", Delete(anchor_of(other))))
        else:
            edits.append(
                _edit(
                    TAKE_PLACE,
                    Replace(anchor_of(other), indented(line.text.strip(), other)),
                    Delete(anchor_of(line)),
                )
            )
    rules = [other for other in text.lines if other.kind == "rule"]
    ends = {(other.message, other.section): other for other in rules}
    places = [place for place in dict.fromkeys((*rules[-1:], *ends.values())) if place != line]
    edits += [
        _edit(
            "move-last" if place == rules[-1] else "move",
            Delete(anchor_of(line)),
            Insert(anchor_of(place), line.text),
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
        replace(edit, ops=(Replace(anchor_of(line), indented(rule, line)),), strategy=strategy)
        for line, strategy in rivals(text, rule, others)
        if strategy == "replace-garbled"
    ]
    ends = {(line.message, line.section): line for line in text.lines if line.kind == "rule"}
    here = {
        (line.message, line.text.strip() if line.kind == "heading" else line.section)
        for line in text.lines
        if line.text.strip() == at.line.strip()
    }
    found += [
        replace(edit, ops=(Insert(anchor_of(line), indented(rule, line)),), strategy="add-rule")
        for section, line in ends.items()
        if section not in here
    ]
    return tuple(found)


def anchor_of(line: Line) -> Anchor:
    """What an operation on a line names."""
    return Anchor(line.text, line.occurrence, line.message)


def indented(rule: str, line: Line) -> str:
    """A rule, as far in as another line."""
    return line.text[: len(line.text) - len(line.text.lstrip())] + rule


def bulleted(rule: str) -> str:
    """A rule with a bullet before it."""
    return rule if _BULLET.match(rule) else f"- {rule}"


def is_garbled(line: str, rule: str) -> bool:
    """Whether a line is made of nearly the letters of a rule, in other words."""
    if content_words(line) & content_words(rule):
        return False
    mine, its = Counter(plain(line).replace(" ", "")), Counter(plain(rule).replace(" ", ""))
    return 2 * (mine & its).total() >= _GARBLED * max(1, mine.total() + its.total())


def plain(text: str) -> str:
    """A line without its bullet, its case and its spacing."""
    return " ".join(_BULLET.sub("", text, count=1).casefold().split())


def _against(text: PromptText, line: Line, others: Sequence[str]) -> list[Line]:
    """Lines that may speak against a rule: on the same subject, then such as no check speaks of."""
    alike = [
        other
        for other, _ in rivals(text, line.text, others)
        if plain(other.text) != plain(line.text)
    ]
    strange = [
        other
        for other in text.lines
        if other.kind == "rule"
        and other not in alike
        and not _is_spoken_of(other, (line.text, *others))
    ]
    return [*alike, *strange[-_STRANGE_MAX:]]


def _is_spoken_of(line: Line, wanted: Sequence[str]) -> bool:
    """Whether a check wants what a line says, as far as their words tell."""
    said = content_words(line.text)
    return any(3 * len(said & content_words(one)) > len(said) for one in wanted)


def _edit(strategy: str, *ops: Delete | Insert | Replace) -> Edit:
    return Edit(
        ops=ops,
        strategy=strategy,
        proposer="rules",
        rationale="where a rule stands, and what stands against it, decide how it is followed",
    )
