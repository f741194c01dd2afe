"""The tables as SQLAlchemy writes and reads them; the steps make them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, Table, Text

__all__ = ["RUNS", "SCHEMA", "SUITES", "TRIALS"]

_METADATA: Final = MetaData()

SCHEMA: Final = Table(
    "regauge_schema",
    _METADATA,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("regauge_version", Text),
)
RUNS: Final = Table(
    "regauge_runs",
    _METADATA,
    Column("id", Text, primary_key=True),
    Column("started_at", Text),
    Column("finished_at", Text),
    Column("document", Text),
)
SUITES: Final = Table(
    "regauge_suites",
    _METADATA,
    Column("run", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("commit", Text),
    Column("dirty", Boolean),
    Column("prompt", Text),
    Column("version", Text),
    Column("prompt_digest", Text),
    Column("dataset", Text),
    Column("model", Text),
    Column("arm", Text),
    Column("cases", Integer),
    Column("measured", Integer),
    Column("passed", Integer),
    Column("trials", Integer),
    Column("answers", Integer),
    Column("cost_usd", Float),
    Column("latency_p50_s", Float),
    Column("judges_digest", Text),
    Column("cases_digest", Text),
)
TRIALS: Final = Table(
    "regauge_trials",
    _METADATA,
    Column("run", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("prompt", Text),
    Column("case", Text),
    Column("arm", Text),
    Column("trial", Integer),
    Column("outcome", Text),
    Column("row", Text),
)
