"""Baselines: what main is known for, filled after merges and read by the gate."""

from __future__ import annotations

from regauge.gate._base import key_of
from regauge.gate._baseline import Baseline, CaseTrials, HistoryKey, Session, StoredHistory
from regauge.gate._baseline_compare import CellChange, accepted_since, changes_between
from regauge.gate._baseline_file import (
    BaselineError,
    baseline_path,
    load_baseline,
    save_baseline,
)
from regauge.gate._baseline_run import AskedSuite, LandedSuite, draw_trials, draws_of
from regauge.gate._baseline_update import TopUp, TopUpPolicy, applied, merged, top_up

__all__ = [
    "AskedSuite",
    "Baseline",
    "BaselineError",
    "CaseTrials",
    "CellChange",
    "HistoryKey",
    "LandedSuite",
    "Session",
    "StoredHistory",
    "TopUp",
    "TopUpPolicy",
    "accepted_since",
    "applied",
    "baseline_path",
    "changes_between",
    "draw_trials",
    "draws_of",
    "key_of",
    "load_baseline",
    "merged",
    "save_baseline",
    "top_up",
]
