"""How the runs of a project went: the pass rate of each prompt, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.errors import FaultyFileError
from regauge.reports._runs import list_runs, read_record, read_rows
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from regauge.project import Project
    from regauge.reports._schema import RunRecord, SuiteSummary

__all__ = ["Point", "pass_counts", "read_history"]

_RUNS_MAX = 60
_POINTS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run of one prompt.

    Attributes:
        run: Its id.
        at: When it began, ISO 8601 in UTC.
        version: Of the prompt, or the beginning of its digest where it has none.
        passed: Cases; of a run that gates, those whose first trial passed.
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


def read_history(
    project: Project, record: RunRecord, rows: Iterable[Mapping[str, Any]]
) -> dict[str, list[Point]]:
    """By prompt, its points up to those of this run, the oldest first.

    A run that measured less than half as many cases as another is left out: it was told to run
    some of them, and what it says of the prompt is something else.
    """
    points: dict[str, list[Point]] = {suite.prompt: [] for suite in record.suites}
    for run, met in (*_earlier(project, record), (record, rows)):
        counts = pass_counts(run, met)
        own = {suite.prompt: suite for suite in run.suites if suite.arm != "main"}
        for prompt, suite in own.items():
            if prompt in points and counts.get(prompt, (0, 0))[1]:
                points[prompt].append(_point(run, suite, *counts[prompt]))
    return {prompt: _comparable(met) for prompt, met in points.items()}


def pass_counts(record: RunRecord, rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By prompt, how many cases passed, of how many that were measured.

    A gate draws more trials of the cases that look bad, and passes those that main fails too; so
    of its runs the first trials count, which are like those of any other run.
    """
    counts: dict[str, tuple[int, int]] = {}
    if record.decision is None:
        for suite in record.suites:
            passed, measured = counts.get(suite.prompt, (0, 0))
            told = suite.passed + suite.failed + suite.tracked_failed
            counts[suite.prompt] = (passed + suite.passed, measured + told)
        return counts
    for row in rows:
        if row["trial"] == 0 and row["arm"] != "main" and row["outcome"] != "unmeasured":
            passed, measured = counts.get(row["prompt"], (0, 0))
            counts[row["prompt"]] = (passed + (row["outcome"] == "passed"), measured + 1)
    return counts


def _earlier(
    project: Project, record: RunRecord
) -> Iterator[tuple[RunRecord, Iterable[Mapping[str, Any]]]]:
    for run in reversed(list_runs(project)[:_RUNS_MAX]):
        try:
            earlier = read_record(run)
            rows = list(read_rows(run)) if earlier.decision is not None else []
        except FaultyFileError:
            continue  # another regauge wrote it; the past is an extra
        if earlier.id != record.id and earlier.started_at <= record.started_at:
            yield earlier, rows


def _point(record: RunRecord, suite: SuiteSummary, passed: int, cases: int) -> Point:
    interval = wilson(passed, cases)
    return Point(
        run=record.id,
        at=record.started_at,
        version=suite.version or suite.prompt_digest[:8],
        digest=suite.prompt_digest,
        model=suite.model,
        passed=passed,
        cases=cases,
        low=interval.low,
        high=interval.high,
    )


def _comparable(points: list[Point]) -> list[Point]:
    most = max((point.cases for point in points), default=0)
    return [point for point in points if 2 * point.cases >= most][-_POINTS_MAX:]
