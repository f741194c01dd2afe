"""The instructions of a prompt: its parts, keys, labels with definitions, limits, orders."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from regauge.lexicon import Lexicon
from regauge.sim._text import (
    NUMBER_WORDS,
    LengthLimits,
    Quantity,
    count_tokens,
    is_list,
    is_object,
    quantities,
    read_json,
    stems,
    table_of,
    without_quantities,
)
from regauge.statements import guess_language

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.prompts import Message

_RE: Final = Lexicon("regauge.sim", "instructions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One example: an input and its output."""

    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of a conversation.

    Attributes:
        instructions: All instructions, in order.
        document: The text in the last user message, without delimiters.
        parts: The document's delimited parts, by their tag: `<name>..</name>`.
        shots: Examples in earlier user and assistant turns.
    """

    instructions: str
    document: str
    parts: tuple[tuple[str, str], ...] = ()
    shots: tuple[Shot, ...] = ()


def is_instruction(text: str) -> bool:
    """Return whether a paragraph starts with an instruction.

    >>> is_instruction("Summarize the report."), is_instruction("The pod restarted twice.")
    (True, False)
    """
    return _RE.imperative.match(text) is not None


def _split_tags(text: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    parts: list[tuple[str, str]] = []
    outside: list[str] = []
    end = 0
    for match in _RE.tag.finditer(text):
        if match["tag"].lower() not in _RE.words("html"):
            outside.append(text[end : match.start()])
            parts.append((match["tag"], match["body"]))
            end = match.end()
    if not parts:
        return None
    outside.append(text[end:])
    left = "\n".join(piece for piece in outside if piece.strip())
    # Tags deep inside a long document are part of it, not a frame around it.
    if len(left) > 2 * sum(len(body) for _, body in parts) and not is_instruction(left):
        return None
    return left, tuple(parts)


def _by_paragraph(text: str) -> tuple[str, str]:
    """Split a text into leading and trailing instructions, and the paragraphs between them."""
    paragraphs = _RE.sentence_break.split(text)
    first, last = 0, len(paragraphs)
    while first < last and is_instruction(paragraphs[first]):
        first += 1
    while last > first + 1 and is_instruction(paragraphs[last - 1]) and first:
        last -= 1
    instruction_paragraphs = paragraphs[:first] + paragraphs[last:]
    return "\n\n".join(instruction_paragraphs), "\n\n".join(paragraphs[first:last])


@lru_cache(maxsize=2_000)
def _split_user(text: str, *, has_system: bool) -> tuple[str, str, tuple[tuple[str, str], ...]]:  # noqa: C901, PLR0911 - one line for each kind reads best
    """Return instructions, document and delimited parts of a user message."""
    tag_parts = _split_tags(text)
    if tag_parts is not None:
        left, parts = tag_parts
        return left, "\n\n".join(body for _, body in parts), parts
    fence = _RE.fenced.search(text)
    if fence is not None and not text[: fence.start()].strip():
        return text[fence.end() :].strip(), fence["body"], ()
    if fence is not None and is_instruction(text):
        return text[: fence.start()] + text[fence.end() :], fence["body"], ()
    heading = _RE.heading.search(text)
    if heading is not None and (heading.start() == 0 or is_instruction(text)):
        before, rest = text[: heading.start()], text[heading.start("rest") :]
        if len(_RE.field_line.findall(text)) > 1 and not before.strip():
            return "", text, ()
        after, document = "", rest
        paragraphs = _RE.sentence_break.split(rest)
        while len(paragraphs) > 1 and is_instruction(paragraphs[-1]) and before.strip():
            after = paragraphs.pop() + "\n\n" + after
            document = "\n\n".join(paragraphs)
        return before + "\n\n" + after, document, ()
    instructions, document = _by_paragraph(text)
    if document.strip() and (instructions.strip() or has_system):
        return instructions, document, ()
    if has_system:
        return "", text, ()
    lead, _, rest = text.partition("\n")
    if rest.strip() and is_instruction(lead):
        return lead, rest, ()
    head, colon, tail = text.partition(": ")
    if colon and tail.strip() and is_instruction(head) and "\n" not in head:
        return head, tail, ()
    return text, "", ()


def read_layout(messages: Sequence[Message]) -> Layout:
    """Split a conversation; see docs/simulated-model.md, "Reading the prompt"."""
    system = [m.content for m in messages if m.role in ("system", "developer")]
    turns = [m for m in messages if m.role in ("user", "assistant")]
    last = max((i for i, m in enumerate(turns) if m.role == "user"), default=-1)
    if last < 0:
        return Layout(instructions="\n\n".join(system), document="")
    shots: list[Shot] = []
    earlier_instructions: list[str] = []
    for before, after in pairwise(turns[: last + 1]):
        if before.role == "user" and after.role == "assistant":
            instructions, document, _ = _split_user(before.content, has_system=bool(system))
            shots.append(Shot(input=document or before.content, output=after.content))
            earlier_instructions.append(instructions)
        elif before.role == "user":
            earlier_instructions.append(before.content)
    instructions, document, parts = _split_user(turns[last].content, has_system=bool(system))
    texts = dict.fromkeys(
        t.strip() for t in (*system, *earlier_instructions, instructions) if t.strip()
    )
    return Layout(
        instructions="\n\n".join(texts), document=document, parts=parts, shots=tuple(shots)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One cue of a definition: its content words and its numbers.

    Attributes:
        excludes: The definition excludes it from the label ("not ...", "except ...").
    """

    words: frozenset[str]
    quantities: tuple[Quantity, ...]
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDefinition:
    """One label and the cues of its definition; no clause without a definition."""

    name: str
    clauses: tuple[Clause, ...] = ()
    is_default: bool = False


_LONG_CLAUSE: Final = 16


def label_names(text: str, *, excluded: Collection[str] = ()) -> tuple[str, ...]:
    """Return the labels that a text offers, if no schema lists them.

    >>> label_names("Classify it as one of: bug, feature or question.")
    ('bug', 'feature', 'question')
    """
    for pattern in (_RE.one_of, _RE.piped):
        for match in pattern.finditer(text):
            names = [n.strip("\"'`*“”‘’_ ") for n in _RE.list_break.split(match["list"])]  # noqa: RUF001 - texts in the wild hold this character
            names = [n for n in names if n and n not in excluded]
            if len(names) > 1:
                return tuple(dict.fromkeys(names))
    for head in _RE.list_head.finditer(text):
        block = _paragraph_below(text, head)
        names = [m["name"] for m in _RE.bullet.finditer(block) if m["name"] not in excluded]
        if len(names) > 1:
            return tuple(dict.fromkeys(names))
    return ()


def _paragraph_below(text: str, head: re.Match[str]) -> str:
    return re.split(r"\n[ \t]*\n", text[head.end() :].lstrip("\n"), maxsplit=1)[0]


def _definition(text: str, name: str, other_names: Sequence[str]) -> str:
    """Return all that the text states about one label."""
    label = f"(?:{re.escape(name)})"
    other_labels = "|".join(re.escape(other) for other in other_names) or r"(?!)"
    texts: list[str] = []
    for match in _RE.pattern("definition", label=label, others=other_labels).finditer(text):
        rest = match["rest"].strip()
        if not rest and text[match.end() : match.end() + 2].startswith("\n"):
            # A heading: its text is in the paragraph below.
            rest = re.split(r"\n[ \t]*\n[^\s-]|\n#", text[match.end() :].lstrip(), maxsplit=1)[0]
        head_indent = len(match["indent"])
        lines: list[str] = []
        for index, continuation in enumerate(rest.split("\n")):
            indent = len(continuation) - len(continuation.lstrip())
            if index and head_indent >= indent and not re.match(r"\s*[-*•]", continuation):
                break
            lines.append(continuation.strip(" \t-*•|"))
        texts.append("\n".join(lines))
    inline = _RE.pattern("inline_definition", label=label)
    texts += [match["rest"] for match in inline.finditer(text)]
    return "\n".join(dict.fromkeys(t.strip() for t in texts if t.strip()))


def _clauses(definition: str) -> tuple[Clause, ...]:
    clauses: list[Clause] = []
    for raw in _RE.clause_break.split(definition):
        for piece in raw.split(", ") if len(raw.split()) > _LONG_CLAUSE else [raw]:
            words, numbers = stems(without_quantities(piece)), quantities(piece)
            if words or numbers:
                excludes = _RE.excludes.match(piece) is not None
                cues = frozenset(w for w in words if not excludes or not w.startswith("not_"))
                clauses.append(Clause(words=cues, quantities=numbers, excludes=excludes))
    return tuple(clauses)


def read_labels(text: str, names: Sequence[str]) -> tuple[LabelDefinition, ...]:
    """Return each label with the cues of its definition.

    >>> read_labels("idea: a wish", ["idea"])[0].clauses[0].words
    frozenset({'wish'})
    """
    labels: list[LabelDefinition] = []
    for name in names:
        definition = _definition(text, name, [other for other in names if other != name])
        bare, defaults = _RE.default.subn(" ", definition)
        labels.append(LabelDefinition(name=name, clauses=_clauses(bare), is_default=defaults > 0))
    return tuple(labels)


def shots_in_text(text: str) -> tuple[Shot, ...]:
    """Return examples in the instructions: `input -> label`, or Input: and Output: lines.

    >>> shots_in_text("- disk 97 % full -> critical")[0].output
    'critical'
    """
    pairs = [(m["input"].strip(), m["output"].strip()) for m in _RE.pair.finditer(text)]
    arrows = [(m["input"], m["output"]) for m in _RE.arrow.finditer(text)]
    return tuple(Shot(input=input_, output=output) for input_, output in arrows + pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the output.

    Attributes:
        description: Its descriptions in schema and text.
        kind: As in JSON schema: `string`, `number`, `integer`, `boolean`, `array`, `object`; empty
            if only the text names it.
        enum: Its allowed values; empty for any.
        in_words: Whether the messages name it.
        is_described: Whether the messages or the schema describe it.
        children: The keys of an object, or of the objects in an array.
    """

    name: str
    description: str = ""
    kind: str = ""
    enum: tuple[str, ...] = ()
    nullable: bool = False
    in_words: bool = False
    in_schema: bool = False
    is_described: bool = False
    children: tuple[Key, ...] = ()


_BARE_LIST_WORDS: Final = 8
_COLONLESS: Final = frozenset({"and", "or", "the", "a", "an", "with", "of", "in", "json"})


def schema_of(response_format: Mapping[str, JSON] | None) -> Mapping[str, Any] | None:
    """Return the JSON schema of a response format, or None.

    >>> schema_of({"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}})
    {'a': 1}
    """
    if response_format is None or response_format.get("type") != "json_schema":
        return None
    outer = response_format.get("json_schema")
    inner: Any = table_of(outer).get("schema", outer)
    return inner if is_object(inner) else None


def _kinds(schema: Mapping[str, Any]) -> tuple[str, bool]:
    kinds: Any = schema.get("type", "")
    options: Any = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options):
        kinds = [option.get("type", "") for option in options if is_object(option)]
    if not is_list(kinds):
        return str(kinds), False
    names = [str(kind) for kind in kinds]
    return next((name for name in names if name != "null"), ""), "null" in names


def _schema_keys(schema: Mapping[str, Any], *, depth: int = 0) -> list[Key]:
    properties = table_of(schema.get("properties")) if depth <= 5 else {}  # noqa: PLR2004 - a small count that says itself
    keys: list[Key] = []
    for name, inner in ((name, table_of(value)) for name, value in properties.items()):
        kind, nullable = _kinds(inner)
        enum: Any = inner.get("enum")
        values: list[Any] = enum if is_list(enum) else []
        items: Any = inner.get("items")
        description = str(inner.get("description", ""))
        keys.append(
            Key(
                name=name,
                description=description,
                kind=kind or ("object" if "properties" in inner else "string"),
                enum=tuple(str(v) for v in values if v is not None),
                nullable=nullable or None in values,
                in_schema=True,
                is_described=len(description.split()) > 1,
                children=tuple(_schema_keys(items if is_object(items) else inner, depth=depth + 1)),
            )
        )
    return keys


def _notes_on_quoted(text: str) -> dict[str, str]:
    """Return keys in quotes after the word `key` or `field`, with the text in brackets."""
    return {
        match["name"]: match["note"] or ""
        for sentence in _RE.key_sentence.finditer(text)
        for match in _RE.quoted_key.finditer(sentence[0])
    }


def _names_in_words(text: str) -> list[str]:
    """Return keys that the text requests: of an example object, a list, or bullets below a head."""
    names: list[str] = []
    for example in _RE.example_object.finditer(text):
        names += _RE.object_keys.findall(example[0])
    for match in _RE.key_list.finditer(text):
        words = re.findall(r"[A-Za-z_]\w*", match["list"])
        names += [word for word in words if word.lower() not in _COLONLESS]
    names = names or list(_notes_on_quoted(text))
    for head in _RE.key_head.finditer(text):
        names += [m["name"] for m in _RE.key_bullet.finditer(_paragraph_below(text, head))]
    return list(dict.fromkeys(names))


def read_keys(
    text: str, response_format: Mapping[str, JSON] | None, *, wants_json: bool
) -> tuple[Key, ...]:
    """Return the keys of the output in their order; empty if it is not JSON."""
    schema = schema_of(response_format)
    if not wants_json and schema is None:
        return ()
    bullets = {m["name"]: m for m in reversed(list(_RE.key_bullet.finditer(text)))}
    notes = _notes_on_quoted(text)
    by_name = {key.name: key for key in (_schema_keys(schema) if schema else ())}
    if not by_name:
        by_name = {name: Key(name=name) for name in _names_in_words(text)}
    keys: list[Key] = []
    for name, key in by_name.items():
        bullet = bullets.get(name)
        words = f"{bullet['note'] or ''} {bullet['text']}".strip() if bullet is not None else ""
        words = words or notes.get(name, "")
        enum = key.enum
        if not enum and not key.in_schema and words:
            short = len(words.split()) <= _BARE_LIST_WORDS
            enum = label_names(f"one of {words.rstrip('.')}" if short else words)
        keys.append(
            replace(
                key,
                description=" ".join(filter(None, (words, key.description))),
                enum=enum,
                nullable=key.nullable or _RE.null.search(words) is not None,
                in_words=re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None,
                is_described=key.is_described or len(words.split()) > 1,
            )
        )
    return tuple(keys)


def key_words(keys: Sequence[Key]) -> frozenset[str]:
    """Return the names of keys and of all their descendants."""
    return frozenset(key.name for key in keys).union(*(key_words(key.children) for key in keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSection:
    """One Markdown section that is requested by name, and its description."""

    name: str
    description: str = ""


_LIMITS: Final = _RE.patterns("limits")
_LIST_END: Final = r"\n[ \t]*\n(?![ \t]*(?:[-*•]|\d+[.)]))"


def _value(match: re.Match[str]) -> int:
    text = next(filter(None, match.groups())).lower()
    return 1 if text == "single" else NUMBER_WORDS.get(text, 0) or int(text)


@lru_cache(maxsize=500)
def read_limits(text: str) -> LengthLimits:
    """Return the limits that a text states.

    >>> read_limits("at most 80 words, in one sentence").words_max
    80
    """
    limits = {
        name: _value(match)
        for name, pattern in _LIMITS.items()
        if (match := pattern.search(text)) is not None
    }
    return LengthLimits(**limits, emphatic=_RE.emphatic.search(text) is not None)


def _listed_sections(text: str) -> tuple[RequestedSection, ...]:
    for cue in _RE.section_cue.finditer(text):
        line, _, below = text[cue.start() :].partition("\n")
        if below and line.rstrip().endswith(":"):
            block = re.split(_LIST_END, below.lstrip("\n"), maxsplit=1)[0]
            sections = _described_sections(_RE.listed, block)
            if len(sections) > 1:
                return sections
    return ()


def _described_sections(pattern: re.Pattern[str], text: str) -> tuple[RequestedSection, ...]:
    return tuple(
        RequestedSection(name=m["name"].strip(), description=(m["text"] or "").strip())
        for m in pattern.finditer(text)
    )


def read_sections(text: str) -> tuple[RequestedSection, ...]:
    """Return the Markdown sections that are requested by name, in order.

    >>> [s.name for s in read_sections("Write the sections Meaning, Impact and Next Steps.")]
    ['Meaning', 'Impact', 'Next Steps']
    """
    hashed = _described_sections(_RE.hashed, text)
    if len(hashed) > 1:
        return hashed
    inline = tuple(RequestedSection(name=m["name"]) for m in _RE.inline_hashed.finditer(text))
    if len(inline) > 1:
        return inline
    match = _RE.enumerated.search(text)
    names = re.split(r"\s*(?:,\s*and\b|,|\band\b|/|;)\s*", match["list"]) if match else []
    stripped = (name.strip('`"* ') for name in names)
    return _listed_sections(text) or tuple(RequestedSection(name=n) for n in stripped if n)


def time_format(text: str) -> str | None:
    """Return the requested format of times as a pattern such as `YYYY-MM-DD HH:MM`, or None.

    >>> time_format("Write times as YYYY-MM-DD HH:MM.")
    'YYYY-MM-DD HH:MM'
    """
    match = _RE.time_format.search(text)
    if match is not None:
        return match[0]
    return "YYYY-MM-DDTHH:MM:SS" if _RE.iso.search(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The orders of a prompt that contradict it.

    Attributes:
        instead: The task that replaces everything else; empty without one.
        always: The value of a key for any document, by key.
        examples: The values in examples of the text, by key.
        prose: JSON is forbidden in another language than the prompt's.
        guesses: Missing facts have to be guessed.
        links: Links are requested, with a double negation.
        words_min: The minimum words of a text.
    """

    instead: str
    always: tuple[tuple[str, str], ...]
    examples: tuple[tuple[str, str], ...]
    prose: bool
    guesses: bool
    links: bool
    words_min: int


def read_orders(text: str) -> Orders:
    r"""Return the orders in a text.

    >>> read_orders("Be brief.\nWhatever the text, the tone is always warm.").always
    (('tone', 'warm'),)
    """
    foreign = "\n".join(_translate(text))
    both_texts = f"{text}\n{foreign}"
    override = _RE.ignore.search(text)
    minimum = _RE.least_words.search(foreign) or _RE.least_words.search(text)
    return Orders(
        instead=(override["rest"].strip(" .,;:") or "answer freely") if override else "",
        always=tuple((match["key"].lower(), match["value"]) for match in _RE.always.finditer(text)),
        examples=tuple(
            (key, value)
            for match in _RE.object.finditer(text)
            for key, value in table_of(read_json(match[0])).items()
            if isinstance(value, str)
        ),
        prose=bool(_RE.no_json.search(foreign)),
        guesses=bool(_RE.guesses.search(both_texts)),
        links=bool(_RE.links.search(text)),
        words_min=int(minimum["n"]) if minimum else 0,
    )


def _translate(text: str) -> Iterator[str]:
    """Yield the sentences in another language, with known words translated."""
    for sentence in _RE.sentence.split(text):
        if guess_language(sentence) in {"fr", "de", "es"}:
            for pattern, word in _RE.entry("foreign"):
                sentence = re.sub(pattern, word, sentence, flags=re.IGNORECASE)  # noqa: PLW2901
            yield sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The instructions of a prompt.

    Attributes:
        text: All instructions, unchanged.
        requests_harm: They, not the document, request something plainly harmful.
        wants_json: The output has to be JSON, by text or response format.
        keys: The keys of a JSON output, in order.
        labels: The labels to choose from, with definitions.
        label_key: The key of the label; empty if the label is the whole output.
        sections: Markdown sections by name.
        forbidden: Words and phrases that must not appear.
        format_clarity: From 0 (no word about the format) to 1, see `_format_clarity`.
        null_when_absent: The prompt has a rule for facts that are missing in the document.
        tokens: The length of the instructions.
        orders: Orders that contradict the prompt.
    """

    text: str
    requests_harm: bool
    wants_json: bool
    keys: tuple[Key, ...]
    labels: tuple[LabelDefinition, ...]
    label_key: str
    shots: tuple[Shot, ...]
    sections: tuple[RequestedSection, ...]
    limits: LengthLimits
    forbidden: tuple[str, ...]
    no_markdown: bool
    no_links: bool
    time_format: str | None
    format_clarity: float
    null_when_absent: bool
    tokens: int
    orders: Orders


def _format_clarity(
    text: str,
    response_format: Mapping[str, JSON] | None,
    keys: tuple[Key, ...],
    *,
    has_example: bool,
) -> float:
    """Return the clarity of a request for JSON: the sum of the shares below, at most 1."""
    clarity = 0.5 if _RE.json_asked.search(text) else 0.25 if _RE.json_word.search(text) else 0.0
    clarity += 0.2 if _RE.only.search(text) else 0.0
    has_format = response_format is not None and response_format.get("type") != "text"
    clarity += 0.15 if has_format else 0.0
    are_described = bool(keys) and all(key.is_described and key.in_words for key in keys)
    clarity += 0.15 if has_example or "{" in text or are_described else 0.0
    return min(clarity, 1.0)


@lru_cache(maxsize=200)
def _read(text: str, shots: tuple[Shot, ...], format_text: str) -> Instructions:
    response_format: Mapping[str, JSON] | None = json.loads(format_text)
    format_type = response_format.get("type") if response_format is not None else None
    by_format = format_type in ("json_object", "json_schema")
    has_example = any(shot.output.lstrip().startswith("{") for shot in shots)
    orders = read_orders(text)
    wants_json = by_format or has_example or _RE.json_word.search(text) is not None
    wants_json = wants_json and not orders.prose
    keys = read_keys(text, response_format, wants_json=wants_json)
    label_key, names = next(((key.name, key.enum) for key in keys if len(key.enum) > 1), ("", ()))
    if not names and not (wants_json and keys):
        names = label_names(text, excluded=key_words(keys))
    forbidden = (
        phrase
        for match in _RE.forbidden.finditer(text)
        for phrase in re.findall(r"[\"'`“]([^\"'`”\n]{1,60})[\"'`”]", match["list"])
    )
    return Instructions(
        text=text,
        requests_harm=_RE.harm.search(text) is not None,
        wants_json=wants_json,
        keys=keys,
        labels=read_labels(text, names) if names else (),
        label_key=label_key,
        shots=shots + shots_in_text(text),
        sections=() if wants_json else read_sections(text),
        limits=read_limits(text),
        forbidden=tuple(dict.fromkeys(forbidden)),
        no_markdown=_RE.no_markdown.search(text) is not None,
        no_links=_RE.no_links.search(text) is not None,
        time_format=time_format(text),
        format_clarity=_format_clarity(text, response_format, keys, has_example=has_example),
        null_when_absent=_RE.null_rule.search(text) is not None,
        tokens=count_tokens(text),
        orders=orders,
    )


def read_instructions(layout: Layout, response_format: Mapping[str, JSON] | None) -> Instructions:
    """Read the instructions; the same instructions are read once."""
    format_text = json.dumps(response_format, default=dict)
    return _read(layout.instructions, layout.shots, format_text)
