"""A document as the simulated model reads it: fields, events, facts of an alert, a summary."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from regauge.lexicon import Lexicon
from regauge.sim._text import (
    Moment,
    count_words,
    find_moments,
    is_list,
    is_object,
    sentences,
    split_name,
    stems,
)

if TYPE_CHECKING:
    from regauge.sim._instructions import Limits

_RE: Final = Lexicon("regauge.sim", "document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A labelled piece of a document: `**Impact**: ...`, a table row, a JSON value, a section."""

    key: str
    value: str
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a stated time."""

    label: str
    moment: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The contents of one document.

    Attributes:
        text: The document as it came.
        title: Its title or first heading; empty when it has none.
        fields: Labelled pieces in order.
        lines: The text that events are read from.
        prose: Paragraphs of sentences, markup taken off.
    """

    text: str
    title: str
    fields: tuple[Field, ...]
    lines: str
    prose: tuple[str, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """Moments with what happened, in order of appearance; read when first asked for."""
        return _events(self.lines)

    def field(self, name: str) -> str:
        """The value of the first field of that name, ignoring case; empty when there is none."""
        return next((f.value for f in self.fields if f.key.lower() == name.lower()), "")


_EVENT_WORDS: Final = 14


def plain(text: str) -> str:
    """Markdown taken off: links keep their text, marks go, white space is one space.

    >>> plain("**Bold** [text](http://x) `code`")
    'Bold text code'
    """
    text = _RE.link.sub(lambda m: m["text"] or "", text)
    return " ".join(_RE.marks.sub(lambda m: m["inner"], text).replace("`", "").split())


def _flatten(value: Any, key: str, depth: int, into: list[Field]) -> None:
    if is_object(value):
        for name, inner in value.items():
            _flatten(inner, str(name), depth + 1, into)
    elif is_list(value):
        members: list[Any] = value
        if all(not isinstance(member, dict | list) for member in members):
            into.append(Field(key=key, value="\n".join(str(m) for m in members), depth=depth))
        else:
            for member in members:
                _flatten(member, key, depth + 1, into)
    elif value is not None:
        into.append(Field(key=key, value=str(value), depth=depth))


def _from_json(text: str) -> list[Field] | None:
    body = text.strip()
    if not body.startswith(("{", "[")):
        return None
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    fields: list[Field] = []
    _flatten(value, "", 0, fields)
    return fields


def _from_lines(text: str) -> tuple[str, list[Field]]:  # noqa: C901 - one step for each shape of line or message
    """The title and the labelled pieces of a text written for people."""
    title = ""
    fields: list[Field] = []
    key, indent, body = "", -1, list[str]()
    stops_at_blank = False

    def close() -> None:
        if key:
            fields.append(Field(key=key, value="\n".join(body).strip("\n")))

    for line in text.split("\n"):
        heading = _RE.heading.match(line)
        row = _RE.row.match(line)
        if heading is not None:
            close()
            name = plain(heading["title"])
            if not title:
                title, key = name, ""
            else:
                key = name
            indent, body = -1, []
            continue
        if row is not None and not _RE.rule_row.match(line):
            cells = [plain(cell) for cell in row["cells"].split("|")]
            if len(cells) == 2:  # noqa: PLR2004 - a small count that says itself
                fields.append(Field(key=cells[0], value=cells[1]))
        labelled = _RE.labelled.match(line) if not _RE.time_starts.match(line) else None
        deeper = len(line) - len(line.lstrip()) > max(indent, 0) and indent >= 0
        bold = labelled is not None and labelled["bold"] is not None
        if (
            labelled is not None
            and (bold or not deeper or key == "")
            and not _RE.url.match(line.strip())
        ):
            close()
            key = plain(labelled["bold"] or labelled["plain"]).rstrip(":")
            stops_at_blank = not bold and bool(labelled["value"])
            indent, body = len(labelled["indent"]), [labelled["value"]] if labelled["value"] else []
        elif key and not line.strip() and stops_at_blank and body:
            close()
            key = ""
        elif key:
            body.append(line)
    close()
    return title, fields


@lru_cache(maxsize=200)
def _events(text: str) -> tuple[Event, ...]:
    """Each moment with the words of its line, before or after it."""
    events: list[Event] = []
    moments = find_moments(text)
    for index, moment in enumerate(moments):
        line_start = text.rfind("\n", 0, moment.start) + 1
        line_end = text.find("\n", moment.end)
        line_end = len(text) if line_end < 0 else line_end
        if index and moments[index - 1].end > line_start:
            line_start = moments[index - 1].end
        if index + 1 < len(moments) and moments[index + 1].start < line_end:
            line_end = moments[index + 1].start
        before = plain(text[line_start : moment.start]).strip(" -*•|>:,;([\"'{")
        after = plain(text[moment.end : line_end]).strip(" -*•|>:–—,;)]\"'}.")  # noqa: RUF001 - texts in the wild hold this character
        before = " ".join(before.split()[-_EVENT_WORDS:])
        before = re.sub(r"\b(?:at|on|by|from|since|until|um|am|gegen)$", "", before).strip(' ,:;"')
        after = " ".join(after.split()[:_EVENT_WORDS])
        whole_line = text.rfind("\n", 0, moment.start) + 1 == line_start
        label = before if before and (whole_line or not after) else f"{before} {after}".strip()
        if whole_line and len(before.split()) < 2 and after:  # noqa: PLR2004 - a small count that says itself
            label = f"{before} {after}".strip()
        events.append(Event(label=label.replace("_", " "), moment=moment))
    return tuple(events)


def _prose(text: str) -> list[str]:
    paragraphs: list[str] = []
    for block in re.split(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*•]|\d+[.)])[ \t])|\n(?=#)", text):
        if block.lstrip().startswith(("#", "|", "```")) or _RE.front_matter.match(block):
            continue
        cleaned = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", block))
        if len(cleaned.split()) > 2:  # noqa: PLR2004 - a small count that says itself
            paragraphs.append(cleaned)
    return paragraphs


@lru_cache(maxsize=500)
def read_document(text: str, parts: tuple[tuple[str, str], ...] = ()) -> Document:
    """Read a document of any shape; the same document is read once."""
    front = _RE.front_matter.match(text)
    body = text[front.end() :] if front is not None else text
    fields = [Field(key=name, value=value.strip()) for name, value in parts if len(parts) > 1]
    as_json = _from_json(body)
    if as_json is not None:
        fields += as_json
        lines = "\n".join(f"{field.key}: {field.value}" for field in as_json)
        title = next((f.value for f in as_json if f.key.lower() in _TITLE_KEYS), "")
        prose = tuple(plain(f.value) for f in as_json if len(f.value.split()) > 3)  # noqa: PLR2004 - a small count that says itself
    else:
        lines = body
        title, labelled = _from_lines(body)
        fields += labelled if len(parts) < 2 else []  # noqa: PLR2004 - a small count that says itself
        prose = tuple(_prose(body))
    if front is not None:
        headline = _RE.front_title.search(front["body"])
        title = headline["title"] if headline is not None else title
    if not title:
        title = next((f.value for f in fields if f.key.lower() in _TITLE_KEYS and f.value), "")
        title = title.partition("\n")[0]
    return Document(text=text, title=title, fields=tuple(fields), lines=lines, prose=prose)


_TITLE_KEYS: Final = _RE.words("title_keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """The facts in one alert; empty for absent ones.

    Attributes:
        subject: The name in words: `kube pod not ready`.
        labels: Label names that the texts and the expression use, in order.
        selectors: Series selectors of the expression, with their braces.
    """

    name: str
    subject: str
    summary: str
    description: str
    expression: str
    duration: str
    severity: str
    metrics: tuple[str, ...]
    selectors: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: str
    window: str
    job: str


_FIELD_NAMES: Final[dict[str, list[str]]] = _RE.entry("field_names")


def _first(document: Document, names: list[str]) -> str:
    for name in names:
        value = document.field(name)
        if value:
            return value
    return ""


def _inside_quotes(text: str, at: int) -> bool:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count('"') % 2 == 1


@lru_cache(maxsize=200)
def alert_facts(document: Document) -> AlertFacts:
    """The facts of the alert in a document, whatever its labels are called."""
    given = {fact: _first(document, names) for fact, names in _FIELD_NAMES.items()}
    expression = _RE.comment.sub("", given["expression"]).strip()
    metrics: dict[str, None] = {}
    selectors: dict[str, None] = {}
    bare = _RE.grouping.sub(" ", expression)
    for match in _RE.metric.finditer(bare):
        if not _RE.functions.search(match["name"]) and not _inside_quotes(bare, match.start()):
            metrics[match["name"]] = None
            selectors[match["name"] + (match["selector"] or "")] = None
    texts = given["description"] + given["summary"]
    labels = dict.fromkeys(m["name"] for m in _RE.template_label.finditer(texts))
    for match in _RE.by.finditer(expression):
        labels |= dict.fromkeys(n.strip() for n in match["names"].split(",") if n.strip())
    labels |= dict.fromkeys(m["name"] for m in _RE.label_matcher.finditer(expression))
    thresholds = list(_RE.threshold.finditer(expression))
    window, job = _RE.window.search(expression), _RE.job.search(expression)
    name = given["name"] or document.title
    return AlertFacts(
        name=name,
        subject=" ".join(word if word.isupper() else word.lower() for word in split_name(name)),
        summary=plain(given["summary"]),
        description=plain(given["description"]),
        expression=expression,
        duration=given["duration"],
        severity=given["severity"],
        metrics=tuple(metrics),
        selectors=tuple(selectors),
        labels=tuple(label for label in labels if label != "job"),
        threshold=f"{thresholds[0]['op']} {thresholds[0]['value'].strip()}" if thresholds else "",
        window=window["window"] if window else "",
        job=job["job"] if job else "",
    )


def readable(text: str) -> str:
    """An annotation without template marks: `{{ $labels.pod }}` becomes `<pod>`.

    >>> readable("pod {{ $labels.pod }} is {{ $value | humanize }} behind")
    'pod <pod> is <value> behind'
    """
    text = re.sub(r"\{\{-?\s*(?:with|end|if|else)\b.*?\}\}|\{\{\s*\.\s*\}\}", "", text)
    text = re.sub(r"\{\{[^}]*\$labels\.(\w+)[^}]*\}\}", r"<\1>", text)
    return " ".join(re.sub(r"\{\{.*?\}\}", "<value>", text).split())


_NO_LIMIT_SHARE: Final = 0.7
_NO_LIMIT_WORDS: Final = 130


def shorten(text: str, words: int) -> str:
    """A text of at most so many words, cut at a clause where one ends late enough.

    >>> shorten("The disk was full, so the pods were evicted from the node.", 6)
    'The disk was full.'
    """
    given = text.split()
    if len(given) <= words:
        return text
    cut = " ".join(given[:words])
    ends = [m.start() for m in _RE.clause_end.finditer(cut) if m.start() > len(cut) * 0.4]
    if ends:
        cut = cut[: ends[-1]]
    return cut.rstrip(" ,;:-(") + "."


def _candidates(document: Document) -> list[tuple[float, int, str]]:  # noqa: C901 - one step for each shape of line or message
    """Sentences with a worth and a position; labelled pieces that matter come first."""
    counts: Counter[str] = Counter(w for p in document.prose for w in set(stems(p)))
    found: list[tuple[float, int, str]] = []
    seen: set[str] = set()

    def add(sentence: str, bonus: float) -> None:
        sentence = sentence.strip()
        if not sentence or sentence in seen or _RE.dull.search(sentence):
            return
        seen.add(sentence)
        own = set(stems(sentence))
        central = sum(counts[w] for w in own) / (len(own) + 3)
        worth = bonus + min(central, 3.0) / 3 + 0.4 * len(_RE.weighty.findall(sentence))
        worth -= 0.02 * max(0, count_words(sentence) - 30)
        found.append((worth - 0.01 * len(found), len(found), sentence))

    for field in document.fields:
        if _RE.dull_fields.search(field.key):
            continue
        good = _RE.good_fields.search(field.key) is not None
        for index, line in enumerate(field.value.split("\n")):
            cleaned = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", line))
            for sentence in sentences(cleaned):
                if count_words(sentence) > 2:  # noqa: PLR2004 - a small count that says itself
                    ended = sentence if sentence[-1] in ".!?" else sentence + "."
                    add(ended, (1.2 if good else 0.0) - 0.1 * index)
    if len(found) < 3:  # noqa: PLR2004 - a small count that says itself
        for index, paragraph in enumerate(document.prose):
            for sentence in sentences(paragraph):
                add(sentence if sentence[-1] in ".!?" else sentence + ".", 0.8 / (1 + index))
    return found


def summarise(document: Document, limits: Limits, *, words: int | None = None) -> str:
    """The sentences that tell most, within the limit; without one, as long as it gets.

    Args:
        document: What to summarise.
        limits: What the prompt allows for this text.
        words: Overrides the limit on words.
    """
    limit = words if words is not None else limits.words_max
    target = limit
    if target is None:
        target = max(_NO_LIMIT_WORDS, int(_NO_LIMIT_SHARE * count_words(document.text)))
        target = min(target, 3 * _NO_LIMIT_WORDS)
    most = limits.sentences_max or 1000
    chosen: list[tuple[int, str]] = []
    left = target
    for _, position, sentence in sorted(_candidates(document), key=lambda c: (-c[0], c[1])):
        length = count_words(sentence)
        if len(chosen) >= most:
            break
        if length <= left:
            chosen.append((position, sentence))
            left -= length
        elif not chosen:
            chosen.append((position, shorten(sentence, left)))
            break
    chosen.sort()
    text = " ".join(sentence for _, sentence in chosen)
    if limit is None and text and count_words(text) < _NO_LIMIT_WORDS:
        # Without a limit it talks: the rest of the document follows, whatever it is worth.
        rest = [s for p in document.prose for s in sentences(p) if s.rstrip(".") not in text]
        for sentence in rest:
            text += " " + (sentence if sentence[-1] in ".!?" else sentence + ".")
            if count_words(text) >= _NO_LIMIT_WORDS:
                break
    return text or shorten(plain(document.text), target)
