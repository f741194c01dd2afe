"""An alert as the simulated model sees it: names, metrics, labels, threshold, window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from regauge.sim.document._document import plain
from regauge.sim.text import split_name

if TYPE_CHECKING:
    from regauge.sim.document._document import Document

__all__ = ["AlertFacts", "alert_facts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """What one alert says of itself; empty where it says nothing.

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
