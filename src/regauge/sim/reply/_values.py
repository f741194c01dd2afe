"""The values of a JSON answer, key by key, with the ways in which they go wrong."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.asked import Limits, read_labels, read_limits
from regauge.sim.document import alert_facts, find_text, find_value, kind_of, lines_of, readable
from regauge.sim.reply._classify import evidence_of, rank
from regauge.sim.reply._summarise import shorten, summarise
from regauge.sim.text import count_words, first_sentence, stems, write_moment

if TYPE_CHECKING:
    from regauge.sim._rules import Dice
    from regauge.sim.asked import Instructions, Key
    from regauge.sim.document import Document
    from regauge.sim.reply._classify import Ranking

__all__ = ["choose_label", "clarity_of_limit", "json_values", "over_limit"]

_NOT_THE_LABEL: Final = ("high", "medium", "unknown", "urgent", "normal", "other")
# An example is followed against the list of labels in one answer of six.
_CLARITY_OF_WRONG_EXAMPLE: Final = 0.45
_AFTERTHOUGHT: Final = (
    "Taken together this is why I would choose this answer, although more context about the"
    " service, its users and the time of the day could change my view of how urgent it really is."
)


@lru_cache(maxsize=200)
def _are_named(names: tuple[str, ...], text: str) -> bool:
    return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names)


def choose_label(
    document: Document, instructions: Instructions, dice: Dice, *, key: Key | None = None
) -> tuple[str, Ranking]:
    """The label that fits best, or now and then the next one."""
    labels = instructions.labels
    if key is not None and key.name != instructions.label_key:
        labels = read_labels(instructions.text, key.enum)
    texts = tuple(f.value for f in document.fields if f.value) or (document.text,)
    if len(" ".join(texts)) < len(document.text) / 2:
        texts = (document.text,)
    whims = tuple(dice.throw(f"whim {label.name}") for label in labels)
    ranking = rank(evidence_of(texts), labels, instructions.shots, whims=whims)
    name = ranking.names[0]
    if len(ranking.names) > 1 and dice.picks_second(ranking.margin):
        name = ranking.names[1]
    orders, own = instructions.orders, key.name if key is not None else instructions.label_key
    copied = [said for name_, said in orders.shown if name_ == own and said not in ranking.names]
    if copied and dice.fails("copied example", _CLARITY_OF_WRONG_EXAMPLE):
        return copied[-1], ranking
    forced = [said for name_, said in orders.always if name_ == own and said in ranking.names]
    if forced:
        return forced[-1], ranking
    in_words = _are_named(ranking.names, instructions.text)
    listed = key is not None and key.in_schema
    clarity = (0.6 if in_words else 0.0) + (0.4 if listed or key is None else 0.2)
    if dice.fails("invented label", clarity):
        name = _NOT_THE_LABEL[dice.pick("invented label", len(_NOT_THE_LABEL))]
    return name, ranking


def clarity_of_limit(limits: Limits) -> float:
    """How clearly a limit is stated: 0.8 for a number, 1 when the prompt insists."""
    return 1.0 if limits.emphatic else 0.8


@lru_cache(maxsize=500)
def _limits_for(key: Key, text: str) -> Limits:
    own = read_limits(key.description)
    if own != Limits(emphatic=own.emphatic):
        return own
    named = re.compile(rf"(?<!\w){re.escape(key.name)}(?!\w)", re.IGNORECASE)
    for sentence in re.split(r"(?<=[.!?])\s|\n", text):
        if named.search(sentence):
            found = read_limits(sentence)
            if found != Limits(emphatic=found.emphatic):
                return found
    return Limits()


def over_limit(limit: int, dice: Dice) -> int:
    """How many words come out when a limit is overrun: up to two thirds too many."""
    return limit + 3 + int(limit * (0.15 + 0.5 * dice.throw("overrun")))


def _reason(
    document: Document, limits: Limits, ranking: Ranking | None, label: str, dice: Dice
) -> str:
    facts = alert_facts(document)
    told = readable(first_sentence(facts.summary) or first_sentence(facts.description))
    if not told:
        told = (
            f"{facts.name} fires"
            if facts.name
            else first_sentence(summarise(document, Limits(sentences_max=1)))
        )
    told = told.rstrip(".")
    because = ", ".join(ranking.because[:3]) if ranking is not None else ""
    clue = f" which points to {label}" if label else ""
    text = f"{told},{clue} ({because})." if because and clue else f"{told}."
    limit = limits.words_max
    if limit is not None and not dice.fails("too long reason", clarity_of_limit(limits)):
        return text if count_words(text) <= limit else shorten(told, limit)
    more = [
        text,
        readable(facts.description),
        f"The expression looks at {', '.join(facts.metrics[:4])}." if facts.metrics else "",
        f"It has to hold for {facts.duration} before the alert fires, so it is not a short spike."
        if facts.duration
        else "",
        _AFTERTHOUGHT,
    ]
    long = " ".join(piece for piece in more if piece)
    return long if limit is None else " ".join(long.split()[: over_limit(limit, dice)])


def _summary(document: Document, limits: Limits, dice: Dice) -> str:
    words = limits.words_max
    if words is not None and dice.fails("too long summary", clarity_of_limit(limits)):
        text = summarise(document, Limits(), words=None)
        return " ".join(text.split()[: over_limit(words, dice)])
    return summarise(document, limits)


def _invented(document: Document, key: Key, pattern: str | None, dice: Dice) -> str:
    """Something plausible for what the document does not say."""
    kind = kind_of(key)
    if kind == "time" and document.events:
        chosen = document.events[dice.pick(f"invent {key.name}", len(document.events))]
        return write_moment(chosen.moment, pattern)
    if kind == "duration":
        return f"{1 + dice.pick(f'invent {key.name}', 5)}h {5 * dice.pick('minutes', 12)}m"
    if kind == "number":
        return str(1 + dice.pick(f"invent {key.name}", 40))
    told = (
        document.prose[dice.pick(f"invent {key.name}", len(document.prose))]
        if document.prose
        else "unknown"
    )
    return first_sentence(told)


def _typed(key: Key, text: str) -> Any:
    if key.kind == "integer":
        return int(float(text))
    if key.kind == "number":
        return float(text)
    return text


def _misread(document: Document, value: str, pattern: str | None) -> str:
    others = [write_moment(e.moment, pattern) for e in document.events if e.label]
    return next((other for other in others if other != value), value)


def _absent(key: Key, document: Document, instructions: Instructions, dice: Dice) -> Any:
    """What stands for something the document does not say: nothing, or an invention."""
    clarity = (0.7 if instructions.null_when_absent else 0.0) + (0.3 if key.nullable else 0.15)
    clarity = 0.0 if instructions.orders.guesses else clarity
    if dice.fails(f"invent {key.name}", clarity):
        return _typed(key, _invented(document, key, instructions.time_format, dice))
    by_rule = key.nullable or instructions.null_when_absent or key.kind in ("number", "integer")
    return None if by_rule else ""


def _read(key: Key, document: Document, instructions: Instructions, dice: Dice) -> Any:
    """A value that the document states, within its limits."""
    pattern = instructions.time_format
    text = find_value(document, key, pattern)
    if text is None:
        return _absent(key, document, instructions, dice)
    kind, limits = kind_of(key), _limits_for(key, instructions.text)
    if kind == "time" and dice.fails(f"misread {key.name}", 1.0 if key.described else 0.75):
        text = _misread(document, text, pattern)
    if limits.words_max is not None and count_words(text) > limits.words_max:
        text = shorten(text, limits.words_max)
    if kind == "text" and limits.sentences_max == 1:
        text = first_sentence(text)
    return _typed(key, text)


def _list(key: Key, document: Document, instructions: Instructions, dice: Dice) -> list[Any]:
    if key.children:
        return [_object(key.children, document, instructions, dice)]
    found = find_text(document, key)
    return lines_of(found) if found else []


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
    if kind == "list":
        return _list(key, document, instructions, dice)
    if key.children:
        return _object(key.children, document, instructions, dice)
    return _read(key, document, instructions, dice)


def _object(
    keys: tuple[Key, ...], document: Document, instructions: Instructions, dice: Dice
) -> dict[str, Any]:
    return {key.name: _value(key, document, instructions, dice) for key in keys}


def _clarity_of_key(key: Key) -> float:
    return (
        (0.4 if key.in_schema else 0.25)
        + (0.35 if key.in_words else 0.0)
        + (0.25 if key.described else 0.1)
    )


def json_values(document: Document, instructions: Instructions, dice: Dice) -> dict[str, Any]:
    """All values of the answer; a key may be missing, as it may in a real answer."""
    keys = instructions.keys
    values: dict[str, Any] = {}
    chosen: tuple[str, Ranking] | None = None
    for key in keys:
        if key.name == instructions.label_key:
            chosen = choose_label(document, instructions, dice, key=key)
            values[key.name] = chosen[0]
        elif kind_of(key) == "reason" and key.kind != "object":
            label, ranking = chosen or ("", None)
            values[key.name] = _reason(
                document, _limits_for(key, instructions.text), ranking, label, dice
            )
        else:
            values[key.name] = _value(key, document, instructions, dice)
    if not keys:
        topic = set(stems(instructions.text))
        return {
            f.key.lower().replace(" ", "_"): f.value
            for f in document.fields
            if set(stems(f.key)) & topic
        } or {"answer": summarise(document, instructions.limits)}
    weakest = min(range(len(keys)), key=lambda i: (_clarity_of_key(keys[i]), -i))
    if len(keys) > 1 and dice.fails("missing key", _clarity_of_key(keys[weakest])):
        values.pop(keys[weakest].name)
    return values
