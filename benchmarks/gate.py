"""How often the gate blocks, simulated trial by trial on suites with known pass probabilities.

    python benchmarks/gate.py [--mix typical] [--n 100] [--runs 2000] [--json]
                              [--scenario A/A flip1 ...]

Each run makes a suite of its own, draws a history of main, changes the prompt as the scenario says
and answers whatever the gate wants. The gate is the product's; only its answers are made up.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._gate_suites import MIXES, SCENARIOS, changed, suite
from regauge.gate import Count, Gate, GateCase, GatePolicy, History, TrialFacts
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._gate_suites import Chance
    from regauge.gate import Arm, GateOutcome

PASSED, FAILED = TrialFacts(checks={"right": True}), TrialFacts(checks={"right": False})


@dataclass(kw_only=True)
class Rates:
    """What the runs of one scenario came to; rates are shares of runs.

    Attributes:
        blocked: The change was rejected.
        low: Where the true rate of `blocked` begins, at 95 % confidence.
        high: Where it ends.
        by_case: Rejected because a single case was named.
        by_suite: Rejected because the suite as a whole was worse.
        by_head_to_head: Rejected after main had drifted and both arms were drawn side by side.
        drifted: A case or the suite was said to have drifted.
        undecided: The decision is undecided.
        improved: Cases named as repaired, mean per run.
        calls_per_case: Trials of both arms, mean.
        ms: Milliseconds a run took.
    """

    scenario: str
    runs: int
    blocked: float = 0.0
    low: float = 0.0
    high: float = 0.0
    by_case: float = 0.0
    by_suite: float = 0.0
    by_head_to_head: float = 0.0
    drifted: float = 0.0
    undecided: float = 0.0
    improved: float = 0.0
    calls_per_case: float = 0.0
    ms: float = field(default=0.0)


def history(passed: int, trials: int) -> History:
    """Main's record of one case, of answers that all differed."""
    count = Count(passed=passed, trials=trials)
    return History(
        checks={"right": count}, whole=count, sessions=("a", "b", "c"), distinct_answers=trials
    )


def one_run(
    rng: np.random.Generator, chance: Chance, policy: GatePolicy, stored: int
) -> GateOutcome:
    """Give the gate every trial it wants."""
    kept = rng.binomial(stored, chance.main).tolist()
    gate = Gate(
        [
            GateCase(
                prompt="prompt",
                case=str(number),
                checks=("right",),
                history=history(passed, stored) if stored else None,
            )
            for number, passed in enumerate(kept)
        ],
        policy,
    )
    cache: dict[tuple[str, Arm], TrialFacts] = {}
    while wanted := gate.wanted():
        for one in wanted:
            chances = chance.candidate if one.arm == "candidate" else chance.today
            passes = rng.random(len(one.trials)) < chances[int(one.case)]
            for number, passed in zip(one.trials, passes.tolist(), strict=True):
                facts = PASSED if passed else FAILED
                if int(one.case) in chance.cached:
                    facts = cache.setdefault((one.case, one.arm), replace(facts, answer="cached"))
                gate.observe(one.prompt, one.case, one.arm, number, facts)
    return gate.outcome()


def measured(
    scenario: str, *, mix: str, cases: int, runs: int, policy: GatePolicy, stored: int, seed: int
) -> Rates:
    """Run one scenario many times; one seed gives one result."""
    rng = np.random.default_rng([seed, cases, *scenario.encode(), *mix.encode()])
    seen: Counter[str] = Counter()
    calls = improved = 0
    start = time.perf_counter()
    for _ in range(runs):
        chance = changed(rng, scenario, suite(rng, mix, cases))
        outcome = one_run(rng, chance, policy, stored)
        kinds = {reason.kind for reason in outcome.reasons if reason.leads_to == "reject"}
        drifted = any(reason.kind == "drifted" for reason in outcome.reasons)
        aside = any(one.head_to_head is not None for one in outcome.suites)
        seen[outcome.decision] += 1
        seen.update(kinds)
        seen["drifted"] += drifted or aside
        improved += len(outcome.improved)
        calls += outcome.candidate_trials + outcome.main_trials
    interval = clopper_pearson(seen["reject"], runs)
    return Rates(
        scenario=scenario,
        runs=runs,
        blocked=seen["reject"] / runs,
        low=interval.low,
        high=interval.high,
        by_case=seen["regressed"] / runs,
        by_suite=seen["suite"] / runs,
        by_head_to_head=seen["head-to-head"] / runs,
        drifted=seen["drifted"] / runs,
        undecided=seen["undecided"] / runs,
        improved=improved / runs,
        calls_per_case=calls / runs / cases,
        ms=1000 * (time.perf_counter() - start) / runs,
    )


def main() -> None:
    """Measure and print."""
    asked = _arguments()
    policy = GatePolicy(first_draws=asked.first_draws)
    found = [
        measured(
            scenario,
            mix=asked.mix,
            cases=asked.n,
            runs=asked.runs,
            policy=policy,
            stored=asked.history,
            seed=asked.seed,
        )
        for scenario in asked.scenario
    ]
    if asked.json:
        setup = {
            name: getattr(asked, name) for name in ("mix", "n", "history", "first_draws", "seed")
        }
        rounded = [
            {
                key: round(value, 4) if isinstance(value, float) else value
                for key, value in one.items()
            }
            for one in map(asdict, found)
        ]
        print(json.dumps({**setup, "scenarios": rounded}, indent=2))
        return
    print(f"{asked.mix}, {asked.n} cases, {asked.runs} runs of each scenario; shares in %")
    print(_table(found))


def _table(found: Sequence[Rates]) -> str:
    head = ("scenario", "blocked", "case", "suite", "aside", "drifted", "undecided", "calls/case")
    rows = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for one in found:
        shares = (
            one.blocked,
            one.by_case,
            one.by_suite,
            one.by_head_to_head,
            one.drifted,
            one.undecided,
        )
        cells = [one.scenario, *(f"{100 * share:.1f}" for share in shares)]
        rows.append(f"| {' | '.join(cells)} | {one.calls_per_case:.2f} |")
    return "\n".join(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--mix", choices=MIXES, default="typical")
    parser.add_argument("--n", type=int, default=100, metavar="CASES")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--scenario", nargs="+", default=SCENARIOS, metavar="NAME")
    parser.add_argument("--history", type=int, default=12, metavar="TRIALS")
    parser.add_argument("--first-draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
