"""`regauge lint`: all checks without calls."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from regauge.cli._options import json_option, strict_option
from regauge.cli._terminal import echo, echo_json
from regauge.maintenance.lint import lint_project
from regauge.project import Project
from regauge.prompts import prompt_files
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.errors import Diagnostic

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge lint
  regauge lint --base origin/main     in a pull request
  regauge lint --json --strict

Exit codes: 0 nothing is wrong, 1 something is, 2 wrong use.
"""


@click.command(name="lint", epilog=_EPILOG)
@click.option(
    "--base",
    default="HEAD",
    show_default=True,
    metavar="REF",
    help="Commit, branch or tag whose prompts.lock must be kept.",
)
@strict_option
@json_option
def command(base: str, *, strict: bool, as_json: bool) -> None:
    """Check prompts, versions, datasets, recordings, labels, baselines, mutants and goals.

    Errors: files that do not load; unreleased or changed versions; a changed contract without a
    major version; a changed lock; unused inputs; invalid schemas; stale recordings; goals without a
    check or case. Warnings: unused keys, suspicious braces, contradictory instructions, truncated
    lines, examples that violate the schema, large files.
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
