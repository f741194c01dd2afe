"""Which commit a run says that it was made on."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.reports import git_state
from regauge.reports._writer import job_state

if TYPE_CHECKING:
    from pathlib import Path


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


MERGE_REQUEST = {"CI_PIPELINE_ID": "7", "CI_MERGE_REQUEST_PROJECT_ID": "1"}


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, ("", False)),
        ({"CI_PIPELINE_ID": "7"}, ("gitlab:7", False)),
        (MERGE_REQUEST, ("gitlab:7", False)),
        (MERGE_REQUEST | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"}, ("gitlab:7", False)),
        (MERGE_REQUEST | {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}, ("gitlab:7", True)),
        ({"GITHUB_RUN_ID": "9", "CI_PIPELINE_ID": "7"}, ("github:9", False)),
    ],
)
def test_a_job_is_named_by_its_service(environ: dict[str, str], job: tuple[str, bool]):
    state = job_state(environ)
    assert (state.id or "", state.fork) == job


@pytest.mark.parametrize(
    ("head", "is_fork"), [("acme/shop", False), ("ann/shop", True), (None, False)]
)
def test_a_pull_request_of_another_repository_is_a_fork(
    tmp_path: Path, head: str | None, *, is_fork: bool
):
    event = tmp_path / "event.json"
    pull = {"number": 3, "head": {"repo": {"full_name": head}, "sha": "a" * 40}}
    event.write_text(json.dumps({"pull_request": pull}) if head else "{")
    environ = {
        "GITHUB_RUN_ID": "9",
        "GITHUB_REPOSITORY": "acme/shop",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_EVENT_NAME": "pull_request",
    }
    state = job_state(environ)
    assert (state.id, state.fork) == ("github:9", is_fork)
