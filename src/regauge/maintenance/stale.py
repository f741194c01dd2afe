"""Judge calls and measurements that no replay uses any more: for `lint` and `record --prune`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import Fault, RecordingError, RegaugeError
from regauge.maintenance.calibrations import lint_calibrations
from regauge.maintenance.collection import (
    NotCollectedError,
    cases_of_prompt,
    judges_in,
    left_out_faults,
    with_evals,
)
from regauge.runner import Draw, judges_file, needed_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.recordings import MeasurementsFile, RecordingKey, RecordingsFile
    from regauge.runner import EvalSession


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
    missing: bool


def prune_judgements(
    evals: EvalSession, project: Project, prompts: Sequence[str] = (), *, dry_run: bool
) -> Iterator[PrunedFile]:
    """Drop what a replay of every recorded answer does not use, file by file."""
    for stale in _stale(evals, project, prompts):
        total = len(stale.file)
        if stale.stale and not dry_run:
            stale.file.prune(stale.needed)  # type: ignore[arg-type]  # each knows its own keys
            stale.file.save()
        path = project.relative(stale.file.path).as_posix()
        yield PrunedFile(path=path, removed=stale.stale, of=total, noun=f"{stale.noun}s")


def lint_judgements(evals: EvalSession, project: Project) -> list[Fault]:
    """One fault per file that holds what no replay uses: a rubric or a judge model changed."""
    return [
        Fault(
            path=stale.file.path,
            message=f"{stale.stale} of {len(stale.file)} {stale.noun}s are unused: outputs or"
            f" judges changed since ({', '.join(stale.judges)})",
            fix=_fix(stale.file.path.stem, missing=stale.missing),
        )
        for stale in _stale(evals, project)
        if stale.stale
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
        missing = len(used.calls) > len(calls) - len(unused)
        yield _StaleLines(
            file=calls,
            noun="judge call",
            needed=set(used.calls),
            judges=_unique_names(use.judge for use in unused),
            stale=len(unused),
            missing=missing,
        )
        measured = evals.measurements.file(prompt)
        if len(measured):
            lines = measured.unused(used.measurements)
            yield _StaleLines(
                file=measured,
                noun="measurement",
                needed=set(used.measurements),
                judges=_unique_names(line.judge for line in lines),
                stale=len(lines),
                missing=missing,
            )


def _prompts(recordings: Path) -> set[str]:
    """The prompts whose judges have recordings."""
    return {
        path.stem
        for name in ("judges", "verdicts")
        for path in (recordings / name).glob("[!.]*.jsonl")
    }


def _unique_names(judges: Iterator[str | None]) -> tuple[str, ...]:
    return tuple(sorted({judge for judge in judges if judge}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """The recordings of one prompt, which of them are needed, and whether some are missing."""

    file: RecordingsFile
    needed: set[RecordingKey]
    missing: bool

    @property
    def stale(self) -> int:
        """The number of recordings that no eval uses."""
        return len(self.file) - len(self.needed)


def stale_files(
    evals: EvalSession, project: Project, prompts: Sequence[str] = ()
) -> Iterator[StaleFile]:
    """Every recordings file of a project, or of some prompts.

    Raises:
        RegaugeError: A file cannot be read, or a case of its prompt cannot be rendered: what it
            would ask for is then unknown, and nothing of the file counts as stale.
    """
    for path in sorted(project.recordings_dir.glob("[!.]*.jsonl")):
        if prompts and path.stem not in prompts:
            continue
        cases = cases_of_prompt(evals, project, path.stem)
        for planned in cases:
            if planned.error is not None:
                raise planned.error
        file = evals.answers.file(path.stem)
        needed = needed_keys(file, cases)
        missing = any(Draw(planned, 0).key not in needed for planned in cases)
        yield StaleFile(file=file, needed=needed, missing=missing)


def recording_faults(evals: EvalSession, project: Project) -> list[Fault]:
    """One fault per file with recordings of answers or of judgements that no eval asks for.

    Raises:
        RegaugeError: See `stale_files`.
    """
    if left_out := left_out_faults(project, evals):
        return left_out  # their recordings are used
    faults = [
        Fault(
            path=stale.file.path,
            message=f"{stale.stale} of {len(stale.file)} recordings answer requests that no"
            " eval makes any more",
            fix=_fix(stale.file.path.stem, missing=stale.missing),
        )
        for stale in stale_files(evals, project)
        if stale.stale
    ]
    return [*faults, *lint_judgements(evals, project)]


def _fix(prompt: str, *, missing: bool) -> str:
    if not missing:
        return "regauge record --prune"
    return f"regauge record {shlex.quote(prompt)}, then regauge record --prune"


def lint_recordings(
    project: Project, evals_path: Path, *, reported: Sequence[str] = ()
) -> list[Fault]:
    """Errors that need collected evals: unused recordings, calibrations, goals.

    Args:
        project: Whose recordings.
        evals_path: Where the evals are.
        reported: Errors found before; evals that only they keep from being collected are left out.
    """
    faults: list[Fault] = []

    def check(evals: EvalSession) -> None:
        faults.extend(lint_calibrations(project, judges_in(evals)))
        faults.extend(recording_faults(evals, project))
        if project.settings.refine.goals:
            from regauge.refine.subject import goal_faults

            faults.extend(goal_faults(project, evals.plan.cases))

    kept = project.recordings_dir.is_dir() or project.labels_dir.is_dir()
    kept = kept or bool(project.settings.refine.goals)
    if not evals_path.exists() or not kept:
        return faults
    try:
        with_evals(project, evals_path, check, options=["--record=none"], warn=None)
    except RecordingError as error:
        faults.extend(error.faults)
    except NotCollectedError as error:
        if unreported := unreported_reasons(error, reported, project):
            faults.append(_not_collected(project, evals_path, NotCollectedError(unreported)))
    except RegaugeError as error:
        faults.append(_not_collected(project, evals_path, error))
    return faults


def _not_collected(project: Project, evals_path: Path, error: RegaugeError) -> Fault:
    words = project.shorten(str(error))
    return Fault(path=evals_path, message=f"the evals cannot be collected:\n{words}")


def unreported_reasons(
    error: NotCollectedError, reported: Sequence[str], project: Project
) -> dict[str, str]:
    """The reason why evals could not be collected, less those that reported faults keep."""
    return {name: why for name, why in error.reasons.items() if _unreported(why, reported, project)}


def _unreported(reason: str, reported: Sequence[str], project: Project) -> str:
    """The part of a reason that other errors do not state yet."""
    reason = project.shorten(reason)
    for fault in reported:
        reason = reason.replace(fault, "")
    return reason.strip()
