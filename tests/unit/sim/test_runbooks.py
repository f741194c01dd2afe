"""Runbooks composed from an alert."""

from __future__ import annotations

import re

import pytest

from tests.unit.sim.bench import golden, say, share

SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
OWN = {
    "name": "QueueConsumerLagging",
    "summary": "A consumer is falling behind its queue.",
    "description": "Consumer {{ $labels.pod }} in {{ $labels.namespace }} is {{ $value }} messages behind.",
    "expression": 'sum by (namespace, pod) (queue_consumer_lag{job="orders"}) > 10000',
    "duration": "10m",
    "severity": "warning",
}


def headings(text):
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def real():
    return [c["inputs"] for c in golden("alert-runbook")]


def test_real_alerts_get_all_sections_in_order(runbook, real):
    assert share(headings(runbook.ask(inputs)) == SECTIONS for inputs in real) >= 0.97


def test_without_the_sections_in_the_prompt_they_are_not_written(runbook, real):
    def edit(text):
        return text[: text.index("Write Markdown")] + text[text.index("Start directly") :]

    assert share(headings(runbook.ask(inputs, edit=edit)) == SECTIONS for inputs in real) <= 0.4


def test_the_runbook_is_about_the_alert_that_was_given(runbook):
    text = runbook.ask(OWN)
    assert "queue_consumer_lag" in text
    assert "> 10000" in text
    assert "$POD" in text
    assert "falling behind its queue" in text
    assert "{{" not in text


def test_other_sections_are_written_as_they_are_named(runbook):
    def edit(text):
        return text.replace("- Meaning:", "- Overview:").replace("- Mitigation:", "- Remediation:")

    assert headings(runbook.ask(OWN, edit=edit)) == [
        "Overview",
        "Impact",
        "Diagnosis",
        "Remediation",
    ]


def test_a_limit_on_words_shortens_the_runbook(runbook, real):
    def fits(edit):
        return share(len(runbook.ask(inputs, edit=edit).split()) <= 120 for inputs in real)

    assert fits(lambda text: text.replace("under 400 words", "under 120 words")) >= 0.95
    assert fits(lambda text: text.replace(" Stay under 400 words.", "")) <= 0.4


def test_sections_of_a_report_are_filled_from_the_report():
    text = say(
        "Write Markdown with the sections Timeline, Impact and Resolution.",
        "# Outage\n\n- 10:00 pager rang\n- 10:20 fixed\n\n**Impact**: shoppers saw errors\n\n**Resolution**: restarted the cache\n",
    )
    assert headings(text) == ["Timeline", "Impact", "Resolution"]
    assert "shoppers saw errors" in text
    assert "restarted the cache" in text
