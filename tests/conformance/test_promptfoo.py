"""Our judges against the verdicts of promptfoo, but for a reviewed list."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.conformance.promptfoo import Row, rows_of, verdict_of

if TYPE_CHECKING:
    import pytest

PROBES = Path(__file__).parents[1] / "data" / "promptfoo_checks" / "probes.jsonl"
DIVERGENCES = Path(__file__).parent / "divergences.yml"


def agrees(row: Row) -> bool:
    ours = verdict_of(row)
    if "expected_error" in row:
        return "error" in ours
    return ours["pass"] == row["expected_pass"] and math.isclose(
        ours["score"], row["expected_score"], rel_tol=1e-6, abs_tol=1e-9
    )


def test_every_probe_agrees_or_is_a_reviewed_divergence(capsys: pytest.CaptureFixture[str]):
    reviewed = yaml.safe_load(DIVERGENCES.read_text(encoding="utf-8"))
    reasons = {probe: entry["reason"] for entry in reviewed for probe in entry["ids"]}
    rows = list(rows_of(PROBES))
    diverged = [row["id"] for row in rows if not agrees(row)]
    with capsys.disabled():
        sys.stdout.write(f"\npromptfoo: {len(rows)} probes, {len(rows) - len(diverged)} agreed\n")
        for reason, count in Counter(reasons.get(probe, "?") for probe in diverged).items():
            sys.stdout.write(f"  {count} diverged: {reason}\n")
    assert sorted(set(diverged) - set(reasons)) == []
    assert sorted(set(reasons) - set(diverged)) == [], "these agree now: take them off the list"


def test_scores_of_ours_stay_within_bounds():
    assert all(0 <= verdict_of(row)["score"] <= 1 for row in rows_of(PROBES))
