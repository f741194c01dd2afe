"""Candidate golden cases from recorded spans of production, for `regauge new case --from-spans`."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast, get_args

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.files import write_whole
from regauge.judges import PersonalKind, personal_data
from regauge.recordings import redactor_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.project import Settings
    from regauge.prompts import Prompt

# A file is read at once; the export of a day is far smaller.
_BYTES_MAX = 512 * 1024 * 1024
# Jaccard index of the word sets of two inputs; support tickets above it have the same request.
_ALIKE = 0.9
_SHOWN_CHARS = 200
_WORD = re.compile(r"\w+")
_BEGINNING = re.compile(r"[^\s,]")
_VARYING = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=\w*\d)[0-9a-f]{12,}\b|\d+", re.IGNORECASE
)
# Conventions that number messages: OpenLLMetry's and OpenInference's.
_NUMBERED = re.compile(
    r"(?P<way>gen_ai\.prompt|gen_ai\.completion|llm\.input_messages|llm\.output_messages)"
    r"\.(?P<number>\d+)\.(?:message\.)?(?P<key>role|content)"
)
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCall:
    """One model call of a span.

    Attributes:
        messages: Pairs of role and text, in order.
        output: The text of the completion; empty if the span has none.
        place: `file:number`, with the number of the span in the file, from 1.
    """

    messages: tuple[tuple[str, str], ...]
    output: str
    model: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCases:
    """Golden cases for review.

    Attributes:
        documents: Lines of a golden dataset, the most frequent request first.
        calls: The number of model calls read.
        duplicates: The number of calls that repeat or nearly repeat another one.
        unmatched: Places of calls whose messages do not match the prompt.
        masked: The number of masked secrets and personal data.
    """

    documents: tuple[dict[str, JSON], ...]
    calls: int
    duplicates: int
    unmatched: tuple[str, ...]
    masked: int


def read_spans(path: Path) -> list[SpanCall]:
    """Read the model calls of a file of spans.

    The file holds JSON documents, one per line or one after the other: OTLP JSON as the
    OpenTelemetry Collector's file exporter writes it, spans of the console exporter, or lists of
    either. Messages follow one of these semantic conventions:

    - OpenTelemetry for generative AI: `gen_ai.input.messages`, or events before version 1.37
    - OpenLLMetry: `gen_ai.prompt.0.content`
    - OpenInference: `llm.input_messages.0.message.content`

    Raises:
        UsageError: The file cannot be read, is above 512 MiB or is not JSON.
    """
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{path} is larger than 512 MiB", fix="split the file")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8", fix="save it as UTF-8") from error
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{path} cannot be read: {reason}", fix="give a file of spans") from error
    spans = chain.from_iterable(map(_spans, _documents(text, path)))
    calls = (_call(span, f"{path}:{number}") for number, span in enumerate(spans, 1))
    return [call for call in calls if call is not None]


def _documents(text: str, path: Path) -> Iterator[object]:
    decoder = json.JSONDecoder()
    place = 0
    while beginning := _BEGINNING.search(text, place):
        place = beginning.start()
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, place) + 1
            raise UsageError(
                f"{path}:{line}: not JSON: {error}", fix="export spans as OTLP JSON"
            ) from error
        yield document


def _spans(document: object) -> Iterator[dict[str, Any]]:
    """The spans in a document, at any depth that exporters use."""
    if isinstance(document, list):
        for item in cast("list[object]", document):
            yield from _spans(item)
    elif isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        inner = [
            fields[key]
            for key in ("resourceSpans", "scopeSpans", "instrumentationLibrarySpans", "spans")
            if isinstance(fields.get(key), list)
        ]
        for items in inner:
            yield from _spans(items)
        if not inner and "attributes" in fields:
            yield fields


def _call(span: dict[str, Any], place: str) -> SpanCall | None:
    """The model call of a span; None for a span of another kind."""
    values = _attributes(span.get("attributes"))
    input_messages: list[tuple[str, str]] = []
    output_messages: list[tuple[str, str]] = []
    for event in _objects(span.get("events")):
        _add_event(event, values, input_messages, output_messages)
    system = _texts(values.get("gen_ai.system_instructions"))
    messages = _messages(values.get("gen_ai.input.messages"), "user")
    if messages:
        input_messages = [*([("system", "\n".join(system))] if system else []), *messages]
        output_messages = (
            _messages(values.get("gen_ai.output.messages"), "assistant") or output_messages
        )
    numbered = _group_numbered(values)
    input_messages = input_messages or numbered["sent"]
    output_messages = output_messages or numbered["received"]
    if not input_messages and isinstance(values.get("input.value"), str):
        input_messages = [("user", values["input.value"])]
        output = values.get("output.value")
        output_messages = [("assistant", output)] if isinstance(output, str) else []
    if not any(role == "user" for role, _ in input_messages):
        return None
    keys = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
    model = next((str(values[key]) for key in keys if values.get(key)), "")
    output = output_messages[0][1] if output_messages else ""
    return SpanCall(messages=tuple(input_messages), output=output, model=model, place=place)


def _add_event(
    event: dict[str, Any],
    values: dict[str, Any],
    input_messages: list[tuple[str, str]],
    output_messages: list[tuple[str, str]],
) -> None:
    """Read a message from an event of a span."""
    name, fields = str(event.get("name", "")), _attributes(event.get("attributes"))
    if name in _EVENT_ROLES:
        content = fields.get("content") or fields.get("gen_ai.event.content")
        input_messages += [(_EVENT_ROLES[name], text) for text in _texts(content)]
    elif name == "gen_ai.choice":
        message = _parse(fields.get("message"))
        output_messages += [
            ("assistant", text) for text in _texts(message or fields.get("content"))
        ]
    else:  # such as gen_ai.client.inference.operation.details
        for key, value in fields.items():
            if key.startswith("gen_ai."):
                values.setdefault(key, value)


def _attributes(pairs: object) -> dict[str, Any]:
    """Attributes as a mapping, from OTLP's list of keys and typed values or from a mapping."""
    if isinstance(pairs, dict):
        return dict(cast("dict[str, Any]", pairs))
    return {str(pair.get("key")): _value(pair.get("value")) for pair in _objects(pairs)}


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list; empty for any other value."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _value(value: object) -> Any:
    """A value of OTLP JSON: `{"stringValue": "x"}`, with lists and mappings inside."""
    wrapped: dict[str, Any] = cast("Any", value) if isinstance(value, dict) else {}
    if len(wrapped) != 1:
        return cast("Any", value)
    ((kind, inner),) = wrapped.items()
    if kind == "arrayValue":
        return [_value(item) for item in inner.get("values", [])]
    if kind == "kvlistValue":
        return _attributes(inner.get("values"))
    return cast("object", inner) if kind.endswith("Value") else wrapped


def _parse(value: object) -> Any:
    """A value, parsed if it is JSON in a text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _texts(value: object) -> list[str]:
    """The texts of a message's content: a text, or a list of parts."""
    value = _parse(value) if isinstance(value, str) and value[:1] in "[{" else value
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        part = cast("dict[str, Any]", value)
        return _texts(part.get("content") or part.get("text"))
    if isinstance(value, list):
        return [text for item in cast("list[object]", value) for text in _texts(item)]
    return []


def _messages(value: object, role: str) -> list[tuple[str, str]]:
    messages = (
        (str(message.get("role") or role), _texts(message.get("parts") or message.get("content")))
        for message in _objects(_parse(value))
    )
    return [(author, "\n".join(texts)) for author, texts in messages if texts]


def _group_numbered(values: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    fields: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for key, value in values.items():
        match = _NUMBERED.fullmatch(key)
        if match:
            side = "sent" if match["way"].endswith(("prompt", "input_messages")) else "received"
            fields[side, int(match["number"])][match["key"]] = "\n".join(_texts(value))
    sides: dict[str, list[tuple[str, str]]] = {"sent": [], "received": []}
    for (side, _), message in sorted(fields.items()):
        if message.get("content"):
            role = message.get("role", "user" if side == "sent" else "assistant")
            sides[side].append((role, message["content"]))
    return sides


def candidate_cases(
    calls: Sequence[SpanCall],
    prompt: Prompt | None,
    settings: Settings,
    existing: Sequence[Mapping[str, JSON]] = (),
) -> CandidateCases:
    """Make golden cases for review from model calls.

    The prompt's templates are matched against the messages to find inputs; a prompt with one input
    takes the last user message if its text differs. Secrets and personal data are masked. Inputs
    whose words agree in at least 90 % (Jaccard) become one case.

    Args:
        calls: From `read_spans`.
        prompt: The prompt; None for a target, whose input `input` is the last user message.
        settings: The settings, with the names of further secrets.
        existing: Inputs of golden cases, to skip.
    """
    redactor = redactor_for(settings, os.environ)
    masked = 0

    def mask(text: str) -> str:
        nonlocal masked
        clean = redactor.redact(text)
        masked += clean != text
        for kind, value in list(personal_data(clean, get_args(PersonalKind))):
            masked += 1
            clean = clean.replace(value, f"<{kind}>")
        return clean

    unmatched: list[str] = []
    read: list[tuple[dict[str, str], SpanCall]] = []
    for call in calls:
        inputs = _inputs(call, prompt)
        if inputs is None:
            unmatched.append(call.place)
            continue
        clean = {name: mask(text) for name, text in inputs.items()}
        read.append((clean, replace(call, output=mask(call.output))))
    words = [_words(inputs) for inputs in (*existing, *(inputs for inputs, _ in read))]
    documents: list[tuple[int, dict[str, JSON]]] = []
    for members in _groups(words):
        if members[0] >= len(existing):
            inputs, call = read[members[0] - len(existing)]
            documents.append((len(members), _document(inputs, call, len(members))))
    documents.sort(key=lambda entry: (-entry[0], str(entry[1]["id"])))
    return CandidateCases(
        documents=tuple(document for _, document in documents),
        calls=len(calls),
        duplicates=len(read) - len(documents),
        unmatched=tuple(unmatched),
        masked=masked,
    )


def write_candidates(path: Path, candidates: CandidateCases) -> int:
    """Add cases to a JSON Lines file, without ids that it contains.

    Returns:
        The number of added cases.

    Raises:
        UsageError: The file cannot be read or written, or has a line that is not a case.
    """
    try:
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        existing = {json.loads(line)["id"] for line in before.splitlines() if line.strip()}
        new = [document for document in candidates.documents if document["id"] not in existing]
        lines = [json.dumps(document, ensure_ascii=False) for document in new]
        gap = "" if not before or before.endswith("\n") else "\n"
        if new:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, "".join([before, gap, *(f"{line}\n" for line in lines)]).encode())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} cannot take cases: {error}", fix="name another --output"
        ) from error
    return len(new)


def _inputs(call: SpanCall, prompt: Prompt | None) -> dict[str, str] | None:
    """The inputs with which the prompt renders to these messages; None without any."""
    last = next(text for role, text in reversed(call.messages) if role == "user")
    if prompt is None:
        return {"input": last}
    inputs = prompt.inputs_in(call.messages)
    if inputs is None and len(prompt.variables) == 1:
        return dict.fromkeys(prompt.variables, last)
    return inputs


def _words(inputs: Mapping[str, JSON]) -> frozenset[str]:
    """The words of inputs, without numbers and identifiers, which vary between calls."""
    text = " ".join(value if isinstance(value, str) else "" for value in inputs.values())
    return frozenset(_WORD.findall(_VARYING.sub("0", text).casefold()))


def _groups(sets: Sequence[frozenset[str]]) -> list[list[int]]:
    """Groups of positions of similar sets, the first position leading.

    Two sets with a Jaccard index of t share one of their |s| - ceil(t |s|) + 1 rarest words. Only
    sets with such a word in common are compared (prefix filtering; Chaudhuri et al., ICDE 2006).
    """
    counts = Counter(word for words in sets for word in words)
    leaders: dict[str, list[int]] = defaultdict(list)
    groups: dict[int, list[int]] = {}
    for number, words in enumerate(sets):
        by_rarity = sorted(words, key=lambda word: (counts[word], word)) or [""]
        prefix = by_rarity[: len(by_rarity) - -(-len(by_rarity) * 9 // 10) + 1]
        near = {leader for word in prefix for leader in leaders[word]}
        alike = (
            leader
            for leader in sorted(near)
            if len(sets[leader] & words) >= _ALIKE * len(sets[leader] | words)
        )
        near_leader = next(alike, None)
        if near_leader is None:
            groups[number] = [number]
            for word in prefix:
                leaders[word].append(number)
        else:
            groups[near_leader].append(number)
    return list(groups.values())


def _document(inputs: Mapping[str, str], call: SpanCall, count: int) -> dict[str, JSON]:
    model = f" of {call.model}" if call.model else ""
    output = " ".join(call.output.split())
    excerpt = output if len(output) <= _SHOWN_CHARS else f"{output[:_SHOWN_CHARS]}…"
    seen = f"review: {count} like it in spans, first {call.place}"
    return {
        "id": f"span-{digest_of(dict(inputs))[:10]}",
        "inputs": dict(inputs),
        "tier": "tracked",
        "tags": ["from-spans"],
        "note": f"{seen}; output{model}: {excerpt}" if excerpt else seen,
    }
