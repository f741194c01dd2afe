"""`regauge doctor`: find errors of a project's set-up before a run does."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import click

from regauge.cli._options import evals_option, json_option, strict_option
from regauge.cli._terminal import echo, echo_json
from regauge.errors import ConfigError, GitError
from regauge.maintenance.collection import tests_targets
from regauge.maintenance.doctor import DoctorResult, check_evals, check_models, results_of_errors
from regauge.on_demand import EXTRAS, GROUPS, find_missing, load_points, registered_points
from regauge.project import Project
from regauge.prompts import Repository, lint_prompts, lint_warnings, prompt_files
from regauge.recordings import check_file_sizes
from regauge.scaffold import advise_on_pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge doctor
  regauge doctor --offline --strict     in CI
  regauge doctor --json

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong use.
"""
_INDENT = " " * 7
_TOOLS = ("regauge", "pytest", "openai", "deepeval")
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_MARKS = {"ok": "ok", "warning": "warn", "error": "ERROR"}


@click.command(name="doctor", epilog=_EPILOG)
@evals_option
@click.option("--offline", is_flag=True, help="Make no requests.")
@strict_option
@json_option
def command(path: Path | None, *, offline: bool, strict: bool, as_json: bool) -> None:
    """Check the project's set-up: files, git, prompts, evals, judges, keys and endpoints.

    It runs no eval, and only requests the model list of each endpoint in use. Errors: files that do
    not load, stale recordings, held-out cases that the prompt reveals, endpoints or models that are
    away. Warnings: unset keys, models near shutdown, uncalibrated judges, unused files.
    """
    project = Project.find()
    results = list(_results(project, path or project.root / "evals", offline=offline))
    counts = {level: sum(result.level == level for result in results) for level in _STYLES}
    if as_json:
        document = {
            "project": str(project.root),
            "counts": counts,
            "results": [asdict(result) for result in results],
        }
        echo_json(document)
    else:
        for entry in results:
            message = entry.message.replace("\n", f"\n{_INDENT}")
            echo(f"{_MARKS[entry.level]:6} {entry.check}: {message}", style=_STYLES[entry.level])
            if entry.fix:
                echo(f"{_INDENT}fix: {entry.fix}")
        echo(f"errors: {counts['error']}, warnings: {counts['warning']}, ok: {counts['ok']}")
    if counts["error"] or (strict and counts["warning"]):
        sys.exit(1)


def _results(project: Project, evals: Path, *, offline: bool) -> Iterator[DoctorResult]:
    yield DoctorResult.ok("versions", _versions())
    try:
        settings = project.settings
    except ConfigError as error:
        yield from results_of_errors(error.diagnostics, project, check="settings")
        return
    yield DoctorResult.ok("settings", f"{project.root} loads")
    states = {extra: find_missing(extra) for extra in EXTRAS}
    extras = [
        f"{extra} (not installed: {', '.join(missing)})" if missing else extra
        for extra, missing in states.items()
    ]
    yield DoctorResult.ok("extras", ", ".join(extras))
    yield from _registered()
    # deepeval's plugin may slow every run, or pytest may not collect evals.
    for effect, fix in advise_on_pytest(project.root):
        yield DoctorResult.warning("pytest", effect, fix)
    yield _look_at_git(project)
    prompts = list(_prompts(project))
    yield from prompts
    large = check_file_sizes(project)
    yield from results_of_errors(large, project, check="recordings", level="warning")
    results, models = check_evals(project, evals, reported_errors=[*map(str, prompts)])
    yield from results
    models |= {*filter(None, (settings.model, settings.judge_model, *settings.models))}
    yield from check_models(models, settings, os.environ, offline=offline)


def _versions() -> str:
    versions = [f"python {platform.python_version()}"]
    for tool in _TOOLS:
        try:
            versions.append(f"{tool} {version(tool)}")
        except PackageNotFoundError:
            versions.append(f"{tool} (not installed)")
    return ", ".join(versions)


def _registered() -> Iterator[DoctorResult]:
    """Load the judges, formats, operators, proposers and providers of other packages."""
    names: list[str] = []
    for noun, group in GROUPS.items():
        loaded, errors = load_points(registered_points(group).values(), noun)
        names += [f"{noun} {name}" for name in loaded]
        for error in errors:
            yield DoctorResult.error("packages", error.message, error.fix)
    yield DoctorResult.ok("packages", ", ".join(names) or "none registers anything")


def _look_at_git(project: Project) -> DoctorResult:
    try:
        repository = Repository.find(project.root)
        if repository is None:
            words = "this is no git repository: no older versions, no gate"
            return DoctorResult.warning("git", words, "git init")
        if not repository.has_commits():
            fix = 'git add -A && git commit -m "Evals of prompts"'
            return DoctorResult.warning("git", "nothing is committed yet", fix)
        if repository.is_shallow():
            words = "a shallow clone: older versions of prompts are not in it"
            fix = "git fetch --unshallow; in CI: fetch-depth: 0"
            return DoctorResult.warning("git", words, fix)
        state = "files differ from what is committed"
        state = state if repository.is_dirty() else "everything is committed"
        return DoctorResult.ok("git", f"a repository; {state}")
    except GitError as error:
        return DoctorResult.error("git", str(error), "install git")


def _prompts(project: Project) -> Iterator[DoctorResult]:
    count = len(prompt_files(project.prompts_dir))
    if not count and tests_targets(project):
        return
    if not count:
        fix = "regauge init, or regauge new prompt NAME"
        yield DoctorResult.error("prompts", "there are no prompt files", fix)
        return
    try:
        diagnostics = lint_prompts(project)
    except GitError as error:
        yield DoctorResult.error("prompts", str(error))
        return
    yield from results_of_errors(diagnostics, project, check="prompts")
    warnings = [
        *results_of_errors(lint_warnings(project), project, check="prompts", level="warning")
    ]
    if len(warnings) > 1:
        first = warnings[0].message.partition("\n")[0]
        message = f"{len(warnings)} warnings; the first: {first}"
        yield DoctorResult.warning("prompts", message, "regauge lint")
    else:
        yield from warnings
    if not diagnostics:
        words = f"{count} files load, and are" if count > 1 else "1 file loads, and is"
        yield DoctorResult.ok("prompts", f"{words} released")
