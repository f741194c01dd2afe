"""Measurements of all runs in a database, for `log`, `runs list` and `runs compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.history._comparison import (
        CaseChange,
        CaseSide,
        Change,
        SuiteComparison,
        compare_rows,
    )
    from regauge.history._history import History, SyncReport, add_finished_run, run_entry
    from regauge.history._points import TrendLine, TrendPoint, lines_of
    from regauge.history._store import MeasuredSuite, RunEntry, StorePlace, TrialEntry
else:
    __getattr__ = names_of(
        __name__,
        {
            "_comparison": "CaseChange CaseSide Change SuiteComparison compare_rows",
            "_history": "History SyncReport add_finished_run run_entry",
            "_points": "TrendLine TrendPoint lines_of",
            "_store": "MeasuredSuite RunEntry StorePlace TrialEntry",
        },
    )

__all__ = [
    "CaseChange",
    "CaseSide",
    "Change",
    "History",
    "MeasuredSuite",
    "RunEntry",
    "StorePlace",
    "SuiteComparison",
    "SyncReport",
    "TrendLine",
    "TrendPoint",
    "TrialEntry",
    "add_finished_run",
    "compare_rows",
    "lines_of",
    "run_entry",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
