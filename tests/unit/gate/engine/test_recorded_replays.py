"""Replays without calls: recorded trials that run out leave suspects to the audit.

Five identical runs of real models on four suites; see `examples/real-answers/sources`.
"""

from __future__ import annotations

import gzip
import json
from itertools import combinations
from pathlib import Path

import pytest

from regauge.gate import BaseTrials, Count, Gate, GateCase, GatePolicy, TrialFacts

SOURCES = Path(__file__).parents[4] / "examples/real-answers/sources"
SUITES = ("logical_deduction", "navigate", "public_relations", "ruin_names")
RUNS = 5


def passes(name):
    """Whether each case passed in each of the five runs."""
    with gzip.open(SOURCES / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["id"]: [_right(answer, row["gold"]) for answer in row["answers"]] for row in rows}


def _right(answer, gold):
    try:
        return json.loads(answer)["Answer"] == gold.strip("()")
    except (ValueError, KeyError, TypeError):
        return False


def replayed(suite, recorded, *, broken=0):
    """The decision over some runs as recorded trials, with the others as the baseline.

    Args:
        broken: So many cases that pass everywhere fail in every recorded trial.
    """
    baseline = [run for run in range(RUNS) if run not in recorded]
    stable = [case for case, outcomes in suite.items() if all(outcomes)][:broken]
    cases = []
    for case, outcomes in suite.items():
        count = Count(passed=sum(outcomes[run] for run in baseline), trials=len(baseline))
        known = BaseTrials(checks={"right": count}, total=count)
        cases.append(GateCase(prompt="p", case=case, checks=("right",), baseline=known))
    gate = Gate(cases, GatePolicy(provisional=True))
    while wanted := gate.pending_trials():
        for one in wanted:
            for number in one.trials:
                facts = "not-recorded"
                if one.side == "candidate" and number < len(recorded):
                    right = suite[one.case][recorded[number]] and one.case not in stable
                    facts = TrialFacts(checks={"right": right})
                gate.observe(one.prompt, one.case, one.side, number, facts)
    return gate.outcome().decision


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("trials", [1, 2])
def test_an_unchanged_prompt_is_accepted_on_one_or_two_recorded_trials(name, trials):
    suite = passes(name)
    chosen = list(combinations(range(RUNS), trials))
    decisions = [replayed(suite, recorded) for recorded in chosen]
    assert decisions.count("accept") >= 0.95 * len(chosen)


@pytest.mark.parametrize("name", SUITES)
def test_recordings_that_show_a_loss_are_not_accepted_without_a_call(name):
    suite = passes(name)
    assert replayed(suite, (0,), broken=len(suite) // 5) == "undecided"
    assert replayed(suite, (0, 1), broken=len(suite) // 5) == "undecided"
