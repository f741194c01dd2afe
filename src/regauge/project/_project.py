"""Where a project's files are, and its settings with the line of every fault."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from regauge.errors import ConfigError, Fault, UsageError
from regauge.project._lines import line_of
from regauge.project._problems import setting_problems
from regauge.project._settings import SETTING_NAMES, Settings
from regauge.regular_file import read_regular
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Project"]


@dataclass(frozen=True, kw_only=True)
class Project:
    """A directory with prompts, fixtures and evals in it."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The nearest directory, from `start` upwards, with a `[tool.regauge]` or a `prompts/`.

        Where there is none, `start` itself (the working directory by default).
        """
        here = (start or Path.cwd()).resolve()
        for directory in (here, *here.parents):
            pyproject = directory / "pyproject.toml"
            if pyproject.is_file() and "[tool.regauge" in pyproject.read_text(
                encoding="utf-8", errors="replace"
            ):
                return cls(root=directory)
            if (directory / "prompts").is_dir() or (directory / ".git").exists():
                return cls(root=directory)
        return cls(root=here)

    @property
    def prompts_dir(self) -> Path:
        """Where prompt files and `prompts.lock` are."""
        return self.root / "prompts"

    @property
    def fixtures_dir(self) -> Path:
        """Where golden datasets, recordings and baselines are; the lock of long inputs too."""
        return self.root / "fixtures"

    @property
    def golden_dir(self) -> Path:
        """Where golden datasets are."""
        return self.fixtures_dir / "golden"

    @property
    def recordings_dir(self) -> Path:
        """Where committed recordings are."""
        return self.fixtures_dir / "recordings"

    def baseline_path(self, prompt: str) -> Path:
        """Where the baseline of a prompt is."""
        return self.fixtures_dir / "baselines" / f"{prompt}.json"

    @property
    def labels_dir(self) -> Path:
        """Where labels of people are, and the calibration records made with them."""
        return self.fixtures_dir / "labels"

    @property
    def state_dir(self) -> Path:
        """Where runs and the local store are; never committed."""
        return self.root / ".regauge"

    def prepare_state_dir(self, below: str = "") -> None:
        """Make `.regauge/`, which git does not look into, and a directory below it.

        Raises:
            UsageError: Something that is no directory stands in its place, it cannot be made, or
                nothing can be written into it.
        """
        directory = self.state_dir / below
        try:
            directory.mkdir(parents=True, exist_ok=True)
            ignore = self.state_dir / ".gitignore"
            if not ignore.exists():
                ignore.write_text("# Runs and the local store belong to this machine.\n*\n")
        except OSError as error:
            raise self._no_state_dir(directory, error.strerror or str(error)) from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise self._no_state_dir(directory, "no permission to write")

    def _no_state_dir(self, directory: Path, why: str) -> UsageError:
        """What to say where nothing can be kept in a directory."""
        for path in (self.state_dir, directory):
            if not path.is_dir() and os.path.lexists(path):
                return UsageError(
                    f"{path} is a file, and runs are kept in a directory of this name\n"
                    f"  fix: move it away: mv {path} {path}.moved"
                )
        there = next((path for path in (directory, *directory.parents) if path.is_dir()), self.root)
        return UsageError(
            f"{directory} cannot be written: {why}; every run writes its record there, a replay "
            f"too\n  fix: give write permission for {there}, or run in a copy that can be written"
        )

    @property
    def pyproject(self) -> Path:
        """The file that may hold `[tool.regauge]`."""
        return self.root / "pyproject.toml"

    def relative(self, path: Path) -> Path:
        """`path` as people write it: relative to the root where it is below it."""
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path

    @cached_property
    def settings(self) -> Settings:
        """What `[tool.regauge]` says, or the defaults.

        Raises:
            ConfigError: The file does not parse, or a setting is unknown or out of range.
        """
        if not os.path.lexists(self.pyproject):
            return Settings()
        try:
            text = read_regular(self.pyproject).decode("utf-8")
            table: dict[str, Any] = tomllib.loads(text)
        except OSError as error:
            raise ConfigError([Fault.unreadable(self.pyproject, error)]) from error
        except (ValueError, RecursionError) as error:
            place = re.search(r"\(at line (\d+), ", str(error))
            nested = isinstance(error, RecursionError)
            fault = Fault(
                path=self.pyproject,
                line=int(place[1]) if place else None,
                message="not TOML: " + ("nested too deeply" if nested else str(error)),
                fix="correct the syntax; pytest and other tools read this file too",
            )
            raise ConfigError([fault]) from error
        for name in ("tool", "regauge"):
            content: object = table.get(name, {})
            if not isinstance(content, dict):
                fault = Fault(
                    path=self.pyproject,
                    line=line_of(text, (name,)),
                    message=f"{name!r} must be a table, not {content!r}"[:200],
                    fix="write settings below a line [tool.regauge]",
                )
                raise ConfigError([fault])
            table = cast("dict[str, Any]", content)
        try:
            return Settings.model_validate(table)
        except ValidationError as error:
            problems = setting_problems(error, table)
            faults = [
                _setting_fault(self.pyproject, text, where, problem)
                for where, problem in problems.items()
            ]
            raise ConfigError(sorted(faults, key=lambda fault: fault.line or 0)) from error

    def setting_fault(self, where: Sequence[int | str], message: str, *, fix: str = "") -> Fault:
        """A fault of a setting that only shows when it is used, with its line.

        Args:
            where: Its path below `[tool.regauge]`, such as `("refine", "goals", 0, "judge")`.
            message: What is wrong with it.
            fix: What to do about it.
        """
        try:
            text = self.pyproject.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        problem = f"{message}\n  fix: {fix}" if fix else message
        return _setting_fault(self.pyproject, text, where, problem)


def _setting_fault(path: Path, text: str, where: Sequence[int | str], problem: str) -> Fault:
    """The fault of one setting, with the line its key stands on where that can be found."""
    key = next(str(part) for part in reversed(where) if isinstance(part, str))
    problem, _, fix = problem.removeprefix("Value error, ").partition("\n  fix: ")
    if problem == "Extra inputs are not permitted":
        problem = "no such setting"
        fix = did_you_mean(key, SETTING_NAMES) or "remove it"
    name = ".".join(str(part) for part in ("tool", "regauge", *where))
    return Fault(path=path, line=line_of(text, where), message=f"{name}: {problem}", fix=fix)
