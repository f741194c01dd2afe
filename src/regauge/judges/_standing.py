"""Whether a judge that asks a model decides or informs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges._asking import Standing

if TYPE_CHECKING:
    from regauge.judges._asking import ModelJudge
    from regauge.project import Project

__all__ = ["standing_of"]


def standing_of(judge: ModelJudge, project: Project) -> Standing:
    """What a judge's verdicts count for in a project."""
    del judge, project
    return Standing(gates=False, reason="no calibration record")
