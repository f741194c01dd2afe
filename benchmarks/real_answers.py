"""False alarm rates of rules on an unchanged prompt, with recorded completions of GPT-4o.

    python benchmarks/real_answers.py [--runs 600] [--seed 1] [--write]

`examples/real-answers` holds five identical runs of four tasks at temperature 0. Nothing changed
between them, so every block is a false alarm. Each task has two results:

- `recorded`: of the 20 ordered pairs of runs, how many would each fixed rule have blocked?
- `drawn`: with trials sampled from the five completions of each case, how often do the fixed rules
  and the gate block, and how many calls per case do they make? Each run has its own baseline, of
  the default size. The gate is the product's; only its trials are sampled.

`--write` saves the figures to benchmarks/results/real_answers.json, the source of the docs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from regauge.gate import GatePolicy
from regauge.gate.power import RandomTrials, SimulatedRun, simulate
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "examples/real-answers/sources"
RESULTS = ROOT / "benchmarks/results/real_answers.json"
TASKS = ("navigate", "logical_deduction", "ruin_names", "public_relations")
RESAMPLES = 1000
LEVEL = 0.05

Passes: TypeAlias = "NDArray[np.bool_]"
Rule: TypeAlias = Callable[[Passes, Passes, np.random.Generator], bool]


def some_case_broke(base: Passes, candidate: Passes, rng: np.random.Generator) -> bool:
    """Block if any case passed before and fails now."""
    del rng
    return bool((base & ~candidate).any())


def lower_mean(base: Passes, candidate: Passes, rng: np.random.Generator) -> bool:
    """Block if the pass rate is lower."""
    del rng
    return bool(candidate.mean() < base.mean())


def mcnemar(base: Passes, candidate: Passes, rng: np.random.Generator) -> bool:
    """Block at a one-sided exact McNemar test of 5 %."""
    del rng
    worse, better = int((base & ~candidate).sum()), int((~base & candidate).sum())
    tail = sum(_binomial(worse + better, k) for k in range(worse, worse + better + 1))
    return worse > better and tail <= LEVEL


def _binomial(n: int, k: int) -> float:
    return float(np.exp(_log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)) / 2.0**n)


def _log_factorial(n: int) -> float:
    return float(np.log(np.arange(1, n + 1)).sum())


def bootstrap(base: Passes, candidate: Passes, rng: np.random.Generator) -> bool:
    """Block if the 90 % bootstrap interval of the paired difference is below 0."""
    difference = candidate.astype(float) - base.astype(float)
    means = rng.choice(difference, (RESAMPLES, len(difference))).mean(axis=1)
    return bool(np.quantile(means, 1 - LEVEL) < 0)


RULES: dict[str, Rule] = {
    "some case broke": some_case_broke,
    "the mean is lower": lower_mean,
    "McNemar, 5 %": mcnemar,
    "bootstrap, 90 % interval": bootstrap,
}


def passes_of(task: str) -> Passes:
    """Which runs passed which cases, of shape (cases, runs)."""
    with gzip.open(SOURCES / f"{task}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return np.array(
        [
            [
                json.loads(answer).get("Answer") == row["gold"].strip("()")
                for answer in row["answers"]
            ]
            for row in rows
        ]
    )


def measure(task: str, *, runs: int, seed: int) -> dict[str, Any]:
    """The figures of one task."""
    rng = np.random.default_rng(seed)
    passes = passes_of(task)
    rates = passes.mean(axis=1)
    pairs = [(passes[:, a], passes[:, b]) for a, b in permutations(range(passes.shape[1]), 2)]
    drawn = [(rng.random(len(rates)) < rates, rng.random(len(rates)) < rates) for _ in range(runs)]
    gate = gated(rates, runs=runs, rng=rng)
    return {
        "cases": len(rates),
        "mixed": int(((rates > 0) & (rates < 1)).sum()),
        "recorded": {
            name: sum(rule(*pair, rng) for pair in pairs) / len(pairs)
            for name, rule in RULES.items()
        },
        "drawn": {
            **{
                name: {"blocked": sum(rule(*pair, rng) for pair in drawn), "calls_per_case": 2.0}
                for name, rule in RULES.items()
            },
            "regauge gate": {
                "blocked": int(gate.blocked.sum()),
                "undecided": int(gate.undecided.sum()),
                "calls_per_case": round(float(gate.calls.mean()) / len(rates), 2),
            },
        },
    }


def gated(rates: NDArray[np.float64], *, runs: int, rng: np.random.Generator) -> SimulatedRun:
    """The gate with its defaults, each run with a baseline of its own."""
    policy = GatePolicy()
    stored = policy.baseline_trials_of(len(rates))
    chances = np.tile(rates, (runs, 1))
    record = rng.binomial(stored, chances)
    unchanged = RandomTrials(rng, lambda _: chances, lambda _: chances)
    return simulate(policy, (record, np.full_like(record, stored)), unchanged)


def table(document: dict[str, Any]) -> str:
    """Markdown: a row per rule, a column per task."""
    runs = document["runs"]
    lines = [f"| rule | {' | '.join(TASKS)} | calls a case |", "|---|" + "--:|" * (len(TASKS) + 1)]
    for name in (*RULES, "regauge gate"):
        cells: list[str] = []
        for task in TASKS:
            found = document["tasks"][task]
            blocked = found["drawn"][name]["blocked"]
            interval = clopper_pearson(blocked, runs)
            cell = (
                f"{100 * blocked / runs:.1f} % [{100 * interval.low:.1f}-{100 * interval.high:.1f}]"
            )
            if name in found["recorded"]:
                cell += f", recorded {100 * found['recorded'][name]:.0f} %"
            cells.append(cell)
        calls = [document["tasks"][task]["drawn"][name]["calls_per_case"] for task in TASKS]
        spread = (
            f"{min(calls):.2g} to {max(calls):.3g}" if max(calls) > min(calls) else f"{calls[0]:g}"
        )
        lines.append(f"| {name} | {' | '.join(cells)} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="keep the figures")
    options = parser.parse_args()
    tasks = {task: measure(task, runs=options.runs, seed=options.seed) for task in TASKS}
    document = {"model": "gpt-4o", "runs": options.runs, "seed": options.seed, "tasks": tasks}
    print(table(document))
    if options.write:
        RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
