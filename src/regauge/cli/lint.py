"""`regauge lint`: all checks without calls."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from regauge.cli._options import json_option, strict_option
from regauge.cli._terminal import echo, echo_json
from regauge.datasets import nested_datasets
from regauge.errors import Diagnostic, RecordingError, UsageError
from regauge.gate.baselines import baseline_errors
from regauge.maintenance.calibrations import lint_labels
from regauge.maintenance.collection import tests_targets
from regauge.maintenance.stale import lint_datasets, lint_evals, orphan_errors, unreported_error
from regauge.project import Project
from regauge.prompts import lint_prompts, lint_warnings, prompt_files
from regauge.recordings import RecordingsFile, check_file_sizes, replacements_in
from regauge.targets import lint_targets
from regauge.wording import plural

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
    _ = project.settings  # reports errors of pyproject.toml
    evals = lint_evals(project, project.root / "evals")
    diagnostics = lint_prompts(project, against=base)
    diagnostics += lint_datasets(project, evals)
    diagnostics += lint_labels(project)
    diagnostics += baseline_errors(project)
    diagnostics += orphan_errors(project, evals)
    if (project.fixtures_dir / "mutants").exists():
        # To load it takes a fifth of a short lint.
        from regauge.mutate import mutants_errors

        diagnostics += mutants_errors(project)
    target_errors, target_warnings = lint_targets(project, os.environ, evals.targets)
    diagnostics += target_errors
    reported_errors = [project.shorten(str(diagnostic)) for diagnostic in diagnostics]
    diagnostics += evals.diagnostics
    if evals.error is not None:
        unreported = unreported_error(evals.error, reported_errors, project)
        if unreported is not None:
            message = f"the evals cannot be collected:\n{project.shorten(str(unreported))}"
            diagnostics.append(Diagnostic(path=project.root / "evals", message=message))
    warnings = [
        *lint_warnings(project),
        *nested_datasets(project.fixtures_dir),
        *check_file_sizes(project),
        *target_warnings,
    ]
    notes = _find_replaced(project)
    count = len(prompt_files(project.prompts_dir))
    if not count and not tests_targets(project):
        message = f"there are no prompt files in {project.prompts_dir}, so nothing was checked"
        fix = f"write {project.relative(project.prompts_dir) / 'NAME.prompt.yml'}"
        raise UsageError(message, fix=fix)
    kinds = (
        ("error", "red", diagnostics),
        ("warning", "yellow", warnings),
        ("note", "", notes),
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
        counts = f"{plural(len(diagnostics), 'error')}, {plural(len(warnings), 'warning')}"
        echo(f"{plural(count, 'prompt')}: {counts}")
    if diagnostics or (strict and warnings):
        sys.exit(1)


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


def _row(project: Project, diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "path": project.relative(diagnostic.path).as_posix(),
        "line": diagnostic.line,
        "message": project.shorten(diagnostic.message),
        "fix": diagnostic.fix,
    }
