"""The golden cases of a run, as they are now: a run record names them, and holds their digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.datasets import find_dataset, load_dataset
from regauge.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import Project

__all__ = ["GoldenFile", "golden_of", "read_golden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """One dataset, where it could be read.

    Attributes:
        cases: By id.
        problem: Why there are none; empty when the file was read.
    """

    cases: Mapping[str, GoldenCase]
    problem: str = ""


def read_golden(name: str, project: Project) -> GoldenFile:
    """The dataset of this name; a page is worth having without it."""
    try:
        fixtures = project.fixtures_dir
        dataset = load_dataset(find_dataset(name, fixtures_dir=fixtures), fixtures_dir=fixtures)
    except (DatasetError, ConfigError) as error:
        first = str(error).splitlines()[0]
        return GoldenFile(cases={}, problem=f"The golden cases could not be read: {first}")
    return GoldenFile(cases={case.id: case for case in dataset.cases})


def golden_of(file: GoldenFile, case_id: str, digest: str) -> dict[str, JSON]:
    """What a case is given and what is expected, or why that is not shown.

    Args:
        file: The dataset.
        case_id: Of the case.
        digest: Of the case when it was run.
    """
    case = file.cases.get(case_id)
    if case is None:
        gone = f"The case {case_id!r} is in the golden cases no more."
        return {"problem": file.problem or gone}
    shown: dict[str, JSON] = {"inputs": dict(case.inputs), "at": case.at}
    if case.expected is not None:
        shown["expected"] = case.expected
    if case.checks:
        shown["checks"] = list(case.checks)
    for name in ("source", "licence", "note"):
        if value := getattr(case, name):
            shown[name] = value
    if case.digest != digest:
        shown["problem"] = "The case was changed after this run: this is how it stands now."
    return shown
