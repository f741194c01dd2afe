"""Charts of docs/explanation/gate-statistics.md, computed by the gate.

`python -m docs.plots` writes them; `python -m docs.plots --check` fails if one is stale.
Every number is computed, or simulated with a fixed seed; no model is called.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docs.charts import Chart, Mark
from regauge.gate import Count, GatePolicy, sensitivity_line
from regauge.stats import clopper_pearson, log_e_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.gate import SensitivityLine

__all__ = ["pictures"]

REAL_ANSWERS = Path(__file__).parents[1] / "benchmarks/results/real_answers.json"
DIRECTORY = Path(__file__).parent / "explanation" / "pictures"
# Passes of twelve trials of the base, and the share of cases with that count: most are stable.
TYPICAL = ((12, 0.80), (11, 0.10), (9, 0.05), (6, 0.02), (0, 0.03))
# The same for cases with a pass rate of 99 %.
STEADY = ((12, 0.886), (11, 0.108), (10, 0.006))
STEADY_RATE = 0.99
DROPS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.12, 0.15)


def pictures() -> Iterator[tuple[str, str]]:
    """The name and the text of every chart."""
    charts: Sequence[tuple[str, Callable[[], str]]] = (
        ("few-trials", few_trials),
        ("one-case", one_case),
        ("unchanged", unchanged),
        ("drops", drops),
        ("real-answers", real_answers),
    )
    for name, chart_text in charts:
        yield f"{name}.svg", chart_text()


def few_trials() -> str:
    """The interval of a case's pass rate, by its passed trials."""
    counts = [(0, 3), (1, 3), (2, 3), (3, 3), (9, 12), (12, 12), (20, 20), (60, 60)]
    chart = Chart(
        title="What a few trials show about a case",
        x="pass rate of the case over many trials",
        y="",
        x_ticks=[(rate, f"{rate} %") for rate in range(0, 101, 20)],
        y_ticks=[(len(counts) - row, f"{k} of {n}") for row, (k, n) in enumerate(counts)],
        height=310,
        y_from=0.4,
        y_to=len(counts) + 0.6,
    )
    for row, (passed, trials) in enumerate(counts):
        interval = clopper_pearson(passed, trials)
        y = len(counts) - row
        series = 0 if passed in {0, trials} else 1
        chart.band(100 * interval.low, 100 * interval.high, y, series=series)
        chart.mark(Mark(100 * passed / trials, y), series=series)
    return chart.svg()


def one_case() -> str:
    """The evidence against a case by its consecutive failures, and the bound for broken."""
    failures = np.arange(1, 11)
    policy = GatePolicy().case
    bound = float(np.exp(policy.log_bound(100)))
    chart = Chart(
        title="When a failing case counts as broken",
        x="consecutive failures of the new prompt",
        y="evidence against the new prompt",
        x_ticks=[(n, str(n)) for n in range(1, 11)],
        y_ticks=[(power, f"{10**power:,}") for power in range(6)],
        y_to=6,
        legend=Mark(1.15, 5.6),
    )
    chart.level(float(np.log10(bound)), "enough among 100 cases")
    for series, passed in enumerate((12, 11, 9, 6)):
        evidence = log_e_value(passed, 12, 0, failures) / np.log(10)
        points = [
            Mark(float(n), float(e))
            for n, e in zip(failures, evidence, strict=True)
            if 0 <= e <= 6  # noqa: PLR2004 - the ends of the axis
        ]
        chart.line(points, f"base passed {passed} of 12", series=series)
    return chart.svg()


def unchanged() -> str:
    """The false alarm rate of "all must pass" and of the gate."""
    sizes = (5, 10, 20, 50, 100, 150, 200)
    chart = Chart(
        title="False alarms: unchanged prompts that are blocked",
        x="cases, each with a pass rate of 99 %",
        y="of 100 runs",
        x_ticks=[(n, str(n)) for n in (5, 50, 100, 150, 200)],
        y_ticks=[(rate, str(rate)) for rate in range(0, 101, 20)],
    )
    naive = [Mark(n, 100 * (1 - STEADY_RATE**n)) for n in sizes]
    chart.line(naive, "every case must pass", series=1)
    ours = [Mark(n, 100 * _line(STEADY, n, ()).false_alarm.value) for n in sizes]
    chart.line(ours, "this gate", series=0)
    return chart.svg()


def drops() -> str:
    """The gate's sensitivity to a drop of all cases, by its size and the number of cases."""
    chart = Chart(
        title="How often the gate detects a drop of all cases",
        x="drop of every case's pass rate, in points",
        y="of 100 runs",
        x_ticks=[(points, str(points)) for points in (0, 2, 5, 10, 15)],
        y_ticks=[(rate, str(rate)) for rate in range(0, 101, 20)],
        legend=Mark(11.6, 33),
    )
    for series, cases in enumerate((200, 100, 50, 20)):
        line = _line(TYPICAL, cases, DROPS)
        points = [Mark(0, 100 * line.false_alarm.value)]
        points += [Mark(100 * drop, 100 * rate.value) for drop, rate in line.drops]
        chart.line(points, f"{cases} cases", series=series)
    return chart.svg()


def real_answers() -> str:
    """The false alarm rate of each rule on recorded completions of GPT-4o."""
    document = json.loads(REAL_ANSWERS.read_text(encoding="utf-8"))
    names = {
        "some case broke": "a case broke",
        "the mean is lower": "lower mean",
        "bootstrap, 90 % interval": "bootstrap",
        "McNemar, 5 %": "McNemar",
        "regauge gate": "regauge",
    }
    chart = Chart(
        title="Blocked although nothing changed: GPT-4o, four tasks",
        x=f"share of {document['runs']} identical runs that the rule blocks",
        y="",
        x_ticks=[(rate, f"{rate} %") for rate in range(0, 101, 20)],
        y_ticks=[(len(names) - row, label) for row, label in enumerate(names.values())],
        height=260,
        y_from=0.4,
        y_to=len(names) + 0.6,
    )
    for row, name in enumerate(names):
        y = len(names) - row
        shares = [
            100 * task["drawn"][name]["blocked"] / document["runs"]
            for task in document["tasks"].values()
        ]
        series = 0 if name == "regauge gate" else 1
        chart.band(min(shares), max(shares), y, series=series)
        for share in shares:
            chart.mark(Mark(share, y), series=series)
    return chart.svg()


def _line(
    kinds: Sequence[tuple[int, float]], cases: int, sizes: Sequence[float]
) -> SensitivityLine:
    """The gate's sensitivity for a number of cases, each with twelve trials of the base."""
    baselines = [
        Count(passed=passed, trials=12)
        for passed, share in kinds
        for _ in range(round(1000 * share))
    ]
    line = sensitivity_line(baselines, GatePolicy(), cases=cases, drops=sizes)
    assert line is not None
    return line


def main() -> None:
    """Write the charts; with --check, list the stale ones."""
    stale: list[str] = []
    for name, text in pictures():
        path = DIRECTORY / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            stale.append(name)
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if stale:
        sys.exit(f"stale: {', '.join(stale)}\n  fix: python -m docs.plots")


if __name__ == "__main__":
    main()
