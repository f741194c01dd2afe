"""`regauge doctor`: find errors of a project's set-up before a run does."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from regauge.cli._options import evals_option, json_option, strict_option
from regauge.cli._terminal import echo, echo_json
from regauge.maintenance.doctor import check_project
from regauge.project import Project

if TYPE_CHECKING:
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
