"""Runs git where it is to write: it asks for no password, and uses nobody else's index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.git import failure_of, run_git

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
    done = run_git(directory, *arguments, given=given, extra=extra, timeout_s=_TIMEOUT_S)
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace").strip()
    if check:
        raise failure_of(done, arguments[0])
    return ""
