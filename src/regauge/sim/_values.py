"""The labels and values of a JSON output, found in the document, and their errors."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.sim._instructions import read_labels, read_limits
from regauge.sim._text import (
    LengthLimits,
    Quantity,
    alert_facts,
    closeness,
    count_words,
    first_sentence,
    quantities,
    readable,
    shorten,
    split_name,
    stems,
    summarise,
    write_moment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.sim._instructions import Clause, Instructions, Key, LabelDefinition, Shot
    from regauge.sim._rules import Dice
    from regauge.sim._text import Document, Moment

_RE: Final = Lexicon("regauge.sim", "values")


KeyKind = Literal[
    "title", "time", "duration", "summary", "reason", "number", "boolean", "list", "text", "label"
]

_KIND_OF_TYPE: Final[dict[str, KeyKind]] = {
    "array": "list", "boolean": "boolean", "number": "number", "integer": "number",
}  # fmt: skip
_KIND_OF_NAME: Final[dict[KeyKind, re.Pattern[str]]] = _RE.patterns("kinds")
_START_KEY: Final = tuple(_RE.words("start_key"))
_END_KEY: Final = tuple(_RE.words("end_key"))
_TEXT_SYNONYMS: Final[dict[str, str]] = _RE.entry("synonyms")
# Numbers of this module without another source were chosen by hand, so that `tests/unit/sim`
# passes. A change moves completions of the simulated model and makes its recordings stale.

# The similarity from which a label gives the value of a key. Tests fail at 0.4 and pass at 0.6.
_LABELLED_SIMILARITY: Final = 0.5
# The same for a sentence: just above a third of the words. Tests pass at 0.25 and 0.45.
_SENTENCE_SIMILARITY: Final = 0.34
# A longer stem of a key's name also matches the beginning of a word. Tests pass at 3 and 5.
_LONG_STEM: Final = 4
# More words are a sentence, not a label of a timeline. Tests pass at 3 and fail at 6.
_SHORT_LABEL: Final = 4


def kind_of(key: Key) -> KeyKind:
    """Return the kind of value of a key, by its name, type and description."""
    if len(key.enum) > 1:
        return "label"
    if key.kind in _KIND_OF_TYPE:
        return _KIND_OF_TYPE[key.kind]
    for kind, pattern in _KIND_OF_NAME.items():
        is_root_cause = kind == "reason" and "root" in key.name.lower()
        if pattern.search(key.name) and not is_root_cause:
            return kind
    return "text"


def lines_of(value: str) -> list[str]:
    """Return a value's lines without bullets, emphasis and empty lines."""
    lines = (_RE.bold.sub("", _RE.bullet.sub("", line)).strip() for line in value.split("\n"))
    return [line for line in lines if line and not line.startswith("```")]


@lru_cache(maxsize=500)
def _name_stems(name: str) -> frozenset[str]:
    words = set(stems(name)) or {name.lower()}
    for root, synonyms in _TEXT_SYNONYMS.items():
        if any(word.startswith(root) or word in synonyms.split() for word in words):
            words |= {root, *synonyms.split()}
    return frozenset(words)


@lru_cache(maxsize=2_000)
def _count_shared(name: str, label: str) -> int:
    """Return the number of words of a label that a key's name requests."""
    name_words = _name_stems(name)
    long = tuple(word for word in name_words if len(word) > _LONG_STEM)
    return sum(1 for word in set(stems(label)) if word in name_words or word.startswith(long))


def _similarity(key: Key, label: str) -> float:
    """Return the fit of a label of the document to a key, from 0 to about 1.5."""
    label_words = set(stems(label))
    if not label_words:
        return 0.0
    if "".join(split_name(label)).lower() == "".join(split_name(key.name)).lower():
        return 1.5
    shared = _count_shared(key.name, label)
    description_overlap = len(label_words & set(stems(key.description))) if shared else 0
    return shared / len(label_words) + 0.25 * description_overlap / len(label_words)


def _best_field(document: Document, key: Key) -> str | None:
    scores = [
        (_similarity(key, field.key) - 0.01 * field.depth - 0.0001 * position, field.value)
        for position, field in enumerate(document.fields)
        if field.value.strip()
    ]
    score, value = max(scores, key=lambda pair: pair[0], default=(0.0, ""))
    return value if score > _LABELLED_SIMILARITY - 1e-9 else None


def _is_short(event: Moment) -> bool:
    """Return whether a label is from a timeline; longer ones are sentences that hold a time."""
    return len(event.label.split()) <= _SHORT_LABEL


def _time(document: Document, key: Key, pattern: str | None) -> str | None:
    name = {*stems(key.name), *(word.lower() for word in split_name(key.name))}
    distinctive_words = name - {"at", "time", "date", "on", "timestamp"}
    events = [e for e in document.events if e.label and not e.label.startswith("#")]
    if any(word.startswith(_START_KEY) for word in distinctive_words):
        matching = [e for e in events if _RE.start.search(e.label)] or events
        events_found = list(filter(_is_short, matching)) or matching
    elif any(word.startswith(_END_KEY) for word in distinctive_words):
        hits = [e for e in events if _RE.end.search(e.label)]
        labelled = list(filter(_is_short, hits))
        events_found = (
            [e for e in hits if _RE.resolved.match(e.label)]
            or [e for e in labelled if _RE.closed.search(e.label)]
            or labelled[-1:]
            or hits[-1:]
        )
    else:
        best = sorted(events, key=lambda e: -_similarity(key, e.label))[:1]
        events_found = [e for e in best if _similarity(key, e.label) >= _LABELLED_SIMILARITY]
    return write_moment(events_found[0], pattern) if events_found else None


def find_text(document: Document, key: Key) -> str | None:
    """Find a text for a key: a labelled piece of the document, else the best sentence."""
    value = _best_field(document, key)
    if value is not None:
        return "\n".join(lines_of(value)) or None
    name_words = _name_stems(key.name)
    description_words = set(stems(key.description)) - name_words

    def score(sentence: str) -> float:
        sentence_words = set(stems(sentence))
        description_share = len(sentence_words & description_words) / (len(description_words) or 1)
        return 0.6 * bool(sentence_words & name_words) + 0.5 * description_share

    best = max(document.sentences, key=score, default="")
    return best if best and score(best) > _SENTENCE_SIMILARITY else None


def find_value(document: Document, key: Key, pattern: str | None) -> str | None:
    """Find the value of a key as text; None if it is not in the document."""
    match kind_of(key):
        case "time":
            return _time(document, key, pattern)
        case "duration":
            name_words = _name_stems(key.name) - {"tim", "time"}
            texts = [s for s in document.sentences if name_words & set(stems(s))]
            durations = map(_RE.duration.search, [_best_field(document, key) or "", *texts])
            return next((match[0].strip() for match in durations if match is not None), None)
        case "title":
            return document.title or None
        case "number":
            number = _RE.number.search(_best_field(document, key) or "")
            return number[0] if number is not None else None
        case _:
            return find_text(document, key)


# Code has this number of marks and a higher share of them among its characters. Tests fail at 2 and
# 4 marks, and at 0.04 and 0.08.
_CODE_MARKS_MIN: Final = 3
_CODE_SHARE: Final = 0.06
# Words of most operations documents, which distinguish little.
_COMMON: Final = frozenset(stems(_RE.entry("common")))
# The weight of a quantity next to one of a word. Tests fail at 1 and 2.
_QUANTITY_WEIGHT: Final = 1.5
# Weights of the best clauses of a label, best first. Slower decay favours labels with more clauses.
# Tests fail at (1, 0.5, 0.3, 0.2) and at (1, 0.2, 0.1, 0.05).
_CLAUSE_DECAY: Final = (1.0, 0.4, 0.2, 0.1)
# A clause with a lower share of matched words counts nothing. Tests fail at 0.2 and 0.4.
_COVERAGE_FLOOR: Final = 0.3
_NEAR_EXAMPLE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEvidence:
    """The evidence of a document for a definition: words with weights 0 to 1, and numbers.

    Attributes:
        spelling: For each stem, the word in the document.
    """

    words: Mapping[str, float]
    quantities: tuple[Quantity, ...]
    spelling: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRanking:
    """The labels from best to worst, with the margin and the deciding words.

    Attributes:
        margin: The best score minus the second, 0 or more.
        deciding_words: Words of the document, in its spelling, that occur in the best definition,
            strongest first.
    """

    names: tuple[str, ...]
    margin: float
    deciding_words: tuple[str, ...]


def is_code(text: str) -> bool:
    """Return whether a text is an expression or source rather than prose."""
    marks = len(_RE.code_marks.findall(text))
    return (marks >= _CODE_MARKS_MIN and marks / len(text) > _CODE_SHARE) or (
        _RE.comparison.search(text) is not None
    )


@lru_cache(maxsize=1_000)
def evidence_of(texts: tuple[str, ...]) -> DocumentEvidence:
    """Return the words and numbers of a document's parts; code counts less than prose."""
    words: dict[str, float] = {}
    spelling: dict[str, str] = {}
    numbers: list[Quantity] = []
    for raw in texts:
        text = _RE.placeholder.sub(" ", raw)
        code = is_code(text)
        # A word seen only in code says less than one in a sentence.
        weight = 0.35 if code else 1.0
        # Braces select series: where a rule searches, not what it finds.
        bare = _RE.selector.sub(" ", text) if code else text
        for piece in _RE.whole_word.findall(text) if not code else ():
            if len(piece_words := stems(piece)) == 1:
                spelling.setdefault(piece_words[0], piece.lower())
        for word in stems(bare):
            words[word] = max(words.get(word, 0.0), weight)
        numbers += quantities(text, code=code)
    return DocumentEvidence(
        words=words, quantities=tuple(dict.fromkeys(numbers)), spelling=spelling
    )


def _clause_score(
    clause: Clause, evidence: DocumentEvidence, weights: Mapping[str, float]
) -> float:
    total = sum(weights[word] for word in clause.words)
    matched = sum(weights[w] * evidence.words[w] for w in clause.words if w in evidence.words)
    factor = 1.0
    for kind in {quantity.kind for quantity in clause.quantities}:
        quantities_of_kind = (quantity for quantity in clause.quantities if quantity.kind == kind)
        pairs = product(quantities_of_kind, evidence.quantities)
        best = max((closeness(*pair) for pair in pairs), default=0.0)
        total += _QUANTITY_WEIGHT
        matched += _QUANTITY_WEIGHT * best
        factor *= max(best, 0.25)
    if total <= 0 or matched <= 0:
        return 0.0
    covered = max(0.0, matched / total - _COVERAGE_FLOOR) / (1 - _COVERAGE_FLOOR)
    return float(factor * covered**1.3 * (1 - math.exp(-1.5 * matched)))


@lru_cache(maxsize=100)
def _word_weights(labels: tuple[LabelDefinition, ...]) -> dict[str, float]:
    """Return the weights of words: low in every definition, high in a single clause."""
    in_labels: Counter[str] = Counter()
    in_clauses: Counter[str] = Counter()
    for label in labels:
        in_labels.update({word for clause in label.clauses for word in clause.words})
        in_clauses.update(word for clause in label.clauses for word in clause.words)
    return {
        word: (1.0 if seen == 1 else 0.6 if seen < len(labels) else 0.35)
        * (0.3 if word in _COMMON else 1.0)
        / (1 + 0.15 * (in_clauses[word] - 1))
        for word, seen in in_labels.items()
    }


def _example_scores(
    evidence: DocumentEvidence, shots: tuple[Shot, ...], names: tuple[str, ...]
) -> list[float]:
    scores = [0.0] * len(names)
    seen = [(evidence_of((shot.input,)), shot.output.lower()) for shot in shots]
    spread = Counter(word for words, _ in seen for word in words.words)
    for example, output in seen:
        index = next((i for i, n in enumerate(names) if n.lower() in output), None)
        if index is None:
            continue
        weight = {w: 1 / (1 + 0.3 * (spread[w] - 1)) for w in example.words}
        shared = sum(weight[w] * evidence.words.get(w, 0.0) for w in example.words)
        size = sum(weight.values())
        other = sum(evidence.words.values())
        alike = shared / math.sqrt(size * other) if size and other else 0.0
        for quantity in example.quantities:
            near = [closeness(quantity, q) for q in evidence.quantities if q.kind == quantity.kind]
            if near:
                alike *= 0.4 + 0.8 * max(near)
        if alike > _NEAR_EXAMPLE:
            scores[index] = max(scores[index], 1.3 * (alike - _NEAR_EXAMPLE))
    return scores


def rank(
    evidence: DocumentEvidence,
    labels: tuple[LabelDefinition, ...],
    shots: tuple[Shot, ...],
    *,
    tie_breakers: tuple[float, ...],
) -> LabelRanking:
    """Rank the labels by how well they fit.

    Args:
        evidence: The evidence of the document.
        labels: The labels with their definitions.
        shots: Examples of the prompt.
        tie_breakers: One number from 0 to 1 for each label, by the document only. They decide if
            the prompt defines nothing.
    """
    names = tuple(label.name for label in labels)
    weights = _word_weights(labels)
    scores = _example_scores(evidence, shots, names)
    defined = any(label.clauses for label in labels)
    for index, label in enumerate(labels):
        clause_scores = [(c.excludes, _clause_score(c, evidence, weights)) for c in label.clauses]
        hits = sorted((score for excludes, score in clause_scores if not excludes), reverse=True)
        scores[index] += sum(d * s for d, s in zip(_CLAUSE_DECAY, hits, strict=False))
        scores[index] -= 0.5 * max(
            (score for excludes, score in clause_scores if excludes), default=0.0
        )
        if label.is_default and defined:
            scores[index] += 0.2
        scores[index] += (0.01 if defined and label.clauses else 0.3) * tie_breakers[index]
        if not defined and index == 0:  # the first label is preferred
            scores[index] += 0.06
    order = sorted(range(len(labels)), key=lambda i: (-scores[i], i))
    clauses = labels[order[0]].clauses
    shared = {w for c in clauses if not c.excludes for w in c.words if w in evidence.words}
    because = sorted(shared, key=lambda w: (-weights.get(w, 0) * evidence.words[w], w))
    spellings = dict.fromkeys(evidence.spelling[w] for w in because if w in evidence.spelling)
    return LabelRanking(
        names=tuple(names[i] for i in order),
        margin=scores[order[0]] - scores[order[1]] if len(order) > 1 else 1.0,
        deciding_words=tuple(spellings)[:4],
    )


_NOT_THE_LABEL: Final = ("high", "medium", "unknown", "urgent", "normal", "other")
# An example is followed against the list of labels in one output of six.
_CLARITY_OF_WRONG_EXAMPLE: Final = 0.45


@lru_cache(maxsize=200)
def _are_in_text(names: tuple[str, ...], text: str) -> bool:
    return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names)


def choose_label(
    document: Document, instructions: Instructions, dice: Dice, *, key: Key | None = None
) -> tuple[str, LabelRanking]:
    """Return the label that fits best, or sometimes the next one."""
    labels = instructions.labels
    if key is not None and key.name != instructions.label_key:
        labels = read_labels(instructions.text, key.enum)
    texts = tuple(f.value for f in document.fields)
    if len(" ".join(texts)) < len(document.text) / 2:
        texts = (document.text,)
    tie_breakers = tuple(dice.throw(f"whim {label.name}") for label in labels)
    ranking = rank(evidence_of(texts), labels, instructions.shots, tie_breakers=tie_breakers)
    names = ranking.names
    name = names[0]
    if len(names) > 1 and dice.picks_second(ranking.margin):
        name = names[1]
    orders, key_name = instructions.orders, key.name if key is not None else instructions.label_key
    example_values = [
        value for name_, value in orders.examples if name_ == key_name and value not in names
    ]
    if example_values and dice.fails("copied example", _CLARITY_OF_WRONG_EXAMPLE):
        return example_values[-1], ranking
    required_values = [
        value for name_, value in orders.always if name_ == key_name and value in names
    ]
    if required_values:
        return required_values[-1], ranking
    in_words = _are_in_text(ranking.names, instructions.text)
    is_listed = key is not None and key.in_schema
    clarity = (0.6 if in_words else 0.0) + (0.4 if is_listed or key is None else 0.2)
    if dice.fails("invented label", clarity):
        name = _NOT_THE_LABEL[dice.pick("invented label", len(_NOT_THE_LABEL))]
    return name, ranking


def clarity_of_limit(limits: LengthLimits) -> float:
    """Return the clarity of a limit: 0.8 for a number, 1 if the prompt insists."""
    return 1.0 if limits.emphatic else 0.8


@lru_cache(maxsize=500)
def _limits_for(key: Key, text: str) -> LengthLimits:
    name_pattern = re.compile(rf"(?<!\w){re.escape(key.name)}(?!\w)", re.IGNORECASE)
    sentences = filter(name_pattern.search, re.split(r"(?<=[.!?])\s|\n", text))
    for limits in map(read_limits, (key.description, *sentences)):
        if limits != LengthLimits(emphatic=limits.emphatic):
            return limits
    return LengthLimits()


def over_limit(limit: int, dice: Dice) -> int:
    """Return the number of words if a limit is exceeded: up to two thirds too many."""
    return limit + 3 + int(limit * (0.15 + 0.5 * dice.throw("overrun")))


def _reason(
    document: Document, limits: LengthLimits, ranking: LabelRanking | None, label: str, dice: Dice
) -> str:
    facts = alert_facts(document)
    fires = f"{facts.name} fires" if facts.name else ""
    summary = readable(first_sentence(facts.summary) or first_sentence(facts.description)) or fires
    summary = summary or first_sentence(summarise(document, LengthLimits(sentences_max=1)))
    summary = summary.rstrip(".")
    because = ", ".join(ranking.deciding_words[:3]) if ranking is not None else ""
    clue = f", which points to {label} ({because})" if because and label else ""
    text = f"{summary}{clue}."
    limit = limits.words_max
    if limit is not None and not dice.fails("too long reason", clarity_of_limit(limits)):
        return text if count_words(text) <= limit else shorten(summary, limit)
    metrics, hold = ", ".join(facts.metrics[:4]), facts.duration
    pieces = [
        text,
        readable(facts.description),
        metrics and f"The expression looks at {metrics}.",
        hold and f"It has to hold for {hold} before the alert fires, so it is not a short spike.",
        _RE.entry("afterthought"),
    ]
    long = " ".join(filter(None, pieces))
    return long if limit is None else " ".join(long.split()[: over_limit(limit, dice)])


def _summary(document: Document, limits: LengthLimits, dice: Dice) -> str:
    words = limits.words_max
    if words is not None and dice.fails("too long summary", clarity_of_limit(limits)):
        text = summarise(document, LengthLimits(), words=None)
        return " ".join(text.split()[: over_limit(words, dice)])
    return summarise(document, limits)


def _invent_value(document: Document, key: Key, pattern: str | None, dice: Dice) -> str:
    """Invent a plausible value that is missing in the document."""
    kind = kind_of(key)
    invention = f"invent {key.name}"
    if kind == "time" and document.events:
        return write_moment(document.events[dice.pick(invention, len(document.events))], pattern)
    if kind == "duration":
        return f"{1 + dice.pick(invention, 5)}h {5 * dice.pick('minutes', 12)}m"
    if kind == "number":
        return str(1 + dice.pick(invention, 40))
    if not document.prose:
        return "unknown"
    return first_sentence(document.prose[dice.pick(invention, len(document.prose))])


def _read(key: Key, document: Document, instructions: Instructions, dice: Dice) -> Any:
    """Return a value that the document states, within its limits; else nothing, or an invention."""
    pattern, text = instructions.time_format, find_value(document, key, instructions.time_format)
    kind, limits = kind_of(key), _limits_for(key, instructions.text)
    if text is None:
        clarity = (0.7 if instructions.null_when_absent else 0.0) + (0.3 if key.nullable else 0.15)
        if not dice.fails(f"invent {key.name}", 0.0 if instructions.orders.guesses else clarity):
            by_rule = key.nullable or instructions.null_when_absent or kind == "number"
            return None if by_rule else ""
        text = _invent_value(document, key, pattern, dice)
    else:
        if kind == "time" and dice.fails(f"misread {key.name}", 1.0 if key.is_described else 0.75):
            moments = [write_moment(e, pattern) for e in document.events if e.label]
            text = next((other for other in moments if other != text), text)
        if limits.words_max is not None and count_words(text) > limits.words_max:
            text = shorten(text, limits.words_max)
        if kind == "text" and limits.sentences_max == 1:
            text = first_sentence(text)
    if kind == "number":
        return int(float(text)) if key.kind == "integer" else float(text)
    return text


def _value(key: Key, document: Document, instructions: Instructions, dice: Dice) -> Any:
    kind = kind_of(key)
    if kind == "label":
        return choose_label(document, instructions, dice, key=key)[0]
    if kind == "summary":
        text = _summary(document, _limits_for(key, instructions.text), dice)
        least = instructions.orders.words_min
        return " ".join([text] * max(1, -(-least // max(1, count_words(text)))))
    if kind == "boolean":
        return bool(find_text(document, key))
    if key.children:
        children = {c.name: _value(c, document, instructions, dice) for c in key.children}
        return [children] if kind == "list" else children
    if kind == "list":
        return lines_of(find_text(document, key) or "")
    return _read(key, document, instructions, dice)


def _clarity_of_key(key: Key) -> float:
    in_words = 0.35 if key.in_words else 0.0
    return (0.4 if key.in_schema else 0.25) + in_words + (0.25 if key.is_described else 0.1)


def json_values(document: Document, instructions: Instructions, dice: Dice) -> dict[str, Any]:
    """Return all values of the output; a key may be missing, as in real outputs."""
    keys = instructions.keys
    if not keys:
        topic = set(stems(instructions.text))
        return {
            f.key.lower().replace(" ", "_"): f.value
            for f in document.fields
            if set(stems(f.key)) & topic
        } or {"answer": summarise(document, instructions.limits)}
    values: dict[str, Any] = {}
    label, ranking = "", None
    for key in keys:
        if key.name == instructions.label_key:
            label, ranking = choose_label(document, instructions, dice, key=key)
            values[key.name] = label
        elif kind_of(key) == "reason" and key.kind != "object":
            limits = _limits_for(key, instructions.text)
            values[key.name] = _reason(document, limits, ranking, label, dice)
        else:
            values[key.name] = _value(key, document, instructions, dice)
    weakest = min(reversed(keys), key=_clarity_of_key)
    if len(keys) > 1 and dice.fails("missing key", _clarity_of_key(weakest)):
        values.pop(weakest.name)
    return values
