"""Words and bars for what the history says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.reports import money

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.history import Line, Point, SyncReport

__all__ = [
    "cost_text",
    "interval_bar",
    "line_document",
    "point_document",
    "rate_text",
    "said_of_sync",
    "simulated",
    "sparkline",
]

_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24


def sparkline(rates: Sequence[float | None]) -> str:
    """Rates from 0 to 1 as blocks; a dot where there is none.

    >>> sparkline([0.0, 0.5, None, 1.0])
    '▁▅·█'
    """
    top = len(_BLOCKS) - 1
    return "".join("·" if rate is None else _BLOCKS[round(rate * top + 0.001)] for rate in rates)


def interval_bar(point: Point) -> str:
    """The interval and the rate on a line from 0 to 100 %."""
    last = _BAR_WIDTH - 1
    cells = [" "] * _BAR_WIDTH
    low, high = round(point.interval.low * last), round(point.interval.high * last)
    if point.rate is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[round(point.rate * last)] = "●"
    return f"│{''.join(cells)}│"


def rate_text(point: Point) -> str:
    """A pass rate with its counts."""
    if point.rate is None:
        return "unmeasured"
    return f"{100 * point.rate:.1f} % ({point.suite.passed}/{point.suite.measured})"


def simulated(model: str) -> str:
    """A model's name, with what the simulated one is always called."""
    return f"{model} (simulated)" if model.startswith("sim:") else model


def said_of_sync(report: SyncReport, place: str) -> str:
    """How many runs were taken in."""
    count = len(report.added)
    if not count:
        return f"every run of this machine is in {place} already"
    return f"took {count} {'run' if count == 1 else 'runs'} into {place}"


def point_document(point: Point) -> Mapping[str, object]:
    """A point for programs."""
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
        "pass_rate": point.rate,
        "low": point.interval.low if suite.measured else None,
        "high": point.interval.high if suite.measured else None,
        "cost_per_answer_usd": point.cost_per_answer_usd,
        "latency_p50_s": suite.latency_p50_s,
        "changed": list(point.changed),
    }


def cost_text(point: Point) -> str:
    """What an answer costs; `?` when the price is unknown."""
    return money(point.cost_per_answer_usd)


def line_document(line: Line) -> Mapping[str, object]:
    """A line for programs."""
    return {
        "dataset": line.dataset,
        "model": line.model,
        "simulated": line.model.startswith("sim:"),
        "runs": line.runs,
        "points": [point_document(point) for point in line.points],
    }
