"""One shard of a run: which cases it deals itself, and where it leaves what it recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from regauge.datasets import case_ids, deal_by_time
from regauge.digests import digest_of
from regauge.errors import GitError
from regauge.git import run_git, work_tree
from regauge.recordings import append_lines, placed_lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.datasets import Dataset, Shard
    from regauge.project import Project

__all__ = ["PART_RECORDINGS", "PART_TRIALS", "PartFiles", "deal_dataset", "save_file"]

PART_RECORDINGS: Final = "recordings"
"""The directory of a shard's recordings in the record of its run."""
PART_TRIALS: Final = "gate-trials.jsonl"
"""The file of a shard's trials of the gate in the record of its run."""

# Trials of baselines and gates say little of how long an eval takes.
_EVAL_TRIALS: Final = 100


class _Savable(Protocol):
    """A file of recordings that keeps changes in memory."""

    path: Path

    def added(self) -> list[bytes]: ...
    def save(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """A shard of a run, and the files that it leaves.

    Attributes:
        shard: The shard.
        recordings_dir: The committed recordings; a shard reads them only.
        directory: The record of the run.
    """

    shard: Shard
    recordings_dir: Path
    directory: Path
    _dealt: set[str] = field(default_factory=set[str])

    def add(self, dataset: Dataset) -> None:
        """Note the cases of a dataset that is dealt by time."""
        if dataset.shard is not None and dataset.shard.dealt is not None:
            self._dealt.update(dataset.shard.dealt)

    def own(self, case_id: str) -> bool:
        """Return whether a case may be of this shard."""
        return case_id in self._dealt if self.shard.by == "time" else self.shard.holds(case_id)

    @property
    def trials(self) -> Path:
        """The file of the gate's trials."""
        return self.directory / PART_TRIALS

    def path_of(self, path: Path) -> Path:
        """The file for the new lines of a file of recordings."""
        return self.directory / PART_RECORDINGS / path.relative_to(self.recordings_dir)


def save_file(file: _Savable, part: PartFiles | None) -> int:
    """Save a file, or leave its new lines with a shard's; returns how many lines changed.

    Raises:
        RecordingError: It cannot be written.
    """
    return file.save() if part is None else append_lines(part.path_of(file.path), file.added())


def deal_dataset(shard: Shard | None, path: Path, *, prompt: str, project: Project) -> Shard | None:
    """The shard of one dataset; one that is dealt by time knows its cases.

    Every shard deals alike: by the golden file, and by recordings as they are committed.

    Args:
        shard: Of the run.
        path: The golden file.
        prompt: The prompt that its cases are put to.
        project: Whose recordings.

    Raises:
        DatasetError: The golden file cannot be read.
    """
    if shard is None or shard.by == "id":
        return shard
    ids = case_ids(path, fixtures_dir=project.fixtures_dir)
    seconds: defaultdict[str, float] = defaultdict(float)
    for name in (f"{prompt}.jsonl", f"judges/{prompt}.jsonl"):
        for case, took_s in _recorded(project, project.recordings_dir / name):
            seconds[case] += took_s
    known = [seconds[case] for case in ids if case in seconds]
    mean = sum(known) / len(known) if known else 1.0
    parts = deal_by_time(
        {case: seconds.get(case, mean) for case in ids}, count=shard.count, first=path.stem
    )
    plan = digest_of([sorted(part) for part in parts])
    return replace(shard, dealt=frozenset(parts[shard.number - 1]), plan=plan)


def _recorded(project: Project, path: Path) -> Iterator[tuple[str, float]]:
    """The case and the seconds of every call of evals in a file, as it is committed."""
    for raw in _committed_lines(project, path):
        try:
            document = json.loads(raw)
            if document["trial"] < _EVAL_TRIALS or "judge" in document:
                yield document["case"], float(document["completion"]["latency_s"])
        except (ValueError, KeyError, TypeError):
            continue  # where the file is read for its completions, it is refused


def _committed_lines(project: Project, path: Path) -> Iterator[bytes]:
    try:
        same = run_git(project.root, "diff", "--quiet", "HEAD", "--", str(path.resolve()))
        if same.returncode == 1:
            name = path.resolve().relative_to(work_tree(project.root) or project.root).as_posix()
            shown = run_git(project.root, "show", f"HEAD:{name}")
            yield from shown.stdout.splitlines()
            return
    except GitError:
        pass  # outside a repository the file is what every shard was given
    for _, _, raw in placed_lines_of(path):
        yield raw
