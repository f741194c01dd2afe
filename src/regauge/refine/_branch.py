"""A proposal as a commit on a branch of its own; the working tree is left alone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import GitError, UsageError
from regauge.prompts import Repository, lock_of, parse_prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.refine._runs import Run

__all__ = ["Branch", "commit_on_branch", "current_branch", "push", "remote_address"]

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch with one commit more than where it began."""

    name: str
    commit: str


def commit_on_branch(run: Run, path: Path, *, name: str, message: str) -> Branch:
    """Commit what a run proposes on a new branch from the current commit.

    Neither the working tree nor the index is touched, so what is not committed yet stays so.

    Args:
        run: Proposes a revision.
        path: The prompt's file.
        name: Of the branch; empty for `refine/<prompt>-<run>`.
        message: Of the commit.

    Raises:
        UsageError: The run proposes nothing, or there is such a branch already.
        GitError: git cannot do it.
    """
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to commit")
    name = name or f"refine/{path.name.removesuffix('.prompt.yml')}-{run.id}"
    root = path.resolve().parent
    repository = Repository.at(root)
    head = repository.commit("HEAD")
    if _says(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}", check=False):
        raise UsageError(f"there is a branch {name!r} already\n  fix: --branch ANOTHER-NAME")
    text = run.revision.read_bytes()
    files = {repository.inside(path): text}
    if (run.directory / "prompts.lock").is_file():
        lock = lock_of(path)
        released = lock.add(parse_prompt(text.decode(), path=path))
        files[repository.inside(lock.path)] = str(released).encode()
    commit = _committed(root, head, files, message)
    _says(root, "update-ref", f"refs/heads/{name}", commit, "0" * len(commit))
    return Branch(name=name, commit=commit)


def current_branch(path: Path) -> str:
    """The branch that is checked out; empty where a commit is."""
    return _says(path.resolve().parent, "symbolic-ref", "--quiet", "--short", "HEAD", check=False)


def remote_address(path: Path, remote: str = "origin") -> str:
    """The address of a remote; empty where there is none."""
    return _says(path.resolve().parent, "remote", "get-url", remote, check=False)


def push(path: Path, branch: str, remote: str = "origin") -> None:
    """Push a branch.

    Raises:
        GitError: It was refused.
    """
    _says(path.resolve().parent, "push", "--quiet", remote, f"refs/heads/{branch}")


def _committed(root: Path, head: str, files: Mapping[str, bytes], message: str) -> str:
    """A commit on `head` with other contents of some files, made in an index of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        own = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        top = Path(_says(root, "rev-parse", "--show-toplevel"))
        _says(top, "read-tree", head, extra=own)
        for inside, data in files.items():
            blob = _says(top, "hash-object", "-w", "--stdin", given=data)
            mode = _says(top, "ls-files", "--format=%(objectmode)", "--", inside, extra=own)
            entry = f"{mode or '100644'},{blob},{inside}"
            _says(top, "update-index", "--add", "--cacheinfo", entry, extra=own)
        tree = _says(top, "write-tree", extra=own)
        return _says(top, "commit-tree", tree, "-p", head, given=message.encode())


def _says(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """What git says to a command; empty where it fails and may."""
    own = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = ["git", "--literal-pathspecs", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            command,
            input=given,
            capture_output=True,
            check=False,
            env=environment | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"} | dict(extra or {}),
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git {arguments[0]} did not work: {error}") from error
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    if not check:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()
    raise GitError(f"git {arguments[0]} failed: {said or f'exit code {done.returncode}'}")
