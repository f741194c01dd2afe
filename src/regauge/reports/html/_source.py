"""What a page is made from: a run, what it is shown against, its golden cases and its past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.reports._runs import read_record, read_rows
from regauge.reports.html._cycles import Repair, read_repairs
from regauge.reports.html._golden import GoldenFile, read_golden
from regauge.reports.html._history import Measured, Point, points_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.reports._schema import RunRecord

__all__ = ["ReportSource", "load_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """All that a page shows, read from disk.

    Attributes:
        rows: The trials of the run, in the shape of `TrialRow`.
        against: The run whose answers stand beside those of this one; None where it has a base
            of its own, or none was named.
        against_rows: Its trials.
        golden: By dataset, the golden cases as they are now.
        history: By prompt, how it went so far, the oldest run first.
        repairs: What was tried to repair the prompts that failed.
    """

    record: RunRecord
    rows: Sequence[Mapping[str, Any]]
    against: RunRecord | None = None
    against_rows: Sequence[Mapping[str, Any]] = ()
    golden: Mapping[str, GoldenFile]
    history: Mapping[str, Sequence[Point]]
    repairs: Sequence[Repair] = ()


def load_source(
    run: Path,
    *,
    project: Project,
    against: Path | None = None,
    measured: Callable[[str], Iterable[Measured]] | None = None,
) -> ReportSource:
    """Read what the page of a run needs.

    Args:
        run: The directory of the run.
        project: Whose golden cases are shown.
        against: The directory of a run to show beside it.
        measured: How a prompt was measured in other runs, the oldest first; without it the page
            knows of this run alone.

    Raises:
        FaultyFileError: A record cannot be read.
    """
    record = read_record(run)
    rows = list(read_rows(run))
    names = {suite.prompt for suite in record.suites}
    past = {name: measured(name) for name in names} if measured else {}
    return ReportSource(
        record=record,
        rows=rows,
        against=read_record(against) if against else None,
        against_rows=list(read_rows(against)) if against else (),
        golden={name: read_golden(name, project) for name in {row["dataset"] for row in rows}},
        history=points_of(record, rows, past),
        repairs=read_repairs(project, record),
    )
