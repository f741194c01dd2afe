"""The answer as text: JSON, a label, sections or plain text, wrapped and spoilt by chance."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.sim._document import (
    AlertFacts,
    Document,
    alert_facts,
    plain,
    readable,
    shorten,
    summarise,
)
from regauge.sim._text import count_words, sentences, split_name, stems
from regauge.sim._values import choose_label, clarity_of_limit, json_values, lines_of, over_limit

if TYPE_CHECKING:
    from regauge.sim._instructions import Instructions, Limits, Section
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The places to look and the actions for one kind of resource.

    Attributes:
        words: The words, comma by comma, that name it in an alert.
        consequence: What its trouble means for users; ends in a full stop.
        commands: How to look at it; `{label}` stands for a label of the alert.
        causes: Usual reasons, as short phrases.
        remedies: What usually helps, as imperatives.
    """

    words: str
    consequence: str
    commands: tuple[str, ...]
    causes: tuple[str, ...]
    remedies: tuple[str, ...]


_NAMED_SCORE: Final = 1.0
_LABEL_SCORE: Final = 0.4


@lru_cache(maxsize=1)
def _known() -> tuple[Resource, ...]:
    """All kinds; the last is the general one, which names nothing."""
    import yaml

    text = resources.files("regauge.sim").joinpath("_resources.yml").read_text("utf-8")
    kinds: list[dict[str, Any]] = yaml.safe_load(text)
    return tuple(
        Resource(
            words=kind["words"],
            consequence=kind["consequence"],
            commands=tuple(kind["commands"]),
            causes=tuple(kind["causes"]),
            remedies=tuple(kind["remedies"]),
        )
        for kind in kinds
    )


@lru_cache(maxsize=1)
def _known_words() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(stems(kind.words.replace(",", " "))) for kind in _known()[:-1])


def resources_of(facts: AlertFacts) -> tuple[Resource, ...]:
    """The kinds of thing that an alert is about, the most likely first; never empty."""
    weights: dict[str, float] = {}
    for text, weight in (
        (facts.subject, 3.0),
        (facts.summary, 1.5),
        (facts.description, 0.6),
        (" ".join(facts.metrics), 0.6),
        (" ".join(facts.labels), 0.4),
    ):
        for word in stems(text):
            weights[word] = max(weights.get(word, 0.0), weight)
    scored = sorted(
        (-sum(weights.get(word, 0.0) for word in words), index)
        for index, words in enumerate(_known_words())
    )
    # A word of the name or the summary names the thing; else a label of the alert has to do.
    floor = _NAMED_SCORE if -scored[0][0] > _NAMED_SCORE else _LABEL_SCORE
    known = _known()
    return (*(known[index] for score, index in scored[:2] if -score >= floor), known[-1])


Topic = Literal["meaning", "impact", "diagnosis", "mitigation", "timeline", "summary", "other"]

_TOPICS: Final[dict[Topic, re.Pattern[str]]] = _RE.patterns("topics")
_WORKLOADS: Final = ("deployment", "statefulset", "daemonset")
_URGENCIES: Final[dict[str, str]] = _RE.entry("urgencies")
_OTHER_URGENCY: Final = "follow the rules of your team for this level"


def is_alert(facts: AlertFacts) -> bool:
    """Return whether the document is an alert rule or notification rather than a story."""
    return bool(facts.expression or (facts.name and (facts.summary or facts.description)))


def _topic(name: str) -> Topic:
    for topic, pattern in _TOPICS.items():
        if pattern.search(name):
            return topic
    return "other"


def _fill(template: str, facts: AlertFacts) -> str:
    workload = next(
        (
            label
            for label in _WORKLOADS
            if label in facts.labels or label in facts.subject.replace(" ", "")
        ),
        "deployment",
    )

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return f"{workload}/$" + workload.upper() if name == "workload" else "$" + name.upper()

    return _RE.mark.sub(value, template)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


def _meaning(facts: AlertFacts) -> str:
    lines = [
        _sentence(readable(facts.summary))
        if facts.summary
        else f"{facts.name or 'The alert'} is firing."
    ]
    if facts.description and facts.description != facts.summary:
        lines.append(_sentence(readable(facts.description)))
    if facts.metrics:
        condition = f" against `{facts.threshold}`" if facts.threshold else ""
        held = (
            f", and the condition has to hold for {facts.duration}"
            if facts.duration and facts.duration not in ("0s", "0m")
            else ""
        )
        watched = ", ".join(f"`{metric}`" for metric in facts.metrics[:3])
        lines.append(f"It compares {watched}{condition}{held}.")
    return "\n".join(lines)


def _impact(facts: AlertFacts) -> str:
    found = resources_of(facts)
    scope = [
        label
        for label in facts.labels
        if label in ("cluster", "namespace", "node", "instance", "pod", "device")
    ]
    lines = [found[0].consequence]
    if scope:
        lines.append(
            f"How far it reaches stands in the labels {', '.join(f'`{s}`' for s in scope[:4])} "
            f"of the alert."
        )
    urgency = facts.severity.lower()
    if urgency:
        word = "An" if urgency[0] in "aeiou" else "A"
        lines.append(f"{word} {urgency} alert: {_URGENCIES.get(urgency, _OTHER_URGENCY)}.")
    return "\n".join(lines)


def _diagnosis(facts: AlertFacts) -> str:
    found = resources_of(facts)
    steps: list[str] = []
    if facts.selectors:
        query = facts.selectors[0]
        if facts.metrics[0].endswith("_total"):
            query = f"rate({query}[{facts.window or '5m'}])"
        steps.append(
            f"Look at the series behind the alert, and since when they are off:\n\n  "
            f"```promql\n  {query}\n  ```"
        )
    if facts.labels:
        named = ", ".join(f"`{label}`" for label in facts.labels[:5])
        steps.append(f"Take {named} from the labels of the alert.")
    steps += [f"Run `{_fill(command, facts)}`." for command in found[0].commands]
    if len(found) > 2:  # noqa: PLR2004 - a small count that says itself
        steps += [f"Run `{_fill(command, facts)}`." for command in found[1].commands[:1]]
    causes = list(dict.fromkeys(cause for resource in found[:2] for cause in resource.causes))
    steps.append("Usual causes: " + "; ".join(causes[:5]) + ".")
    return "\n".join(f"- {step}" for step in steps)


def _mitigation(facts: AlertFacts) -> str:
    found = resources_of(facts)
    remedies = list(dict.fromkeys(remedy for resource in found[:2] for remedy in resource.remedies))
    steps = [_sentence(_fill(remedy[0].upper() + remedy[1:], facts)) for remedy in remedies[:5]]
    over = (
        f"`{facts.name}` stops firing once the condition no longer holds"
        if facts.name
        else "Watch until it is clear"
    )
    steps.append(
        over
        + (
            f"; the expression is `{' '.join(facts.expression.split())[:160]}`."
            if facts.expression
            else "."
        )
    )
    return "\n".join(f"- {step}" for step in steps)


def _about(document: Document, section: Section, limits: Limits) -> str:
    """A section about a document that is no alert: what the document itself says of it."""
    topic = _topic(section.name)
    if topic == "timeline" and document.events:
        return "\n".join(f"- {e.moment.raw}: {e.label}" for e in document.events[:12] if e.label)
    wanted = set(stems(f"{section.name} {section.description}"))
    for field in document.fields:
        if set(stems(field.key)) & wanted and field.value.strip():
            return "\n".join(f"- {plain(line)}" for line in lines_of(field.value))
    if topic in ("summary", "meaning"):
        return summarise(document, limits, words=limits.words_max or 80)
    best = max(document.prose, key=lambda p: len(wanted & set(stems(p))), default="")
    return best if wanted & set(stems(best)) else "The document does not say."


def section_text(document: Document, section: Section, limits: Limits) -> str:
    """The text of one section."""
    facts = alert_facts(document)
    if not is_alert(facts):
        return _about(document, section, limits)
    match _topic(section.name):
        case "meaning" | "summary":
            return _meaning(facts)
        case "impact":
            return _impact(facts)
        case "diagnosis":
            return _diagnosis(facts)
        case "mitigation":
            return _mitigation(facts)
        case _:
            words = " ".join(split_name(section.name)).lower()
            return f"Nothing in the alert speaks of {words}."


def loose_runbook(document: Document) -> str:
    """A runbook as it comes out when nobody says which sections it is to have."""
    facts = alert_facts(document)
    return (
        f"**{facts.name or document.title or 'Alert'}**\n\n{_meaning(facts)}\n\n"
        f"{_impact(facts)}\n\n"
        f"What to look at:\n\n{_diagnosis(facts)}\n\nWhat usually helps:\n\n{_mitigation(facts)}"
    )


_TERRAFORM: Final[dict[str, str]] = _RE.entry("terraform")
_NO_TRANSLATION: Final[str] = _RE.entry("no_translation")
_QUESTION_WORDS: Final = 3
_TOPIC_WORD_CHARS: Final = 4
_BULLETS_SHOWN: Final = 5


def _snippet(text: str, wanted: str) -> str:
    nouns = [w for w in stems(text) if not w.startswith("not_")]
    name = "_".join(nouns[2:4]) or "example"
    low = wanted.lower()
    if low in ("terraform", "hcl"):
        kind = next((_TERRAFORM[w] for w in nouns if w in _TERRAFORM), "null_resource")
        lines = [f'resource "{kind}" "{name}" {{', "  tags = {", "    Name = var.name", "  }", "}"]
        lines += ["", 'variable "name" {', "  type = string", "}"]
        return _fenced("hcl", lines)
    if "yaml" in low or "manifest" in low:
        meta = ["metadata:", f"  name: {name.replace('_', '-')}", "data: {}"]
        return _fenced("yaml", ["apiVersion: v1", "kind: ConfigMap", *meta])
    if "sql" in low:
        return _fenced("sql", ["SELECT *", f"FROM {name}", "LIMIT 100;"])
    if "python" in low:
        return _fenced("python", [f"def {name}(value: str) -> str:", "    return value"])
    return _fenced("bash", ["#!/usr/bin/env bash", "set -euo pipefail", f'echo "{name}"'])


def _fenced(language: str, lines: list[str]) -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def _best_sentences(document: Document, question: str, most: int) -> list[str]:
    wanted = set(stems(question))
    told = [s for p in document.prose for s in sentences(p)]
    scored = sorted(
        (
            (-len(wanted & set(stems(s))) / (1 + 0.02 * len(s.split())), i)
            for i, s in enumerate(told)
        )
    )
    return [told[i] for score, i in scored[:most] if score < 0]


def _listed(document: Document, instructions: Instructions) -> str:
    count = instructions.limits.bullets or _BULLETS_SHOWN
    wanted = set(stems(instructions.text))
    for field in document.fields:
        lines = lines_of(field.value)
        if len(lines) > 1 and set(stems(field.key)) & wanted:
            return "\n".join(f"- {line}" for line in lines[:count])
    told = sentences(summarise(document, instructions.limits, words=40 * count))
    told += [s for p in document.prose for s in sentences(p) if s not in told]
    return "\n".join(f"- {line}" for line in told[:count])


def _question(document: Document, instructions: Instructions, question: str) -> str:
    best = _best_sentences(document, question, 2)
    if _RE.yes_no.search(instructions.text) or re.match(
        r"\W*(?:is|are|was|were|does|do|did|has|have|can|could|should|will)\b",
        question,
        re.IGNORECASE,
    ):
        wanted = set(stems(question))
        met = wanted & set(stems(best[0])) if best else set[str]()
        word = "Yes" if len(met) * 2 >= len(wanted) and met else "No"
        only = re.search(
            r"\bonly\b|\bone word\b|\bsingle word\b|\bjust\b", instructions.text, re.IGNORECASE
        )
        return word if only or not best else f"{word}. {best[0]}"
    return " ".join(best) or "The text does not say."


def _without_document(instructions: Instructions) -> str:
    """Nothing was given to work on: a short text that takes up the words of the request."""
    asked = [w for w in split_name(instructions.text) if len(w) >= _TOPIC_WORD_CHARS]
    topic = " ".join(asked[:12]).lower() or "your request"
    return (
        f"Here is what a simulated model can say to this: {topic}. It follows the rules of a "
        f"prompt on a document,"
        " and no document was given."
    )


def _task(text: str, document: Document, instructions: Instructions) -> str | None:
    """The task of a request in plain words, if it is a usual one."""
    if _RE.runbook.search(text) or alert_facts(document).expression:
        return loose_runbook(document)
    questions = [q.strip() for q in _RE.question.findall(text) if len(q.split()) >= _QUESTION_WORDS]
    if questions or _RE.yes_no.search(text):
        return _question(document, instructions, questions[-1] if questions else text)
    if _RE.title.search(text.strip()) and document.title:
        return document.title
    if _RE.listing.search(text) or instructions.limits.bullets:
        return _listed(document, instructions)
    if _RE.rewrite.search(text):
        return " ".join(s for p in document.prose for s in sentences(p)) or document.text
    return None


def _draft(document: Document, instructions: Instructions, dice: Dice) -> str:
    text = instructions.text
    if _RE.translate.search(text):
        return _NO_TRANSLATION
    code = _RE.code.search(text)
    if code is not None and _RE.code_verb.search(text):
        return _snippet(f"{text} {document.text}", code[0])
    if not document.text.strip():
        return _without_document(instructions)
    usual = _task(text, document, instructions)
    if usual is not None:
        return usual
    limits = instructions.limits
    if limits.words_max is not None and dice.fails("too long text", clarity_of_limit(limits)):
        told = summarise(document, limits, words=4 * limits.words_max)
        return " ".join(told.split()[: over_limit(limits.words_max, dice)])
    return summarise(document, limits)


def generic_text(document: Document, instructions: Instructions, dice: Dice) -> str:
    """A sensible plain text for any request; never empty."""
    text = _draft(document, instructions, dice)
    limit = instructions.limits.chars_max
    if limit is not None and len(text) > limit:
        text = text[:limit].rsplit(" ", 1)[0]
    if _RE.shout.search(instructions.text):
        text = text.upper()
    elif _RE.whisper.search(instructions.text):
        text = text.lower()
    return text.strip() or "The text does not say."


_OPENINGS: Final[list[str]] = _RE.entry("openings")
_CLOSINGS: Final = ("", "Let me know if you would like anything changed.", "I hope this helps!")
# What it says where it is asked for something else than all it was asked for before.
_INSTEAD: Final = "Quiet morning watch\nan alert blinks in the dark\nsomebody will look"
_LOOSE_HEADINGS: Final[list[str]] = _RE.entry("loose_headings")


def _as_json(document: Document, instructions: Instructions, dice: Dice) -> str:
    values = json_values(document, instructions, dice)
    text = json.dumps(values, ensure_ascii=False, indent=2 if len(values) > 2 else None)  # noqa: PLR2004 - a small count that says itself
    clarity = instructions.format_clarity
    if dice.fails("code fence", clarity):
        text = f"```json\n{text}\n```"
    if dice.fails("chatter", clarity):
        opening = _OPENINGS[dice.pick("opening", len(_OPENINGS))]
        closing = _CLOSINGS[dice.pick("closing", len(_CLOSINGS))]
        text = f"{opening}\n\n{text}" + (f"\n\n{closing}" if closing else "")
    return text


def _as_label(document: Document, instructions: Instructions, dice: Dice) -> str:
    name, ranking = choose_label(document, instructions, dice)
    clarity = 0.4 + (0.6 if _RE.only_label.search(instructions.text) else 0.0)
    if not dice.fails("chatter", clarity):
        return name
    because = ", ".join(ranking.because[:3])
    return f"I would say this is **{name}**" + (
        f", because it speaks of {because}." if because else "."
    )


def _trim(sections: list[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Sections cut to a limit on the words of them all, each by its share."""
    total = sum(count_words(text) + count_words(name) + 1 for name, text in sections)
    if total <= limit:
        return sections
    share = max(0.1, (limit - 3 * len(sections)) / total)
    kept: list[tuple[str, str]] = []
    for name, text in sections:
        left = max(4, int(count_words(text) * share))
        lines: list[str] = []
        for block in re.split(r"\n(?=- )", text):
            words = count_words(block)
            if words <= left:
                lines.append(block)
                left -= words
            elif not lines:
                lines.append(shorten(plain(block), left))
                break
        kept.append((name, "\n".join(lines)))
    return kept


def _as_sections(document: Document, instructions: Instructions, dice: Dice) -> str:
    limits = instructions.limits
    sections = [(s.name, section_text(document, s, limits)) for s in instructions.sections]
    told = any(section.description for section in instructions.sections)
    exact = _RE.exact.search(instructions.text) is not None
    clarity = 0.75 + (0.15 if exact else 0.0) + (0.1 if told else 0.0)
    if len(sections) > 1 and dice.fails("missing section", clarity):
        sections.pop(dice.pick("section", len(sections)))
    if dice.fails("other heading", clarity):
        index = dice.pick("heading", len(sections))
        sections[index] = (
            _LOOSE_HEADINGS[dice.pick("other", len(_LOOSE_HEADINGS))],
            sections[index][1],
        )
    if limits.words_max is not None and not dice.fails("too long text", clarity_of_limit(limits)):
        sections = _trim(sections, limits.words_max)
    mark = "" if instructions.no_markdown else "## "
    text = "\n\n".join(f"{mark}{name}\n\n{body}" for name, body in sections)
    if dice.fails("chatter", 0.75 + (0.25 if _RE.only_text.search(instructions.text) else 0.0)):
        text = f"{_OPENINGS[0]}\n\n{text}"
    return text


def _lengthened(text: str, words: int) -> str:
    """A text said over until it has so many words."""
    times = -(-words // max(1, count_words(text)))
    return "\n\n".join([text, *[text.rpartition("\n\n")[2]] * (times - 1)]) if times > 1 else text


def _without(text: str, phrase: str) -> str:
    return re.sub(rf"\s?(?<!\w){re.escape(phrase)}(?!\w)", "", text, flags=re.IGNORECASE)


def compose(document: Document, instructions: Instructions, dice: Dice) -> str:
    """The reply of the model to a document under these instructions."""
    orders = instructions.orders
    if orders.instead:
        return _INSTEAD
    if instructions.wants_json:
        text = _as_json(document, instructions, dice)
    elif instructions.sections:
        text = _as_sections(document, instructions, dice)
    elif instructions.labels and document.text.strip():
        text = _as_label(document, instructions, dice)
    else:
        text = generic_text(document, instructions, dice)
    if orders.words_min and not instructions.wants_json:
        text = _lengthened(text, orders.words_min)
    if orders.links:
        text = f"{text}\n\nSee also: https://example.com/runbooks"
    elif instructions.no_links:
        text = _RE.link.sub(lambda m: m[1] or "", text)
    for phrase in instructions.forbidden:
        if not dice.fails(f"forbidden {phrase}", 1.0):
            text = _without(text, phrase)
    return text
