"""Finding what a key asks for in a document."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from regauge.sim.text import duration_text, sentences, split_name, stems, write_moment

if TYPE_CHECKING:
    from regauge.sim.asked import Key
    from regauge.sim.document._document import Document, Event

__all__ = ["KeyKind", "find_text", "find_value", "kind_of", "lines_of"]

KeyKind = Literal[
    "title", "time", "duration", "summary", "reason", "number", "boolean", "list", "text", "label"
]

_DURATION_NAME: Final = re.compile(
    r"^time_?to_|duration|^mtt[rd]$|downtime|elapsed|length_of|how_long|^ttr$", re.IGNORECASE
)
_TIME_NAME: Final = re.compile(r"(?:_at|_on|time|date|timestamp|_when|^when)$", re.IGNORECASE)
_TITLE_NAME: Final = re.compile(r"^(?:title|headline|subject)$", re.IGNORECASE)
_SUMMARY_NAME: Final = re.compile(r"summary|abstract|overview|tl_?dr|synopsis|recap", re.IGNORECASE)
_REASON_NAME: Final = re.compile(
    r"reason|rationale|explanation|justification|evidence|why", re.IGNORECASE
)
_START: Final = re.compile(
    r"\b(?:fault occurs?|occurr(?:s|ed)|first (?:detected|seen|noticed|alert|report\w*)|began"
    r"|begins?|beginn|start(?:s|ed)?|"
    r"onset|triggered|opened|created|detected|aufgetreten|erkannt|fires?d?|went down|paged)\b",
    re.IGNORECASE,
)
_END: Final = re.compile(
    r"\b(?:resolved|resolves|closed|recovered|all clear|ended|ends?|restored|back to normal"
    r"|behoben|gelöst|ende|"
    r"over|finished|mitigated|fixed)\b",
    re.IGNORECASE,
)
_START_KEY: Final = frozenset(
    {"start", "began", "begin", "onset", "occur", "detect", "open", "creat", "first"}
)
_END_KEY: Final = frozenset({"resolv", "end", "clos", "recover", "finish", "restor", "solv"})
_TEXT_SYNONYMS: Final = {
    "impact": "affect consequenc auswirkung effect symptom user_impact blast",
    "caus": "root_cause reason ursach why trigger background",
    "resolution": "fix mitigat remediation solution action lösung behebung",
    "repair": "fix wiederherstellung restor ttr",
    "servic": "component application app system product dienst",
    "owner": "team assignee responsible",
    "sever": "priority level urgency",
    "identifi": "detect discovered noticed found",
}
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*•+>]|\d+[.)])[ \t]+")
_BOLD: Final = re.compile(r"\*\*|__")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_LABELLED_SIMILARITY: Final = 0.5
_SENTENCE_SIMILARITY: Final = 0.34
_LONG_STEM: Final = 4
_KEY_STEMS: Final = 0.6


def kind_of(key: Key) -> KeyKind:  # noqa: PLR0911 - one line for each kind reads best
    """What sort of value a key wants, by its name, its type and its description."""
    if len(key.enum) > 1:
        return "label"
    if key.kind == "array":
        return "list"
    if key.kind == "boolean":
        return "boolean"
    if _DURATION_NAME.search(key.name):
        return "number" if key.kind in ("number", "integer") else "duration"
    if key.kind in ("number", "integer"):
        return "number"
    if _TITLE_NAME.search(key.name):
        return "title"
    if _SUMMARY_NAME.search(key.name):
        return "summary"
    if _REASON_NAME.search(key.name) and "root" not in key.name.lower():
        return "reason"
    if _TIME_NAME.search(key.name):
        return "time"
    return "text"


def lines_of(value: str) -> list[str]:
    """A value's lines without bullets, emphasis and empty lines."""
    lines = (_BOLD.sub("", _BULLET.sub("", line)).strip() for line in value.split("\n"))
    return [line for line in lines if line and not line.startswith("```")]


@lru_cache(maxsize=500)
def _name_stems(name: str) -> frozenset[str]:
    own = set(stems(" ".join(split_name(name)))) or {name.lower()}
    for root, others in _TEXT_SYNONYMS.items():
        if any(word.startswith(root) or word in others.split() for word in own):
            own |= {root, *others.split()}
    return frozenset(own)


@lru_cache(maxsize=2_000)
def _shared_with(name: str, label: str) -> int:
    """How many words of a label a key's name asks for."""
    wanted = _name_stems(name)
    long = tuple(word for word in wanted if len(word) > _LONG_STEM)
    return sum(1 for word in set(stems(label)) if word in wanted or word.startswith(long))


def _similarity(key: Key, label: str) -> float:
    """How well a label of the document fits a key, from 0 to about 1.5."""
    given = set(stems(label))
    if not given:
        return 0.0
    if "".join(split_name(label)).lower() == "".join(split_name(key.name)).lower():
        return 1.5
    shared = _shared_with(key.name, label)
    by_name = shared / len(given)
    told = set(stems(key.description))
    return by_name + (0.25 * len(given & told) / len(given) if shared else 0.0)


def _best_field(document: Document, key: Key, *, floor: float = _LABELLED_SIMILARITY) -> str | None:
    best, best_score = None, floor - 1e-9
    for position, field in enumerate(document.fields):
        score = _similarity(key, field.key) - 0.01 * field.depth - 0.0001 * position
        if score > best_score and field.value.strip():
            best, best_score = field.value, score
    return best


def _with_clock_first(events: list[Event]) -> Event | None:
    return events[0] if events else None


def _time(document: Document, key: Key, pattern: str | None) -> str | None:
    name = set(stems(" ".join(split_name(key.name)))) | {w.lower() for w in split_name(key.name)}
    own = {word for word in name if word not in ("at", "time", "date", "on", "timestamp")}
    starts = any(w.startswith(tuple(_START_KEY)) for w in own)
    ends = any(w.startswith(tuple(_END_KEY)) for w in own)
    events = [e for e in document.events if e.label and not e.label.startswith("#")]
    found: list[Event] = []
    if starts:
        found = [e for e in events if _START.search(e.label)]
        if not found or (events and events[0].moment.clock is None and events[0] in found):
            found = found or events
        labelled = [e for e in found if len(e.label.split()) <= 4]  # noqa: PLR2004 - a small count that says itself
        found = labelled or found
    elif ends:
        hits = [e for e in events if _END.search(e.label)]
        strict = [
            e
            for e in hits
            if re.match(r"\W*(?:incident\s+)?(?:was\s+)?resolved\b", e.label, re.IGNORECASE)
        ]
        labelled = [e for e in hits if len(e.label.split()) <= 4]  # noqa: PLR2004 - a small count that says itself
        found = (
            strict
            or [
                e
                for e in labelled
                if re.search("resol|clos|all clear|behoben|ended", e.label, re.IGNORECASE)
            ]
            or labelled[-1:]
            or hits[-1:]
        )
    else:
        scored = [(_similarity(key, e.label), -i) for i, e in enumerate(events)]
        best = max(scored, default=(0.0, 0))
        found = [events[-best[1]]] if best[0] >= _LABELLED_SIMILARITY else []
    event = _with_clock_first(found)
    return write_moment(event.moment, pattern) if event is not None else None


def _duration(document: Document, key: Key) -> str | None:
    value = _best_field(document, key)
    if value is not None:
        stated = duration_text(value)
        if stated is not None:
            return stated
    wanted = _name_stems(key.name) - {"tim", "time"}
    for paragraph in document.prose:
        for sentence in sentences(paragraph):
            if wanted & set(stems(sentence)):
                stated = duration_text(sentence)
                if stated is not None:
                    return stated
    return None


def find_text(document: Document, key: Key) -> str | None:
    """A text for a key: a labelled piece of the document, else the sentence that fits best."""
    value = _best_field(document, key)
    if value is not None:
        return "\n".join(lines_of(value)) or None
    wanted = _name_stems(key.name)
    told = set(stems(key.description)) - wanted
    best, best_score = None, _SENTENCE_SIMILARITY
    for paragraph in document.prose:
        for sentence in sentences(paragraph):
            own = set(stems(sentence))
            named = sum(1 for w in own if w in wanted)
            score = _KEY_STEMS * min(named, 1) + 0.5 * len(own & told) / (len(told) or 1)
            if score > best_score:
                best, best_score = sentence, score
    return best


def find_value(document: Document, key: Key, pattern: str | None) -> str | None:
    """The value of a key as text, or None where the document is silent."""
    match kind_of(key):
        case "time":
            return _time(document, key, pattern)
        case "duration":
            return _duration(document, key)
        case "title":
            return document.title or None
        case "number":
            value = _best_field(document, key)
            number = _NUMBER.search(value) if value is not None else None
            return number[0] if number is not None else None
        case _:
            return find_text(document, key)
