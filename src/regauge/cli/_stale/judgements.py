"""Judge calls and measurements that no replay uses any more: for `lint` and `record --prune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.cli._evals.cases import cases_of_prompt
from regauge.errors import Fault
from regauge.runner import judges_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.recordings import MeasurementsFile, RecordingsFile
    from regauge.runner import EvalSession

__all__ = ["PrunedFile", "lint_judgements", "prune_judgements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedFile:
    """A file, and how much of it was removed, or would be."""

    path: str
    removed: int
    of: int
    noun: str = "recordings"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StaleLines:
    """One file of what judges asked or measured, and the lines of it that nothing uses."""

    file: RecordingsFile | MeasurementsFile
    noun: str
    needed: set[object]
    judges: tuple[str, ...]
    stale: int


def prune_judgements(
    evals: EvalSession, project: Project, prompts: Sequence[str] = (), *, dry_run: bool
) -> Iterator[PrunedFile]:
    """Drop what a replay of every recorded answer does not use, file by file."""
    for found in _stale(evals, project, prompts):
        total = len(found.file)
        if found.stale and not dry_run:
            found.file.prune(found.needed)  # type: ignore[arg-type]  # each knows its own keys
            found.file.save()
        path = project.relative(found.file.path).as_posix()
        yield PrunedFile(path=path, removed=found.stale, of=total, noun=f"{found.noun}s")


def lint_judgements(evals: EvalSession, project: Project) -> list[Fault]:
    """One fault per file that holds what no replay uses: a rubric or a judge model changed."""
    return [
        Fault(
            path=found.file.path,
            line=None,
            message=f"{found.stale} of {len(found.file)} {found.noun}s are of judges, rubrics or"
            f" judge models that changed since ({', '.join(found.judges)})",
            fix=f"record what is missing (regauge record {found.file.path.stem}), then regauge"
            " record --prune",
        )
        for found in _stale(evals, project)
        if found.stale
    ]


def _stale(
    evals: EvalSession, project: Project, prompts: Sequence[str] = ()
) -> Iterator[_StaleLines]:
    for prompt in sorted(_prompts(project.recordings_dir)):
        if prompts and prompt not in prompts:
            continue
        used = evals.used_by_judges(prompt, cases_of_prompt(evals, project, prompt))
        calls = evals.answers.file(judges_file(prompt))
        unused = calls.unused(used.calls)
        yield _StaleLines(
            file=calls,
            noun="judge call",
            needed=set(used.calls),
            judges=_named(one.judge for one in unused),
            stale=len(unused),
        )
        measured = evals.measurements.file(prompt)
        if len(measured):
            lines = measured.unused(used.measurements)
            yield _StaleLines(
                file=measured,
                noun="measurement",
                needed=set(used.measurements),
                judges=_named(one.judge for one in lines),
                stale=len(lines),
            )


def _prompts(recordings: Path) -> set[str]:
    """The prompts whose judges have recordings."""
    return {
        path.stem
        for name in ("judges", "verdicts")
        for path in (recordings / name).glob("[!.]*.jsonl")
    }


def _named(judges: Iterator[str | None]) -> tuple[str, ...]:
    return tuple(sorted({judge for judge in judges if judge}))
