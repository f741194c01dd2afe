"""The output: JSON, a label, sections, plain text, a filled skeleton or tool calls."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.prompts import ToolCall
from regauge.sim._text import (
    AlertFacts,
    Document,
    alert_facts,
    count_words,
    end_sentence,
    is_list,
    is_object,
    plain,
    read_json,
    readable,
    sentences,
    shorten,
    split_name,
    stems,
    summarise,
)
from regauge.sim._values import choose_label, clarity_of_limit, json_values, lines_of, over_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from regauge.providers import CompletionRequest
    from regauge.sim._instructions import Instructions, Layout, RequestedSection
    from regauge.sim._rules import Dice
    from regauge.sim._text import LengthLimits

_RE: Final = Lexicon("regauge.sim", "reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The places to look and the actions for one kind of resource.

    Attributes:
        words: Comma-separated words that name it in an alert.
        consequence: The effect of its failure on users; ends with a full stop.
        commands: Commands for its diagnosis; `{label}` stands for a label of the alert.
        causes: Usual reasons, as short phrases.
        remedies: Usual remedies, as imperatives.
    """

    words: str
    consequence: str
    commands: list[str]
    causes: list[str]
    remedies: list[str]


_NAMED_SCORE: Final = 1.0
_LABEL_SCORE: Final = 0.4


@lru_cache(maxsize=1)
def _known_resources() -> tuple[Resource, ...]:
    """Load all kinds; the last is the general one, without words."""
    import yaml

    text = resources.files("regauge.sim").joinpath("_resources.yml").read_text("utf-8")
    return tuple(Resource(**kind) for kind in yaml.safe_load(text))


def resources_of(facts: AlertFacts) -> tuple[Resource, ...]:
    """Return the kinds of resource that an alert is about, the most likely first; never empty."""
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
    resources = _known_resources()
    scored = sorted(
        (-sum(weights.get(word, 0.0) for word in set(stems(kind.words.replace(",", " ")))), index)
        for index, kind in enumerate(resources[:-1])
    )
    # A word of the name or the summary names the resource; else a label of the alert is used.
    floor = _NAMED_SCORE if -scored[0][0] > _NAMED_SCORE else _LABEL_SCORE
    return (*(resources[index] for score, index in scored[:2] if -score >= floor), resources[-1])


Topic = Literal["meaning", "impact", "diagnosis", "mitigation", "timeline", "summary", "other"]

_TOPICS: Final[dict[Topic, re.Pattern[str]]] = _RE.patterns("topics")
_WORKLOADS: Final = ("deployment", "statefulset", "daemonset")
_SCOPES: Final = ("cluster", "namespace", "node", "instance", "pod", "device")
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
    subject = facts.subject.replace(" ", "")
    workloads = (kind for kind in _WORKLOADS if kind in facts.labels or kind in subject)
    workload = next(workloads, "deployment")

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return f"{workload}/$" + workload.upper() if name == "workload" else "$" + name.upper()

    return _RE.mark.sub(value, template)


def _meaning(facts: AlertFacts) -> str:
    firing = f"{facts.name or 'The alert'} is firing."
    lines = [end_sentence(readable(facts.summary)) if facts.summary else firing]
    if facts.description and facts.description != facts.summary:
        lines.append(end_sentence(readable(facts.description)))
    if facts.metrics:
        condition = f" against `{facts.threshold}`" if facts.threshold else ""
        lasts = facts.duration not in ("", "0s", "0m")
        duration = f", and the condition has to hold for {facts.duration}" if lasts else ""
        metrics = ", ".join(f"`{metric}`" for metric in facts.metrics[:3])
        lines.append(f"It compares {metrics}{condition}{duration}.")
    return "\n".join(lines)


def _impact(facts: AlertFacts) -> str:
    scope = [label for label in facts.labels if label in _SCOPES]
    lines = [resources_of(facts)[0].consequence]
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
    kinds = resources_of(facts)
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
        labels = ", ".join(f"`{label}`" for label in facts.labels[:5])
        steps.append(f"Take {labels} from the labels of the alert.")
    steps += [f"Run `{_fill(command, facts)}`." for command in kinds[0].commands]
    if len(kinds) > 2:  # noqa: PLR2004 - a small count that says itself
        steps += [f"Run `{_fill(command, facts)}`." for command in kinds[1].commands[:1]]
    causes = list(dict.fromkeys(cause for resource in kinds[:2] for cause in resource.causes))
    steps.append("Usual causes: " + "; ".join(causes[:5]) + ".")
    return "\n".join(f"- {step}" for step in steps)


def _mitigation(facts: AlertFacts) -> str:
    kinds = resources_of(facts)
    remedies = list(dict.fromkeys(remedy for resource in kinds[:2] for remedy in resource.remedies))
    steps = [end_sentence(_fill(remedy[0].upper() + remedy[1:], facts)) for remedy in remedies[:5]]
    end = f"`{facts.name}` stops firing once the condition no longer holds"
    expression = " ".join(facts.expression.split())[:160]
    steps.append(
        (end if facts.name else "Watch until it is clear")
        + (f"; the expression is `{expression}`." if facts.expression else ".")
    )
    return "\n".join(f"- {step}" for step in steps)


def _about(document: Document, section: RequestedSection, limits: LengthLimits) -> str:
    """Return a section about a document that is no alert, from the document itself."""
    topic = _topic(section.name)
    if topic == "timeline" and document.events:
        return "\n".join(f"- {e.moment.raw}: {e.label}" for e in document.events[:12] if e.label)
    section_words = set(stems(f"{section.name} {section.description}"))
    for field in document.fields:
        if set(stems(field.key)) & section_words and field.value.strip():
            return "\n".join(f"- {plain(line)}" for line in lines_of(field.value))
    if topic in ("summary", "meaning"):
        return summarise(document, limits, words=limits.words_max or 80)
    best = max(document.prose, key=lambda p: len(section_words & set(stems(p))), default="")
    return best if section_words & set(stems(best)) else "The document does not say."


_WRITERS: Final[dict[Topic, Callable[[AlertFacts], str]]] = {
    "meaning": _meaning,
    "summary": _meaning,
    "impact": _impact,
    "diagnosis": _diagnosis,
    "mitigation": _mitigation,
}


def section_text(document: Document, section: RequestedSection, limits: LengthLimits) -> str:
    """Return the text of one section."""
    facts = alert_facts(document)
    if not is_alert(facts):
        return _about(document, section, limits)
    write = _WRITERS.get(_topic(section.name))
    words = " ".join(split_name(section.name)).lower()
    return write(facts) if write is not None else f"Nothing in the alert speaks of {words}."


def loose_runbook(document: Document) -> str:
    """Return a runbook if no sections are requested."""
    facts = alert_facts(document)
    return (
        f"**{facts.name or document.title or 'Alert'}**\n\n{_meaning(facts)}\n\n"
        f"{_impact(facts)}\n\n"
        f"What to look at:\n\n{_diagnosis(facts)}\n\nWhat usually helps:\n\n{_mitigation(facts)}"
    )


_TERRAFORM: Final[dict[str, str]] = _RE.entry("terraform")
_NO_TRANSLATION: Final[str] = _RE.entry("no_translation")
_YES_NO_QUESTION: Final = re.compile(
    r"(?i)\W*(?:is|are|was|were|does|do|did|has|have|can|could|should|will)\b"
)
_ONE_WORD: Final = re.compile(r"(?i)\bonly\b|\bone word\b|\bsingle word\b|\bjust\b")
_QUESTION_WORDS: Final = 3
_TOPIC_WORD_CHARS: Final = 4
_BULLETS_SHOWN: Final = 5


def _snippet(text: str, snippet_kind: str) -> str:
    nouns = [w for w in stems(text) if not w.startswith("not_")]
    name = "_".join(nouns[2:4]) or "example"
    low = snippet_kind.lower()
    if low in ("terraform", "hcl"):
        kind = next((_TERRAFORM[w] for w in nouns if w in _TERRAFORM), "null_resource")
        lines = [f'resource "{kind}" "{name}" {{', "  tags = {", "    Name = var.name", "  }", "}"]
        lines += ["", 'variable "name" {', "  type = string", "}"]
        return _fence("hcl", lines)
    if "yaml" in low or "manifest" in low:
        meta = ["metadata:", f"  name: {name.replace('_', '-')}", "data: {}"]
        return _fence("yaml", ["apiVersion: v1", "kind: ConfigMap", *meta])
    if "sql" in low:
        return _fence("sql", ["SELECT *", f"FROM {name}", "LIMIT 100;"])
    if "python" in low:
        return _fence("python", [f"def {name}(value: str) -> str:", "    return value"])
    return _fence("bash", ["#!/usr/bin/env bash", "set -euo pipefail", f'echo "{name}"'])


def _fence(language: str, lines: list[str]) -> str:
    return "\n".join((f"```{language}", *lines, "```"))


def _best_sentences(document: Document, question: str, count_max: int) -> list[str]:
    question_words = set(stems(question))
    scores = sorted(
        (-len(question_words & set(stems(s))) / (1 + 0.02 * len(s.split())), i, s)
        for i, s in enumerate(document.sentences)
    )
    return [sentence for score, _, sentence in scores[:count_max] if score < 0]


def _bullets(document: Document, instructions: Instructions) -> str:
    count = instructions.limits.bullets or _BULLETS_SHOWN
    wanted_words = set(stems(instructions.text))
    for field in document.fields:
        lines = lines_of(field.value)
        if len(lines) > 1 and set(stems(field.key)) & wanted_words:
            return "\n".join(f"- {line}" for line in lines[:count])
    summary = sentences(summarise(document, instructions.limits, words=40 * count))
    summary += [s for s in document.sentences if s not in summary]
    return "\n".join(f"- {line}" for line in summary[:count])


def _question(document: Document, instructions: Instructions, question: str) -> str:
    best = _best_sentences(document, question, 2)
    if _RE.yes_no.search(instructions.text) or _YES_NO_QUESTION.match(question):
        question_words = set(stems(question))
        shared_words = question_words & set(stems(best[0])) if best else set[str]()
        word = "Yes" if len(shared_words) * 2 >= len(question_words) and shared_words else "No"
        return word if _ONE_WORD.search(instructions.text) or not best else f"{word}. {best[0]}"
    return " ".join(best) or "The text does not say."


def _without_document(instructions: Instructions) -> str:
    """Return a short text with words of the request, if there is no document."""
    request_words = [w for w in split_name(instructions.text) if len(w) >= _TOPIC_WORD_CHARS]
    topic = " ".join(request_words[:12]).lower() or "your request"
    return (
        f"Here is what a simulated model can say to this: {topic}. It follows the rules of a "
        f"prompt on a document,"
        " and no document was given."
    )


def _task(text: str, document: Document, instructions: Instructions) -> str | None:
    """Do the task of a request in plain words, if it is a usual one."""
    if _RE.runbook.search(text) or alert_facts(document).expression:
        return loose_runbook(document)
    questions = [q.strip() for q in _RE.question.findall(text) if len(q.split()) >= _QUESTION_WORDS]
    if questions or _RE.yes_no.search(text):
        return _question(document, instructions, questions[-1] if questions else text)
    if _RE.title.search(text.strip()) and document.title:
        return document.title
    if _RE.listing.search(text) or instructions.limits.bullets:
        return _bullets(document, instructions)
    if _RE.rewrite.search(text):
        return " ".join(document.sentences) or document.text
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
    usual_text = _task(text, document, instructions)
    if usual_text is not None:
        return usual_text
    limits = instructions.limits
    if limits.words_max is not None and dice.fails("too long text", clarity_of_limit(limits)):
        summary = summarise(document, limits, words=4 * limits.words_max)
        return " ".join(summary.split()[: over_limit(limits.words_max, dice)])
    return summarise(document, limits)


def generic_text(document: Document, instructions: Instructions, dice: Dice) -> str:
    """Return a sensible plain text for any request; never empty."""
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
# The reply to an injected instruction that replaces the task.
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
    because = ", ".join(ranking.deciding_words[:3])
    return f"I would say this is **{name}**" + (
        f", because it speaks of {because}." if because else "."
    )


def _trim(sections: list[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Cut sections to a common limit on words, each by its share."""
    total = sum(count_words(text) + count_words(name) + 1 for name, text in sections)
    if total <= limit:
        return sections
    share = max(0.1, (limit - 3 * len(sections)) / total)
    trimmed_sections: list[tuple[str, str]] = []
    for name, text in sections:
        words_left = max(4, int(count_words(text) * share))
        lines: list[str] = []
        for block in re.split(r"\n(?=- )", text):
            words = count_words(block)
            if words <= words_left:
                lines.append(block)
                words_left -= words
            elif not lines:
                lines.append(shorten(plain(block), words_left))
                break
        trimmed_sections.append((name, "\n".join(lines)))
    return trimmed_sections


def _as_sections(document: Document, instructions: Instructions, dice: Dice) -> str:
    limits = instructions.limits
    sections = [(s.name, section_text(document, s, limits)) for s in instructions.sections]
    has_descriptions = any(section.description for section in instructions.sections)
    exact = _RE.exact.search(instructions.text) is not None
    clarity = 0.75 + (0.15 if exact else 0.0) + (0.1 if has_descriptions else 0.0)
    if len(sections) > 1 and dice.fails("missing section", clarity):
        sections.pop(dice.pick("section", len(sections)))
    if dice.fails("other heading", clarity):
        index = dice.pick("heading", len(sections))
        loose = _LOOSE_HEADINGS[dice.pick("other", len(_LOOSE_HEADINGS))]
        sections[index] = loose, sections[index][1]
    if limits.words_max is not None and not dice.fails("too long text", clarity_of_limit(limits)):
        sections = _trim(sections, limits.words_max)
    mark = "" if instructions.no_markdown else "## "
    text = "\n\n".join(f"{mark}{name}\n\n{body}" for name, body in sections)
    if dice.fails("chatter", 0.75 + (0.25 if _RE.only_text.search(instructions.text) else 0.0)):
        text = f"{_OPENINGS[0]}\n\n{text}"
    return text


def _lengthen(text: str, words: int) -> str:
    """Repeat a text until it has this number of words."""
    times = -(-words // max(1, count_words(text)))
    return "\n\n".join([text, *[text.rpartition("\n\n")[2]] * (times - 1)]) if times > 1 else text


def _without(text: str, phrase: str) -> str:
    return re.sub(rf"\s?(?<!\w){re.escape(phrase)}(?!\w)", "", text, flags=re.IGNORECASE)


def compose(document: Document, instructions: Instructions, dice: Dice) -> str:
    """Return the output of the model for a document under these instructions."""
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
        text = _lengthen(text, orders.words_min)
    if orders.links:
        text = f"{text}\n\nSee also: https://example.com/runbooks"
    elif instructions.no_links:
        text = _RE.link.sub(lambda m: m[1] or "", text)
    for phrase in instructions.forbidden:
        if not dice.fails(f"forbidden {phrase}", 1.0):
            text = _without(text, phrase)
    return text


_SNIPPET_RE: Final = Lexicon("regauge.sim", "snippet")


_VALUE: Final = r"`([^`\n]+)`|\"([^\"\n]+)\"|([\w/~$%*+-][\w./:~$%@*+-]*)"
_LINK: Final = r"[\s:=]+(?:(?:is|are|of|as|to|at|in|called|named|should be|set to)\s+)*"
_KINDS: Final[Mapping[str, str]] = _SNIPPET_RE.entry("kinds")
_INVENTED: Final[Mapping[str, str]] = _SNIPPET_RE.entry("invented")
_VERBS: Final = frozenset(stems(_SNIPPET_RE.entry("verbs")))
_OPENING: Final = "Here is the snippet you asked for:"


def tool_results(request: CompletionRequest) -> dict[str, str]:
    """Return the values that tools returned in the last turn of a conversation, by name.

    The fields of a JSON object have their names; anything else has the name of its tool.
    """
    values: dict[str, str] = {}
    names = {call.id: call.name for m in request.messages for call in m.tool_calls}
    for message in request.messages:
        if message.role == "user":
            values = {}
        if message.role != "tool":
            continue
        result = read_json(message.content)
        if is_object(result):
            values |= {key: _as_text(value) for key, value in result.items()}
        else:
            result_text = message.content if result is None else result
            values[names.get(message.tool_call_id, "result")] = _as_text(result_text)
    return values


def fill_skeleton(
    request: CompletionRequest, layout: Layout, dice: Dice
) -> str | tuple[ToolCall, ...] | None:
    """Fill the slots of the skeleton, or call the tools that are needed first; None without one."""
    skeleton = next((body for tag, body in layout.parts if tag.lower() == "skeleton"), "")
    slots = list(dict.fromkeys(_SNIPPET_RE.slot.findall(skeleton)))
    if not slots:
        return None
    text = "\n".join(body for tag, body in layout.parts if tag.lower() != "skeleton")
    tool_values = tool_results(request)
    values = {
        slot: _find_in_results(slot, tool_values) or _find_in_text(slot, text) for slot in slots
    }
    unknown = [slot for slot, value in values.items() if value is None]
    calls = [call for slot in unknown if (call := _call_for(slot, request, text, dice))]
    if calls:
        return _number_calls(calls)
    leaves = _SNIPPET_RE.leaves.search(layout.instructions) is not None
    for slot in unknown:
        if not leaves or dice.fails(f"invented {slot}", 1.0):
            values[slot] = _INVENTED.get(slot.rpartition("_")[2], "1")
    text_filled = _SNIPPET_RE.slot.sub(lambda m: values.get(m[1]) or m[0], skeleton).strip("\n")
    only = 0.3 if _SNIPPET_RE.only.search(layout.instructions) else 0.0
    bare = 0.3 if _SNIPPET_RE.no_fence.search(layout.instructions) else 0
    if dice.fails("code fence", 0.4 + only + bare):
        text_filled = f"```\n{text_filled}\n```"
    if dice.fails("chatter", 0.7 + only):
        text_filled = f"{_OPENING}\n\n{text_filled}"
    return text_filled


def call_tool(
    request: CompletionRequest, layout: Layout, dice: Dice
) -> tuple[ToolCall, ...] | None:
    """Call the declared tool that a request without a skeleton is about."""
    choice = request.parameters.get("tool_choice")
    if choice == "none" or not request.tools or tool_results(request):
        return None
    words = set(stems(layout.document or layout.instructions))
    scored = [
        (len(words & names) / len(names), function)
        for function in _functions(request)
        if (names := set(stems(function["name"])) - _VERBS)
    ]
    forced = _forced_tool(choice)
    for score, function in sorted(scored, key=lambda part: -part[0]):
        if function["name"] == forced or (not forced and (score == 1 or choice == "required")):
            call = _make_call(function, layout.document or layout.instructions, forced=bool(choice))
            if call is not None and not dice.fails("missed call", 1.0):
                return _number_calls([call])
    return None


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find_in_results(slot: str, tool_values: Mapping[str, str]) -> str | None:
    """Return the value that a tool returned for a slot: the first field that shares a word."""
    words = set(stems(slot))
    return next((value for name, value in tool_values.items() if words & set(stems(name))), None)


def _find_in_text(name: str, text: str) -> str | None:
    """Return the value that a text states for a name.

    It follows the words of the name, or precedes them if it is a number. Else it is the only value
    of the kind in the last word of the name.
    """
    words = name.split("_")
    for start in range(len(words)):
        phrase = r"[\s_-]+".join(map(re.escape, words[start:]))
        # A kind alone, such as "cidr", may stand for several values.
        match = re.search(rf"(?i:\b{phrase}){_LINK}(?:{_VALUE})", text)
        if match is not None:
            value = match[1] or match[2] or match[3].rstrip(".:,;")
            if _is_of_kind(words[-1], value):
                return value
        number_match = re.search(rf"(?<![\w.-])(\d+(?:\.\d+)?)[\s-]+(?i:{phrase})\b", text)
        if number_match is not None:
            return number_match[1]
    kind = _KINDS.get(words[-1])
    values = set(re.findall(kind, text)) if kind is not None else set[str]()
    return values.pop() if len(values) == 1 else None


def _is_of_kind(kind: str, value: str) -> bool:
    pattern = _KINDS.get(kind)
    if pattern is not None:
        return re.fullmatch(pattern.replace(r"\b", ""), value) is not None
    if kind in {"replicas", "port", "days", "seconds", "percent", "bits", "number", "count"}:
        return re.fullmatch(r"\d+(?:\.\d+)?%?", value) is not None
    return True


def _functions(request: CompletionRequest) -> Iterator[dict[str, Any]]:
    for tool in request.tools:
        function = tool.get("function")
        if is_object(function) and isinstance(function.get("name"), str):
            yield function


def _forced_tool(choice: object) -> str:
    """Return the name of the one tool that a request requires."""
    function: Any = choice.get("function") if is_object(choice) else None
    return str(function.get("name", "")) if is_object(function) else ""


def _call_for(
    slot: str, request: CompletionRequest, text: str, dice: Dice
) -> tuple[str, str] | None:
    """Return the call for the value of a slot: of the tool whose name has the slot's last word."""
    if request.parameters.get("tool_choice") == "none":
        return None
    slot_words = set(stems(slot.rpartition("_")[2]))
    for function in _functions(request):
        if slot_words & set(stems(function["name"])):
            call = _make_call(function, text, forced=False)
            earlier_calls = {(c.name, c.arguments) for m in request.messages for c in m.tool_calls}
            if (
                call is not None
                and call not in earlier_calls
                and not dice.fails("missed call", 1.0)
            ):
                return call
    return None


def _make_call(function: Mapping[str, Any], text: str, *, forced: bool) -> tuple[str, str] | None:
    """Return the name and arguments of a call; None if a required argument is not stated."""
    schema: Any = function.get("parameters") or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    arguments: dict[str, Any] = {}
    for name, parameter_schema in properties.items():
        value = _argument(name, parameter_schema, text)
        if value is not None:
            arguments[name] = value
        elif name in required and not forced:
            return None
    return str(function["name"]), json.dumps(arguments, ensure_ascii=False)


def _argument(name: str, schema: object, text: str) -> object:
    parameter: dict[str, Any] = schema if is_object(schema) else {}
    options: Any = parameter.get("enum")
    if is_list(options):
        return next((o for o in options if re.search(rf"\b{re.escape(str(o))}\b", text)), None)
    value = _find_in_text(name, text)
    if value is None or parameter.get("type") not in {"integer", "number", "boolean"}:
        return value
    return read_json(value)


def _number_calls(calls: list[tuple[str, str]]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=f"call_{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(dict.fromkeys(calls), start=1)
    )
