"""Runs git where it is to write: it asks for no password, and uses nobody else's index."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from regauge.errors import GitError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["git_says"]

_TIMEOUT_S = 120


def git_says(
    directory: Path,
    *arguments: str,
    given: bytes = b"",
    extra: Mapping[str, str] | None = None,
    check: bool = True,
) -> str:
    """What git says to a command; empty where it fails and may.

    Args:
        directory: Where it runs.
        arguments: The command.
        given: What it reads.
        extra: Of the environment.
        check: Whether it must not fail.

    Raises:
        GitError: It failed, or there is no git.
    """
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
