"""What is written down of a run: its audit trail, and the directory it is kept in."""

from __future__ import annotations

from regauge.refine.trail._documents import text_to_json
from regauge.refine.trail._proposal import read_whole, seal
from regauge.refine.trail._runs import (
    CUT_OFF,
    Run,
    begin_run,
    edits_of_runs,
    find_refinement,
    list_refinements,
    recall,
    reject,
    remember,
    remember_status,
)
from regauge.refine.trail._trail import Event, TrailError, TrailFile, cut_back, read_trail, retell
from regauge.refine.trail._under_way import BusyError, cut_off, only_one

__all__ = [
    "CUT_OFF",
    "BusyError",
    "Event",
    "Run",
    "TrailError",
    "TrailFile",
    "begin_run",
    "cut_back",
    "cut_off",
    "edits_of_runs",
    "find_refinement",
    "list_refinements",
    "only_one",
    "read_trail",
    "read_whole",
    "recall",
    "reject",
    "remember",
    "remember_status",
    "retell",
    "seal",
    "text_to_json",
]
