"""Compare the refinement loop with gepa and deepeval's optimisers on simulated tasks.

    python benchmarks/refine_peers.py [--task incidents | FILE.py ...] [--scenario single ...]
                                      [--by rules model gepa deepeval-GEPA ...] [--runs 40]
                                      [--json] [--keep benchmarks/results/refine_peers.json]
    python benchmarks/refine_peers.py --table benchmarks/results/refine_peers.json

All have the same prompts, cases, seeds, about 600 completions, and the same simulated reflection
model. Tools that are not installed are reported as not measured. They optimise a mean within a
budget and do not claim to be gates. The benchmark measures their acceptance of edits and their
guards, not the quality of a real model's critique. It runs in one process, without network.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.refine import Summary, show, summed_up
from benchmarks.refine_optimisers._deepeval import SETTINGS as DEEPEVAL, by_deepeval
from benchmarks.refine_optimisers._gepa import SETTINGS as GEPA, by_gepa
from benchmarks.refine_optimisers._table import table
from benchmarks.refine_tasks._bench import measured
from benchmarks.refine_tasks._scenarios import SCENARIOS, run_one, trial_of
from benchmarks.refine_tasks._task import load_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.refine_optimisers._world import Found
    from benchmarks.refine_tasks._bench import Row, Trial
    from benchmarks.refine_tasks._task import Task

COMPARED = ("single", "double", "healthy", "unfixable-sloppy", "leaky")
OURS = ("rules", "model")
# What has to be installed for each of them.
PEERS: dict[str, tuple[str, ...]] = {
    "gepa": ("gepa",),
    **{f"deepeval-{name}": ("deepeval",) for name in DEEPEVAL},
    "deepeval-MIPROV2": ("deepeval", "optuna"),
}


def missing(by: str) -> str:
    """The packages that are not there, by name; "" where nothing is missing."""
    return ", ".join(name for name in PEERS.get(by, ()) if find_spec(name) is None)


def settings_of(by: str) -> dict[str, int]:
    """How an optimiser is set, where it is not as it comes."""
    return GEPA if by == "gepa" else DEEPEVAL[by.removeprefix("deepeval-")]


def optimiser(by: str) -> Callable[[Task, Trial], Found]:
    """The adapter of one of the `PEERS`."""
    settings = settings_of(by)
    if by == "gepa":
        return partial(by_gepa, settings=settings)
    return partial(by_deepeval, algorithm=by.removeprefix("deepeval-"), settings=settings)


def one(task: Task, scenario: str, by: str, index: int) -> Row:
    """One run by one tool; the same index is the same prompt, cases and seed for all."""
    if by in OURS:
        row, _ = run_one(task, SCENARIOS[scenario], "rules" if by == "rules" else "model", index)
        return row
    began = time.perf_counter()
    with trial_of(task, SCENARIOS[scenario], "model", index) as (trial, label):
        found = optimiser(by)(task, trial)
    seconds = time.perf_counter() - began
    return measured(
        task, trial, found.prompt, found.calls, found.model_calls, seconds, label=label, stop="end"
    )


def kept(path: Path, found: Summary | None = None) -> None:
    """Put a summary into a file of results; it replaces that of the same runs."""
    held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": []}
    rows = {(row["task"], row["scenario"], row["by"]): row for row in held["rows"]}
    if found is not None:
        row = asdict(found)
        del row["seconds"]  # of one machine, while it did other things as well
        rows[found.task, found.scenario, found.by] = row
    about = {
        "measured": datetime.now(UTC).date().isoformat(),
        "seeds": "a run's index, from 0",
        "versions": {"python": platform.python_version(), **held.get("versions", {}), **versions()},
        "settings": {by: settings_of(by) for by in PEERS},
        "not_measured": {by: f"not installed: {missing(by)}" for by in PEERS if missing(by)},
    }
    order = {by: place for place, by in enumerate((*OURS, *PEERS))}
    about["rows"] = [
        rows[key] for key in sorted(rows, key=lambda key: (*key[:2], order.get(key[2], 99)))
    ]
    path.write_text(json.dumps(about, indent=1) + "\n")


def versions() -> dict[str, str]:
    """Of what takes part."""
    found: dict[str, str] = {}
    for name in ("regauge", "gepa", "deepeval", "optuna"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", nargs="+", default=("incidents",), help="as for refine.py")
    parser.add_argument("--scenario", nargs="+", choices=tuple(SCENARIOS), default=COMPARED)
    parser.add_argument("--by", nargs="+", choices=(*OURS, *PEERS), default=(*OURS, *PEERS))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="a file of results to put them into")
    parser.add_argument("--table", type=Path, help="print a file of results as a table and end")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text())), end="")
        return
    for name in options.task:
        task = load_task(name)
        for by in options.by:
            if lacking := missing(by):
                print(f"{by}: not measured, for {lacking} is not installed", file=sys.stderr)
                continue
            for scenario in options.scenario:
                if by == "rules" and SCENARIOS[scenario].only_by == "model":
                    continue  # about what the reflection model proposes
                rows = [(one(task, scenario, by, index), 0) for index in range(options.runs)]
                found = summed_up(name, scenario, by, rows)
                show(found, as_json=options.json)
                if options.keep:
                    kept(options.keep, found)


if __name__ == "__main__":
    main()
