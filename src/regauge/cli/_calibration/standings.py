"""Which judges gate: listed by `calibrate`, and looked through by `lint` for what is stale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import DatasetError, Fault, FaultyFileError
from regauge.judges import standing_of
from regauge.judges.calibration import (
    UncalibratedError,
    calibration_path,
    current_calibration,
    load_calibrations,
    load_labels,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.cli._evals.judges import UsedJudge
    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.project import Project

__all__ = ["StandingRow", "lint_calibrations", "lint_labels", "standings"]

_SUFFIX = ".calibration.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRow:
    """What the verdicts of one judge count for.

    Attributes:
        prompts: The prompts whose answers it judges; none for a record that no eval uses.
        measured: Whether it was calibrated as it is now, well or badly.
    """

    judge: str
    prompts: tuple[str, ...]
    models: tuple[str, ...]
    gates: bool
    reason: str
    measured: bool = False

    def __str__(self) -> str:
        word = "gates  " if self.gates else "informs"
        where = f" on {', '.join(self.prompts)}" if self.prompts else ""
        asked = f" ({', '.join(self.models)})" if self.models else ""
        return f"{word}  {self.judge}{asked}{where}: {self.reason}"

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {
            "judge": self.judge,
            "prompts": self.prompts,
            "models": self.models,
            "gates": self.gates,
            "reason": self.reason,
        }


def standings(project: Project, used: Mapping[str, UsedJudge]) -> list[StandingRow]:
    """Every judge of evals that asks a model, then every record that no eval uses."""
    rows: list[StandingRow] = []
    for name, one in sorted(used.items()):
        for judge in (one.judge, *one.rivals):
            standing = standing_of(judge, project)
            rows.append(
                StandingRow(
                    judge=name,
                    prompts=tuple(sorted(set(one.prompts))),
                    models=tuple(judge.models),
                    gates=standing.gates,
                    reason=standing.reason,
                    measured=_measured(judge, project),
                )
            )
    known = {calibration_path(name, project) for name in used}
    unused = [path for path in _records(project) if path not in known]
    rows += [
        StandingRow(
            judge=path.name.removesuffix(_SUFFIX),
            prompts=(),
            models=(),
            gates=False,
            reason="no eval has a judge of this name",
        )
        for path in unused
    ]
    return rows


def _measured(judge: ModelJudge, project: Project) -> bool:
    try:
        current_calibration(judge, project)
    except UncalibratedError:
        return False
    return True


def lint_calibrations(project: Project, used: Mapping[str, UsedJudge]) -> list[Fault]:
    """One fault per calibration record that is not about the judge that evals use now.

    A judge that was never calibrated is no fault, nor is one that agrees too little: both are
    known to inform only.
    """
    faults: list[Fault] = []
    for name, one in sorted(used.items()):
        path = calibration_path(name, project)
        for judge in (one.judge, *one.rivals) if path.exists() else ():
            try:
                current_calibration(judge, project)
            except UncalibratedError as error:
                faults.append(
                    Fault(
                        path=path,
                        line=None,
                        message=f"judge {name!r} informs only: {error}",
                        fix=f"regauge calibrate {path.name.removesuffix(_SUFFIX)}",
                    )
                )
    return faults


def lint_labels(project: Project) -> list[Fault]:
    """What is wrong with files of labels and with calibration records, whoever uses them."""
    faults: list[Fault] = []
    for path in sorted(project.labels_dir.glob("[!.]*.jsonl")):
        try:
            load_labels(path.stem, project)
        except DatasetError as error:
            faults.extend(error.faults)
    for path in _records(project):
        try:
            load_calibrations(path)
        except FaultyFileError as error:
            faults.extend(error.faults)
    return faults


def _records(project: Project) -> list[Path]:
    return sorted(project.labels_dir.glob(f"[!.]*{_SUFFIX}"))
