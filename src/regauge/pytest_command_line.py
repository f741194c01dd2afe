"""What a user typed for a run of pytest, apart from what settings add to it."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import has_no_descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge.project import Project

__all__ = ["CommandLine", "project_of", "refuse_few_descriptors", "refuse_runs_of_nothing"]

# Options that select fewer items: pytest's own, then those of plugins that split a suite.
_SELECTING = (
    *("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise"),
    *("group", "shard_id", "test_group", "testmon", "picked"),
)
# Options that end a run before any item ran, by the name that pytest gives them.
_RUNNING_NOTHING = {
    "collectonly": "--collect-only",
    "help": "--help",
    "version": "--version",
    "markers": "--markers",
    "showfixtures": "--fixtures",
    "show_fixtures_per_test": "--fixtures-per-test",
    "cacheshow": "--cache-show",
    "setupplan": "--setup-plan",
    "setuponly": "--setup-only",
}

# For the local store, the event loops, a program and a connection; each worker of xdist has pipes.
_DESCRIPTORS = 14
_DESCRIPTORS_OF_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """What a user asked a run of pytest for.

    Attributes:
        paths: The files and directories to collect, absolute.
        typed: Whether the user named them; otherwise they are where pytest looks by itself.
        selects: Whether the user selected some of their items, by an option such as `-k` or by
            node id.
    """

    paths: tuple[Path, ...]
    typed: bool
    selects: bool

    @classmethod
    def read(cls, config: pytest.Config) -> CommandLine:
        """Read the words of the command; `addopts`, ini files and `PYTEST_ADDOPTS` are left out."""
        options = typed_options(config)
        words: list[str] = options.file_or_dir
        here = config.invocation_params.dir
        return cls(
            paths=tuple((here / word.split("::")[0]).resolve() for word in words or config.args),
            typed=bool(words),
            selects=any(getattr(options, name, None) for name in _SELECTING)
            or any("::" in word for word in words),
        )

    def covers(self, directory: Path) -> bool:
        """Whether the user asked for everything in a directory, in so many words or by default."""
        return not self.selects and any(
            directory.is_relative_to(path) or (not self.typed and path.is_relative_to(directory))
            for path in self.paths
        )

    def asks_for_all(self, home: Path) -> bool:
        """Whether the user asked for all evals of a project, which are in `home` as a rule."""
        if self.selects:
            return False
        return self.covers(home) or (
            not home.exists() and any(path.is_dir() for path in self.paths)
        )

    def within(self, directory: Path) -> Iterator[Path]:
        """The files and directories of a directory that the user asked for."""
        for path in self.paths:
            if directory.is_relative_to(path):
                yield directory
            elif path.is_relative_to(directory):
                yield path if self.typed else directory


def project_of(config: pytest.Config) -> Project:
    """The project of a run: that of pytest's root directory, else of the first path it collects.

    `--rootdir` may name a directory above the project.
    """
    # Runs without evals do not load the settings.
    from regauge.project import Project

    project = Project.find(config.rootpath)
    if not project.exists:
        below = (Project.find(path) for path in CommandLine.read(config).paths)
        project = next((one for one in below if one.exists), project)
    return project


def typed_options(config: pytest.Config) -> Any:
    """The options of the command line alone, by the names that pytest gives them."""
    parser: Any = getattr(config, "_parser")  # noqa: B009 - pytest has no other way
    return parser.parse_known_args([*config.invocation_params.args], Namespace())


def refuse_runs_of_nothing(config: pytest.Config) -> None:
    """Refuse settings that end a run of evals before anything is measured.

    Raises:
        pytest.UsageError: `addopts`, an ini file or `PYTEST_ADDOPTS` has such an option.
    """
    given = [name for name in _RUNNING_NOTHING if getattr(config.option, name, None)]
    if not given or not may_run_evals(config):
        return
    typed = typed_options(config)
    for name in given:
        if not getattr(typed, name, None):
            option = _RUNNING_NOTHING[name]
            raise pytest.UsageError(
                f"settings of pytest add {option}, so nothing would be measured\n"
                f"  fix: take {option} out of addopts and PYTEST_ADDOPTS; give it on the command"
                " line where you mean it"
            )


def refuse_few_descriptors(config: pytest.Config) -> None:
    """Refuse to begin a run of evals that would end in the middle for want of file descriptors.

    Raises:
        pytest.UsageError: Too few are left.
    """
    workers: object = getattr(config.option, "numprocesses", None) or 0
    count = workers if isinstance(workers, int) else os.cpu_count() or 1
    needed = _DESCRIPTORS + count * _DESCRIPTORS_OF_WORKER
    taken: list[int] = []
    try:
        for _ in range(needed):
            taken.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - it may fail halfway
    except OSError as error:
        if not has_no_descriptor(error):
            return
    finally:
        for descriptor in taken:
            os.close(descriptor)
    if len(taken) < needed and may_run_evals(config):
        raise pytest.UsageError(
            f"a run of evals opens {needed} files and connections at least, and the limit leaves"
            f" {len(taken)}\n  fix: raise the limit, as with ulimit -n 1024"
        )


def may_run_evals(config: pytest.Config) -> bool:
    """Whether a run is to gate, or collects from a directory `evals`."""
    if config.getoption("--gate") is not None:
        return True
    paths = CommandLine.read(config).paths
    return any("evals" in path.parts or (path / "evals").is_dir() for path in paths)
