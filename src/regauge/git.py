"""Runs git, the program: asking nobody, in words that are always the same."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from regauge.errors import GitError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["failure_of", "git", "run_git"]

# A hook runs with these set for the repository of the hook, which need not be the project's.
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
_FIXED = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
_PLAIN = (
    "--no-pager",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "color.ui=false",
)


def git(directory: Path, *arguments: str, given: bytes = b"") -> bytes:
    """What git says to a command.

    Args:
        directory: Where it runs.
        arguments: The command; paths in it are taken literally.
        given: What it reads.

    Raises:
        GitError: git is not installed, takes longer than a minute, or fails.
    """
    done = run_git(directory, *arguments, given=given)
    if done.returncode != 0:
        raise failure_of(done, arguments[0])
    return done.stdout


def run_git(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    literal: bool = True,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """A command of git, to its end, however it ends.

    Args:
        directory: Where it runs.
        arguments: The command.
        given: What it reads.
        extra: Of the environment.
        literal: Whether paths in it are taken literally.

    Raises:
        GitError: git is not installed, or takes too long.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    command = ["git", *(("--literal-pathspecs",) if literal else ()), *_PLAIN]
    try:
        return subprocess.run(  # noqa: S603 - no shell, and refs stand behind --end-of-options
            [*command, "-C", str(directory), *arguments],
            input=given,
            capture_output=True,
            check=False,
            env=environment | _FIXED | dict(extra or {}),
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        fix = "install git: versions of prompts are read from it"
        raise GitError(f"the program `git` was not found\n  fix: {fix}") from error
    except OSError as error:
        raise GitError(f"git {arguments[0]} did not work: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git {arguments[0]} took longer than {timeout_s:g} s") from error


def failure_of(done: subprocess.CompletedProcess[bytes], command: str) -> GitError:
    """The error of a command that failed, in git's own words."""
    said = done.stderr.decode("utf-8", "replace").strip()
    return GitError(f"git {command} failed: {said or f'exit code {done.returncode}'}")
