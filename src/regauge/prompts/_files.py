"""Finds prompt files and loads prompts by name, path and version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from regauge.errors import Fault, PromptError, UsageError
from regauge.prompts._parse import SUFFIXES, parse_prompt, prompt_name
from regauge.prompts._types import Semver
from regauge.prompts._yaml import read_text
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.prompts._prompt import Prompt

CANDIDATES_ENV: Final = "REGAUGE_CANDIDATES"
"""Names the directory with the candidate texts of prompts, in the process of a target."""

LOADED_SUFFIX: Final = ".loaded"
"""The end of the file that marks a candidate text as loaded."""


def prompt_files(prompts_dir: Path) -> list[Path]:
    """Every prompt file below a directory, sorted; hidden files and directories are left out.

    A directory with the name of a prompt file is among them: to read it says what is wrong.
    """
    paths: list[Path] = []
    for directory, names, files in os.walk(prompts_dir):
        names[:] = [name for name in names if not name.startswith(".")]
        # macOS writes `._<name>` next to files on other file systems.
        visible = [name for name in files if not name.startswith(".")]
        paths += [Path(directory, name) for name in (*names, *visible) if name.endswith(SUFFIXES)]
    return sorted(paths)


def find_prompt(
    name: str | Path, *, root: Path | None = None, also: Sequence[str] = (), fix: str = ""
) -> Path:
    """The file of a prompt, by its name or by its path.

    Args:
        root: A directory of the project; the working directory by default.
        also: Names outside the project that a misspelt name may mean.
        fix: The advice for a name that is close to no known one; by default the prompts here.

    Raises:
        PromptError: There is no such prompt, or several files have its name.
    """
    text = str(name)
    if isinstance(name, Path) or text.endswith((".yml", ".yaml")):
        return _by_path(Path(name), root)
    from regauge.project import Project

    prompts_dir = Project.find(root).prompts_dir
    files = prompt_files(prompts_dir)
    matching = [path for path in files if text in _names(path, prompts_dir)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        places = ", ".join(str(path) for path in matching)
        message = f"several prompts are named {text!r}: {places}"
        fix = "rename all but one: a name stands for one prompt everywhere"
        raise PromptError([Fault(path=prompts_dir, line=None, message=message, fix=fix)])
    names = [prompt_name(path) for path in files]
    fix = did_you_mean(text, [*names, *also]) or fix
    if not fix:
        names += also
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")  # noqa: PLR2004  # a line's worth
        fix = f"prompts here: {listed}" if names else f"write {prompts_dir / text}.prompt.yml"
    if text in Project.find(root).settings.targets:
        fix = f"it is a target, which has no prompt file: regauge log {text} lists its states"
    message = f"there is no prompt {text!r}"
    raise PromptError([Fault(path=prompts_dir, line=None, message=message, fix=fix)])


def load_prompt(
    name_or_path: str | Path, version: str | None = None, *, root: Path | None = None
) -> Prompt:
    """Load a prompt from its file, or an older version of it from git.

    Args:
        name_or_path: A name such as `alert-severity`, or a path that ends in `.yml` or `.yaml`.
        version: Such as `1.1.0`: its released state, else the newest commit with it; by default the
            file.
        root: A directory of the project; the working directory by default.

    Raises:
        PromptError: There is no such prompt, or its file is faulty.
        GitError: No commit holds that version.
        UsageError: The version is none.
    """
    path = find_prompt(name_or_path, root=root)
    if version is None:
        return parse_prompt(_candidate(path) or read_text(path), path=path)
    from regauge.prompts._history import load_version

    return load_version(path, parse_version(version))


def _candidate(path: Path) -> str:
    """The text that `regauge refine` tests instead of a prompt file; empty without one."""
    directory = os.environ.get(CANDIDATES_ENV)
    if not directory:
        return ""
    candidate = Path(directory, f"{prompt_name(path)}{SUFFIXES[0]}")
    if not candidate.is_file():
        return ""
    candidate.with_suffix(LOADED_SUFFIX).touch()
    return read_text(candidate)


def parse_version(text: str) -> Semver:
    """A version that a caller wrote.

    Raises:
        UsageError: It is none.
    """
    try:
        return Semver.parse(text)
    except ValueError as error:
        raise UsageError(f"{error}\n  fix: write three numbers, such as 1.0.0") from error


def _by_path(path: Path, root: Path | None) -> Path:
    candidates = [path] if root is None or path.is_absolute() else [root / path, path]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if path.is_dir() and path.name.endswith(SUFFIXES):
        raise PromptError([Fault.unreadable(path, IsADirectoryError())])
    message = "this is a directory" if path.is_dir() else "there is no such prompt file"
    raise PromptError([Fault(path=path, line=None, message=message)])


def _names(path: Path, prompts_dir: Path) -> set[str]:
    """The names of a file: its stem, alone and with the directories below `prompts/`."""
    name = prompt_name(path)
    return {name, (path.relative_to(prompts_dir).parent / name).as_posix()}
