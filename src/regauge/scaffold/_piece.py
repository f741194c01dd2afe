"""One file to be written, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal

from regauge.errors import UsageError

__all__ = ["Piece", "Planned", "filled", "refuse_blocked", "template"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file as it is to be.

    Attributes:
        path: Where, below the root of the project, with slashes.
        text: All of it.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is to become of one file.

    Attributes:
        path: The file.
        action: `write` a new one, `add` to one that stays otherwise as it is, or `keep` it.
        text: All of it, once done; empty where it is kept.
        reason: Why it is kept, or what is added.
    """

    path: Path
    action: Literal["write", "add", "keep"]
    text: str = ""
    reason: str = ""


def refuse_blocked(root: Path, path: str) -> None:
    """Refuse a file that nobody can write, since a file lies where its directory is to be.

    Raises:
        UsageError: So it is.
    """
    for parent in Path(path).parents:
        there = root / parent
        if there.exists() and not there.is_dir():
            raise UsageError(
                f"{parent} is a file, and {path} needs a directory of that name; nothing was"
                f" written\n  fix: move or rename {parent}, then run the command again"
            )


def template(name: str) -> str:
    """The text of a template of this package."""
    return files("regauge.scaffold").joinpath("templates", name).read_text(encoding="utf-8")


def filled(name: str, /, **values: str) -> str:
    """A template with its `$names` replaced; `$` before anything else stays."""
    return Template(template(name)).safe_substitute(values)
