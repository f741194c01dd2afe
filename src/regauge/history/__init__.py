"""Measurements of all runs in a database, for `log`, `runs list` and `runs compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.history._comparison import (
        CaseChange as CaseChange,
        CaseSide as CaseSide,
        Change as Change,
        EvalComparison as EvalComparison,
        LabelledRun as LabelledRun,
        RunOutline as RunOutline,
        compare_runs as compare_runs,
        find_differing as find_differing,
        join_runs as join_runs,
        label_row as label_row,
        labelled_rows as labelled_rows,
    )
    from regauge.history._history import (
        History as History,
        TrendLine as TrendLine,
        TrendPoint as TrendPoint,
        add_finished_run as add_finished_run,
        run_entry as run_entry,
        trend_lines as trend_lines,
    )
    from regauge.history._place import StorePlace as StorePlace, find_store as find_store
    from regauge.history._store import RunEntry as RunEntry
else:
    __getattr__, __dir__ = lazy_names(__name__)
