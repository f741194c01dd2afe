"""Operations documents composed from an alert: what it means, what it harms, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from regauge.sim.document import AlertFacts, alert_facts, lines_of, plain, readable, resources_of
from regauge.sim.reply._summarise import summarise
from regauge.sim.text import split_name, stems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.sim.asked import Limits, Section
    from regauge.sim.document import Document

__all__ = ["compose_sections", "is_alert", "loose_runbook"]

Topic = Literal["meaning", "impact", "diagnosis", "mitigation", "timeline", "summary", "other"]

_TOPICS: Final[tuple[tuple[Topic, str], ...]] = (
    ("meaning", r"meaning|overview|what|about|description|context|background|explanation|trigger"),
    ("impact", r"impact|consequence|effect|risk|severity|who is affected|symptom"),
    ("diagnosis", r"diagnos|investigat|check|triage|debug|verify|troubleshoot|analysis|cause"),
    ("mitigation", r"mitigat|remed|resol|fix|repair|recover|action|steps|prevent|escalat|follow"),
    ("timeline", r"timeline|chronolog|events|history"),
    ("summary", r"summary|abstract|tl;?dr|conclusion|key points|highlights|takeaways"),
)
_WORKLOADS: Final = ("deployment", "statefulset", "daemonset")
_URGENCIES: Final = {
    "critical": "users are or soon will be affected, act at once",
    "warning": "it gets worse when nobody looks at it today",
    "info": "by itself it needs no action",
}
_OTHER_URGENCY: Final = "follow the rules of your team for this level"
_MARK: Final = re.compile(r"\{(\w+)\}")


def is_alert(facts: AlertFacts) -> bool:
    """Whether the document is an alert rule or notification rather than a story."""
    return bool(facts.expression or (facts.name and (facts.summary or facts.description)))


def _topic(name: str) -> Topic:
    for topic, pattern in _TOPICS:
        if re.search(pattern, name, re.IGNORECASE):
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

    return _MARK.sub(value, template)


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
    """What stands in one section."""
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


def compose_sections(
    document: Document, sections: Sequence[Section], limits: Limits
) -> list[tuple[str, str]]:
    """Each section's heading and text, in the order asked for."""
    return [(s.name, section_text(document, s, limits)) for s in sections]


def loose_runbook(document: Document) -> str:
    """A runbook as it comes out when nobody says which sections it is to have."""
    facts = alert_facts(document)
    return (
        f"**{facts.name or document.title or 'Alert'}**\n\n{_meaning(facts)}\n\n"
        f"{_impact(facts)}\n\n"
        f"What to look at:\n\n{_diagnosis(facts)}\n\nWhat usually helps:\n\n{_mitigation(facts)}"
    )
