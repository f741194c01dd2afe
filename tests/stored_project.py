"""The project with a history in `tests/data/project`, with the commits of the day it was made."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.transcripts import DATA

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = DATA / "project"
DATES = ("20T10:00:00", "20T10:00:00", "21T10:00:00", "21T10:00:00")
SUBJECTS = ("First version", "Recordings", "Second version", "Baseline")


def run_git(root: Path, *words: str, date: str = "") -> str:
    """Run git as always the same author; with a day of November 2026, a commit has the same hash."""
    env = os.environ | {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "Ada"), ("EMAIL", "a@example.org"))
    }
    if date:
        env |= {f"GIT_{role}_DATE": f"2026-11-{date}+0000" for role in ("AUTHOR", "COMMITTER")}
    command = ["git", "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", *words]
    return subprocess.run(
        command, cwd=root, env=env, check=True, capture_output=True, text=True
    ).stdout


def make_project(root: Path) -> None:
    """Write the project's files into a new directory, commit by commit."""
    root.mkdir()
    run_git(root, "init", "--quiet", "--initial-branch=main", ".")
    ignored = shutil.ignore_patterns("__pycache__")
    for number, (date, subject) in enumerate(zip(DATES, SUBJECTS, strict=True), start=1):
        shutil.copytree(PROJECT / f"commits/{number}", root, dirs_exist_ok=True, ignore=ignored)
        if number == 1:
            (root / "gitignore").rename(root / ".gitignore")
        run_git(root, "add", "--all")
        run_git(root, "commit", "--quiet", "-m", subject, date=date)
