"""Verdicts of a run as OpenTelemetry events `gen_ai.evaluation.result`, over OTLP.

The names are those of the semantic conventions for generative AI, from version 1.39 on; what they
have no name for begins with `regauge.`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.extras import require
from regauge.reports._runs import read_record, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from regauge.reports._record import RunRecord

_BATCH = 512  # events a request, as the SDK's own processor sends them


def verdict_events(record: RunRecord, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The attributes of one event per verdict, and per unmeasured trial.

    Args:
        record: The run.
        rows: Its trials, as `read_rows` gives them.
    """
    cases: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cases[row["dataset"]][row["case"]] = row["case_digest"]
    datasets = {name: digest_of(dict(sorted(digests.items()))) for name, digests in cases.items()}
    for row in rows:
        provider, _, model = row["model"].partition(":")
        shared: dict[str, Any] = {
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "regauge.run.id": record.id,
            "regauge.prompt.name": row["prompt"],
            "regauge.prompt.version": row["version"] or "",
            "regauge.prompt.digest": row["prompt_digest"],
            "regauge.dataset.name": row["dataset"],
            "regauge.dataset.digest": datasets[row["dataset"]],
            "regauge.case.id": row["case"],
            "regauge.case.digest": row["case_digest"],
            "regauge.trial": row["trial"],
            "regauge.arm": row.get("arm") or "",
        }
        for verdict in row["verdicts"]:
            yield shared | {
                "gen_ai.evaluation.name": verdict["judge"],
                "gen_ai.evaluation.score.value": verdict["score"],
                "gen_ai.evaluation.score.label": verdict["outcome"],
                "gen_ai.evaluation.explanation": verdict["reason"],
                "regauge.judge.digest": verdict["judge_digest"],
                "regauge.judge.blocking": verdict["gates"],
            }
        if not row["verdicts"] and row["cause"]:
            yield shared | {
                "gen_ai.evaluation.name": "regauge",
                "gen_ai.evaluation.score.label": "unmeasured",
                "gen_ai.evaluation.explanation": row["cause"]["message"],
                "error.type": row["cause"]["kind"],
            }


def export_run(directory: Path) -> tuple[int, str]:
    """Send the verdicts of a run to the endpoint that `OTEL_EXPORTER_OTLP_*` variables name.

    Returns:
        The number of events, and the endpoint.

    Raises:
        UsageError: The extra `otel` is not installed, or the endpoint does not take the events.
    """
    require("opentelemetry.exporter.otlp.proto.http", use="report --otel")
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    record = read_record(directory)
    resource = Resource.create(_resource(record))
    scope = InstrumentationScope("regauge", record.regauge_version)
    time_ns = int(datetime.fromisoformat(record.finished_at).timestamp() * 1e9)
    events = [
        ReadableLogRecord(
            log_record=LogRecord(
                timestamp=time_ns,
                observed_timestamp=time_ns,
                severity_number=SeverityNumber.INFO,
                event_name="gen_ai.evaluation.result",
                attributes=attributes,
            ),
            resource=resource,
            instrumentation_scope=scope,
        )
        for attributes in verdict_events(record, list(read_rows(directory)))
    ]
    exporter = OTLPLogExporter()
    endpoint = (
        os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
        or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or "http://localhost:4318"
    )
    try:
        for start in range(0, len(events), _BATCH):
            result = exporter.export(events[start : start + _BATCH])
            if result is not LogRecordExportResult.SUCCESS:
                raise UsageError(
                    f"{endpoint} did not take the events of run {record.id}",
                    fix="start a collector, or set OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS",
                )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return len(events), endpoint


def _resource(record: RunRecord) -> Mapping[str, str]:
    values = {"service.name": "regauge", "service.version": record.regauge_version}
    if record.git is not None:
        values["vcs.ref.head.revision"] = record.git.commit
    return values
