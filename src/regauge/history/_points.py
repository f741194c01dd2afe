"""The pass rate of a prompt over time: one point per version, or one per run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.history._store import MeasuredSuite
    from regauge.stats import Interval

__all__ = ["TrendLine", "TrendPoint", "lines_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The measurement of one version in one run.

    Attributes:
        suite: The run's counts.
        runs: How many runs measured something of the version.
        rate: The share of the measured cases that passed; None when none was measured.
        interval: Wilson's, at 95 %, of the cases as a sample.
        cost_per_answer_usd: None when the price is unknown or there was no answer.
        changed: What differs from the point before next to the prompt, so that the rates are not
            of one kind: `cases`, `judges`, `trials`.
    """

    suite: MeasuredSuite
    runs: int
    rate: float | None
    interval: Interval
    cost_per_answer_usd: float | None
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """The points of one prompt on one dataset with one model, the oldest first.

    Attributes:
        runs: How many runs measured something of any of its versions.
        unmeasured: How many runs measured nothing.
    """

    dataset: str
    model: str
    runs: int
    unmeasured: int
    points: Sequence[TrendPoint]


def lines_of(suites: Iterable[MeasuredSuite], *, every_run: bool = False) -> list[TrendLine]:
    """The lines of one prompt, the one with most runs first.

    A version is what has the same content: an edit without a new version number counts as a
    version of its own. It stands where it was first run. Of its runs the fullest counts, which is
    the one that measured most cases, and of those the newest: to add up runs would count a
    replayed answer as often as it was replayed.

    Args:
        suites: Of one prompt, the oldest first. What a gate drew of main is left out: it draws
            there again what failed.
        every_run: A point for each run.
    """
    grouped: defaultdict[tuple[str, str], list[MeasuredSuite]] = defaultdict(list)
    for suite in suites:
        if suite.arm != "main":
            grouped[suite.dataset, suite.model].append(suite)
    lines = [
        TrendLine(
            dataset=dataset,
            model=model,
            runs=_count(members),
            unmeasured=len(members) - _count(members),
            points=_points([[member] for member in members] if every_run else _versions(members)),
        )
        for (dataset, model), members in grouped.items()
    ]
    return sorted(lines, key=lambda line: (-line.runs, line.dataset, line.model))


def _count(suites: Iterable[MeasuredSuite]) -> int:
    return sum(1 for suite in suites if suite.measured)


def _versions(suites: Sequence[MeasuredSuite]) -> list[list[MeasuredSuite]]:
    versions: defaultdict[tuple[str | None, str], list[MeasuredSuite]] = defaultdict(list)
    for suite in suites:
        versions[suite.version, suite.prompt_digest].append(suite)
    return list(versions.values())


def _points(groups: Sequence[Sequence[MeasuredSuite]]) -> list[TrendPoint]:
    points: list[TrendPoint] = []
    before: MeasuredSuite | None = None
    for group in groups:
        # The last of equals is the newest.
        suite = max(reversed(group), key=lambda one: one.measured)
        points.append(_point(suite, runs=_count(group), before=before))
        before = suite
    return points


def _point(suite: MeasuredSuite, *, runs: int, before: MeasuredSuite | None) -> TrendPoint:
    # It loads numpy, which a run that only writes to the history does without.
    from regauge.stats import wilson

    changed: list[str] = []
    if before is not None:
        if before.cases_digest != suite.cases_digest:
            changed.append("cases")
        if before.judges_digest != suite.judges_digest:
            changed.append("judges")
        if before.trials != suite.trials:
            changed.append("trials")
    cost = suite.cost_usd
    return TrendPoint(
        suite=suite,
        runs=runs,
        rate=suite.passed / suite.measured if suite.measured else None,
        interval=wilson(suite.passed, suite.measured),
        cost_per_answer_usd=cost / suite.answers if cost is not None and suite.answers else None,
        changed=tuple(changed),
    )
