"""Pass rates of the run history, on a terminal and as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from regauge.errors import RegaugeError
from regauge.model_id import is_simulated
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from regauge.history import TrendLine, TrendPoint
    from regauge.project import Project

_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


def sparkline(rates: Sequence[float | None]) -> str:
    """Rates from 0 to 1 as blocks; a dot for None.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    top = len(_BLOCKS) - 1
    return "".join("·" if rate is None else _BLOCKS[round(rate * top + 0.001)] for rate in rates)


def interval_bar(point: TrendPoint) -> str:
    """A bar from 0 to 100 % with the rate and its interval."""
    last = _BAR_WIDTH - 1
    cells = [" "] * _BAR_WIDTH
    low, high = round(point.interval.low * last), round(point.interval.high * last)
    if point.suite.rate is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[round(point.suite.rate * last)] = "●"
    return f"│{''.join(cells)}│"


def measured_lines(project: Project, names: Iterable[str]) -> list[TrendLine]:
    """Trend lines of evals from the run history; empty if it cannot be read."""
    from regauge.history import History, trend_lines

    try:
        history = History.open(project, os.environ)
        return [line for name in names for line in trend_lines(history.suites(name))]
    except RegaugeError as error:
        click.echo(printable(f"{error}\nso there are no pass rates here"), err=True)
        return []


def rate_text(point: TrendPoint) -> str:
    """A pass rate with counts."""
    if point.suite.rate is None:
        return "unmeasured"
    return f"{100 * point.suite.rate:.1f} % ({point.suite.passed}/{point.suite.measured})"


def point_document(point: TrendPoint) -> Mapping[str, object]:
    """A point of a trend as JSON."""
    suite = point.suite
    return {
        "version": suite.version,
        "digest": suite.prompt_digest,
        "run": suite.run,
        "started_at": suite.started_at,
        "commit": suite.commit,
        "dirty": suite.dirty,
        "runs": point.runs,
        "cases": suite.cases,
        "measured": suite.measured,
        "passed": suite.passed,
        "trials": suite.trials,
        "pass_rate": suite.rate,
        "low": point.interval.low if suite.measured else None,
        "high": point.interval.high if suite.measured else None,
        "cost_per_completion_usd": suite.cost_per_completion_usd,
        "latency_p50_s": suite.latency_p50_s,
        "changed": list(point.changed),
    }


def line_document(line: TrendLine) -> Mapping[str, object]:
    """A trend line as JSON."""
    return {
        "dataset": line.dataset,
        "model": line.model,
        "simulated": is_simulated(line.model),
        "runs": line.runs,
        "points": [point_document(point) for point in line.points],
    }
