"""Words, numbers, times and documents, as the simulated model reads them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RE: Final = Lexicon("regauge.sim", "text")


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


def table_of(value: Any) -> dict[str, Any]:
    """Return a JSON object; empty for anything else."""
    return value if is_object(value) else {}


def read_json(text: str) -> Any:
    """Return the JSON value of a text, or None if it is not JSON.

    >>> read_json("[1]"), read_json("a sentence")
    ([1], None)
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


CHARS_PER_TOKEN: Final = 4


def count_tokens(text: str) -> int:
    """Return the characters divided by four, rounded up.

    >>> count_tokens("12345")
    2
    """
    return -(-len(text) // CHARS_PER_TOKEN)


STOPWORDS: Final = _RE.words("stopwords")
_SYNONYMS: Final[dict[str, str]] = {
    word: line.split()[0] for line in _RE.entry("synonyms") for word in line.split()
}
_ROOT_MIN: Final = 3
_ROOT_LONG: Final = 4
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "approx.", "no.", "vs.")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a lower-case word without its English ending, with synonyms merged.

    >>> [stem(word) for word in ("expires", "expiration", "pods", "unreachable", "failing")]
    ['expire', 'expire', 'pod', 'down', 'fail']
    """
    word = word.lower()
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    root = word
    for ending, replacement in (
        ("ies", "y"), ("sses", "ss"), ("ations", "ate"), ("ation", "ate"), ("ings", ""),
        ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", "e"), ("s", ""),
    ):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= _ROOT_MIN:
            if ending == "s" and word.endswith(("ss", "us", "is")):
                break
            root = word[: -len(ending)] + replacement
            if (
                len(root) > _ROOT_MIN
                and root[-1] == root[-2]
                and root[-1] not in "lsz"
                and not replacement
            ):
                root = root[:-1]
            break
    if root in _SYNONYMS:
        return _SYNONYMS[root]
    for guess in (root + "e", root.removesuffix("e")):
        if guess in _SYNONYMS:
            return _SYNONYMS[guess]
    return root.removesuffix("e") if len(root) > _ROOT_LONG else root


def split_name(text: str) -> list[str]:
    """Split an identifier into words: camel case, underscores and dots.

    >>> split_name("KubePodNotReady"), split_name("http_requests_total")
    (['Kube', 'Pod', 'Not', 'Ready'], ['http', 'requests', 'total'])
    """
    return _RE.piece.findall(text)


@lru_cache(maxsize=4_000)
def stems(text: str) -> tuple[str, ...]:
    """Return the content words of a text as stems, in order; `not x` also gives `not_x`.

    >>> stems("The pod is not ready.")
    ('pod', 'ready', 'not_ready')
    """
    words: list[str] = []
    negated = False
    for piece in _RE.piece.findall(text):
        low = piece.lower()
        if low in {"not", "no", "never", "non", "cannot", "without", "isn", "n't"}:
            negated = True
            continue
        if low in ("unready", "unhealthy"):
            low, negated = low[2:], True
        if low in STOPWORDS or piece[0].isdigit():
            continue
        root = stem(low)
        if len(root) <= 1 or root in STOPWORDS:
            continue
        words.append(root)
        if negated:
            words.append("not_" + root)
            negated = False
    return tuple(words)


def count_words(text: str) -> int:
    """Count the words of `str.split`, which also decide a word limit.

    >>> count_words("two words")
    2
    """
    return len(text.split())


def sentences(text: str) -> list[str]:
    """Split a text into sentences; abbreviations such as `e.g.` end none.

    >>> sentences("It broke. We fixed it, e.g. Twice. Done")
    ['It broke.', 'We fixed it, e.g. Twice.', 'Done']
    """
    complete: list[str] = []
    for part in _RE.sentence_end.split(" ".join(text.split())):
        if complete and complete[-1].lower().endswith(_ABBREVIATIONS):
            complete[-1] += " " + part
        elif part:
            complete.append(part)
    return complete


def end_sentence(text: str) -> str:
    """Return the text with a full stop, unless it already ends as a sentence.

    >>> end_sentence("It broke"), end_sentence("Why?")
    ('It broke.', 'Why?')
    """
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


def first_sentence(text: str) -> str:
    """Return the first sentence, or the empty text.

    >>> first_sentence("One. Two.")
    'One.'
    """
    return next(iter(sentences(text)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number in a text.

    Attributes:
        kind: `percent` is 0 to 100; `seconds` is every duration.
        value: In the unit of `kind`, above 0.
    """

    kind: Literal["percent", "seconds"]
    value: float


_UNITS: Final[dict[str, float]] = _RE.entry("units")
NUMBER_WORDS: Final = {w: n for n, w in enumerate(_RE.entry("numbers").split(), start=1)}
_SAME_SCALE: Final = 0.3  # a factor of 1.35 apart leaves 1/e of the closeness


def _thresholds(code: str) -> list[Quantity]:
    """Return the thresholds of an expression: shares below 1, percentages, seconds."""
    bare = _RE.bracketed.sub(" ", code)
    quantities: list[Quantity] = []
    for match in _RE.product.finditer(bare):
        value = math.prod(float(factor) for factor in match[0].split("*"))
        if value >= 60:  # noqa: PLR2004 - a small count that says itself
            quantities.append(Quantity(kind="seconds", value=value))
    is_percent = bool(_RE.lone_arithmetic.search(bare)) or "percent" in bare
    for match in _RE.threshold.finditer(bare):
        value = float(match["number"])
        if value <= 0:
            continue
        if "second" in bare and value >= 1:
            quantities.append(Quantity(kind="seconds", value=value))
        elif is_percent and value <= 100:  # noqa: PLR2004 - a small count that says itself
            quantities.append(Quantity(kind="percent", value=value))
        elif value < 1 and ("/" in bare or "ratio" in bare):
            quantities.append(Quantity(kind="percent", value=100 * value))
    return quantities


@lru_cache(maxsize=4_000)
def quantities(text: str, *, code: bool = False) -> tuple[Quantity, ...]:
    """Return the shares and durations of a text; of code, only the thresholds.

    >>> [q.value for q in quantities("less than 3% left, within four hours")]
    [3.0, 14400.0]
    >>> quantities("ttl_seconds < 86400", code=True)[0].value
    86400.0
    """
    if code:
        return tuple(_thresholds(text))
    texts = [
        *((m["number"], "%") for m in _RE.percent.finditer(text)),
        *((m["first"], m["unit"]) for m in _RE.borrowed.finditer(text)),
        *(("50", "%") for _ in _RE.half.findall(text)[:1]),
        *((m["number"], m["unit"]) for m in _RE.span.finditer(text)),
    ]
    parsed: list[Quantity] = []
    for number_text, unit in ((number.lower(), unit.lower()) for number, unit in texts):
        number = float(NUMBER_WORDS.get(number_text, 0) or number_text)
        if unit in ("%", "percent"):
            parsed.append(Quantity(kind="percent", value=number))
        elif size := _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")):
            parsed.append(Quantity(kind="seconds", value=number * size))
    return tuple(quantity for quantity in parsed if quantity.value > 0)


def without_quantities(text: str) -> str:
    """Return the text without its shares and durations, so that their words do not count twice.

    >>> without_quantities("within 4 hours of now")
    'within   of now'
    """
    return _RE.span.sub(" ", _RE.percent.sub(" ", text))


def closeness(first: Quantity, other: Quantity) -> float:
    """Return the closeness of two numbers of one kind, from 0 to 1; 0 for different kinds.

    >>> day, week = Quantity(kind="seconds", value=86400), Quantity(kind="seconds", value=604800)
    >>> closeness(day, day), closeness(day, week) < 0.05
    (1.0, True)
    """
    if first.kind != other.kind:
        return 0.0
    return math.exp(-abs(math.log(first.value / other.value)) / _SAME_SCALE)


_MONTHS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(_RE.entry("months"), start=1)
    for name in names.split()
}
_MOMENTS: Final = tuple(_RE.patterns("dates").values())
_NOON: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One point in time in a text.

    Attributes:
        start: Its offset in the text.
        end: The offset of its end.
        date: Year, month and day; None if only a clock time was read.
        clock: Hour and minute, or None.
        raw: The original text.
        label: The event at that time, by the words of its line.
    """

    start: int
    end: int
    date: tuple[int, int, int] | None
    clock: tuple[int, int] | None
    raw: str
    label: str = ""


def _clock(groups: Mapping[str, str]) -> tuple[int, int] | None:
    if not groups.get("hour"):
        return None
    hour, minute = int(groups["hour"]), int(groups.get("minute") or groups.get("tight") or 0)
    half = (groups.get("half") or "").lower()
    if half == "p" and hour < _NOON:
        hour += _NOON
    elif half == "a" and hour == _NOON:
        hour = 0
    return hour, minute


def find_moments(text: str) -> list[Moment]:
    """Find all points in time, in order; a clock time alone has the date of the one before it.

    >>> [m.clock for m in find_moments("12.03.2024 um 14:05 Uhr, behoben 14:40 Uhr")]
    [(14, 5), (14, 40)]
    >>> [m.date for m in find_moments("on 2 May 2024 at 9:05 am")]
    [(2024, 5, 2)]
    >>> [m.date for m in find_moments("on 0 May 2024 at 9:05 am")]
    [None]
    """
    dated_patterns = _MOMENTS[:3] if _RE.year.search(text) else ()
    if dated_patterns and _RE.month_word.search(text):
        dated_patterns = (_RE.time_first, *_MOMENTS)
    moments: list[Moment] = []
    for pattern in (*dated_patterns, _RE.clock_only):
        for match in pattern.finditer(text):
            start, end = match.span()
            groups, date, clock = match.groupdict(), None, _clock(match.groupdict())
            if "day" in groups:
                month = groups.get("month") or _MONTHS[groups["month_name"].lower()]
                date = int(groups["year"]), int(month), int(groups["day"])
            is_free = all(end <= other.start or other.end <= start for other in moments)
            if is_free and (date is None or date[2]):
                moments.append(
                    Moment(start=start, end=end, date=date, clock=clock, raw=match[0].strip())
                )
    moments.sort(key=lambda moment: moment.start)
    last = next((moment.date for moment in moments if moment.date), None)
    return [replace(moment, date=(last := moment.date or last)) for moment in moments]


def write_moment(moment: Moment, pattern: str | None) -> str:
    """Return a moment in the requested format, or as in the document without one.

    >>> write_moment(find_moments("2024-01-02 9.05")[0], "YYYY-MM-DD HH:MM")
    '2024-01-02 09:05'
    """
    if pattern is None or moment.date is None:
        return moment.raw
    year, month, day = moment.date
    text = pattern
    if moment.clock is None:
        text = re.split(r"[ T]HH", text)[0]
    hour, minute = moment.clock or (0, 0)
    for mark, value in (
        ("YYYY", f"{year:04}"), ("DD", f"{day:02}"), ("HH:MM:SS", f"{hour:02}:{minute:02}:00"),
        ("HH:MM", f"{hour:02}:{minute:02}"), ("MM", f"{month:02}"),
    ):  # fmt: skip
        text = text.replace(mark, value, 1)
    return text


_DOCUMENT_RE: Final = Lexicon("regauge.sim", "document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A labelled piece of a document: `**Impact**: ...`, a table row, a JSON value, a section."""

    key: str
    value: str
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The contents of one document.

    Attributes:
        text: The unchanged document.
        title: Its title or first heading; empty without one.
        fields: Labelled pieces in order.
        lines: The text that events are read from.
        prose: Paragraphs of sentences, without markup.
    """

    text: str
    title: str
    fields: tuple[Field, ...]
    lines: str
    prose: tuple[str, ...]

    @property
    def events(self) -> tuple[Moment, ...]:
        """Moments with their labels, in order of appearance; computed on first access."""
        return _events(self.lines)

    @property
    def sentences(self) -> list[str]:
        """The sentences of its prose, in order."""
        return [sentence for paragraph in self.prose for sentence in sentences(paragraph)]

    def field(self, name: str) -> str:
        """Return the value of the first field of that name, ignoring case; empty without one."""
        return next((f.value for f in self.fields if f.key.lower() == name.lower()), "")


_EVENT_WORDS: Final = 14


def plain(text: str) -> str:
    """Remove Markdown: links keep their text, marks are dropped, white space becomes one space.

    >>> plain("**Bold** [text](http://x) `code`")
    'Bold text code'
    """
    text = _DOCUMENT_RE.link.sub(lambda m: m["text"] or "", text)
    return " ".join(_DOCUMENT_RE.marks.sub(lambda m: m["inner"], text).replace("`", "").split())


def without_bullet(line: str) -> str:
    """Return a line without its bullet, number or quotation mark.

    >>> without_bullet("  - It broke"), without_bullet("2) It broke")
    ('It broke', 'It broke')
    """
    return re.sub(r"^[ \t]*(?:[-*•>]|\d+[.)])[ \t]+", "", line)


def _flatten(value: Any, key: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the values of a JSON document with their keys; a list of plain values is one text."""
    if is_object(value):
        for name, inner in value.items():
            yield from _flatten(inner, str(name), depth + 1)
    elif is_list(value) and any(isinstance(member, dict | list) for member in value):
        for member in value:
            yield from _flatten(member, key, depth + 1)
    elif value is not None:
        text = "\n".join(str(member) for member in value) if is_list(value) else str(value)
        yield Field(key=key, value=text, depth=depth)


def _from_lines(text: str) -> tuple[str, list[Field]]:
    """Return the title and the labelled pieces of a text for readers."""
    title = ""
    fields: list[Field] = []
    key, indent, body = "", -1, list[str]()
    stops_at_blank = False

    def close() -> None:
        if key:
            fields.append(Field(key=key, value="\n".join(body).strip("\n")))

    for line in text.split("\n"):
        heading = _DOCUMENT_RE.heading.match(line)
        row = _DOCUMENT_RE.row.match(line)
        if heading is not None:
            close()
            name = plain(heading["title"])
            title, key = (title, name) if title else (name, "")
            indent, body = -1, []
            continue
        if row is not None and not _DOCUMENT_RE.rule_row.match(line):
            cells = [plain(cell) for cell in row["cells"].split("|")]
            if len(cells) == 2:  # noqa: PLR2004 - a small count that says itself
                fields.append(Field(key=cells[0], value=cells[1]))
        is_other = _DOCUMENT_RE.time_starts.match(line) or _DOCUMENT_RE.url.match(line.strip())
        labelled = None if is_other else _DOCUMENT_RE.labelled.match(line)
        deeper = len(line) - len(line.lstrip()) > max(indent, 0) and indent >= 0
        bold = labelled is not None and labelled["bold"] is not None
        if labelled is not None and (bold or not deeper or key == ""):
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
def _events(text: str) -> tuple[Moment, ...]:
    """Return each moment with the words of its line, before or after it."""
    events: list[Moment] = []
    moments = find_moments(text)
    for index, moment in enumerate(moments):
        line_start = text.rfind("\n", 0, moment.start) + 1
        start = max(line_start, moments[index - 1].end if index else 0)
        next_start = moments[index + 1].start if index + 1 < len(moments) else len(text)
        before = plain(text[start : moment.start]).strip(" -*•|>:,;([\"'{")
        after = plain(text[moment.end : next_start].partition("\n")[0]).strip(" -*•|>:–—,;)]\"'}.")  # noqa: RUF001 - texts in the wild hold this character
        before = " ".join(before.split()[-_EVENT_WORDS:])
        before = re.sub(r"\b(?:at|on|by|from|since|until|um|am|gegen)$", "", before).strip(' ,:;"')
        after = " ".join(after.split()[:_EVENT_WORDS])
        whole_line = start == line_start
        label = before if before and (whole_line or not after) else f"{before} {after}".strip()
        if whole_line and len(before.split()) < 2 and after:  # noqa: PLR2004 - a small count that says itself
            label = f"{before} {after}".strip()
        events.append(replace(moment, label=label.replace("_", " ")))
    return tuple(events)


def _prose(text: str) -> list[str]:
    paragraphs: list[str] = []
    for block in re.split(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*•]|\d+[.)])[ \t])|\n(?=#)", text):
        if block.lstrip().startswith(("#", "|", "```")) or _DOCUMENT_RE.front_matter.match(block):
            continue
        cleaned = plain(without_bullet(block))
        if len(cleaned.split()) > 2:  # noqa: PLR2004 - a small count that says itself
            paragraphs.append(cleaned)
    return paragraphs


@lru_cache(maxsize=500)
def read_document(text: str, parts: tuple[tuple[str, str], ...] = ()) -> Document:
    """Read a document of any shape; the same document is read once."""
    front = _DOCUMENT_RE.front_matter.match(text)
    body = text[front.end() :] if front is not None else text
    fields = [Field(key=name, value=value.strip()) for name, value in parts if len(parts) > 1]
    value = read_json(body) if body.lstrip().startswith(("{", "[")) else None
    if value is not None:
        as_json = list(_flatten(value))
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
        headline = _DOCUMENT_RE.front_title.search(front["body"])
        title = headline["title"] if headline is not None else title
    if not title:
        title = next((f.value for f in fields if f.key.lower() in _TITLE_KEYS and f.value), "")
        title = title.partition("\n")[0]
    return Document(text=text, title=title, fields=tuple(fields), lines=lines, prose=prose)


_TITLE_KEYS: Final = _DOCUMENT_RE.words("title_keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """The facts in one alert; empty for absent ones.

    Attributes:
        subject: The name in words: `kube pod not ready`.
        labels: Label names in the texts and the expression, in order.
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


_FIELD_NAMES: Final[dict[str, list[str]]] = _DOCUMENT_RE.entry("field_names")


@lru_cache(maxsize=200)
def alert_facts(document: Document) -> AlertFacts:
    """Return the facts of the alert in a document, whatever its labels are called."""
    facts = {
        fact: next((value for name in names if (value := document.field(name))), "")
        for fact, names in _FIELD_NAMES.items()
    }
    expression = _DOCUMENT_RE.comment.sub("", facts["expression"]).strip()
    bare = _DOCUMENT_RE.grouping.sub(" ", expression)
    series: list[re.Match[str]] = []
    for match in _DOCUMENT_RE.metric.finditer(bare):
        line_before = bare[: match.start()].rpartition("\n")[2]
        is_quoted = line_before.count('"') % 2 == 1
        if not is_quoted and not _DOCUMENT_RE.functions.search(match["name"]):
            series.append(match)
    texts = facts["description"] + facts["summary"]
    labels = dict.fromkeys(m["name"] for m in _DOCUMENT_RE.template_label.finditer(texts))
    for match in _DOCUMENT_RE.by.finditer(expression):
        labels |= dict.fromkeys(n.strip() for n in match["names"].split(",") if n.strip())
    labels |= dict.fromkeys(m["name"] for m in _DOCUMENT_RE.label_matcher.finditer(expression))
    threshold = _DOCUMENT_RE.threshold.search(expression)
    window = _DOCUMENT_RE.window.search(expression)
    name = facts["name"] or document.title
    return AlertFacts(
        name=name,
        subject=" ".join(word if word.isupper() else word.lower() for word in split_name(name)),
        summary=plain(facts["summary"]),
        description=plain(facts["description"]),
        expression=expression,
        duration=facts["duration"],
        severity=facts["severity"],
        metrics=tuple(dict.fromkeys(m["name"] for m in series)),
        selectors=tuple(dict.fromkeys(m["name"] + (m["selector"] or "") for m in series)),
        labels=tuple(label for label in labels if label != "job"),
        threshold=f"{threshold['op']} {threshold['value'].strip()}" if threshold else "",
        window=window["window"] if window else "",
    )


def readable(text: str) -> str:
    """Return an annotation without template marks: `{{ $labels.pod }}` becomes `<pod>`.

    >>> readable("pod {{ $labels.pod }} is {{ $value | humanize }} behind")
    'pod <pod> is <value> behind'
    """
    text = re.sub(r"\{\{-?\s*(?:with|end|if|else)\b.*?\}\}|\{\{\s*\.\s*\}\}", "", text)
    text = re.sub(r"\{\{[^}]*\$labels\.(\w+)[^}]*\}\}", r"<\1>", text)
    return " ".join(re.sub(r"\{\{.*?\}\}", "<value>", text).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthLimits:
    """The length limits of an output, or of one field. None is no limit.

    Attributes:
        emphatic: The prompt insists ("strictly", "never more than", "hard limit").
    """

    words_max: int | None = None
    words_min: int | None = None
    sentences_max: int | None = None
    bullets: int | None = None
    chars_max: int | None = None
    emphatic: bool = False


_NO_LIMIT_SHARE: Final = 0.7
_NO_LIMIT_WORDS: Final = 130


def shorten(text: str, words: int) -> str:
    """Cut a text to a number of words, at a clause that ends late enough.

    >>> shorten("The disk was full, so the pods were evicted from the node.", 6)
    'The disk was full.'
    """
    all_words = text.split()
    if len(all_words) <= words:
        return text
    cut = " ".join(all_words[:words])
    ends = [m.start() for m in _DOCUMENT_RE.clause_end.finditer(cut) if m.start() > len(cut) * 0.4]
    return cut[: ends[-1] if ends else None].rstrip(" ,;:-(") + "."


def _candidates(document: Document) -> list[tuple[float, int, str]]:  # noqa: C901 - one step for each shape of line or message
    """Return sentences with a score and a position; important labelled pieces come first."""
    counts: Counter[str] = Counter(w for p in document.prose for w in set(stems(p)))
    candidates: list[tuple[float, int, str]] = []
    seen: set[str] = set()

    def add(sentence: str, bonus: float) -> None:
        sentence = sentence.strip()
        if not sentence or sentence in seen or _DOCUMENT_RE.dull.search(sentence):
            return
        seen.add(sentence)
        sentence_words = set(stems(sentence))
        central = sum(counts[w] for w in sentence_words) / (len(sentence_words) + 3)
        score = bonus + min(central, 3.0) / 3 + 0.4 * len(_DOCUMENT_RE.weighty.findall(sentence))
        score -= 0.02 * max(0, count_words(sentence) - 30)
        candidates.append((score - 0.01 * len(candidates), len(candidates), sentence))

    for field in document.fields:
        if _DOCUMENT_RE.dull_fields.search(field.key):
            continue
        good = _DOCUMENT_RE.good_fields.search(field.key) is not None
        for index, line in enumerate(field.value.split("\n")):
            cleaned = plain(without_bullet(line))
            for sentence in sentences(cleaned):
                if count_words(sentence) > 2:  # noqa: PLR2004 - a small count that says itself
                    add(end_sentence(sentence), (1.2 if good else 0.0) - 0.1 * index)
    if len(candidates) < 3:  # noqa: PLR2004 - a small count that says itself
        for index, paragraph in enumerate(document.prose):
            for sentence in sentences(paragraph):
                add(end_sentence(sentence), 0.8 / (1 + index))
    return candidates


def summarise(document: Document, limits: LengthLimits, *, words: int | None = None) -> str:
    """Return the most important sentences within the limit; without one, up to a default length.

    Args:
        document: The document.
        limits: The limits of the prompt for this text.
        words: Overrides the limit on words.
    """
    limit = words if words is not None else limits.words_max
    share = max(_NO_LIMIT_WORDS, int(_NO_LIMIT_SHARE * count_words(document.text)))
    target = limit if limit is not None else min(share, 3 * _NO_LIMIT_WORDS)
    sentences_max = limits.sentences_max or 1000
    selected: list[tuple[int, str]] = []
    words_left = target
    for _, position, sentence in sorted(_candidates(document), key=lambda c: (-c[0], c[1])):
        length = count_words(sentence)
        if len(selected) >= sentences_max:
            break
        if length <= words_left:
            selected.append((position, sentence))
            words_left -= length
        elif not selected:
            selected.append((position, shorten(sentence, words_left)))
            break
    selected.sort()
    text = " ".join(sentence for _, sentence in selected)
    if limit is None and text and count_words(text) < _NO_LIMIT_WORDS:
        # Without a limit the rest of the document follows.
        for sentence in [s for s in document.sentences if s.rstrip(".") not in text]:
            text += " " + end_sentence(sentence)
            if count_words(text) >= _NO_LIMIT_WORDS:
                break
    return text or shorten(plain(document.text), target)
