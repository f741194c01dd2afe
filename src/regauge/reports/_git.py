"""Which commit a run was made on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import GitError
from regauge.git import run_git, work_tree
from regauge.reports._schema import GitState

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["git_state"]

_TIMEOUT_S = 10


def git_state(root: Path, *, written: Path | None = None) -> GitState | None:
    """The commit, the branch and whether the work tree differs; None outside a repository.

    Args:
        root: A directory of the work tree.
        written: Where the run itself writes; what differs there says nothing of what it ran.
    """
    paths = [":/"]
    top = work_tree(root)
    if top is not None and written is not None and written.resolve().is_relative_to(top):
        paths.append(f":(top,exclude,literal){written.resolve().relative_to(top).as_posix()}")
    status = _git(
        root,
        *("status", "--porcelain=v2", "--branch", "--untracked-files=no"),
        *("--ignore-submodules=dirty", "--", *paths),
    )
    if status is None:
        return None
    facts: dict[str, str] = {}
    dirty = False
    for line in status.splitlines():
        if line.startswith("# branch."):
            key, _, value = line.removeprefix("# branch.").partition(" ")
            facts[key] = value
        else:
            dirty = True
    branch = facts.get("head")
    return GitState(
        commit=facts.get("oid", "(initial)"),
        branch=None if branch == "(detached)" else branch,
        dirty=dirty,
    )


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = run_git(root, *arguments, literal=False, timeout_s=_TIMEOUT_S)
    except GitError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
