"""What main measures and this run does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regauge.gate._baseline_file import BaselineError, parse_baseline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.gate._base_commit import BaseCommit
    from regauge.runner import Suite

__all__ = ["not_measured"]


def not_measured(at: BaseCommit, suites: Iterable[Suite]) -> tuple[str, ...]:
    """Sentences on every dataset that main has a baseline for and that no suite of a run covers.

    An eval that was deleted would otherwise take its cases along without a word.

    Args:
        at: The base version.
        suites: Those of the run.
    """
    directory = at.repository.inside(at.project.fixtures_dir / "baselines")
    paths = [name for name in at.repository.files(at.tip, directory) if name.endswith(".json")]
    texts = at.repository.read_all((at.tip, path) for path in paths)
    known: set[tuple[str, str]] = set()
    for path, data in zip(paths, texts, strict=True):
        try:
            baseline = parse_baseline(data or b"", shown=Path(path))
        except BaselineError:
            continue  # whoever compares its prompt says so
        known |= {(baseline.prompt, history.key.dataset) for history in baseline.histories}
    suites = list(suites)
    covered = {(suite.prompt.name, suite.dataset.name) for suite in suites}
    # A prompt that was renamed has its baseline under the older name.
    covered |= {
        (_older(at.path_of(suite.prompt.path)), _older(at.path_of(suite.dataset.path)))
        for suite in suites
    }
    return tuple(
        f"{at.ref} has a baseline of {prompt} (dataset {dataset}),"
        " and no eval of this run measures it"
        for prompt, dataset in sorted(known - covered)
    )


def _older(path: str) -> str:
    return Path(path).name.split(".", maxsplit=1)[0]
