"""How the runs of a project went: the pass rate of each prompt, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import FaultyFileError
from regauge.reports._runs import list_runs, read_record
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.project import Project
    from regauge.reports._schema import RunRecord, SuiteSummary

__all__ = ["Point", "read_history"]

_RUNS_MAX = 120
_POINTS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run of one prompt.

    Attributes:
        run: Its id.
        at: When it began, ISO 8601 in UTC.
        version: Of the prompt, or the beginning of its digest where it has none.
        passed: Cases.
        cases: Those that were measured.
        low: The lower end of the 95 % interval of the pass rate, from 0 to 1.
        high: The upper end.
    """

    run: str
    at: str
    version: str
    digest: str
    model: str
    passed: int
    cases: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of measured cases that passed, from 0 to 1."""
        return self.passed / self.cases


def read_history(project: Project, record: RunRecord) -> dict[str, list[Point]]:
    """By prompt, its points up to those of this run, the oldest first.

    A run that measured less than half as many cases as another is left out: it was told to run
    some of them, and what it says of the prompt is something else.
    """
    points: dict[str, list[Point]] = {suite.prompt: [] for suite in record.suites}
    for earlier in (*_earlier(project, record), record):
        for suite in earlier.suites:
            if suite.prompt in points and (point := _point(earlier, suite)):
                points[suite.prompt].append(point)
    return {prompt: _comparable(met) for prompt, met in points.items()}


def _earlier(project: Project, record: RunRecord) -> Iterator[RunRecord]:
    for run in reversed(list_runs(project)[:_RUNS_MAX]):
        try:
            earlier = read_record(run)
        except FaultyFileError:
            continue  # another regauge wrote it; the past is an extra
        if earlier.id != record.id and earlier.started_at <= record.started_at:
            yield earlier


def _point(record: RunRecord, suite: SuiteSummary) -> Point | None:
    cases = suite.passed + suite.failed + suite.tracked_failed
    if suite.arm == "main" or not cases:
        return None
    interval = wilson(suite.passed, cases)
    return Point(
        run=record.id,
        at=record.started_at,
        version=suite.version or suite.prompt_digest[:8],
        digest=suite.prompt_digest,
        model=suite.model,
        passed=suite.passed,
        cases=cases,
        low=interval.low,
        high=interval.high,
    )


def _comparable(points: list[Point]) -> list[Point]:
    most = max((point.cases for point in points), default=0)
    return [point for point in points if 2 * point.cases >= most][-_POINTS_MAX:]
