from __future__ import annotations

from regauge import EvalResult, golden
from regauge.judges import field_equals, field_in, json_parses, max_words

SEVERITIES = ["critical", "warning", "info"]


@golden(
    "alert-severity",
    judges=[
        json_parses(kind="object"),
        field_in("severity", SEVERITIES),
        field_equals("severity"),
        max_words(40, field="reason"),
    ],
)
def test_alert_severity(result: EvalResult) -> None:
    result.check()
