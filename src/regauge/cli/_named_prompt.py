"""The prompt that a command was given by its name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import PromptError, UsageError
from regauge.prompts import find_prompt

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["named_prompt"]


def named_prompt(given: str, *, instead: str) -> Path:
    """The file of a prompt; who writes `NAME@1.0.0` is told what this command takes.

    Args:
        given: A name or a path.
        instead: What to write, with `{name}` and `{version}`.

    Raises:
        PromptError: There is no such prompt, or several files have its name.
        UsageError: A version is part of the name of a prompt that is there.
    """
    try:
        return find_prompt(given)
    except PromptError:
        name, at, version = given.rpartition("@")
        if not (at and version and _is_prompt(name)):
            raise
    fix = instead.format(name=name, version=version)
    raise UsageError(f"{given!r}: this command takes no version behind the name\n  fix: {fix}")


def _is_prompt(name: str) -> bool:
    try:
        find_prompt(name)
    except PromptError:
        return False
    return True
