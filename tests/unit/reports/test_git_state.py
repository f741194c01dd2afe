"""Which commit a run says that it was made on."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from regauge.reports import git_state

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def repository(root: Path) -> str:
    """A repository with one commit of a file `a`; its hash."""

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.test", *arguments]
        return subprocess.run(
            command, cwd=root, check=True, capture_output=True, text=True
        ).stdout.strip()

    root.mkdir()
    (root / "a").write_text(root.name)
    git("init", "-q", "-b", "base")
    git("add", "a")
    git("commit", "-q", "-m", "First")
    return git("rev-parse", "HEAD")


def test_in_a_hook_of_another_repository_it_is_the_commit_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ours, other = repository(tmp_path / "ours"), repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    state = git_state(tmp_path / "ours")
    assert state is not None
    assert (state.commit, state.branch, state.dirty) == (ours, "base", False)
    assert ours != other
    (tmp_path / "ours" / "a").write_text("changed")
    changed = git_state(tmp_path / "ours", output_dir=tmp_path / "ours" / "recordings")
    assert changed is not None
    assert changed.dirty
    written = git_state(tmp_path / "ours", output_dir=tmp_path / "ours" / "a")
    assert written is not None
    assert not written.dirty
    assert git_state(tmp_path) is None
