"""Which repository of GitHub a git remote is."""

from __future__ import annotations

import re

__all__ = ["repo_of_remote"]

_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?[^/]+/|[^@/]*@[^:/]+:)"
    r"(?P<repo>[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+?)(?:\.git)?/?"
)


def repo_of_remote(url: str) -> str | None:
    """`owner/name` of a remote's address; None where it has no such form.

    >>> repo_of_remote("git@github.com:acme/prompts.git")
    'acme/prompts'
    >>> repo_of_remote("https://github.com/acme/prompts")
    'acme/prompts'
    >>> repo_of_remote("/srv/git/prompts.git")
    """
    found = _REMOTE.fullmatch(url.strip())
    return found["repo"] if found else None
