"""Workflows of GitHub Actions, fitted to the repository they are written into."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import GitError
from regauge.git import run_git, work_tree
from regauge.scaffold._piece import Piece, template

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WORKFLOWS", "Repository", "new_workflow", "workflow_text"]

WORKFLOWS = ("baseline", "refine")
_FOLDER = ".github/workflows"
_MAIN = "branches: [main]"
_KEY = "OPENAI_API_KEY"
_PRICES = "[tool.regauge.providers.openai]"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What workflows have to know of their repository.

    Attributes:
        branch: The default branch, as far as git knows it here; `main` where it does not.
        prefix: Where the project is below the root of the repository, with a slash at its end;
            empty where it is the root, or where there is no repository yet.
    """

    branch: str = "main"
    prefix: str = ""

    @classmethod
    def of(cls, root: Path) -> Repository:
        """The repository that a directory is in."""
        there = _said(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
        branch = there.partition("/")[2]
        if not branch:
            known = _said(root, "for-each-ref", "--format=%(refname:short)", "refs/heads")
            current = _said(root, "symbolic-ref", "--short", "HEAD")
            usual = (name for name in ("main", "master") if name in known.splitlines())
            branch = next(usual, current or "main")
        top = work_tree(root)
        inside = root.resolve().relative_to(top).as_posix() if top is not None else "."
        return cls(branch=branch, prefix="" if inside == "." else f"{inside}/")

    @property
    def notes(self) -> list[str]:
        """What keeps workflows that are written here from running, if anything does."""
        if not self.prefix:
            return []
        note = (
            f"GitHub runs workflows at the root of a repository alone: move {self.prefix}{_FOLDER}"
            f" there, and give their jobs `working-directory: {self.prefix.rstrip('/')}`"
        )
        return [note]


def workflow_text(name: str, repository: Repository) -> str:
    """A template of a workflow, for the default branch of a repository."""
    branch = repository.branch
    quoted = branch if _PLAIN.fullmatch(branch) else json.dumps(branch)
    return template(name).replace(_MAIN, f"branches: [{quoted}]")


def new_workflow(
    name: str, repository: Repository, *, provider: str = "openai", key: str = _KEY
) -> Piece:
    """One of `WORKFLOWS`, beside those that `regauge init` writes: it pushes branches.

    Args:
        name: Which.
        repository: Where it will run.
        provider: Who is asked, as `[tool.regauge.providers]` names it.
        key: The variable that holds the key, and the secret of the repository with it.
    """
    text = workflow_text(f"new_{name}.yml", repository).replace(_KEY, key)
    text = text.replace(_PRICES, f"[tool.regauge.providers.{provider}]")
    return Piece(path=f"{_FOLDER}/{name}.yml", text=text)


def _said(root: Path, *command: str) -> str:
    try:
        done = run_git(root, *command)
    except GitError:
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
