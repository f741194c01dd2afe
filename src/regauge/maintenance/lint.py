"""The checks of `regauge lint`, all without calls."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.datasets import dataset_files, load_dataset, nested_datasets
from regauge.errors import (
    Diagnostic,
    PromptError,
    RecordingError,
    RegaugeError,
    UsageError,
    find_errors,
)
from regauge.gate.baselines import baseline_errors
from regauge.judges import JudgeContext, build_checks_judge
from regauge.maintenance.calibrations import lint_calibrations, lint_labels
from regauge.maintenance.collection import NotCollectedError, judges_in, tests_targets, with_evals
from regauge.maintenance.stale import recording_errors
from regauge.prompts import (
    find_prompt,
    lint_prompts,
    lint_warnings,
    load_prompt,
    prompt_files,
    prompt_name,
)
from regauge.recordings import RecordingsFile, check_file_sizes, replacements_in
from regauge.targets import lint_targets
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.runner import Eval, EvalSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """The result of `regauge lint`.

    Attributes:
        errors: What does not work, or is not as committed or released.
        warnings: What works, but may be a mistake.
        notes: Recordings that were replaced more often than others.
    """

    errors: list[Diagnostic]
    warnings: list[Diagnostic]
    notes: list[Diagnostic]


def lint_project(project: Project, *, base: str, environ: Mapping[str, str]) -> LintResult:
    """Check a project without calls.

    Args:
        project: The project.
        base: The commit, branch or tag whose prompts.lock must be kept.
        environ: The environment of targets.

    Raises:
        ConfigError: The settings cannot be read.
        UsageError: There is neither a prompt file nor a target.
    """
    _ = project.settings  # reports errors of pyproject.toml
    evals_path = project.root / "evals"
    evals = _lint_evals(project, evals_path)
    target_errors, target_warnings = lint_targets(project, environ, evals.targets)
    errors = [
        *lint_prompts(project, against=base),
        *_lint_datasets(project, evals),
        *lint_labels(project),
        *baseline_errors(project),
        *_orphan_errors(project, evals),
        *_mutants_errors(project),
        *target_errors,
    ]
    reported_errors = [project.shorten(str(diagnostic)) for diagnostic in errors]
    errors += evals.diagnostics
    acknowledged_errors, acknowledged_warnings = _acknowledged(project, evals, base)
    errors += acknowledged_errors
    if evals.error is not None:
        unreported = unreported_error(evals.error, reported_errors, project)
        if unreported is not None:
            message = f"the evals cannot be collected:\n{project.shorten(str(unreported))}"
            errors.append(Diagnostic(path=evals_path, message=message))
    warnings = [
        *lint_warnings(project),
        *nested_datasets(project.fixtures_dir),
        *_same_but_for_case(project, evals_path),
        *check_file_sizes(project),
        *target_warnings,
        *acknowledged_warnings,
    ]
    notes = _find_replaced(project)
    if not (prompt_files(project.prompts_dir) or tests_targets(project)):
        message = f"there are no prompt files in {project.prompts_dir}, so nothing was checked"
        fix = f"write {project.relative(project.prompts_dir) / 'NAME.prompt.yml'}"
        raise UsageError(message, fix=fix)
    return LintResult(errors=errors, warnings=warnings, notes=notes)


def _same_but_for_case(project: Project, evals_path: Path) -> list[Diagnostic]:
    """Prompts, datasets and eval files that are one file on macOS and Windows."""
    groups = (
        [(prompt_name(path), path) for path in prompt_files(project.prompts_dir)],
        [(path.stem, path) for path in dataset_files(project.fixtures_dir)],
        [(project.relative(path).as_posix(), path) for path in sorted(evals_path.rglob("*.py"))],
    )
    diagnostics: list[Diagnostic] = []
    for names in groups:
        first: dict[str, tuple[str, Path]] = {}
        for name, path in names:
            plain_name = unicodedata.normalize("NFC", name).casefold()
            other_name, other = first.setdefault(plain_name, (name, path))
            if other_name != name:
                message = f"its name differs from {project.relative(other)} in case only"
                fix = "rename one: macOS and Windows have one file for both"
                diagnostics.append(Diagnostic(path=path, message=message, fix=fix))
    return diagnostics


def _mutants_errors(project: Project) -> list[Diagnostic]:
    if not (project.fixtures_dir / "mutants").exists():
        return []
    # To load it takes a fifth of a short lint.
    from regauge.mutate import mutants_errors

    return mutants_errors(project)


@dataclass(slots=True, kw_only=True)
class _LintedEvals:
    """The errors found by collecting the evals, for lint.

    Attributes:
        diagnostics: Errors of unused recordings, calibrations, goals.
        datasets: The golden files that the evals loaded without an error.
        targets: The names of their targets.
        prompts: The names of their prompts and targets.
        evals: The evals of each prompt or target with a changelog, by name.
        error: The reason why the evals could not be collected.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    datasets: set[Path] = field(default_factory=set["Path"])
    targets: set[str] = field(default_factory=set[str])
    prompts: set[str] = field(default_factory=set[str])
    evals: dict[str, list[Eval]] = field(default_factory=dict["str", "list[Eval]"])
    error: RegaugeError | None = None


def _lint_evals(project: Project, evals_path: Path) -> _LintedEvals:
    """Collect the evals, and find the errors that need them.

    Args:
        project: The project.
        evals_path: The directory or file of the evals; it need not exist.
    """
    linted = _LintedEvals()

    def check(evals: EvalSession) -> None:
        linted.datasets.update(case.eval.dataset.path for case in evals.plan.cases)
        linted.prompts.update(case.eval.prompt.name for case in evals.plan.cases)
        targets = (case.eval.target for case in evals.plan.cases)
        linted.targets.update(target.name for target in targets if target is not None)
        for eval_ in {id(case.eval): case.eval for case in evals.plan.cases}.values():
            if eval_.prompt.changelog:
                linted.evals.setdefault(eval_.prompt.name, []).append(eval_)
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


def _lint_datasets(project: Project, evals: _LintedEvals) -> list[Diagnostic]:
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


def _acknowledged(
    project: Project, linted: _LintedEvals, base: str
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Errors of the cases that changelogs accept or remove since the base, as of a gate.

    An entry of the present version that the base has, too, is a warning.
    """
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for evals in linted.evals.values():
        prompt = evals[0].prompt
        if not any(entry.accepted or entry.removed for entry in prompt.changelog):
            continue
        # Loads most of the gate, which other prompts do not need.
        from regauge.gate import entry_errors, find_accepted, find_base

        new_errors: Sequence[Diagnostic] = ()
        with suppress(RegaugeError):  # without git
            new_errors = entry_errors(evals, find_base(project, base))
        ids = {case.id for eval_ in evals for case in eval_.dataset}
        removed_ids = {case.case for entry in prompt.changelog for case in entry.removed}
        all_errors = find_accepted(prompt, None, cases=ids, removed_cases=removed_ids - ids).errors
        latest_lines = {
            case.line
            for entry in prompt.changelog
            if entry.version == str(prompt.version)
            for case in (*entry.accepted, *entry.removed)
        }
        errors += new_errors
        warnings += [
            error for error in all_errors if error.line in latest_lines and error not in new_errors
        ]
    return errors, warnings


def _orphan_errors(project: Project, evals: _LintedEvals) -> list[Diagnostic]:
    """Errors of baselines and mutants whose prompt or target is gone, if evals were collected."""
    if not evals.prompts:
        return []
    names = evals.prompts | {prompt_name(path) for path in prompt_files(project.prompts_dir)}
    return [
        Diagnostic(
            path=path,
            message=f"there is no prompt {path.stem!r}, and no target",
            fix=did_you_mean(path.stem, names)
            or "name it as its prompt is now named, or delete it",
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


def _find_replaced(project: Project) -> list[Diagnostic]:
    """Notes about recordings that were replaced more often than others."""
    diagnostics: list[Diagnostic] = []
    for path in sorted(project.recordings_dir.glob("[!.]*.jsonl")):
        with suppress(RecordingError):  # reported with the errors
            diagnostics += [
                Diagnostic(path=path, message=str(replacement))
                for replacement in replacements_in(RecordingsFile.load(path))
            ]
    return diagnostics
