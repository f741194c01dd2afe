"""The calibration record of a judge: read, brought up to date and written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from regauge.errors import FaultyFileError
from regauge.judges.calibration import (
    Calibration,
    CalibrationFile,
    LabelsSummary,
    agreement_of,
    calibration_path,
    labels_path,
    load_calibrations,
    write_calibrations,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.judges import ModelJudge
    from regauge.judges.calibration import Judged, Labels
    from regauge.project import Project

__all__ = ["calibration_of", "usual_labels", "write_record"]


def usual_labels(judge: ModelJudge, project: Project) -> str:
    """Whose labels a judge is compared with: its own, else those of the record there is."""
    known = _known(judge, project)
    if labels_path(judge.name, project).exists() or known is None:
        return judge.name
    return next((one.labels.of for one in known.calibrations if one.labels.of), judge.name)


def calibration_of(
    judge: ModelJudge, labels: Labels, judged: Sequence[Judged], repeats: int
) -> Calibration:
    """What comes of judging labels, dated today."""
    return Calibration(
        models=tuple(judge.models),
        digest=judge.digest,
        date=datetime.now(UTC).date().isoformat(),
        repeats=repeats,
        labels=LabelsSummary(
            of=None if labels.judge == judge.name else labels.judge,
            kind=labels.kind,
            count=len(labels),
            digest=labels.digest,
        ),
        agreement=agreement_of(labels.kind, judged),
    )


def write_record(project: Project, judge: ModelJudge, calibration: Calibration) -> str:
    """Write the record; returns what came of it."""
    path = calibration_path(judge.name, project)
    known = _known(judge, project)
    if known is None:
        file = CalibrationFile(judge=judge.name, calibrations=(calibration,))
    else:
        file = known.with_calibration(calibration)
    word = "written" if write_calibrations(path, file) else "unchanged"
    return f"{word}: {project.relative(path).as_posix()}"


def _known(judge: ModelJudge, project: Project) -> CalibrationFile | None:
    """The record there is of a judge; one that cannot be read is made anew."""
    try:
        file = load_calibrations(calibration_path(judge.name, project))
    except FaultyFileError:
        return None
    return file if file is not None and file.judge == judge.name else None
