"""`regauge baseline simulate` as a process, on baselines written beforehand."""

from __future__ import annotations

import json
import re

import pytest
from inline_snapshot import snapshot

from regauge.gate import Count
from regauge.gate.baselines import (
    Baseline,
    BaselineKey,
    Session,
    StoredBaseline,
    StoredTrials,
    save_baseline,
)


def baseline(records: list[tuple[int, int]], *, prompt: str = "triage") -> Baseline:
    """One case for each pair of passes and trials."""
    trials = max([of for _, of in records], default=0)
    key = BaselineKey(
        prompt="1" * 64, model="sim:clerk-1", dataset=prompt, judges={"agrees": "2" * 64}
    )
    baseline = StoredBaseline(
        key=key,
        version="1.0.0",
        sessions=(
            (Session(id="2026-11-20T10:00:00Z", first=100, last=99 + trials),) if trials else ()
        ),
        cases={
            f"c{number}": StoredTrials(
                digest="3" * 16,
                numbers=tuple(range(100, 100 + of)),
                passed=passed,
                checks={"agrees": Count(passed=passed, trials=of)},
                output_digests=("4" * 8,),
            )
            for number, (passed, of) in enumerate(records)
        },
    )
    return Baseline(prompt=prompt, baselines=(baseline,))


@pytest.fixture
def suite(project):
    """A project whose one prompt has 40 cases, most of them stable."""
    records = [(12, 12)] * 33 + [(9, 12)] * 5 + [(0, 12)] * 2
    save_baseline(project.root / "fixtures/baselines/triage.json", baseline(records))
    return project


def test_it_says_what_the_gate_can_find_and_what_it_costs(suite):
    done = suite.command("baseline", "simulate", "--drop", "0.05")
    assert (done.returncode, done.stderr) == (0, "")
    # The rates are those of a simulation; how they come out in digits is another test's matter.
    assert re.sub(r"\b[\d.]+ (%|calls|cases like)( \([\d-]+\))?", r"N \1", done.stdout) == snapshot("""\
triage: 40 cases with at least 12 trials of base each
  sees: 1 broken case > N %, -10 points > N %, -5 points N %, -2 points N %; false alarm < N %
  first_trials = 6 sees -10 points > N %, -5 points N %, for N calls per case instead of 3.3
  An unchanged prompt costs N calls per case.
  To find a 5-point drop in 80 of 100 runs takes about N cases like these, or first_trials = 4 with the 40 there are.
""")


def test_programs_get_rates_with_their_intervals(suite):
    done = suite.command(
        "baseline", "simulate", "triage", "--drop", "0.05", "--power", "0.9", "--json"
    )
    (found,) = json.loads(done.stdout)
    assert (found["prompt"], found["cases"], found["trials_of_base"]) == ("triage", 40, 12)
    assert found["false_alarm"]["low"] <= found["false_alarm"]["rate"] <= 0.02
    assert found["one_broken"]["rate"] > 0.98
    assert [drop["drop"] for drop in found["drops"]] == [0.02, 0.05, 0.1]
    assert found["needed"]["cases"] > 40
    assert 3 <= found["calls_per_case"] < 4


def test_a_short_history_is_named_and_other_sizes_can_be_tried(suite):
    file = suite.root / "elsewhere.json"
    save_baseline(file, baseline([(3, 3)] * 20))
    done = suite.command("baseline", "simulate", "--baseline", str(file), "--cases", "60")
    assert "sees: 1 broken case" in done.stdout
    assert "The baseline is not complete: 3 of 12 trials; regauge baseline update" in done.stdout


def test_without_trials_or_baseline_it_says_how_to_get_them(suite, project):
    save_baseline(project.root / "fixtures/baselines/empty.json", baseline([], prompt="empty"))
    assert "empty: no trial of base is known yet\n  regauge baseline update empty\n" in (
        suite.command("baseline", "simulate", "empty").stdout
    )
    missing = suite.command("baseline", "simulate", "nobody")
    assert missing.returncode == 2
    assert "there is no prompt 'nobody'" in missing.stderr
    assert "baseline update" not in missing.stderr
    two = suite.command(
        "baseline", "simulate", "triage", "empty", "--baseline", "fixtures/baselines/empty.json"
    )
    assert two.returncode == 2
    assert "--baseline is the file of one prompt, not of 2" in two.stderr
