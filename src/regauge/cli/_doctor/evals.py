"""What only the collected evals can tell: which judges, prompts and recordings are in use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from regauge.cli._calibration.standings import lint_labels, standings
from regauge.cli._doctor.cases import duplicates, leaks
from regauge.cli._doctor.finding import Finding, findings_of
from regauge.cli._evals.collected import NotCollectedError, with_evals
from regauge.cli._evals.judges import judges_in
from regauge.cli._stale.recordings import recording_faults, untold_reasons
from regauge.datasets import load_dataset
from regauge.errors import FaultyFileError, RegaugeError
from regauge.gate.baselines import baseline_faults
from regauge.prompts import load_prompt, prompt_files
from regauge.refine.subject import goal_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.runner import EvalSession

__all__ = ["EvalsSeen", "look_at_evals"]


class EvalsSeen:
    """What a look at the evals found.

    Attributes:
        findings: In the order in which they are shown.
        models: Every model that evals ask, as `provider:model`.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.models: set[str] = set()

    def look(self, evals: EvalSession, project: Project, path: Path) -> None:
        """Look at evals that are planned."""
        suites = list({id(case.suite): case.suite for case in evals.plan.cases}.values())
        used = judges_in(evals)
        prompted = [suite for suite in suites if suite.target is None]
        self.models.update(str(suite.model) for suite in prompted)
        for judge in used.values():
            self.models.update(judge.judge.models)
        count = len(evals.plan.cases)
        prompts = len({suite.prompt.name for suite in suites})
        words = f"cases: {count}, prompts: {prompts}"
        self.findings.append(Finding(check="evals", level="ok", message=words))
        self.findings += _broken_cases(evals)
        self.findings += findings_of(recording_faults(evals, project), project, check="recordings")
        self.findings += findings_of(goal_faults(project, evals.plan.cases), project, check="goals")
        for row in standings(project, used):
            if row.gates:
                words = " ".join(str(row).split())
                self.findings.append(Finding(check="judges", level="ok", message=words))
                continue
            fix = f"regauge calibrate {row.judge}" if row.prompts else "remove it"
            if row.measured:
                # To calibrate the same judge with the same labels again says the same again.
                fix = f"label more answers or improve the judge, then {fix}"
            check = "uncalibrated judges" if row.prompts else "unused judges"
            message = f"{row.judge}: {row.reason}"
            self.findings.append(Finding(check=check, level="warning", message=message, fix=fix))
        self.findings += _unused(
            project,
            path,
            prompts={
                *(suite.prompt.path.resolve() for suite in suites),
                *(
                    prompt.path.resolve()
                    for suite in suites
                    if suite.target is not None
                    for prompt in suite.target.prompts
                ),
            },
            datasets={suite.dataset.path.resolve() for suite in suites},
        )
        self.findings += duplicates(
            {suite.dataset.path: suite.dataset for suite in suites}.values()
        )
        for suite in prompted:
            self.findings += leaks(suite.prompt, suite.dataset)


def look_at_evals(project: Project, path: Path, *, told: Sequence[str]) -> EvalsSeen:
    """Collect the evals, run none of them, and report errors.

    Args:
        project: Whose evals.
        path: Where they are.
        told: Faults of prompt files, which are findings already, with their fixes.
    """
    seen = EvalsSeen()
    seen.findings += findings_of(lint_labels(project), project, check="labels")
    seen.findings += findings_of(baseline_faults(project), project, check="baselines")
    try:
        with_evals(
            project,
            path,
            lambda evals: seen.look(evals, project, path),
            options=["--record=none"],
            draw=False,
        )
    except RegaugeError as error:
        seen.findings.append(_not_collected(error, project, path, told))
    return seen


def _not_collected(
    error: RegaugeError, project: Project, path: Path, told: Sequence[str]
) -> Finding:
    if isinstance(error, NotCollectedError):
        untold = untold_reasons(error, told, project)
        if not untold:
            message = "the evals cannot be collected before the prompts above are corrected"
            return Finding(check="evals", level="error", message=message)
        error = NotCollectedError(untold)
    fix = error.fix
    if not path.exists():
        fix = "regauge init writes a first one; --evals names another directory"
    words = error.message.replace(f"{project.root}{os.sep}", "")
    message = f"the evals cannot be collected: {words}"
    return Finding(check="evals", level="error", message=message, fix=fix)


def _broken_cases(evals: EvalSession) -> Iterator[Finding]:
    """Cases that cannot be asked at all: an input is missing, or no message uses it."""
    for case in evals.plan.cases:
        if case.error is not None:
            yield Finding(check="inputs", level="error", message=str(case.error))


def _unused(
    project: Project, evals: Path, *, prompts: set[Path], datasets: set[Path]
) -> Iterator[Finding]:
    source = "\n".join(
        file.read_text(encoding="utf-8", errors="replace") for file in sorted(evals.rglob("*.py"))
    )
    for path in prompt_files(project.prompts_dir):
        try:
            prompt = load_prompt(path, root=project.root)
        except RegaugeError:
            continue  # the prompt files have findings of their own
        shown = project.relative(path).as_posix()
        named = f'"{prompt.name}"' in source or f"'{prompt.name}'" in source
        if prompt.rubric is not None and not named:
            fix = f'use it: rubric("{prompt.name}") in an eval; or remove it'
            yield Finding(
                check="unused judges", level="warning", message=f"{shown}: no eval uses it", fix=fix
            )
        elif prompt.rubric is None and path.resolve() not in prompts and not prompt.evaluators:
            fix = f"regauge new eval {prompt.name}"
            yield Finding(
                check="unused prompts", level="warning", message=f"{shown} has no eval", fix=fix
            )
    for path in sorted(project.golden_dir.glob("*")):
        hidden = path.name.startswith(".")
        if path.is_file() and not hidden and path.resolve() not in datasets:
            yield _unused_dataset(project, path)


def _unused_dataset(project: Project, path: Path) -> Finding:
    shown = project.relative(path).as_posix()
    try:
        count = len(load_dataset(path, fixtures_dir=project.fixtures_dir))
    except FaultyFileError as error:
        return Finding(check="cases", level="error", message=str(error))
    words = f"{shown}: no eval uses it; cases: {count}"
    fix = f"regauge new eval {path.stem}"
    return Finding(check="unused cases", level="warning", message=words, fix=fix)
