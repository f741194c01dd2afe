"""Everything the model understood of what it is asked to do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from regauge.sim.asked._keys import Key, key_words, read_keys
from regauge.sim.asked._labels import Label, label_names, read_labels, shots_in_text
from regauge.sim.asked._limits import Limits, Section, read_limits, read_sections, time_format
from regauge.sim.asked._orders import Orders, read_orders
from regauge.sim.text import count_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.sim.asked._layout import Layout, Shot

__all__ = ["Instructions", "read_instructions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """What the prompt asks for.

    Attributes:
        text: All instructions, as they were written.
        wants_json: The answer is to be JSON, in words or by response format.
        keys: The keys of a JSON answer, in order.
        labels: What to choose from, with definitions.
        label_key: The key that takes a label; empty when the label is the whole answer.
        sections: Markdown sections by name.
        forbidden: Words and phrases that must not appear.
        format_clarity: From 0 (no word about the format) to 1, see `_format_clarity`.
        null_when_absent: The prompt says what to do where the document is silent.
        tokens: How long the instructions are.
        orders: What they say against themselves.
    """

    text: str
    wants_json: bool
    keys: tuple[Key, ...]
    labels: tuple[Label, ...]
    label_key: str
    shots: tuple[Shot, ...]
    sections: tuple[Section, ...]
    limits: Limits
    forbidden: tuple[str, ...]
    no_markdown: bool
    no_links: bool
    time_format: str | None
    format_clarity: float
    null_when_absent: bool
    tokens: int
    orders: Orders


_JSON_WORD: Final = re.compile(r"\bjson\b", re.IGNORECASE)
_JSON_ASKED: Final = re.compile(
    r"\b(?:answer|reply|respond|return|output|produce|give|write|print|emit|generate|format|provide|use|send|as|be)\b"
    r"[^.\n]{0,60}\bjson\b|\bjson\b[^.\n]{0,30}\b(?:only|object|format|with|containing|array)\b",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(
    r"\bonly\b[^.\n]{0,40}\bjson\b|\bjson\b[^.\n]{0,40}\bonly\b|\bnothing else\b|\bno (?:other"
    r"|extra|additional|further) (?:text|words|output|prose)\b"
    r"|\bno prose\b|\bno (?:markdown|code fence|explanation|commentary|preamble)\b|\bwithout "
    r"(?:any )?(?:markdown|prose|explanation|commentary|code fence|additional|other|extra)"
    r"|\bno text (?:before|around|outside)\b|\bdo not (?:add|write|include|wrap|use) (?:any "
    r")?(?:other|extra|additional|explanation|markdown|prose|code|text)",
    re.IGNORECASE,
)
_LABEL_ONLY: Final = re.compile(
    r"\b(?:only|just|nothing but|single word|one word|exactly one)\b", re.IGNORECASE
)
_NULL_RULE: Final = re.compile(
    r"\bnull\b|\b(?:do not|don't|never) (?:guess|invent|make up|infer|assume|fabricate)\b"
    r"|\bnot (?:stated|mentioned|given|known|reported)\b"
    r"|\bempty string if\b|\bunknown if\b|\bleave (?:it )?(?:empty|out|blank)\b",
    re.IGNORECASE,
)
_FORBIDDEN: Final = re.compile(
    r"\b(?:do not|don't|never|must not|avoid|without)\s+(?:ever\s+)?(?:mention(?:ing)?|us(?:e"
    r"|ing)|say(?:ing)?|includ(?:e|ing)|writ(?:e|ing)|output|contain(?:ing)?)?"
    r"\s*(?:the\s+)?(?:words?|phrases?|terms?"
    r"|names?)?\s*(?P<list>[\"'`“][^\"'`”\n]{1,60}[\"'`”](?:\s*(?:,|or|and|, "
    r"or)\s*[\"'`“][^\"'`”\n]{1,60}[\"'`”])*)",
    re.IGNORECASE,
)
_NO_MARKDOWN: Final = re.compile(
    r"\b(?:no|without|do not use|never use|avoid)\s+(?:any )?markdown\b|\bplain text\b",
    re.IGNORECASE,
)
_NO_LINKS: Final = re.compile(
    r"\b(?:no|without|do not (?:include|copy|add|use)|never (?:include|copy))\s+(?:any "
    r")?(?:links?|urls?)\b",
    re.IGNORECASE,
)


def _format_clarity(
    text: str, response_format: Mapping[str, JSON] | None, keys: tuple[Key, ...], *, shown: bool
) -> float:
    """How clearly JSON is asked for: the shares below, added up, at most 1."""
    clarity = 0.0
    if _JSON_ASKED.search(text):
        clarity += 0.5
    elif _JSON_WORD.search(text):
        clarity += 0.25
    if _ONLY.search(text):
        clarity += 0.2
    if response_format is not None and response_format.get("type") != "text":
        clarity += 0.15
    if shown or "{" in text or (keys and all(key.described and key.in_words for key in keys)):
        clarity += 0.15
    return min(clarity, 1.0)


@lru_cache(maxsize=200)
def _read(text: str, shots: tuple[Shot, ...], format_text: str) -> Instructions:
    response_format: Mapping[str, JSON] | None = json.loads(format_text)
    by_format = response_format is not None and response_format.get("type") in (
        "json_object",
        "json_schema",
    )
    shown = any(shot.output.lstrip().startswith("{") for shot in shots)
    orders = read_orders(text)
    wants_json = by_format or shown or _JSON_WORD.search(text) is not None
    wants_json = wants_json and not orders.prose
    keys = read_keys(text, response_format, wants_json=wants_json)
    named = key_words(keys)
    label_key = next((key.name for key in keys if len(key.enum) > 1), "")
    names = next((key.enum for key in keys if len(key.enum) > 1), ())
    if not names and not (wants_json and keys):
        names = label_names(text, not_these=named)
    all_shots = shots + shots_in_text(text)
    return Instructions(
        text=text,
        wants_json=wants_json,
        keys=keys,
        labels=read_labels(text, names) if names else (),
        label_key=label_key,
        shots=all_shots,
        sections=() if wants_json else read_sections(text),
        limits=read_limits(text),
        forbidden=tuple(
            dict.fromkeys(
                phrase
                for match in _FORBIDDEN.finditer(text)
                for phrase in re.findall(r"[\"'`“]([^\"'`”\n]{1,60})[\"'`”]", match["list"])
            )
        ),
        no_markdown=_NO_MARKDOWN.search(text) is not None,
        no_links=_NO_LINKS.search(text) is not None,
        time_format=time_format(text),
        format_clarity=_format_clarity(text, response_format, keys, shown=shown),
        null_when_absent=_NULL_RULE.search(text) is not None,
        tokens=count_tokens(text),
        orders=orders,
    )


def read_instructions(layout: Layout, response_format: Mapping[str, JSON] | None) -> Instructions:
    """Read the instructions; the same instructions are read once."""
    format_text = json.dumps(response_format, default=dict)
    return _read(layout.instructions, layout.shots, format_text)
