"""A project in a real git repository."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class GitProject:
    """A directory with `prompts/` under git, whose author and clock never change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prompts = root / "prompts"
        self.prompts.mkdir(parents=True)
        self._day = 0
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        date = f"2025-06-{self._day:02d}T12:00:00+00:00"
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "ann@example.org",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        }
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        path = self.prompts / f"{name}.prompt.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def commit(self, subject: str) -> str:
        self._day += 1
        self.git("add", "--all", ".")
        self.git("commit", "--quiet", "--message", subject)
        return self.git("rev-parse", "HEAD").strip()


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    """An empty project under git."""
    return GitProject(tmp_path / "project")
