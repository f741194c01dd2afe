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
    table_of,
)
from regauge.sim._values import choose_label, clarity_of_limit, json_values, lines_of

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


@lru_cache(maxsize=1)
def _known_resources() -> tuple[Resource, ...]:
    """Load all kinds; the last is the general one, without words."""
    import yaml

    text = resources.files("regauge.sim").joinpath("_resources.yml").read_text("utf-8")
    return tuple(Resource(**kind) for kind in yaml.safe_load(text))


def resources_of(facts: AlertFacts) -> tuple[Resource, ...]:
    """Return the kinds of resource that an alert is about, the most likely first; never empty."""
    weights: dict[str, float] = {}
    # The lightest first: a word has the weight of the heaviest text.
    for text, weight in (
        (" ".join(facts.labels), 0.4), (" ".join(facts.metrics), 0.6), (facts.description, 0.6),
        (facts.summary, 1.5), (facts.subject, 3.0),
    ):  # fmt: skip
        weights.update(dict.fromkeys(stems(text), weight))
    resources = _known_resources()
    scored = sorted(
        (-sum(weights.get(word, 0.0) for word in set(stems(kind.words.replace(",", " ")))), index)
        for index, kind in enumerate(resources[:-1])
    )
    # A word of the name or the summary names the resource; else a label of the alert is used.
    floor = _NAMED_SCORE if -scored[0][0] > _NAMED_SCORE else 0.4
    return (*(resources[index] for score, index in scored[:2] if -score >= floor), resources[-1])


Topic = Literal["meaning", "impact", "diagnosis", "mitigation", "timeline", "summary", "other"]

_TOPICS: Final[dict[Topic, re.Pattern[str]]] = _RE.patterns("topics")
_WORKLOADS: Final = ("deployment", "statefulset", "daemonset")
_SCOPES: Final = ("cluster", "namespace", "node", "instance", "pod", "device")
_URGENCIES: Final[dict[str, str]] = _RE.entry("urgencies")
_OTHER_URGENCY: Final = "follow the rules of your team for this level"


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
    scope = ", ".join([f"`{label}`" for label in facts.labels if label in _SCOPES][:4])
    lines = [resources_of(facts)[0].consequence]
    if scope:
        lines.append(f"How far it reaches stands in the labels {scope} of the alert.")
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
        task = "Look at the series behind the alert, and since when they are off:"
        steps.append(f"{task}\n\n  ```promql\n  {query}\n  ```")
    if facts.labels:
        labels = ", ".join(f"`{label}`" for label in facts.labels[:5])
        steps.append(f"Take {labels} from the labels of the alert.")
    commands = [*kinds[0].commands, *(c for kind in kinds[1:-1] for c in kind.commands[:1])]
    steps += [f"Run `{_fill(command, facts)}`." for command in commands]
    causes = list(dict.fromkeys(cause for resource in kinds[:2] for cause in resource.causes))
    steps.append("Usual causes: " + "; ".join(causes[:5]) + ".")
    return "\n".join(f"- {step}" for step in steps)


def _mitigation(facts: AlertFacts) -> str:
    kinds = resources_of(facts)
    remedies = list(dict.fromkeys(remedy for resource in kinds[:2] for remedy in resource.remedies))
    steps = [end_sentence(_fill(remedy[0].upper() + remedy[1:], facts)) for remedy in remedies[:5]]
    end = f"`{facts.name}` stops firing once the condition no longer holds" if facts.name else ""
    expression = " ".join(facts.expression.split())[:160]
    clause = f"; the expression is `{expression}`" if facts.expression else ""
    steps.append(f"{end or 'Watch until it is clear'}{clause}.")
    return "\n".join(f"- {step}" for step in steps)


def _document_section(document: Document, section: RequestedSection, limits: LengthLimits) -> str:
    """Return a section about a document that is no alert, from the document itself."""
    topic = _topic(section.name)
    if topic == "timeline" and document.events:
        return "\n".join(f"- {e.raw}: {e.label}" for e in document.events[:12] if e.label)
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
    # An alert rule or notification, rather than a story.
    if not facts.expression and not (facts.name and (facts.summary or facts.description)):
        return _document_section(document, section, limits)
    write = _WRITERS.get(_topic(section.name))
    words = " ".join(split_name(section.name)).lower()
    return write(facts) if write is not None else f"Nothing in the alert speaks of {words}."


_TERRAFORM: Final[dict[str, str]] = _RE.entry("terraform")
_SKELETONS: Final[dict[str, str]] = _RE.entry("skeletons")
_QUESTION_WORDS: Final = 3
_TOPIC_WORD_CHARS: Final = 4


def _code_skeleton(text: str, language: str) -> str:
    nouns = [w for w in stems(text) if not w.startswith("not_")]
    name = "_".join(nouns[2:4]) or "example"
    kind = next((_TERRAFORM[w] for w in nouns if w in _TERRAFORM), "null_resource")
    words = language.lower().split()
    skeleton = next(s for key, s in _SKELETONS.items() if not key or {*key.split()} & {*words})
    for mark, value in (("{kind}", kind), ("{host}", name.replace("_", "-")), ("{name}", name)):
        skeleton = skeleton.replace(mark, value)
    return skeleton


def _bullets(document: Document, instructions: Instructions) -> str:
    count = instructions.limits.bullets or 5
    wanted_words = set(stems(instructions.text))
    for field in document.fields:
        lines = lines_of(field.value)
        if len(lines) > 1 and set(stems(field.key)) & wanted_words:
            return "\n".join(f"- {line}" for line in lines[:count])
    summary = sentences(summarise(document, instructions.limits, words=40 * count))
    summary += [s for s in document.sentences if s not in summary]
    return "\n".join(f"- {line}" for line in summary[:count])


def _question(document: Document, instructions: Instructions, question: str) -> str:
    question_words = set(stems(question))
    scores = sorted(
        (-len(question_words & set(stems(s))) / (1 + 0.02 * len(s.split())), i, s)
        for i, s in enumerate(document.sentences)
    )
    best = [sentence for score, _, sentence in scores[:2] if score < 0]
    if _RE.yes_no.search(instructions.text) or _RE.yes_no_question.match(question):
        shared_words = question_words & set(stems(best[0])) if best else set[str]()
        word = "Yes" if len(shared_words) * 2 >= len(question_words) and shared_words else "No"
        return word if _RE.one_word.search(instructions.text) or not best else f"{word}. {best[0]}"
    return " ".join(best) or "The text does not say."


def _draft(document: Document, instructions: Instructions) -> str:  # noqa: PLR0911 - one line for each task
    """Do the task of a request in plain words; a summary if it is no usual one."""
    text, limits = instructions.text, instructions.limits
    if _RE.translate.search(text):
        return str(_RE.entry("no_translation"))
    code = _RE.code.search(text)
    if code is not None and _RE.code_verb.search(text):
        return _code_skeleton(f"{text} {document.text}", code[0])
    if not document.text.strip():
        words = [word for word in split_name(text) if len(word) >= _TOPIC_WORD_CHARS]
        topic = " ".join(words[:12]).lower() or "your request"
        return str(_RE.entry("no_document")).format(topic=topic)
    facts = alert_facts(document)
    if _RE.runbook.search(text) or facts.expression:
        return (
            f"**{facts.name or document.title or 'Alert'}**\n\n{_meaning(facts)}\n\n"
            f"{_impact(facts)}\n\nWhat to look at:\n\n{_diagnosis(facts)}\n\n"
            f"What usually helps:\n\n{_mitigation(facts)}"
        )
    questions = [q.strip() for q in _RE.question.findall(text) if len(q.split()) >= _QUESTION_WORDS]
    if questions or _RE.yes_no.search(text):
        return _question(document, instructions, questions[-1] if questions else text)
    if _RE.title.search(text.strip()) and document.title:
        return document.title
    if _RE.listing.search(text) or limits.bullets:
        return _bullets(document, instructions)
    if _RE.rewrite.search(text):
        return " ".join(document.sentences) or document.text
    return summarise(document, limits)


def generic_text(document: Document, instructions: Instructions) -> str:
    """Return a sensible plain text for any request; never empty."""
    text = _draft(document, instructions)
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
        text = "\n\n".join(filter(None, (opening, text, closing)))
    return text


def _as_label(document: Document, instructions: Instructions, dice: Dice) -> str:
    name, ranking = choose_label(document, instructions, dice)
    clarity = 0.4 + (0.6 if _RE.only_label.search(instructions.text) else 0.0)
    if not dice.fails("chatter", clarity):
        return name
    because = ", ".join(ranking.deciding_words[:3])
    reason = f", because it speaks of {because}" if because else ""
    return f"I would say this is **{name}**{reason}."


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
        text = generic_text(document, instructions)
    if orders.words_min and not instructions.wants_json:
        # The last paragraph is repeated until there are enough words.
        times = -(-orders.words_min // max(1, count_words(text)))
        text = "\n\n".join([text, *[text.rpartition("\n\n")[2]] * (times - 1)])
    if orders.links:
        text = f"{text}\n\nSee also: https://example.com/runbooks"
    elif instructions.no_links:
        text = _RE.link.sub(lambda m: m[1] or "", text)
    for phrase in instructions.forbidden:
        if not dice.fails(f"forbidden {phrase}", 1.0):
            pattern = rf"\s?(?<!\w){re.escape(phrase)}(?!\w)"
            text = re.sub(pattern, "", text, flags=re.IGNORECASE)
    return text


_SNIPPET_RE: Final = Lexicon("regauge.sim", "snippet")


_STATED: Final[str] = _SNIPPET_RE.entry("stated")
_KINDS: Final[Mapping[str, str]] = _SNIPPET_RE.entry("kinds")
_NUMBERS: Final = _SNIPPET_RE.words("numbers")
_INVENTED: Final[Mapping[str, str]] = _SNIPPET_RE.entry("invented")
_VERBS: Final = frozenset(stems(_SNIPPET_RE.entry("verbs")))


def tool_results(request: CompletionRequest) -> dict[str, str]:
    """Return the values that tools returned in the last turn of a conversation, by name.

    The fields of a JSON object have their names; anything else has the name of its tool.
    """
    values: dict[str, Any] = {}
    names = {call.id: call.name for m in request.messages for call in m.tool_calls}
    for message in request.messages:
        result = read_json(message.content) if message.role == "tool" else None
        if message.role == "user":
            values = {}
        elif is_object(result):
            values |= result
        elif message.role == "tool":
            result_text = message.content if result is None else result
            values[names.get(message.tool_call_id, "result")] = result_text
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }


def fill_skeleton(
    request: CompletionRequest, layout: Layout, dice: Dice
) -> str | tuple[ToolCall, ...] | None:
    """Fill the slots of the skeleton, or call the tools that are needed first; None without one."""
    skeleton = next((body for tag, body in layout.parts if tag.lower() == "skeleton"), "")
    slots = list(dict.fromkeys(_SNIPPET_RE.slot.findall(skeleton)))
    if not slots:
        return None
    text = "\n".join(body for tag, body in layout.parts if tag.lower() != "skeleton")
    results = tool_results(request)
    values: dict[str, str | None] = {}
    for slot in slots:
        # The first field of a result that shares a word with the slot.
        words = set(stems(slot))
        result = next((value for name, value in results.items() if words & set(stems(name))), "")
        values[slot] = result or _find_in_text(slot, text)
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
        text_filled = f"Here is the snippet you asked for:\n\n{text_filled}"
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
    forced = str(table_of(table_of(choice).get("function")).get("name", ""))
    for score, function in sorted(scored, key=lambda part: -part[0]):
        if function["name"] == forced or (not forced and (score == 1 or choice == "required")):
            call = _make_call(function, layout.document or layout.instructions, forced=bool(choice))
            if call is not None and not dice.fails("missed call", 1.0):
                return _number_calls([call])
    return None


def _find_in_text(name: str, text: str) -> str | None:
    """Return the value that a text states for a name.

    It follows the words of the name, or precedes them if it is a number. Else it is the only value
    of the kind in the last word of the name.
    """
    words = name.split("_")
    pattern = _KINDS.get(words[-1]) or (r"\d+(?:\.\d+)?%?" if words[-1] in _NUMBERS else "(?s).*")
    for start in range(len(words)):
        phrase = r"[\s_-]+".join(map(re.escape, words[start:]))
        # A kind alone, such as "cidr", may stand for several values.
        match = re.search(_STATED.replace("{phrase}", phrase), text)
        if match is not None:
            value = match[1] or match[2] or match[3].rstrip(".:,;")
            if re.fullmatch(pattern.replace(r"\b", ""), value):
                return value
        number_match = re.search(rf"(?<![\w.-])(\d+(?:\.\d+)?)[\s-]+(?i:{phrase})\b", text)
        if number_match is not None:
            return number_match[1]
    values = set(re.findall(pattern, text)) if words[-1] in _KINDS else set[str]()
    return values.pop() if len(values) == 1 else None


def _functions(request: CompletionRequest) -> Iterator[dict[str, Any]]:
    for tool in request.tools:
        function = tool.get("function")
        if is_object(function) and isinstance(function.get("name"), str):
            yield function


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
            earlier = {(c.name, c.arguments) for m in request.messages for c in m.tool_calls}
            is_new = call is not None and call not in earlier
            if is_new and not dice.fails("missed call", 1.0):
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
    parameter = table_of(schema)
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
