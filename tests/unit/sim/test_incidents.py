"""Facts and summaries from reports of several shapes."""

from __future__ import annotations

import re

import pytest

from tests.unit.sim.bench import golden, inner_json, parsed, share
from tests.unit.sim.documents import EMAIL, GERMAN, PAGERDUTY, SLACK

FIELDS = ("title", "started_at", "resolved_at", "time_to_repair", "impact")


@pytest.fixture(scope="module")
def real():
    return [(c["inputs"], c["expected"]) for c in golden("incident-summary")]


def summary_fits(bench, real, edit=str):
    return share(
        0 < len(inner_json(bench.ask(inputs, edit=edit)).get("summary", "").split()) <= 80
        for inputs, _ in real
    )


def test_facts_of_real_reports_are_read_as_they_are_stated(incident, real):
    right = [
        (parsed(incident.ask(inputs)) or {}).get(field, "missing") == expected[field]
        for inputs, expected in real
        for field in FIELDS
    ]
    assert share(right) >= 0.9


@pytest.mark.parametrize(
    ("report", "facts"),
    [
        (
            PAGERDUTY,
            {"title": "Checkout API returns 503", "started_at": "2024-11-05 08:12", "resolved_at": "2024-11-05 09:47",
             "time_to_repair": "1h 35m", "impact": "Customers in the EU could not pay by card."},
        ),
        (
            SLACK,
            {"title": "inc-2291: search returns no results", "started_at": "2025-02-14 14:02", "resolved_at": "2025-02-14 14:40",
             "time_to_repair": "29 min", "impact": "about 12% of shoppers saw an empty result page"},
        ),
        (
            EMAIL,
            {"title": "Post-incident note: mail relay outage on 3 March 2025", "started_at": "2025-03-03 06:25",
             "resolved_at": "2025-03-03 07:55", "time_to_repair": "1 hour 30 minutes"},
        ),
        (
            GERMAN,
            {"title": "Störung Anmeldung", "started_at": "2024-03-12 14:05", "resolved_at": "2024-03-12 15:20",
             "impact": "Mitarbeitende konnten sich nicht anmelden."},
        ),
    ],
)  # fmt: skip
def test_reports_of_other_shapes_are_read_too(incident, report, facts):
    given = inner_json(incident.ask({"report": report}))
    assert {key: given.get(key) for key in facts} == facts


def test_what_the_report_does_not_state_is_null(incident):
    given = inner_json(incident.ask({"report": "# Small outage\n\nThe printer was off on Monday."}))
    assert given["time_to_repair"] is None
    assert given["impact"] is None


def test_without_the_rule_on_nulls_values_are_invented_more_often(incident):
    def edit(text):
        return re.sub(r"Copy facts as.*?is null\.\n", "", text, flags=re.DOTALL)

    reports = [f"# Outage {n}\n\nThe printer number {n} was off on Monday." for n in range(60)]

    def invented(edit):
        answers = (inner_json(incident.ask({"report": r}, edit=edit)) for r in reports)
        return share(a.get("time_to_repair") is not None for a in answers)

    assert invented(str) <= 0.05
    assert invented(edit) >= 0.15


def test_the_word_limit_holds_with_the_instruction_and_breaks_without_it(incident, real):
    assert summary_fits(incident, real) >= 0.9
    assert summary_fits(incident, real, lambda text: text.replace(" At most 80 words.", "")) <= 0.4


def test_format_holds_with_the_instruction_and_breaks_without_it(incident, real):
    def holds(edit):
        return share(len(parsed(incident.ask(inputs, edit=edit)) or {}) == 6 for inputs, _ in real)

    assert holds(str) >= 0.95
    assert holds(lambda text: re.sub(r"Answer with one JSON[^\n]*\n", "", text)) <= 0.4


def test_the_time_format_is_that_of_the_prompt(incident):
    given = inner_json(
        incident.ask(
            {"report": EMAIL},
            edit=lambda text: text.replace("YYYY-MM-DD HH:MM", "DD.MM.YYYY HH:MM"),
        )
    )
    assert given["resolved_at"] == "03.03.2025 07:55"
