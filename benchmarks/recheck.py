"""Error rates of `baseline update --recheck`, simulated night by night.

    python benchmarks/recheck.py [--mix typical] [--n 100] [--trials 2] [--runs 2000]
                                [--scenario unchanged broken:1 ...]

Each night has its own suite with a complete baseline; the model then changes as defined by the
scenario. The decision is the product's; only completions are simulated.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._gate_suites import MIXES, SCENARIOS, draw_suites, world_of
from regauge.gate import Count, GatePolicy, Recheck, TrialFacts
from regauge.gate.baselines import BaselineKey, Session, StoredBaseline, StoredTrials
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from benchmarks._gate_suites import Rates

PASSED, FAILED = TrialFacts(checks={"right": True}), TrialFacts(checks={"right": False})
KEY = BaselineKey(prompt="p", model="m:m", dataset="d", judges={"right": "j"})
DIGEST = "0" * 16
STORED = 12


def baseline(rng: np.random.Generator, main: Rates) -> StoredBaseline:
    """Twelve trials of each case."""
    passes = rng.binomial(STORED, main).tolist()
    cases = {
        str(number): StoredTrials(
            digest=DIGEST,
            numbers=tuple(range(100, 100 + STORED)),
            passed=passed,
            checks={"right": Count(passed=passed, trials=STORED)},
        )
        for number, passed in enumerate(passes)
    }
    session = Session(id="2026-01-01T00:00:00Z", first=100, last=99 + STORED)
    return StoredBaseline(key=KEY, sessions=(session,), cases=cases)


def night(
    rng: np.random.Generator, known: StoredBaseline, today: Rates, *, trials: int
) -> tuple[bool, int]:
    """Return whether the base is reported as worse, and the number of trials."""
    recheck = Recheck(
        known, dict.fromkeys(known.cases, DIGEST), GatePolicy(), prompt="p", trials=trials
    )
    asked = 0
    for requests in recheck.rounds():
        asked += len(requests)
        for case, number in requests:
            recheck.add(case, number, PASSED if rng.random() < today[int(case)] else FAILED)
    return recheck.drift(models=()).worse, asked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mix", choices=sorted(MIXES), default="typical")
    parser.add_argument("--n", type=int, default=100, help="cases of a suite")
    parser.add_argument("--trials", type=int, default=2, help="fresh trials of each case")
    parser.add_argument("--runs", type=int, default=2000, help="nights per scenario")
    parser.add_argument(
        "--scenario", nargs="+", default=["unchanged", "broken:1", "half:1", "drop:5"]
    )
    asked_for = parser.parse_args()
    for scenario in asked_for.scenario:
        kind = scenario.partition(":")[0]
        rng = np.random.default_rng([20261122, SCENARIOS.index(kind)])
        worse = trials = 0
        for _ in range(asked_for.runs):
            before = draw_suites(rng, asked_for.mix, 1, asked_for.n)
            today = world_of(rng, scenario, before, asked_for.mix).candidate(0)
            known = baseline(rng, before[0])
            told, asked = night(rng, known, today[0], trials=asked_for.trials)
            worse, trials = worse + told, trials + asked
        sure = clopper_pearson(worse, asked_for.runs)
        print(
            f"{asked_for.mix} n={asked_for.n} --recheck {asked_for.trials} {scenario:8}"
            f" worse {worse / asked_for.runs:7.2%} ({sure.low:.2%} to {sure.high:.2%}),"
            f" trials per case {trials / asked_for.runs / asked_for.n:.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
