"""`regauge lint` and `regauge doctor`: all checks of files, and of the set-up."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from regauge.cli import Command
from regauge.cli._options import evals_option, json_option, strict_option
from regauge.cli._terminal import echo, echo_json
from regauge.maintenance.lint import lint_project
from regauge.project import Project
from regauge.prompts import prompt_files
from regauge.wording import plural

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.errors import Diagnostic


_INDENT = " " * 7
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_MARKS = {"ok": "ok", "warning": "warn", "error": "ERROR"}


@click.command(name="lint", cls=Command)
@click.option(
    "--base",
    default="HEAD",
    show_default=True,
    metavar="REF",
    help="Commit, branch or tag with the previous prompts.lock and changelogs.",
)
@strict_option
@json_option
def lint_command(base: str, *, strict: bool, as_json: bool) -> None:
    """Check prompts, versions, datasets, recordings, labels, baselines, mutants and goals.

    Errors: files that do not load; unreleased or changed versions; a changed contract without a
    major version; a changed lock; unused inputs; invalid schemas; stale recordings; goals without a
    check or case. Warnings: unused keys, suspicious braces, contradictory instructions, truncated
    lines, wrong changelog entries, examples that violate the schema, large files.

    Examples:
      regauge lint
      regauge lint --base origin/main     in a pull request
      regauge lint --json --strict

    Exit codes: 0 nothing is wrong, 1 something is, 2 wrong use.
    """
    project = Project.find()
    result = lint_project(project, base=base, environ=os.environ)
    count = len(prompt_files(project.prompts_dir))
    kinds = (
        ("error", "red", result.errors),
        ("warning", "yellow", result.warnings),
        ("note", "", result.notes),
    )
    if as_json:
        rows = {
            f"{kind}s": [_row(project, entry) for entry in entries] for kind, _, entries in kinds
        }
        echo_json({"prompts": count, **rows})
    else:
        for kind, style, entries in kinds:
            for diagnostic in entries:
                echo(f"{kind}: {project.shorten(str(diagnostic))}", style=style)
        errors, warnings = len(result.errors), len(result.warnings)
        counts = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        echo(f"{plural(count, 'prompt')}: {counts}")
    if result.errors or (strict and result.warnings):
        sys.exit(1)


def _row(project: Project, diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "path": project.relative(diagnostic.path).as_posix(),
        "line": diagnostic.line,
        "message": project.shorten(diagnostic.message),
        "fix": diagnostic.fix,
    }


@click.command(name="doctor", cls=Command)
@evals_option
@click.option("--offline", is_flag=True, help="Make no requests.")
@strict_option
@json_option
def doctor_command(path: Path | None, *, offline: bool, strict: bool, as_json: bool) -> None:
    """Check the project's set-up: files, git, prompts, evals, judges, keys and endpoints.

    It runs no eval, and only requests the model list of each endpoint in use. Errors: files that do
    not load, stale recordings, held-out cases that the prompt reveals, endpoints or models that are
    away. Warnings: unset keys, models near shutdown, uncalibrated judges, unused files.

    Examples:
      regauge doctor
      regauge doctor --offline --strict     in CI
      regauge doctor --json

    Exit codes: 0 nothing is wrong, 1 something is, 2 wrong use.
    """
    # It collects evals, which loads pytest; lint needs none of it.
    from regauge.maintenance.doctor import check_project

    project = Project.find()
    evals = path or project.root / "evals"
    results = list(check_project(project, evals, os.environ, offline=offline))
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
