"""The requests of a prompt: keys, labels with their definitions, limits, sections, orders."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from regauge.sim._layout import Shot
from regauge.sim._text import (
    NUMBER_WORDS,
    Quantity,
    count_tokens,
    is_list,
    is_object,
    quantities,
    stems,
    without_quantities,
)
from regauge.statements import guess_language

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.sim._layout import Layout

__all__ = [
    "Clause",
    "Instructions",
    "Key",
    "Label",
    "Limits",
    "Section",
    "read_instructions",
    "read_labels",
    "read_limits",
    "schema_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One cue of a definition: its content words and its numbers.

    Attributes:
        excludes: The definition says this is not the label ("not ...", "except ...").
    """

    words: frozenset[str]
    quantities: tuple[Quantity, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One label and the cues of its definition; no clause when it is not defined."""

    name: str
    clauses: tuple[Clause, ...] = ()
    is_default: bool = False


_QUOTE: Final = r"[\"'`*“”‘’_]*"  # noqa: RUF001 - texts in the wild hold this character
_ITEM: Final = rf"{_QUOTE}[A-Za-z][\w-]*(?: (?!or\b|and\b)[\w-]+)?{_QUOTE}"
_ONE_OF: Final = re.compile(
    r"\b(?:(?:one of|either|choose (?:from|between))"
    r"(?: (?:the )?(?:following|these|labels?|categories|values|words|of))*\s*:?"
    r"|(?:classes|labels?|categories|options|levels|values|severities)\s*(?:are|is|:|=))\s*[(\[]?"
    rf"(?P<list>{_ITEM}(?:\s*(?:,|/|\||\bor\b|\band\b|,\s*or\b|,\s*and\b)\s*{_ITEM})+)",
    re.IGNORECASE,
)
_PIPED: Final = re.compile(
    r"(?P<list>[\"'`][\w -]{1,30}[\"'`](?:\s*(?:\||/|,|or|, or)\s*[\"'`][\w -]{1,30}[\"'`])+)"
)
_LIST_BREAK: Final = re.compile(
    r"\s*(?:,\s*or\b|,\s*and\b|,|/|\||\bor\b|\band\b)\s*", re.IGNORECASE
)
_LIST_HEAD: Final = re.compile(
    r"^[^\n]*\b(?:labels?|severit(?:y|ies)|categor(?:y|ies)|class(?:es)?|levels?|priorit(?:y|ies)"
    r"|types?|sentiments?|options?|choices|verdicts?|buckets?|queues?|teams?)\b[^\n]*:[*_ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BULLET: Final = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])[ \t]+{_QUOTE}(?P<name>[A-Za-z][\w-]*(?: [\w-]+)?){_QUOTE}"
    rf"[ \t]*(?::|=|—|–|-|->|→|\()",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_CLAUSE_BREAK: Final = re.compile(r"[;\n]|(?<=[a-z)%])\.(?=\s|$)|(?<=[a-z)]): ")
_LONG_CLAUSE: Final = 16
_EXCLUDES: Final = re.compile(
    r"^\W*(?:and |but )?(?:not|never|except|unless|excluding)\b", re.IGNORECASE
)
_DEFAULT: Final = re.compile(
    r"\b(?:everything else|anything else|all other|all others|in doubt|unsure|unclear|by default"
    r"|otherwise|neither|none of the (?:other|above)|fits? no|the default|most alerts)\b",
    re.IGNORECASE,
)
_ARROW: Final = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?P<input>\S.*?)[ \t]*(?:->|→|=>|⇒|=)[ \t]*"
    rf"{_QUOTE}(?P<output>[\w -]{{1,30}}?){_QUOTE}[.]?[ \t]*$",
    re.MULTILINE,
)
_PAIR: Final = re.compile(
    r"^[ \t]*[*_]*(?:input|example|alert|question|text|user|q)(?: \d+)?[*_]*:[*_]*[ "
    r"\t]*(?P<input>.+?)\n+"
    r"[ \t]*[*_]*(?:output|answer|label|response|assistant|result|severity|a)[*_]*:[*_]*[ \t]*"
    r"(?P<output>.+?)(?=\n[ \t]*\n|\n[ \t]*[*_]*(?:input|example|alert|question|text|user|q)\b|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)


def label_names(text: str, *, not_these: Collection[str] = ()) -> tuple[str, ...]:
    """The labels that a text offers, when no schema lists them.

    >>> label_names("Classify it as one of: bug, feature or question.")
    ('bug', 'feature', 'question')
    """
    for pattern in (_ONE_OF, _PIPED):
        for match in pattern.finditer(text):
            names = [n.strip("\"'`*“”‘’_ ") for n in _LIST_BREAK.split(match["list"])]  # noqa: RUF001 - texts in the wild hold this character
            names = [n for n in names if n and n not in not_these]
            if len(names) > 1:
                return tuple(dict.fromkeys(names))
    for head in _LIST_HEAD.finditer(text):
        block = re.split(r"\n[ \t]*\n", text[head.end() :].lstrip("\n"), maxsplit=1)[0]
        names = [m["name"] for m in _BULLET.finditer(block) if m["name"] not in not_these]
        if len(names) > 1:
            return tuple(dict.fromkeys(names))
    return ()


def _definition(text: str, name: str, others: Sequence[str]) -> str:
    """Everything the text says of one label."""
    word = re.escape(name)
    stop = "|".join(re.escape(other) for other in others) or r"(?!)"
    line = re.compile(
        rf"^(?P<indent>[ \t]*)(?:[-*•+]|\d+[.)]|\#{{1,6}}|\|)?[ \t]*{_QUOTE}{word}{_QUOTE}[ \t]*"
        rf"(?:\([^)\n]*\)[ \t]*)?{_QUOTE}[ \t]*"
        r"(?::|=|—|–|-{1,2}>?|→|\||\bmeans\b|\bis\b|\bare\b|\bwhen\b|\bif\b|\bfor\b|$)"  # noqa: RUF001 - texts in the wild hold this character
        r"(?P<rest>[^\n]*(?:\n(?!"
        rf"[ \t]*(?:[-*•+]|\d+[.)]|\#{{1,6}}|\|)?[ \t]*{_QUOTE}(?:{stop}|{word})\b"
        r")(?![ \t]*\n)(?!\#)[^\n]+)*)",
        re.IGNORECASE | re.MULTILINE,
    )
    told: list[str] = []
    for match in line.finditer(text):
        rest = match["rest"].strip()
        if not rest and text[match.end() : match.end() + 2].startswith("\n"):
            # A heading: what it says stands in the paragraph below.
            rest = re.split(r"\n[ \t]*\n[^\s-]|\n#", text[match.end() :].lstrip(), maxsplit=1)[0]
        head_indent = len(match["indent"])
        kept: list[str] = []
        for index, continued in enumerate(rest.split("\n")):
            indent = len(continued) - len(continued.lstrip())
            if index and head_indent >= indent and not re.match(r"\s*[-*•]", continued):
                break
            kept.append(continued.strip(" \t-*•|"))
        told.append("\n".join(kept))
    inline = re.compile(
        rf"(?:\buse|\bchoose|\bpick|\bmark|\banswer|\bsay)?[ \t]*(?:as "
        rf")?{_QUOTE}\b{word}\b{_QUOTE}[ \t]+"
        rf"(?:means|when|if|for|covers|is for|only for)\b(?P<rest>[^.;\n]*)",
        re.IGNORECASE,
    )
    told += [match["rest"] for match in inline.finditer(text)]
    return "\n".join(dict.fromkeys(t.strip() for t in told if t.strip()))


def _clauses(definition: str) -> tuple[Clause, ...]:
    found: list[Clause] = []
    for raw in _CLAUSE_BREAK.split(definition):
        pieces = [raw]
        if len(raw.split()) > _LONG_CLAUSE:
            pieces = raw.split(", ")
        for piece in pieces:
            words = frozenset(stems(without_quantities(piece)))
            numbers = quantities(piece)
            if words or numbers:
                excludes = _EXCLUDES.match(piece) is not None
                if excludes:
                    words = frozenset(word for word in words if not word.startswith("not_"))
                found.append(Clause(words=words, quantities=numbers, excludes=excludes))
    return tuple(found)


def read_labels(text: str, names: Sequence[str]) -> tuple[Label, ...]:
    """Each label with the cues its definition gives.

    >>> read_labels("idea: a wish", ["idea"])[0].clauses[0].words
    frozenset({'wish'})
    """
    labels: list[Label] = []
    for name in names:
        told = _definition(text, name, [other for other in names if other != name])
        labels.append(
            Label(
                name=name,
                clauses=_clauses(_DEFAULT.sub(" ", told)),
                is_default=_DEFAULT.search(told) is not None,
            )
        )
    return tuple(labels)


def shots_in_text(text: str) -> tuple[Shot, ...]:
    """Examples written into the instructions: `input -> label`, or Input: and Output: lines.

    >>> shots_in_text("- disk 97 % full -> critical")[0].output
    'critical'
    """
    shots = [Shot(input=m["input"], output=m["output"]) for m in _ARROW.finditer(text)]
    shots += [
        Shot(input=m["input"].strip(), output=m["output"].strip()) for m in _PAIR.finditer(text)
    ]
    return tuple(shots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the answer.

    Attributes:
        description: What schema and words say of it together.
        kind: As in JSON schema: `string`, `number`, `integer`, `boolean`, `array`, `object`; empty
            when only words speak of it.
        enum: The values it may take; empty for any.
        in_words: Whether the messages themselves name it.
        described: Whether the messages or the schema say what it means.
        children: The keys of an object, or of the objects in an array.
    """

    name: str
    description: str = ""
    kind: str = ""
    enum: tuple[str, ...] = ()
    nullable: bool = False
    in_words: bool = False
    in_schema: bool = False
    described: bool = False
    children: tuple[Key, ...] = ()


_OBJECT_KEYS: Final = re.compile(r"[\"'](?P<name>[A-Za-z_][\w-]*)[\"']\s*:")
_EXAMPLE_OBJECT: Final = re.compile(r"\{[^{}]*[\"'][A-Za-z_][\w-]*[\"']\s*:[^{}]*\}", re.DOTALL)
_KEY_LIST: Final = re.compile(
    r"\b(?:keys?|fields?|properties|attributes)\b[^.\n:]{0,30}?[: ]\s*"
    r"(?P<list>[\"'`]?[A-Za-z_]\w*[\"'`]?(?:\s*(?:,\s*and|,|and|&)\s*[\"'`]?[A-Za-z_]\w*[\"'`]?)+)",
    re.IGNORECASE,
)
_KEY_SENTENCE: Final = re.compile(
    r"\b(?:keys?|fields?|properties|attributes)\b[^.\n]*", re.IGNORECASE
)
_QUOTED_KEY: Final = re.compile(r"[\"'`](?P<name>[A-Za-z_]\w*)[\"'`](?:\s*\((?P<note>[^)\n]*)\))?")
_KEY_HEAD: Final = re.compile(
    r"\b(?:keys?|fields?|properties)\b[^\n]*:[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_KEY_BULLET: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])?[ \t]*[\"'`*]*(?P<name>[A-Za-z_]\w*)[\"'`*]*[ "
    r"\t]*(?:\((?P<note>[^)\n]*)\))?"
    r"[ \t]*(?::|—|–|-|=)[*]*[ \t]+(?P<text>[^\n]*(?:\n[ \t]{2,}(?![-*•])[^\n]+)*)",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_BARE_LIST_WORDS: Final = 8
_NULL: Final = re.compile(r"\bnull\b", re.IGNORECASE)
_COLONLESS: Final = frozenset({"and", "or", "the", "a", "an", "with", "of", "in", "json"})


def schema_of(response_format: Mapping[str, JSON] | None) -> Mapping[str, Any] | None:
    """The JSON schema that a response format carries, or None.

    >>> schema_of({"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}})
    {'a': 1}
    """
    if response_format is None or response_format.get("type") != "json_schema":
        return None
    outer: Any = response_format.get("json_schema")
    inner: Any = outer.get("schema", outer) if is_object(outer) else None
    return inner if is_object(inner) else None


def _kinds(schema: Mapping[str, Any]) -> tuple[str, bool]:
    kinds: Any = schema.get("type", "")
    options: Any = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options):
        kinds = [option.get("type", "") for option in options if is_object(option)]
    if is_list(kinds):
        names = [str(kind) for kind in kinds]
        return next((k for k in names if k != "null"), ""), "null" in names
    return str(kinds), False


def _schema_keys(schema: Mapping[str, Any], *, depth: int = 0) -> list[Key]:
    properties: Any = schema.get("properties")
    if not is_object(properties) or depth > 5:  # noqa: PLR2004 - a small count that says itself
        return []
    keys: list[Key] = []
    for name, value in properties.items():
        inner: dict[str, Any] = value if is_object(value) else {}
        kind, nullable = _kinds(inner)
        enum: Any = inner.get("enum", [])
        values: list[Any] = enum if is_list(enum) else []
        items: Any = inner.get("items")
        below: dict[str, Any] = items if is_object(items) else inner
        described = str(inner.get("description", ""))
        keys.append(
            Key(
                name=name,
                description=described,
                kind=kind or ("object" if "properties" in inner else "string"),
                enum=tuple(str(v) for v in values if v is not None),
                nullable=nullable or None in values,
                in_schema=True,
                described=len(described.split()) > 1,
                children=tuple(_schema_keys(below, depth=depth + 1)),
            )
        )
    return keys


def _notes_on_quoted(text: str) -> dict[str, str]:
    """Keys in quotes after the word `key` or `field`, with what stands behind in brackets."""
    return {
        match["name"]: match["note"] or ""
        for sentence in _KEY_SENTENCE.finditer(text)
        for match in _QUOTED_KEY.finditer(sentence[0])
    }


def _names_in_words(text: str) -> list[str]:
    """Keys that the words ask for: an object shown, a list of keys, or bullets below a head."""
    names: dict[str, None] = {}
    for shown in _EXAMPLE_OBJECT.finditer(text):
        names.update(dict.fromkeys(_OBJECT_KEYS.findall(shown[0])))
    for match in _KEY_LIST.finditer(text):
        for name in re.findall(r"[A-Za-z_]\w*", match["list"]):
            if name.lower() not in _COLONLESS:
                names[name] = None
    if not names:
        names.update(dict.fromkeys(_notes_on_quoted(text)))
    for head in _KEY_HEAD.finditer(text):
        block = re.split(r"\n[ \t]*\n", text[head.end() :].lstrip("\n"), maxsplit=1)[0]
        names.update(dict.fromkeys(m["name"] for m in _KEY_BULLET.finditer(block)))
    return list(names)


def read_keys(
    text: str, response_format: Mapping[str, JSON] | None, *, wants_json: bool
) -> tuple[Key, ...]:
    """The keys of the answer in the order they are asked for; none when it is not to be JSON."""
    schema = schema_of(response_format)
    if not wants_json and schema is None:
        return ()
    told = {m["name"]: m for m in reversed(list(_KEY_BULLET.finditer(text)))}
    notes = _notes_on_quoted(text)
    by_name = {key.name: key for key in (_schema_keys(schema) if schema else ())}
    if not by_name:
        by_name = {name: Key(name=name) for name in _names_in_words(text)}
    keys: list[Key] = []
    for name, key in by_name.items():
        bullet = told.get(name)
        words = f"{bullet['note'] or ''} {bullet['text']}".strip() if bullet is not None else ""
        words = words or notes.get(name, "")
        enum = key.enum
        if not enum and not key.in_schema and words:
            short = len(words.split()) <= _BARE_LIST_WORDS
            enum = label_names(f"one of {words.rstrip('.')}" if short else words)
        description = " ".join(d for d in (words, key.description) if d)
        keys.append(
            replace(
                key,
                description=description,
                enum=enum,
                nullable=key.nullable or _NULL.search(words) is not None,
                in_words=re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None,
                described=key.described or len(words.split()) > 1,
            )
        )
    return tuple(keys)


def key_words(keys: Sequence[Key]) -> frozenset[str]:
    """The names of keys and of everything below them."""
    return frozenset(key.name for key in keys) | frozenset(
        name for key in keys if key.children for name in key_words(key.children)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The length limits of an answer, or one field of it. None is no limit.

    Attributes:
        emphatic: The prompt insists ("strictly", "never more than", "hard limit").
    """

    words_max: int | None = None
    words_min: int | None = None
    sentences_max: int | None = None
    bullets: int | None = None
    chars_max: int | None = None
    emphatic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One Markdown section that is asked for by name, and what is to stand in it."""

    name: str
    description: str = ""


_N: Final = r"(?P<n>\d{1,5}|" + "|".join(NUMBER_WORDS) + ")"
_AT_MOST: Final = (
    r"(?:at most|no more than|not more than|never more than|maximum(?: of)?|max\.?|up to|under"
    r"|below|fewer than"
    r"|less than|within|limit(?:ed)?(?: it| the \w+)? to|not exceed|exceed|in|about|around"
    r"|exactly|<=?|≤)"
)
_WORDS_MAX: Final = re.compile(
    rf"{_AT_MOST}\s+{_N}[\s-]*words?|{_N.replace('?P<n>', '?P<m>')}[\s-]*words?\s+"
    r"(?:or (?:less|fewer)|at most|max(?:imum)?|limit|summary)",
    re.IGNORECASE,
)
_WORDS_MIN: Final = re.compile(
    rf"(?:at least|no fewer than|minimum(?: of)?|not less than|more than)\s+{_N}\s*words?",
    re.IGNORECASE,
)
_SENTENCES: Final = re.compile(
    rf"(?:{_AT_MOST}\s+)?(?:a |an )?(?:{_N}|(?P<single>single))[\s-]+(?:short |plain |concise "
    rf")?sentences?",
    re.IGNORECASE,
)
_BULLETS: Final = re.compile(
    rf"(?:{_AT_MOST}\s+)?{_N}[\s-]+(?:short |concise |key )?(?:bullets?|bullet points?|items?"
    rf"|points?)",
    re.IGNORECASE,
)
_CHARS: Final = re.compile(rf"{_AT_MOST}\s+{_N}\s*char(?:acter)?s?", re.IGNORECASE)
_EMPHATIC: Final = re.compile(
    r"\b(?:strict(?:ly)?|never more|hard limit|must not exceed|do not exceed|at most|no more "
    r"than)\b",
    re.IGNORECASE,
)
_SECTION_CUE: Final = re.compile(
    r"(?:\bsections?\b|\bheadings?\b|\bheaders?\b|\bstructure\b)", re.IGNORECASE
)
_HASHED: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])?[ \t]*[`\"*]*#{1,4}[ \t]+(?P<name>[A-Z][\w /&-]{1,40}?)[`\"*]*"
    r"[ \t]*(?:(?::|—|–|-)[ \t]*(?P<text>[^\n]*))?$",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_INLINE_HASHED: Final = re.compile(r"[`\"]#{1,4} (?P<name>[A-Z][\w /&-]{1,40}?)[`\"]")
_LISTED: Final = re.compile(
    r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+[`\"*_]*(?P<name>[A-Z][\w /&-]{1,40}?)[`\"*_]*"
    r"[ \t]*(?:(?::|—|–|-)[*_]*[ \t]*(?P<text>[^\n]*(?:\n[ \t]{2,}(?![-*•])[^\n]+)*))?$",  # noqa: RUF001 - texts in the wild hold this character
    re.MULTILINE,
)
_ENUMERATED: Final = re.compile(
    r"\b(?:sections?|headings?|headers?)\b[^.\n]{0,40}?[: ]\s*(?P<list>[`\"*]*[A-Z][\w-]*(?: "
    r"[A-Z&][\w-]*)*[`\"*]*"
    r"(?:\s*(?:,\s*and|,|and|/|;)\s*[`\"*]*[A-Z][\w-]*(?: [A-Z&][\w-]*)*[`\"*]*)+)"
)
_TIME_FORMAT: Final = re.compile(
    r"YYYY[-/.]MM[-/.]DD(?:[ T]HH:MM(?::SS)?Z?)?|DD[./-]MM[./-]YYYY(?: HH:MM)?"
)
_ISO: Final = re.compile(r"\bISO[ -]?8601\b", re.IGNORECASE)


def _value(match: re.Match[str], *names: str) -> int:
    text = next(match[name] for name in names if match[name])
    return NUMBER_WORDS.get(text.lower(), 0) or int(text)


@lru_cache(maxsize=500)
def read_limits(text: str) -> Limits:
    """The limits that a text states.

    >>> read_limits("at most 80 words, in one sentence").words_max
    80
    """
    words, fewest = _WORDS_MAX.search(text), _WORDS_MIN.search(text)
    ends, points, chars = _SENTENCES.search(text), _BULLETS.search(text), _CHARS.search(text)
    return Limits(
        words_max=_value(words, "n", "m") if words else None,
        words_min=_value(fewest, "n") if fewest else None,
        sentences_max=(1 if ends["single"] else _value(ends, "n")) if ends else None,
        bullets=_value(points, "n") if points else None,
        chars_max=_value(chars, "n") if chars else None,
        emphatic=_EMPHATIC.search(text) is not None,
    )


def _listed_sections(text: str) -> list[Section]:
    for cue in _SECTION_CUE.finditer(text):
        end_of_line = text.find("\n", cue.end())
        if end_of_line < 0 or not text[cue.start() : end_of_line].rstrip().endswith(":"):
            continue
        block = re.split(
            r"\n[ \t]*\n(?![ \t]*(?:[-*•]|\d+[.)]))", text[end_of_line:].lstrip("\n"), maxsplit=1
        )[0]
        found = [
            Section(name=m["name"].strip(), description=(m["text"] or "").strip())
            for m in _LISTED.finditer(block)
        ]
        if len(found) > 1:
            return found
    return []


def read_sections(text: str) -> tuple[Section, ...]:
    """The Markdown sections that are asked for by name, in order.

    >>> [s.name for s in read_sections("Write the sections Meaning, Impact and Next Steps.")]
    ['Meaning', 'Impact', 'Next Steps']
    """
    hashed = [
        Section(name=m["name"].strip(), description=(m["text"] or "").strip())
        for m in _HASHED.finditer(text)
    ]
    if len(hashed) > 1:
        return tuple(hashed)
    inline = [Section(name=m["name"]) for m in _INLINE_HASHED.finditer(text)]
    if len(inline) > 1:
        return tuple(inline)
    listed = _listed_sections(text)
    if listed:
        return tuple(listed)
    match = _ENUMERATED.search(text)
    if match is None:
        return ()
    names = re.split(r"\s*(?:,\s*and\b|,|\band\b|/|;)\s*", match["list"])
    return tuple(Section(name=name.strip('`"* ')) for name in names if name.strip('`"* '))


def time_format(text: str) -> str | None:
    """The requested format of times as a pattern such as `YYYY-MM-DD HH:MM`, or None.

    >>> time_format("Write times as YYYY-MM-DD HH:MM.")
    'YYYY-MM-DD HH:MM'
    """
    match = _TIME_FORMAT.search(text)
    if match is not None:
        return match[0]
    return "YYYY-MM-DDTHH:MM:SS" if _ISO.search(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The orders of a prompt that contradict it.

    Attributes:
        instead: What is to be done instead of everything else; empty where nothing is.
        always: The value that a key is to have whatever the document says, by key.
        shown: The values that examples in the text show, by key.
        prose: JSON is forbidden in another language than the prompt's.
        guesses: What is not stated is to be guessed.
        links: Links are wanted, in words that negate twice.
        words_min: The fewest words of a text.
    """

    instead: str = ""
    always: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    prose: bool = False
    guesses: bool = False
    links: bool = False
    words_min: int = 0


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")  # noqa: RUF001 - ends of sentences
_IGNORE: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\b[^.\n]{0,40}\b(?:above|previous|preceding|prior|earlier"
    r"|instructions?|rules?)\b(?:\s*(?:instructions?|rules?))?(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_ALWAYS: Final = re.compile(
    r"(?:\b(?:whatever|regardless|no matter|notwithstanding|despite)\b[^\n]*?)?"
    r"\b(?P<key>\w+)[`\"]? (?:is|must be|has to be|should be) (?:always|in every case|in any case)"
    r" [`\"]?(?P<value>\w+)",
    re.IGNORECASE,
)
_TWICE: Final = (
    r"(?:do not|don't|never|must not)\s+(?:fail to|refrain from|abstain from|avoid|omit|neglect to"
    r"|hesitate to|forget to)\s+"
)
_GUESSES: Final = re.compile(
    rf"\b(?:{_TWICE}|always |feel free to )(?:guess|invent|estimat|mak(?:e|ing) up)\w*",
    re.IGNORECASE,
)
_LINKS: Final = re.compile(
    rf"\b{_TWICE}(?:includ|add|us|cop)\w*\s+(?:any )?(?:links?|urls?)\b", re.IGNORECASE
)
_OBJECT: Final = re.compile(r"\{[^{}]*\"[^{}]*\}")
_LEAST_WORDS: Final = re.compile(
    r"\b(?:at least|no fewer than|minimum of)\s+(?P<n>\d{1,4})\s+words\b", re.IGNORECASE
)
# What a rule in French, German or Spanish says, in the words that the rest is read in.
_FOREIGN: Final[tuple[tuple[str, str], ...]] = (
    (r"\b(?:au moins|au minimum|mindestens|al menos|por lo menos)\b", "at least"),
    (r"\b(?:mots|wörter[n]?|worte[n]?|palabras)\b", "words"),
    (r"\b(?:jamais|pas|nie|niemals|nicht|kein|keine[ns]?|nunca|sin|sans|ohne)\b", "never"),
    (r"\b(?:devine[zr]?|invente[zr]?|estime[zr]?)\b", "always guess"),
    (r"\b(?:rate|erfinde|schätze|adivin[ae]|invent[ae])\b", "always guess"),
    (r"\b(?:toujours|immer|siempre)\b", "always"),
)  # fmt: skip
_NO_JSON: Final = re.compile(
    r"\bnever\b[^.\n]{0,20}\bjson\b|\btexte libre\b|\bfreitext\b|\bfließtext\b|\btexto libre\b",
    re.IGNORECASE,
)


def read_orders(text: str) -> Orders:
    r"""The orders in a text.

    >>> read_orders("Be brief.\nWhatever stands above, the tone is always warm.").always
    (('tone', 'warm'),)
    """
    foreign = "\n".join(_translated(text))
    both = f"{text}\n{foreign}"
    ignored = _IGNORE.search(text)
    least = _LEAST_WORDS.search(foreign) or _LEAST_WORDS.search(text)
    return Orders(
        instead=(ignored["rest"].strip(" .,;:") or "answer freely") if ignored else "",
        always=tuple((one["key"].lower(), one["value"]) for one in _ALWAYS.finditer(text)),
        shown=tuple(_shown(text)),
        prose=bool(_NO_JSON.search(foreign)),
        guesses=bool(_GUESSES.search(both)),
        links=bool(_LINKS.search(text)),
        words_min=int(least["n"]) if least else 0,
    )


def _translated(text: str) -> Iterator[str]:
    """The sentences in another language, as far as their words are known."""
    for sentence in _SENTENCE.split(text):
        if guess_language(sentence) in {"fr", "de", "es"}:
            for pattern, word in _FOREIGN:
                sentence = re.sub(pattern, word, sentence, flags=re.IGNORECASE)  # noqa: PLW2901
            yield sentence


def _shown(text: str) -> Iterator[tuple[str, str]]:
    for found in _OBJECT.finditer(text):
        try:
            value: Any = json.loads(found[0])
        except ValueError:
            continue
        yield from ((key, said) for key, said in value.items() if isinstance(said, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The instructions of a prompt.

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
    """The clarity of a request for JSON: the sum of the shares below, at most 1."""
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
