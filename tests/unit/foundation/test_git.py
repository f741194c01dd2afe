"""Branches, remotes and settings of real repositories, and errors of git as a program."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.errors import GitError, UsageError
from regauge.git import (
    Branch,
    Setting,
    check_branch,
    commit_files,
    current_branch,
    find_changed_files,
    git_text,
    has_unpushed,
    is_proposal,
    override_programs,
    push,
    remote_address,
    remote_tip,
    run_git,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a bare remote outside of it."""
    top = tmp_path / "work"
    (top / "prompts").mkdir(parents=True)
    (top / "prompts/a.yml").write_text("one\n")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "user.name", "t")
    git(top, "config", "user.email", "t@example.org")
    git(top, "remote", "add", "origin", str(tmp_path / "origin.git"))
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    return top


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def propose(path: Path, text: str, *, name: str = "refine/a", renew: bool = True) -> Branch:
    head = git(path.parent, "rev-parse", "HEAD")
    files = {"prompts/a.yml": text.encode(), "run.sh": b"x\n", "new.txt": b"n\n"}
    return commit_files(path, head, files, name=name, message="Fix a\n", renew=renew)


def test_files_are_committed_on_a_branch_next_to_the_work_tree(repository: Path):
    path = repository / "prompts/a.yml"
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "update-index", "--chmod=-x", "run.sh")
    branch = propose(path, "two\n")
    git(repository, "reset", "-q", "--hard")
    assert branch == Branch(name="refine/a", commit=git(repository, "rev-parse", "refine/a"))
    assert git(repository, "show", "refine/a:prompts/a.yml") == "two"
    assert git(repository, "rev-parse", "refine/a~1") == head
    assert git(repository, "ls-tree", "refine/a", "run.sh").startswith("100755")
    assert git(repository, "ls-tree", "refine/a", "new.txt").startswith("100644")
    assert git(repository, "log", "-1", "--format=%s", "refine/a") == "Fix a"
    assert (path.read_text(), git(repository, "status", "--porcelain")) == ("one\n", "")
    assert is_proposal(path, branch.commit)
    assert not is_proposal(path, head)


def test_a_proposal_is_renewed_and_a_branch_of_someone_else_is_not(repository: Path):
    path = repository / "prompts/a.yml"
    first = propose(path, "two\n")
    assert propose(path, "two\n") == first
    renewed = propose(path, "three\n")
    assert renewed.commit != first.commit
    with pytest.raises(UsageError, match="there is a branch 'refine/a' already\n  fix: --branch"):
        propose(path, "four\n", renew=False)
    git(repository, "switch", "-q", "refine/a")
    with pytest.raises(UsageError, match="'refine/a' is checked out, so it cannot be renewed\n"):
        commit_files(
            path,
            git(repository, "rev-parse", "main"),
            {"prompts/a.yml": b"five\n"},
            name="refine/a",
            message="Fix a\n",
            renew=True,
        )
    assert current_branch(path) == "refine/a"
    git(repository, "commit", "-q", "--amend", "--allow-empty", "-m", "Mine")
    git(repository, "switch", "-q", "main")
    with pytest.raises(UsageError, match="there is a branch 'refine/a' already"):
        propose(path, "four\n")
    git(repository, "switch", "-q", "--detach")
    assert current_branch(path) == ""


def test_the_name_of_a_branch_is_checked(repository: Path):
    path = repository / "prompts/a.yml"
    propose(path, "two\n")
    git(repository, "branch", "mine")
    check_branch(path, "refine/b")
    check_branch(path, "refine/a", renew=True)
    for name, taken in (("refine/a", "refine/a"), ("refine", "refine/a"), ("mine/x", "mine")):
        with pytest.raises(UsageError, match=f"there is a branch {taken!r} already"):
            check_branch(path, name)
    with pytest.raises(UsageError, match="there is a branch 'mine' already"):
        check_branch(path, "mine", renew=True)
    with pytest.raises(
        UsageError, match=r"git allows no branch of the name 'a\.\.b'\n  fix: a name"
    ):
        check_branch(path, "a..b")


def test_a_branch_is_pushed_and_replaces_nothing_but_a_proposal(repository: Path):
    path = repository / "prompts/a.yml"
    assert remote_tip(path, "refine/a") == ""
    first = propose(path, "two\n")
    push(path, first)
    push(path, first)
    assert remote_tip(path, "refine/a") == first.commit
    second = propose(path, "three\n")
    push(path, second)
    assert remote_tip(path, "refine/a") == second.commit
    git(repository, "switch", "-q", "refine/a")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Mine")
    git(repository, "push", "-q", "origin", "refine/a")
    git(repository, "switch", "-q", "main")
    with pytest.raises(UsageError, match="refine/a at origin has commits that are not of a ref"):
        push(path, Branch(name="refine/a", commit=first.commit))


def test_commits_that_are_not_at_the_remote_are_told(repository: Path):
    path = repository / "prompts/a.yml"
    tip = git(repository, "rev-parse", "HEAD")
    assert not has_unpushed(path, tip)
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert has_unpushed(path, tip)
    assert not has_unpushed(path, "0" * 40)
    assert find_changed_files([path, repository / "run.sh"]) == []
    path.write_text("changed\n")
    assert find_changed_files([path, repository / "run.sh"]) == [path]


def test_a_remote_inside_of_the_repository_is_refused(repository: Path):
    path = repository / "prompts/a.yml"
    assert remote_address(path).endswith("/origin.git")
    git(repository, "init", "-q", "--bare", "inner.git")
    for words in (("origin", "inner.git"), ("--push", "origin", f"file://{repository}/inner.git")):
        git(repository, "remote", "set-url", *words)
        with pytest.raises(UsageError, match="'origin' is a directory of this repository: ") as e:
            remote_tip(path, "main")
        assert e.value.fix == "git remote set-url origin ADDRESS"
        git(repository, "remote", "set-url", "origin", str(repository.parent / "origin.git"))


def test_errors_of_git_are_named(repository: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(repository / "pipe")
    with pytest.raises(GitError, match=r"git hash-object took longer than 0\.2 s"):
        run_git(repository, "hash-object", "pipe", timeout_s=0.2)
    with pytest.raises(GitError, match="is not in a git repository\n  fix: git init"):
        run_git(repository.parent, "status")
    with pytest.raises(GitError, match="is not in a git repository"):
        remote_tip(repository.parent / "a.yml", "main")
    assert git_text(repository, "rev-parse", "none", check=False) == ""
    with pytest.raises(GitError):
        git_text(repository, "rev-parse", "none")
    (repository / ".git/config").write_text("[broken\n")
    done = run_git(repository, "status")
    assert done.returncode != 0
    assert b"bad config" in done.stderr
    (repository / ".git/config").write_text("")
    directory = repository.parent / "bin"
    directory.mkdir()
    (directory / "git").write_text("x")
    monkeypatch.setenv("PATH", str(directory))
    with pytest.raises(GitError, match=r"git config did not work: .*Permission denied"):
        run_git(repository, "status")


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("filter.lfs.required", "false"),
        ("filter.lfs.clean", ""),
        ("lfs.path", ""),
        ("lfs.url", None),
        ("core.fsmonitor", "false"),
        ("core.sshcommand", "ssh"),
        ("core.path", None),
        ("user.required", None),
        ("difftool.x.cmd", ""),
        ("core.editor", ""),
        ("sequence.editor", ""),
        ("core.askpass", ""),
        ("core.pager", ""),
        ("gpg.program", ""),
        ("gpg.ssh.defaultkeycommand", ""),
        ("diff.external", ""),
        ("diff.x.textconv", ""),
        ("merge.x.driver", ""),
        ("credential.helper", ""),
        ("core.alternaterefscommand", ""),
        ("uploadpack.packobjectshook", ""),
        ("gc.recentobjectshook", ""),
        ("filter.x.process", ""),
        ("filter.x.smudge", ""),
        ("interactive.difffilter", ""),
    ],
)
def test_a_program_in_the_settings_of_a_repository_is_switched_off(key: str, default: str | None):
    setting = Setting(scope="local", key=key, value="./evil")
    assert setting.default == default
    assert override_programs([setting]) == ([] if default is None else [(key, default)])
    assert override_programs([Setting(scope="global", key=key, value="x")]) == []
    both = [Setting(scope="global", key=key, value="x"), setting]
    assert override_programs(both) == ([] if default is None else [(key, default), (key, "x")])


def test_helpers_of_the_user_stay_where_a_repository_names_others():
    own = Setting(scope="system", key="credential.helper", value="store")
    evil = Setting(scope="worktree", key="credential.https://x.helper", value="./evil")
    assert override_programs([own, evil]) == [
        ("credential.https://x.helper", ""),
        ("credential.https://x.helper", "store"),
    ]


def test_git_reads_the_commits_that_are_there_in_plain_english(
    repository: Path, monkeypatch: pytest.MonkeyPatch
):
    """Replacements of commits, translations and colours of a user's settings change nothing."""
    first = git(repository, "rev-parse", "HEAD").strip()
    (repository / "prompts/a.yml").write_text("two\n")
    git(repository, "commit", "-qam", "two")
    git(repository, "replace", "HEAD", first)
    git(repository, "config", "color.ui", "always")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.delenv("GIT_NO_REPLACE_OBJECTS", raising=False)
    assert git_text(repository, "log", "--format=%s") == "two\none"
    assert git_text(repository, "show", "HEAD:prompts/a.yml") == "two"
    assert "\x1b" not in git_text(repository, "diff", "HEAD~1")
    with pytest.raises(GitError, match="unknown revision"):
        git_text(repository, "log", "nowhere")
