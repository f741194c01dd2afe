"""Other tools' optimisers on the loop's tasks: the same help for all, and the page says the results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.refine_optimisers._table import table
from benchmarks.refine_optimisers._world import World
from benchmarks.refine_peers import kept, one
from benchmarks.refine_tasks._scenarios import SCENARIOS, trial_of
from benchmarks.refine_tasks._simulated import Proposals
from benchmarks.refine_tasks.incidents import TASK

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "refine_peers.json"


def world(how: Proposals):
    with trial_of(TASK, SCENARIOS["single"], "model", 1) as (trial, _):
        return World(TASK, replace(trial, how=how))


def test_the_reflection_model_repairs_only_what_a_request_reports():
    said = world(Proposals(p_fix=1.0, p_leak=0.0, p_drop=0.0, p_fluff=0.0))
    prompt = said.trial.prompt
    assert TASK.advice("severity") not in prompt
    assert said.reflect(f"Improve this:\n{prompt}\nIt fails at times.") == prompt
    assert said.reflect(f"Improve this:\n{prompt}\nFAILED[json]: no object") == prompt
    repaired = said.reflect(f"Improve this:\n{prompt}\nFAILED[severity]: missing")
    assert TASK.advice("severity") in repaired
    assert said.model_calls == 3


def test_the_reflection_model_gives_away_only_answers_it_was_shown():
    said = world(Proposals(p_fix=0.0, p_leak=1.0, p_drop=0.0, p_fluff=0.0))
    prompt, (shown, *others) = said.trial.prompt, said.trial.train
    assert said.reflect(f"{prompt}\nFAILED[json]: no object") == prompt
    rewritten = said.reflect(f"{prompt}\nFAILED[json]: expected {shown.golden}")
    assert shown.golden in rewritten
    assert not any(case.golden in rewritten for case in others)


def test_answers_are_fresh_draws_that_a_seed_repeats():
    first, again = (world(Proposals()) for _ in range(2))
    case = next(case for case in first.trial.train if "severity" in case.reqs)
    drawn = [first.answer(first.trial.prompt, case).score for _ in range(30)]
    assert drawn == [again.answer(again.trial.prompt, case).score for _ in range(30)]
    assert len(set(drawn)) > 1
    assert first.calls == 30


@pytest.mark.parametrize(
    ("by", "settings"),
    [("gepa", {"max_metric_calls": 30}), ("deepeval-SIMBA", {"iterations": 1, "num_samples": 2})],
)
def test_an_optimiser_runs_on_the_task(by, settings, monkeypatch):
    pytest.importorskip(by.partition("-")[0], reason="measured where it is installed")
    monkeypatch.setattr("benchmarks.refine_peers.settings_of", lambda _: settings)
    row = one(TASK, "single", by, 0)
    assert row.calls >= 30
    assert row.model_calls > 0
    assert row.prompt.startswith(TASK.opening[0])


def test_the_page_shows_the_results_that_are_kept():
    results = json.loads(RESULTS.read_text())
    page = ROOT / "docs" / "explanation" / "refinement-benchmark.md"
    assert table(results) in page.read_text(), (
        "write the table anew: python benchmarks/refine_peers.py --table " + str(RESULTS)
    )


def test_results_are_kept_beside_those_of_other_runs(tmp_path):
    file = tmp_path / "results.json"
    rows = json.loads(RESULTS.read_text())["rows"][:2]
    file.write_text(json.dumps({"rows": rows, "versions": {"gepa": "0.0"}}))
    kept(file)
    held = json.loads(file.read_text())
    assert held["rows"] == rows
    assert set(held["versions"]) >= {"gepa", "regauge"}
