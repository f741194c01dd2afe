"""What was measured in all runs: kept in a database, read by `log`, `runs`, `compare`, `trend`."""

from __future__ import annotations

from regauge.history._comparison import (
    CaseChange,
    CaseSide,
    Change,
    SuiteComparison,
    compare_rows,
)
from regauge.history._entry import run_entry
from regauge.history._history import History, SyncReport, add_finished_run
from regauge.history._place import StorePlace
from regauge.history._points import Line, Point, lines_of
from regauge.history._types import MeasuredSuite, RunEntry, TrialEntry

__all__ = [
    "CaseChange",
    "CaseSide",
    "Change",
    "History",
    "Line",
    "MeasuredSuite",
    "Point",
    "RunEntry",
    "StorePlace",
    "SuiteComparison",
    "SyncReport",
    "TrialEntry",
    "add_finished_run",
    "compare_rows",
    "lines_of",
    "run_entry",
]
