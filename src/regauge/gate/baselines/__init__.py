"""Baselines: what main is known for, filled after merges and read by the gate.

`_baseline.py` is the value with its key; `_file.py` reads and writes it. `_update.py` lists the
trials that are missing, `_draw.py` runs them and compares the base of today with its own record.
`_compare.py` compares a new version with the record of the one before and with the anchor;
`_renamed.py` follows prompts and datasets to their older names.
"""

from __future__ import annotations

from regauge.gate.baselines._baseline import (
    Anchor,
    Baseline,
    CaseTrials,
    HistoryKey,
    KeyDifference,
    Session,
    StoredHistory,
    gating_judges,
    key_of,
)
from regauge.gate.baselines._compare import (
    AnchorComparison,
    CellChange,
    accepted_since,
    anchor_suite,
    anchor_version,
    changes_between,
    compare_histories,
    compare_with_anchor,
    stored_anchor,
)
from regauge.gate.baselines._draw import (
    AskedRedraw,
    AskedSuite,
    Drift,
    LandedSuite,
    Redraw,
    draw_trials,
    draws_of,
    redraw_trials,
)
from regauge.gate.baselines._file import (
    BaselineError,
    baseline_faults,
    baseline_path,
    load_baseline,
    parse_baseline,
    save_baseline,
)
from regauge.gate.baselines._renamed import baseline_of, older_names
from regauge.gate.baselines._update import (
    CRITICAL_TRIALS,
    SESSIONS,
    TopUp,
    TopUpPolicy,
    applied,
    merged,
    top_up,
)

__all__ = [
    "CRITICAL_TRIALS",
    "SESSIONS",
    "Anchor",
    "AnchorComparison",
    "AskedRedraw",
    "AskedSuite",
    "Baseline",
    "BaselineError",
    "CaseTrials",
    "CellChange",
    "Drift",
    "HistoryKey",
    "KeyDifference",
    "LandedSuite",
    "Redraw",
    "Session",
    "StoredHistory",
    "TopUp",
    "TopUpPolicy",
    "accepted_since",
    "anchor_suite",
    "anchor_version",
    "applied",
    "baseline_faults",
    "baseline_of",
    "baseline_path",
    "changes_between",
    "compare_histories",
    "compare_with_anchor",
    "draw_trials",
    "draws_of",
    "gating_judges",
    "key_of",
    "load_baseline",
    "merged",
    "older_names",
    "parse_baseline",
    "redraw_trials",
    "save_baseline",
    "stored_anchor",
    "top_up",
]
