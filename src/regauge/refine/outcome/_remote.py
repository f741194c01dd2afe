"""The branches of a remote, and a proposal pushed there without overwriting anybody's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.git import work_tree
from regauge.refine.outcome._branch import is_proposal
from regauge.refine.outcome._git import git_says

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.refine.outcome._branch import Branch

__all__ = ["has_unpushed", "push", "remote_address", "remote_tip"]

# A remote in the settings of a repository may name other programs for both ends.
_UPLOAD = "--upload-pack=git-upload-pack"
_LS_REMOTE = ("ls-remote", _UPLOAD, "--heads")
_FETCH = ("fetch", _UPLOAD, "--quiet", "--no-tags", "--no-write-fetch-head")
_PUSH = ("push", "--receive-pack=git-receive-pack", "--no-verify", "--quiet")


def remote_address(path: Path, remote: str = "origin") -> str:
    """The address of a remote; empty where there is none."""
    return git_says(path.resolve().parent, "remote", "get-url", remote, check=False)


def remote_tip(path: Path, branch: str, remote: str = "origin") -> str:
    """The commit that a branch of the remote is at; empty where there is no such branch.

    Raises:
        UsageError: The remote is a directory of this repository.
        GitError: The remote cannot be reached.
    """
    _refuse_remote_inside(path, remote)
    said = git_says(path.resolve().parent, *_LS_REMOTE, remote, f"refs/heads/{branch}")
    return said.split(maxsplit=1)[0] if said else ""


def _refuse_remote_inside(path: Path, remote: str) -> None:
    """Refuse a remote in a directory of this repository: its hooks would run on a push.

    Raises:
        UsageError: The remote is one.
    """
    top = work_tree(path.parent)
    if top is None:
        return
    for kind in ((), ("--push",)):
        urls = git_says(top, "remote", "get-url", "--all", *kind, remote, check=False)
        for url in urls.splitlines():
            directory = (top / url.removeprefix("file://")).resolve()
            if directory.is_relative_to(top) and directory.exists():
                raise UsageError(
                    f"the remote {remote!r} is a directory of this repository: {url}\n"
                    f"  fix: git remote set-url {remote} ADDRESS"
                )


def has_unpushed(path: Path, tip: str) -> bool:
    """Whether the current commit holds what a commit of the remote does not; not where unknown."""
    root = path.resolve().parent
    known = git_says(root, "rev-parse", "--verify", "--quiet", f"{tip}^{{commit}}", check=False)
    return bool(known) and git_says(root, "rev-list", "--count", f"{tip}..HEAD") != "0"


def push(path: Path, branch: Branch, remote: str = "origin") -> None:
    """Push a branch; an earlier proposal that is there gives way, and nothing else does.

    Raises:
        UsageError: Somebody has committed on that branch.
        GitError: It was refused.
    """
    root, ref = path.resolve().parent, f"refs/heads/{branch.name}"
    there = remote_tip(path, branch.name, remote)
    if there == branch.commit:
        return
    if there:
        git_says(root, *_FETCH, remote, ref)
        if not is_proposal(path, there):
            raise UsageError(
                f"{branch.name} at {remote} has commits of somebody in it, which stay\n"
                "  fix: merge or close what is there, or name another branch: --branch NAME"
            )
    # What is there now has to be what was looked at.
    lease = f"--force-with-lease={ref}:{there}"
    git_says(root, *_PUSH, lease, remote, f"{branch.commit}:{ref}")
