from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals, has_keys, json_parses, max_words, min_words

FIELDS = ["title", "started_at", "resolved_at", "time_to_repair", "impact", "summary"]


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
    ],
)
def test_incident_summary(result: EvalResult) -> None:
    result.check()
