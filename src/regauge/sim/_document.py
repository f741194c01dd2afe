"""A document as the simulated model reads it: fields, events, paragraphs, facts of an alert."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from regauge.sim._text import Moment, find_moments, is_list, is_object, split_name

__all__ = ["AlertFacts", "Document", "Event", "alert_facts", "plain", "read_document"]


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


_LINK: Final = re.compile(r"!?\[(?P<text>[^\]\n]{0,400})\]\((?P<to>[^)\n]{0,2000})\)")
_MARKS: Final = re.compile(
    r"(?<!\w)(?P<mark>[*_]{1,3})(?=\S)(?P<inner>[^*\n]{1,400}?)(?<=\S)(?P=mark)(?!\w)"
)
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(?P<body>.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE: Final = re.compile(r"^title:[ \t]*[\"']?(?P<title>.*?)[\"']?[ \t]*$", re.MULTILINE)
_HEADING: Final = re.compile(r"^(?P<level>#{1,6})[ \t]+(?P<title>.+?)[ \t#]*$")
_LABELLED: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?:[-*•+][ \t]+)?(?:"
    r"(?P<mark>\*\*|__)(?P<bold>[^*_\n]{2,60}?):?(?P=mark)[ \t]*:?"
    r"|(?P<plain>[A-Za-zÄÖÜäöü][\w ÄÖÜäöüß/()'&.-]{0,48}?)[ \t]*:(?=[ \t]|$)"
    r")[ \t]*(?P<value>.*)$"
)
_TIME_STARTS: Final = re.compile(r"^[\s\-*•|>\[(]*(?:\d{1,4}[-./:]\d{1,2})")
_ROW: Final = re.compile(r"^[ \t]*\|(?P<cells>.+)\|[ \t]*$")
_RULE_ROW: Final = re.compile(r"^[\s|:-]+$")
_URL: Final = re.compile(r"https?://\S+")
_EVENT_WORDS: Final = 14


def plain(text: str) -> str:
    """Markdown taken off: links keep their text, marks go, white space is one space.

    >>> plain("**Bold** [text](http://x) `code`")
    'Bold text code'
    """
    text = _LINK.sub(lambda m: m["text"] or "", text)
    return " ".join(_MARKS.sub(lambda m: m["inner"], text).replace("`", "").split())


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
        heading = _HEADING.match(line)
        row = _ROW.match(line)
        if heading is not None:
            close()
            name = plain(heading["title"])
            if not title:
                title, key = name, ""
            else:
                key = name
            indent, body = -1, []
            continue
        if row is not None and not _RULE_ROW.match(line):
            cells = [plain(cell) for cell in row["cells"].split("|")]
            if len(cells) == 2:  # noqa: PLR2004 - a small count that says itself
                fields.append(Field(key=cells[0], value=cells[1]))
        labelled = _LABELLED.match(line) if not _TIME_STARTS.match(line) else None
        deeper = len(line) - len(line.lstrip()) > max(indent, 0) and indent >= 0
        bold = labelled is not None and labelled["bold"] is not None
        if (
            labelled is not None
            and (bold or not deeper or key == "")
            and not _URL.match(line.strip())
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
        if block.lstrip().startswith(("#", "|", "```")) or _FRONT_MATTER.match(block):
            continue
        cleaned = plain(re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", block))
        if len(cleaned.split()) > 2:  # noqa: PLR2004 - a small count that says itself
            paragraphs.append(cleaned)
    return paragraphs


@lru_cache(maxsize=500)
def read_document(text: str, parts: tuple[tuple[str, str], ...] = ()) -> Document:
    """Read a document of any shape; the same document is read once."""
    front = _FRONT_MATTER.match(text)
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
        headline = _FRONT_TITLE.search(front["body"])
        title = headline["title"] if headline is not None else title
    if not title:
        title = next((f.value for f in fields if f.key.lower() in _TITLE_KEYS and f.value), "")
        title = title.partition("\n")[0]
    return Document(text=text, title=title, fields=tuple(fields), lines=lines, prose=prose)


_TITLE_KEYS: Final = frozenset(
    {"title", "subject", "summary", "name", "headline", "betreff", "titel"}
)


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


_FIELD_NAMES: Final = {
    "name": ("name", "alert", "alertname", "alert name", "title", "rule", "incident"),
    "summary": ("summary", "headline", "message"),
    "description": ("description", "details", "body", "text", "annotation"),
    "expression": ("expression", "expr", "query", "promql"),
    "duration": ("duration", "for", "pending", "pending for"),
    "severity": ("severity", "priority", "urgency", "level"),
}
_METRIC: Final = re.compile(
    r"\b(?P<name>[a-z][a-z0-9]*(?:[_:][a-z0-9_:]+)+)\b(?!\s*=)(?P<selector>\{[^}]*\})?"
)
_FUNCTIONS: Final = re.compile(
    r"_over_time$|^(?:group_left|group_right|count_values|predict_linear|histogram_quantile|label_replace|label_join)$"
)
_TEMPLATE_LABEL: Final = re.compile(r"\$labels\.(?P<name>\w+)")
_LABEL_MATCHER: Final = re.compile(r"[{,]\s*(?P<name>[a-z_]\w*)\s*(?:=~|!~|!=|=)")
_BY: Final = re.compile(r"\b(?:by|on)\s*\((?P<names>[^)]*)\)")
_THRESHOLD: Final = re.compile(
    r"(?P<op>[<>]=?|==|!=)\s*(?:bool\s+)?(?P<value>\d+(?:\.\d+)?|\(\s*[\d.]+(?:\s*[*/]\s*[\d.]+)+\s*\))"
)
_WINDOW: Final = re.compile(r"\[(?P<window>\d+[smhdw])[:\]]")
_GROUPING: Final = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)")
_JOB: Final = re.compile(r'job="(?P<job>[^"]+)"')
_COMMENT: Final = re.compile(r"#[^\n]*")


def _first(document: Document, names: tuple[str, ...]) -> str:
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
    expression = _COMMENT.sub("", given["expression"]).strip()
    metrics: dict[str, None] = {}
    selectors: dict[str, None] = {}
    bare = _GROUPING.sub(" ", expression)
    for match in _METRIC.finditer(bare):
        if not _FUNCTIONS.search(match["name"]) and not _inside_quotes(bare, match.start()):
            metrics[match["name"]] = None
            selectors[match["name"] + (match["selector"] or "")] = None
    texts = given["description"] + given["summary"]
    labels = dict.fromkeys(m["name"] for m in _TEMPLATE_LABEL.finditer(texts))
    for match in _BY.finditer(expression):
        labels |= dict.fromkeys(n.strip() for n in match["names"].split(",") if n.strip())
    labels |= dict.fromkeys(m["name"] for m in _LABEL_MATCHER.finditer(expression))
    thresholds = list(_THRESHOLD.finditer(expression))
    window, job = _WINDOW.search(expression), _JOB.search(expression)
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
