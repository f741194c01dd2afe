from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import (
    deepeval,
    field_equals,
    has_keys,
    json_parses,
    max_words,
    min_words,
    rubric,
    verified_claims,
)

FIELDS = ["title", "started_at", "resolved_at", "time_to_repair", "impact", "summary"]

COMPLETE = [
    "Check that title, impact and summary together say what happened.",
    "Check that they say why it happened: the cause, where the context gives one.",
    "Check that they say how it was resolved, where the context says so.",
    "Lower the score for each of these that is missing. Do not lower it for style or length.",
]


@golden(
    "incident-summary",
    judges=[
        json_parses(kind="object"),
        has_keys(*FIELDS),
        field_equals("title"),
        # Graded against what the report states: the stated repair time is often not the
        # difference of the stated timestamps.
        field_equals("started_at"),
        field_equals("resolved_at"),
        field_equals("time_to_repair"),
        field_equals("impact", ignore_space=True, ignore_punctuation=True),
        min_words(10, field="summary"),
        max_words(80, field="summary"),
        # Nothing invented, nothing changed: by a rubric, claim by claim, and by deepeval.
        rubric("incident-faithfulness").with_criterion("correctness"),
        verified_claims("report", field="summary", at_least=0.95).with_name("verified-claims"),
        deepeval("Faithfulness", fields={"retrieval_context": "inputs.report"}, threshold=0.9),
        # Nothing that matters left out.
        deepeval(
            "GEval",
            name="incident-completeness",
            evaluation_steps=COMPLETE,
            fields={"context": "inputs.report"},
            threshold=0.7,
        ).with_criterion("completeness"),
    ],
)
def test_incident_summary(result: EvalResult) -> None:
    result.check()
