from __future__ import annotations

from regauge import EvalResult, GoldenCase, golden
from regauge.judges import (
    has_sections,
    max_words,
    min_words,
    no_secrets,
    not_contains,
    rubric,
    starts_with,
)

SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


def names_the_alert(output: str, case: GoldenCase) -> bool:
    """Whether a reader sees which alert the runbook is for."""
    return str(case.inputs["name"]) in output


@golden(
    "alert-runbook",
    judges=[
        has_sections(*SECTIONS),
        starts_with(f"## {SECTIONS[0]}"),
        min_words(60),
        max_words(400),
        names_the_alert,
        no_secrets(),
        # Links, with or without Markdown.
        not_contains("://", "]("),
        # Does it lead where the runbook of a person leads?
        rubric("runbook-equivalence"),
    ],
)
def test_alert_runbook(result: EvalResult) -> None:
    result.check()
