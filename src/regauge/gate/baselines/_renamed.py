"""The baseline of a prompt or dataset that was renamed, found through git."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import GitError
from regauge.gate.baselines._file import baseline_path, load_baseline
from regauge.prompts import Repository

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.gate.baselines._baseline import Baseline
    from regauge.project import Project
    from regauge.runner import Suite

__all__ = ["baseline_of", "older_names"]


def baseline_of(
    project: Project, suite: Suite, *, read: Callable[[Path], Baseline | None] | None = None
) -> tuple[Baseline | None, Path | None]:
    """The baseline of an eval's prompt under the names of today, and its file of an older name.

    Either is None without any.

    Args:
        read: Reads the baseline at a path; by default the file of today.

    Raises:
        BaselineError: It cannot be read.
    """

    def load(path: Path) -> Baseline | None:
        return load_baseline(path, shown=project.relative(path)) if read is None else read(path)

    name, dataset = suite.prompt.name, suite.dataset.name
    found, older_path = load(baseline_path(project, name)), None
    if found is None:
        for older in older_names(project, suite.prompt.path):
            before = baseline_path(project, older)
            found = load(before)
            if found is not None:
                older_path = before
                break
    if found is None:
        return None, None
    for older in _older_datasets(project, suite, found):
        found = found.with_dataset(older, dataset)
    return replace(found, prompt=name), older_path


def older_names(project: Project, path: Path) -> list[str]:
    """The names that a file had in git, the newest first, and whose files are gone."""
    try:
        repository = Repository.find(project.root)
        commits = repository.history(repository.inside(path)) if repository is not None else []
    except GitError:
        return []
    older = dict.fromkeys(
        Path(commit.path).name.split(".", maxsplit=1)[0]
        for commit in commits
        if repository is not None and not (repository.top / commit.path).exists()
    )
    return list(older)


def _older_datasets(project: Project, suite: Suite, baseline: Baseline) -> list[str]:
    known = {one.key.dataset for one in (*baseline.histories, *baseline.previous)}
    if suite.dataset.name in known:
        return []
    return older_names(project, suite.dataset.path)
