"""The answer as text: what was asked for, wrapped and spoilt as chance will have it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from regauge.sim.document import Document, plain
from regauge.sim.reply._generic import generic_text
from regauge.sim.reply._runbook import compose_sections
from regauge.sim.reply._summarise import shorten
from regauge.sim.reply._values import choose_label, clarity_of_limit, json_values
from regauge.sim.text import count_words

if TYPE_CHECKING:
    from regauge.sim._rules import Dice
    from regauge.sim.asked import Instructions

__all__ = ["compose"]

_OPENINGS: Final = (
    "Sure! Here is the result:",
    "Here is the JSON you asked for:",
    "Based on the document, here is my answer:",
    "Of course. I read the text carefully and this is what I found:",
)
_CLOSINGS: Final = (
    "",
    "Let me know if you would like anything changed.",
    "I hope this helps!",
)
# What it says where it is asked for something else than all it was asked for before.
_INSTEAD: Final = "Quiet morning watch\nan alert blinks in the dark\nsomebody will look"
_ONLY_LABEL: Final = re.compile(
    r"\b(?:only|just|nothing but|single word|one word|exactly one|nothing else)\b", re.IGNORECASE
)
_ONLY_TEXT: Final = re.compile(
    r"\bonly\b|\bnothing else\b|\bno (?:other|introduction|preamble|text)\b|\bstart (?:directly"
    r"|with)\b|\bwithout (?:any )?(?:introduction|preamble)",
    re.IGNORECASE,
)
_EXACT: Final = re.compile(
    r"\bexactly\b|\bin this order\b|\bthese (?:\w+ )?sections\b|\ball (?:\w+ )?sections\b",
    re.IGNORECASE,
)
_LINK: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)|https?://\S+")
_LOOSE_HEADINGS: Final = ("Details", "Notes", "Further information", "Next steps")


def _as_json(document: Document, instructions: Instructions, dice: Dice) -> str:
    values = json_values(document, instructions, dice)
    text = json.dumps(values, ensure_ascii=False, indent=2 if len(values) > 2 else None)  # noqa: PLR2004 - a small count that says itself
    clarity = instructions.format_clarity
    if dice.fails("code fence", clarity):
        text = f"```json\n{text}\n```"
    if dice.fails("chatter", clarity):
        opening = _OPENINGS[dice.pick("opening", len(_OPENINGS))]
        closing = _CLOSINGS[dice.pick("closing", len(_CLOSINGS))]
        text = f"{opening}\n\n{text}" + (f"\n\n{closing}" if closing else "")
    return text


def _as_label(document: Document, instructions: Instructions, dice: Dice) -> str:
    name, ranking = choose_label(document, instructions, dice)
    clarity = 0.4 + (0.6 if _ONLY_LABEL.search(instructions.text) else 0.0)
    if not dice.fails("chatter", clarity):
        return name
    because = ", ".join(ranking.because[:3])
    return f"I would say this is **{name}**" + (
        f", because it speaks of {because}." if because else "."
    )


def _trim(sections: list[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Sections cut to a limit on the words of them all, each by its share."""
    total = sum(count_words(text) + count_words(name) + 1 for name, text in sections)
    if total <= limit:
        return sections
    share = max(0.1, (limit - 3 * len(sections)) / total)
    kept: list[tuple[str, str]] = []
    for name, text in sections:
        left = max(4, int(count_words(text) * share))
        lines: list[str] = []
        for block in re.split(r"\n(?=- )", text):
            words = count_words(block)
            if words <= left:
                lines.append(block)
                left -= words
            elif not lines:
                lines.append(shorten(plain(block), left))
                break
        kept.append((name, "\n".join(lines)))
    return kept


def _as_sections(document: Document, instructions: Instructions, dice: Dice) -> str:
    sections = compose_sections(document, instructions.sections, instructions.limits)
    told = any(section.description for section in instructions.sections)
    exact = _EXACT.search(instructions.text) is not None
    clarity = 0.75 + (0.15 if exact else 0.0) + (0.1 if told else 0.0)
    if len(sections) > 1 and dice.fails("missing section", clarity):
        sections.pop(dice.pick("section", len(sections)))
    if dice.fails("other heading", clarity):
        index = dice.pick("heading", len(sections))
        sections[index] = (
            _LOOSE_HEADINGS[dice.pick("other", len(_LOOSE_HEADINGS))],
            sections[index][1],
        )
    limits = instructions.limits
    if limits.words_max is not None and not dice.fails("too long text", clarity_of_limit(limits)):
        sections = _trim(sections, limits.words_max)
    mark = "" if instructions.no_markdown else "## "
    text = "\n\n".join(f"{mark}{name}\n\n{body}" for name, body in sections)
    if dice.fails("chatter", 0.75 + (0.25 if _ONLY_TEXT.search(instructions.text) else 0.0)):
        text = f"{_OPENINGS[0]}\n\n{text}"
    return text


def _lengthened(text: str, words: int) -> str:
    """A text said over until it has so many words."""
    times = -(-words // max(1, count_words(text)))
    return "\n\n".join([text, *[text.rpartition("\n\n")[2]] * (times - 1)]) if times > 1 else text


def _without(text: str, phrase: str) -> str:
    return re.sub(rf"\s?(?<!\w){re.escape(phrase)}(?!\w)", "", text, flags=re.IGNORECASE)


def compose(document: Document, instructions: Instructions, dice: Dice) -> str:
    """What the model says to a document under these instructions."""
    orders = instructions.orders
    if orders.instead:
        return _INSTEAD
    if instructions.wants_json:
        text = _as_json(document, instructions, dice)
    elif instructions.sections:
        text = _as_sections(document, instructions, dice)
    elif instructions.labels and document.text.strip():
        text = _as_label(document, instructions, dice)
    else:
        text = generic_text(document, instructions, dice)
    if orders.words_min and not instructions.wants_json:
        text = _lengthened(text, orders.words_min)
    if orders.links:
        text = f"{text}\n\nSee also: https://example.com/runbooks"
    elif instructions.no_links:
        text = _LINK.sub(lambda m: m[1] or "", text)
    for phrase in instructions.forbidden:
        if not dice.fails(f"forbidden {phrase}", 1.0):
            text = _without(text, phrase)
    return text
