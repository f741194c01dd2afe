"""Our judges against the verdicts of promptfoo, but for a reviewed list."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.conformance._rows import rows_of
from tests.conformance.promptfoo import Row, verdict_of

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
PROBES = ROOT / "tests" / "data" / "promptfoo_checks" / "probes.jsonl"
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


def test_a_row_that_no_judge_can_take_is_told_and_the_rest_is_judged(tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    odd = ['{"id": "a", "output": "x"}', '{"id": "b", "assertion_type": "magic", "output": "x"}']
    odd += ['{"id": "c", "assertion_type": "equals", "value": "x", "output": "x", "vars": 3}', "{"]
    good = '{"id": "d", "assertion_type": "equals", "value": "x", "output": "x"}'
    rows.write_text("\n".join([*odd, good]), encoding="utf-8")
    command = [sys.executable, "-m", "tests.conformance.promptfoo", str(rows)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["id"], line["pass"]) for line in lines[:2]] == [("a", None), ("b", None)]
    assert all(line["score"] is None and line["error"] for line in lines[:2])
    assert lines[3] == {"id": "d", "pass": True, "score": 1.0}
    assert f"{rows}:4: not JSON" in done.stderr
    assert done.returncode == 1


def test_a_reader_that_leaves_early_hears_nothing_of_it():
    command = [sys.executable, "-m", "tests.conformance.promptfoo", str(PROBES)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
