"""Judge calls and measurements that no replay uses any more: for `lint` and `record --prune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import Fault, RecordingError, RegaugeError
from regauge.maintenance.calibrations import lint_calibrations
from regauge.maintenance.collection import NotCollectedError, cases_of_prompt, judges_in, with_evals
from regauge.refine.subject import goal_faults
from regauge.runner import judges_file, needed_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.recordings import MeasurementsFile, RecordingKey, RecordingsFile
    from regauge.runner import EvalSession

__all__ = [
    "PrunedFile",
    "StaleFile",
    "lint_judgements",
    "lint_recordings",
    "prune_judgements",
    "recording_faults",
    "stale_files",
    "untold_reasons",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """The recordings of one prompt, and which of them are still needed."""

    file: RecordingsFile
    needed: set[RecordingKey]

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
        yield StaleFile(file=file, needed=needed_keys(file, cases))


def recording_faults(evals: EvalSession, project: Project) -> list[Fault]:
    """One fault per file with recordings of answers or of judgements that no eval asks for.

    Raises:
        RegaugeError: See `stale_files`.
    """
    faults = [
        Fault(
            path=found.file.path,
            line=None,
            message=f"{found.stale} of {len(found.file)} recordings answer requests that no"
            " eval makes any more",
            fix="record what is missing (regauge record), then regauge record --prune",
        )
        for found in stale_files(evals, project)
        if found.stale
    ]
    return [*faults, *lint_judgements(evals, project)]


def lint_recordings(project: Project, evals_path: Path, *, told: Sequence[str] = ()) -> list[Fault]:
    """Errors that need collected evals: unused recordings, calibrations, goals.

    Args:
        project: Whose recordings.
        evals_path: Where the evals are.
        told: What was found before: evals that only it keeps from being collected are not named.
    """
    faults: list[Fault] = []

    def check(evals: EvalSession) -> None:
        faults.extend(lint_calibrations(project, judges_in(evals)))
        faults.extend(recording_faults(evals, project))
        faults.extend(goal_faults(project, evals.plan.cases))

    kept = project.recordings_dir.is_dir() or project.labels_dir.is_dir()
    kept = kept or bool(project.settings.refine.goals)
    if not evals_path.exists() or not kept:
        return faults
    try:
        with_evals(project, evals_path, check, options=["--record=none"])
    except RecordingError as error:
        faults.extend(error.faults)
    except NotCollectedError as error:
        if untold := untold_reasons(error, told, project):
            faults.append(_not_collected(evals_path, NotCollectedError(untold)))
    except RegaugeError as error:
        faults.append(_not_collected(evals_path, error))
    return faults


def _not_collected(evals_path: Path, error: RegaugeError) -> Fault:
    return Fault(path=evals_path, line=None, message=f"the evals cannot be collected:\n{error}")


def untold_reasons(
    error: NotCollectedError, told: Sequence[str], project: Project
) -> dict[str, str]:
    """The reason why evals could not be collected, less those that faults keep which were told."""
    return {name: why for name, why in error.reasons.items() if _untold(why, told, project)}


def _untold(reason: str, told: Sequence[str], project: Project) -> str:
    """The part of a reason that other errors do not state yet."""
    reason = reason.replace(f"{project.root}/", "")
    for fault in told:
        reason = reason.replace(fault, "")
    return reason.strip()
