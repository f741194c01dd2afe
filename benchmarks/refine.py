"""Success of the refinement loop on simulated tasks with known true quality.

    python benchmarks/refine.py [--task incidents tickets invoices manifests commits]
                                [--task letters mails antraege gijiroku travel]
                                [--task MODULE | FILE.py] [--scenario single double ...]
                                [--by rules model rules+model] [--runs 60] [--jobs 2]
                                [--json] [--failures]

The loop, its guards, its tests and the gate are the product's; only completions and proposals are
simulated. Each run is a prompt with seeded defects (or none), 20 training cases, 10 held-out cases
and at most 600 calls. The true quality of a prompt is computed from its text over 400 other cases.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.refine_tasks._scenarios import SCENARIOS, run_one
from benchmarks.refine_tasks._task import load_task
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.refine_tasks._bench import By, Row
    from benchmarks.refine_tasks._scenarios import Scenario

TASKS = ("incidents", "tickets", "invoices")
# Whose prompts weave their instructions together: in a paragraph, in lists.
WOVEN = ("manifests", "commits")
# Whose prompts are written as a whole: prose, examples, German steps, Japanese, XML.
WRITTEN = ("letters", "mails", "antraege", "gijiroku", "travel")
# Whose cases differ in what they are about, so that an edit can be too narrow.
GROUPED = ("tickets", "invoices")
HEADED = ("incidents", "tickets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the runs of one scenario came to; rates are shares of runs.

    Attributes:
        repaired: At least 80 % of the lost true quality is back, of the runs that lost any; None
            where none did.
        worse: True quality fell by more than 0.4 points; `changed` counts any change.
        worse_high: Where the true rate of `worse` ends, at 95 % confidence; also of `changed`.
        lost: Statements of the prompt that are gone, over all runs, watched by a check or not.
        lossy: Revisions that lost a statement which no check watches.
        diff_lines: Lines added and removed, median over the runs that changed something.
        growth: Of words and marks against the healthy prompt, mean over the same runs.
        overfit: True quality on train and holdout cases above that on others, mean.
    """

    task: str
    scenario: str
    by: str
    runs: int
    repaired: float | None
    repaired_low: float | None
    changed: float
    changed_high: float
    worse: float
    worse_high: float
    leaks: int
    lost: int
    lossy: int
    diff_lines: float
    growth: float
    calls: float
    calls_most: int
    model_calls: float
    overfit: float
    seconds: float
    repeats: int
    stops: dict[str, int]


def summed_up(task: str, scenario: str, by: str, rows: Sequence[tuple[Row, int]]) -> Summary:
    """Add up the runs of one scenario."""
    all_rows = [row for row, _ in rows]
    changed = [row for row in all_rows if row.changed]
    runs = len(all_rows)

    def bounds(count: int, of: int = runs) -> tuple[float, float]:
        found = clopper_pearson(count, of)
        return round(float(found.low), 4), round(float(found.high), 4)

    damaged = [row for row in all_rows if row.repaired is not None]
    repaired = sum(row.repaired is True for row in damaged)
    worse = sum(row.worse for row in all_rows)
    return Summary(
        task=task,
        scenario=scenario,
        by=by,
        runs=runs,
        repaired=repaired / len(damaged) if damaged else None,
        repaired_low=bounds(repaired, len(damaged))[0] if damaged else None,
        changed=len(changed) / runs,
        changed_high=bounds(len(changed))[1],
        worse=worse / runs,
        worse_high=bounds(worse)[1],
        leaks=sum(row.leak for row in all_rows),
        lost=sum(row.lost for row in all_rows),
        lossy=sum(row.lost_unwatched > 0 for row in changed),
        diff_lines=median(row.diff_lines for row in changed) if changed else 0,
        growth=round(fmean(row.growth for row in changed), 4) if changed else 0.0,
        calls=round(fmean(row.calls for row in all_rows), 1),
        calls_most=max(row.calls for row in all_rows),
        model_calls=round(fmean(row.model_calls for row in all_rows), 1),
        overfit=round(fmean(row.overfit for row in all_rows), 4),
        seconds=round(fmean(row.seconds for row in all_rows), 3),
        repeats=sum(repeats for _, repeats in rows),
        stops=dict(Counter(row.stop for row in all_rows).most_common()),
    )


def own_tasks(scenario: Scenario) -> tuple[str, ...]:
    """Those of the tasks here that have what a scenario needs."""
    if scenario.sections:
        return HEADED
    return GROUPED if scenario.grouped else TASKS


def one(job: tuple[str, str, By, int]) -> tuple[Row, int]:
    """One run, and how many edits it tested that it had settled before."""
    task, scenario, by, index = job
    return run_one(load_task(task), SCENARIOS[scenario], by, index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", nargs="+", default=TASKS + WOVEN + WRITTEN)
    parser.add_argument("--scenario", nargs="+", choices=tuple(SCENARIOS), default=tuple(SCENARIOS))
    parser.add_argument("--by", nargs="+", default=("rules", "model"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--failures", action="store_true", help="name the runs that went wrong")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for task in options.task:
            for name in options.scenario:
                scenario = SCENARIOS[name]
                if scenario.own and task not in own_tasks(scenario):
                    continue
                for by in (scenario.only_by,) if scenario.only_by else options.by:
                    runs = options.runs or scenario.runs
                    jobs = [(task, name, by, index) for index in range(runs)]
                    rows = list(pool.map(one, jobs, chunksize=4))
                    show(summed_up(task, name, by, rows), as_json=options.json)
                    if options.failures:
                        show_failures([row for row, _ in rows], repairs=scenario.faults > 0)


def show(found: Summary, *, as_json: bool) -> None:
    """One line."""
    if as_json:
        print(json.dumps(asdict(found)), flush=True)
        return
    repaired = "   -" if found.repaired is None else f"{found.repaired:4.0%}"
    print(
        f"{found.task:10} {found.scenario:17} {found.by:11} n={found.runs:<4}"
        f" repaired {repaired}  changed {found.changed:4.0%}  worse {found.worse:3.0%}"
        f"  leaks {found.leaks}  lost {found.lost}, unwatched in {found.lossy}"
        f"  diff {found.diff_lines:g}"
        f"  growth {found.growth:+.1%}  calls {found.calls:.0f} (at most {found.calls_most})"
        f"  model calls {found.model_calls:.0f}  overfit {found.overfit:+.3f}"
        f"  {found.seconds:.2f} s  {found.stops}",
        flush=True,
    )


def show_failures(rows: Sequence[Row], *, repairs: bool) -> None:
    """Runs that fixed nothing, made a case worse or leaked one."""
    for index, row in enumerate(rows):
        if row.worse or row.leak or row.lost or (repairs and row.repaired is False):
            lost = ", lost a statement" if row.lost else ""
            print(f"  #{index} {row.label}{lost}: {row.before:.3f} -> {row.after:.3f}, {row.stop}")


if __name__ == "__main__":
    main()
