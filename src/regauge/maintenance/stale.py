"""Unused recordings, for `lint` and `record --prune`."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.datasets import dataset_files, load_dataset
from regauge.errors import Diagnostic, PromptError, RecordingError, RegaugeError, find_errors
from regauge.judges import JudgeContext, build_checks_judge
from regauge.maintenance.calibrations import lint_calibrations
from regauge.maintenance.collection import (
    NotCollectedError,
    judges_in,
    left_out_errors,
    with_evals,
)
from regauge.prompts import find_prompt, load_prompt, prompt_files, prompt_name
from regauge.runner import PlannedCase, PlannedTrial, judges_file, needed_keys
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.recordings import MeasurementsFile, RecordingsFile
    from regauge.runner import EvalSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """One file of recordings, and its unused lines.

    Attributes:
        noun: The noun for a line of the file.
        used_keys: The keys of used lines.
        stale: The number of unused lines.
        missing: Whether lines are missing that an eval uses.
        judges: The judges of unused judgements.
    """

    file: RecordingsFile | MeasurementsFile
    noun: str
    used_keys: set[Any]
    stale: int
    missing: bool
    judges: Iterable[str | None] = ()

    @property
    def diagnostic(self) -> Diagnostic:
        """The error of a file with unused lines."""
        reason = "belong to requests that no eval makes any more"
        if self.noun != "recording":
            judges = ", ".join(sorted({judge for judge in self.judges if judge}))
            reason = f"are unused: outputs or judges changed since ({judges})"
        fix, path = "regauge record --prune", self.file.path
        if self.missing:
            fix = f"regauge record {shlex.quote(path.stem)}, then {fix}"
        message = f"{self.stale} of {len(self.file)} {self.noun}s {reason}"
        return Diagnostic(path=path, message=message, fix=fix)


def prune_files(
    evals: EvalSession, prompts: Sequence[str], *, dry_run: bool
) -> Iterator[dict[str, JSON]]:
    """Remove unused lines, file by file; yield the number removed, or to remove, per file."""
    for stale in _stale_files(evals, prompts):
        total = len(stale.file)
        if stale.stale and not dry_run:
            stale.file.prune(stale.used_keys)
            stale.file.save()
        path = evals.project.relative(stale.file.path).as_posix()
        yield {"path": path, "removed": stale.stale, "of": total, "noun": f"{stale.noun}s"}


def recording_errors(evals: EvalSession) -> list[Diagnostic]:
    """One error per file with recordings or judgements that no eval uses.

    Raises:
        RegaugeError: A file cannot be read, or a case of its prompt cannot be rendered, so that
            its requests are unknown.
    """
    if left_out := left_out_errors(evals):
        return left_out  # their recordings are used
    return [stale.diagnostic for stale in _stale_files(evals) if stale.stale]


def _stale_files(evals: EvalSession, prompts: Sequence[str] = ()) -> Iterator[StaleFile]:
    """The recordings files of a project or some prompts: completions, then judgements."""
    directory = evals.project.recordings_dir
    for path in sorted(directory.glob("[!.]*.jsonl")):
        if not prompts or path.stem in prompts:
            yield _stale_answers(evals, path.stem)
    judge_files = [*directory.glob("judges/[!.]*.jsonl"), *directory.glob("verdicts/[!.]*.jsonl")]
    for prompt in sorted({path.stem for path in judge_files}):
        if not prompts or prompt in prompts:
            yield from _stale_judgements(evals, prompt)


def _cases_of_prompt(evals: EvalSession, name: str) -> list[PlannedCase]:
    """The planned cases of a prompt, and the rows of `testData` in its file.

    pytest collects these rows only if the command names the file.
    """
    cases = [case for case in evals.plan.cases if case.suite.prompt.name == name]
    file = evals.project.prompts_dir / f"{name}.prompt.yml"
    try:
        suites = evals.bind_prompt_file(file)
    except RegaugeError:  # no such file, or no data of its own
        return cases
    return [*cases, *(PlannedCase(suite, case) for suite in suites for case in suite.dataset)]


def _stale_answers(evals: EvalSession, prompt: str) -> StaleFile:
    cases = _cases_of_prompt(evals, prompt)
    for case in cases:
        if case.error is not None:
            raise case.error
    file = evals.completions.file(prompt)
    used_keys = needed_keys(file, cases)
    missing = any(PlannedTrial(case, 0).key not in used_keys for case in cases)
    stale = len(file) - len(used_keys)
    return StaleFile(file=file, noun="recording", used_keys=used_keys, stale=stale, missing=missing)


def _stale_judgements(evals: EvalSession, prompt: str) -> Iterator[StaleFile]:
    usage = evals.recordings_used_by_judges(prompt, _cases_of_prompt(evals, prompt))
    calls = evals.completions.file(judges_file(prompt))
    unused = calls.find_unused(usage.calls)
    missing = len(usage.calls) > len(calls) - len(unused)
    yield StaleFile(
        file=calls,
        noun="judge call",
        used_keys=set(usage.calls),
        stale=len(unused),
        missing=missing,
        judges=[call.judge for call in unused],
    )
    measured = evals.measurements.file(prompt)
    if len(measured):
        lines = measured.find_unused(usage.measurements)
        yield StaleFile(
            file=measured,
            noun="measurement",
            used_keys=set(usage.measurements),
            stale=len(lines),
            missing=missing,
            judges=[line.judge for line in lines],
        )


@dataclass(slots=True, kw_only=True)
class LintedEvals:
    """The errors found by collecting the evals, for lint.

    Attributes:
        diagnostics: Errors of unused recordings, calibrations, goals.
        datasets: The golden files that the evals loaded without an error.
        targets: The names of their targets.
        prompts: The names of their prompts and targets.
        error: The reason why the evals could not be collected.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    datasets: set[Path] = field(default_factory=set["Path"])
    targets: set[str] = field(default_factory=set[str])
    prompts: set[str] = field(default_factory=set[str])
    error: RegaugeError | None = None


def lint_evals(project: Project, evals_path: Path) -> LintedEvals:
    """Collect the evals, and find the errors that need them.

    Args:
        project: The project.
        evals_path: The directory or file of the evals; it need not exist.
    """
    linted = LintedEvals()

    def check(evals: EvalSession) -> None:
        linted.datasets.update(case.suite.dataset.path for case in evals.plan.cases)
        linted.prompts.update(case.suite.prompt.name for case in evals.plan.cases)
        targets = (case.suite.target for case in evals.plan.cases)
        linted.targets.update(target.name for target in targets if target is not None)
        linted.diagnostics.extend(lint_calibrations(project, judges_in(evals)))
        linted.diagnostics.extend(recording_errors(evals))
        if project.settings.refine.goals:
            from regauge.refine.subject import goal_errors

            linted.diagnostics.extend(goal_errors(project, evals.plan.cases))

    if evals_path.exists():
        try:
            with_evals(project, evals_path, check, options=["--record=none"], warn=None)
        except RecordingError as error:
            linted.diagnostics.extend(error.diagnostics)
        except RegaugeError as error:
            linted.error = error
    return linted


def lint_datasets(project: Project, evals: LintedEvals) -> list[Diagnostic]:
    """Errors of golden files that no eval has loaded, with the checks of their cases.

    Checks depend on the prompt of the eval, so that they count only if evals were collected.
    """

    def load(path: Path) -> None:
        dataset = load_dataset(path, fixtures_dir=project.fixtures_dir)
        if evals.error is None:
            prompt = None
            with suppress(PromptError):  # reported with the prompts, or there is none
                prompt = load_prompt(find_prompt(path.stem, root=project.root))
            model = project.settings.judge_model
            build_checks_judge(dataset, JudgeContext(project=project, model=model, prompt=prompt))

    paths = dataset_files(project.fixtures_dir)
    return find_errors(load, [path for path in paths if path not in evals.datasets])


def orphan_errors(project: Project, evals: LintedEvals) -> list[Diagnostic]:
    """Errors of baselines and mutants whose prompt or target is gone, if evals were collected."""
    if not evals.prompts:
        return []
    names = evals.prompts | {prompt_name(path) for path in prompt_files(project.prompts_dir)}
    return [
        Diagnostic(
            path=path,
            message=f"there is no prompt {path.stem!r}, and no target",
            fix=did_you_mean(path.stem, names) or "delete the file",
        )
        for directory in ("baselines", "mutants")
        for path in sorted((project.fixtures_dir / directory).glob("[!.]*.json"))
        if path.stem not in names
    ]


# The place of an eval, after an error of a file that it uses.
_PLACE = re.compile(r"\n  eval: \S+:\d+$", re.MULTILINE)


def unreported_error(
    error: RegaugeError, reported_errors: Sequence[str], project: Project
) -> RegaugeError | None:
    """The error, without the reasons already reported why evals could not be collected, or None."""
    if not isinstance(error, NotCollectedError):
        return error
    unreported: dict[str, str] = {}
    for name, reason in error.reasons.items():
        left = _PLACE.sub("", project.shorten(reason))
        for diagnostic in reported_errors:
            left = left.replace(diagnostic, "")
        if left.strip():
            unreported[name] = reason
    return NotCollectedError(unreported) if unreported else None
