"""The pass rate of each prompt, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from regauge.gate import CANDIDATE_FIRST
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.reports._schema import RunRecord, SuiteSummary

__all__ = ["Measured", "Point", "pass_counts", "points_of"]

_POINTS_MAX = 40


class Measured(Protocol):
    """One prompt on one dataset with one model, as one run measured it; the history knows them.

    Attributes:
        measured: How many cases have an outcome.
        passed: Of those; of a run that gates, by the first trial of each.
    """

    @property
    def run(self) -> str: ...
    @property
    def started_at(self) -> str: ...
    @property
    def version(self) -> str | None: ...
    @property
    def prompt_digest(self) -> str: ...
    @property
    def dataset(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def arm(self) -> str | None: ...
    @property
    def measured(self) -> int: ...
    @property
    def passed(self) -> int: ...


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


def points_of(
    record: RunRecord,
    rows: Iterable[Mapping[str, Any]],
    measured: Mapping[str, Iterable[Measured]],
) -> dict[str, list[Point]]:
    """By prompt, its points up to that of this run, the oldest first.

    Runs with another dataset or model are another story and left out, and so is a run that
    measured less than half as many cases as another: it was told to run some of them.

    Args:
        record: The run.
        rows: Its trials.
        measured: By prompt, how it was measured so far, the oldest first.
    """
    own = {suite.prompt: suite for suite in reversed(record.suites) if suite.arm != "main"}
    counts = pass_counts(record, rows)
    points: dict[str, list[Point]] = {}
    for prompt, suite in own.items():
        met = [
            _point(one.run, one.started_at, one, one.passed, one.measured)
            for one in takewhile(lambda one: one.run != record.id, measured.get(prompt, ()))
            if one.measured
            and one.arm != "main"
            and (one.dataset, one.model) == (suite.dataset, suite.model)
            and one.started_at <= record.started_at
        ]
        passed, cases = counts.get(prompt, (0, 0))
        if cases:
            met.append(_point(record.id, record.started_at, suite, passed, cases))
        points[prompt] = _comparable(met)
    return points


def pass_counts(record: RunRecord, rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By prompt, how many cases passed, of how many that were measured.

    A gate draws more trials of the cases that look bad, and passes those that main fails too; so
    of its runs the first trials count, which are like those of any other run.
    """
    counts: dict[str, tuple[int, int]] = {}
    if record.decision is None:
        for suite in record.suites:
            passed, measured = counts.get(suite.prompt, (0, 0))
            counts[suite.prompt] = (
                passed + suite.passed,
                measured + suite.cases - suite.unmeasured,
            )
        return counts
    first_trials = {0, CANDIDATE_FIRST}
    for row in rows:
        if row["arm"] == "main" or row["outcome"] == "unmeasured":
            continue
        if row["trial"] in first_trials:
            passed, measured = counts.get(row["prompt"], (0, 0))
            counts[row["prompt"]] = (passed + (row["outcome"] == "passed"), measured + 1)
    return counts


def _point(run: str, at: str, suite: Measured | SuiteSummary, passed: int, cases: int) -> Point:
    interval = wilson(passed, cases)
    return Point(
        run=run,
        at=at,
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
