"""Runs pytest's collection over the evals of a project, for commands that need their plan."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, NoReturn

import click
import pytest

from regauge.cli import INTERRUPTED
from regauge.cli._terminal.meter import clear_line
from regauge.errors import MachineError, PromptError, RegaugeError, UsageError
from regauge.prompts import find_prompt
from regauge.pytest_items import commanded_key
from regauge.runner import Plan, spec_of
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.runner import EvalSession

__all__ = ["NoEvalsError", "NotCollectedError", "end_interrupted", "option_words", "with_evals"]

_THE_SAME_COMMAND = "what was answered is kept, the same command goes on from there"
_FRAME = re.compile(r"(\S.*):\d+: in ")


class NoEvalsError(UsageError):
    """A directory in which no test is an eval."""


class NotCollectedError(UsageError):
    """Evals that pytest could not collect.

    Attributes:
        reasons: Why, by the file of evals.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        files: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            files.setdefault(reason, []).append(name)
        super().__init__("\n".join(f"{', '.join(of)}:\n{why}" for why, of in files.items()))


def _from_here(path: Path) -> str:
    """A path as pytest takes it: in an absolute one it replaces `$HOME` and refuses `[x]`."""
    try:
        return f"{os.curdir}{os.sep}{os.path.relpath(path)}"
    except ValueError:  # on Windows, another drive
        return str(path)


class _Driver:
    """A pytest plugin that hands the planned evals to `act` in place of running them.

    Attributes:
        silenced: Takes what pytest, its plugins and modules of evals print; only `act` is heard.
    """

    def __init__(
        self, act: Callable[[EvalSession], None], prompts: Sequence[str], *, draw: bool
    ) -> None:
        self._act = act
        self._draw = draw
        self._prompts = frozenset(prompts)
        self._evals: EvalSession | None = None
        self.met: set[str] = set()
        self.faults: dict[str, str] = {}
        self.error: RegaugeError | None = None
        self.silenced = io.StringIO()
        self._printed = sys.stdout

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Silence pytest: the command says what there is to say."""
        config.stash[commanded_key] = True
        name = "terminalreporter"
        config.pluginmanager.unregister(name=name)
        config.pluginmanager.register(pytest.TerminalReporter(config, self.silenced), name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Stay in one process, where xdist is there and the project's options ask for it."""
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses = None
            config.option.dist = "no"
            config.option.tx = list[str]()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            self.faults[report.nodeid] = _own_frames(report.longreprtext)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the evals of the prompts that were named."""
        kept: list[pytest.Item] = []
        for item in items:
            spec = spec_of(getattr(item, "function", None))
            if spec is None:
                continue
            self.met.add(spec.prompt)
            if not self._prompts or spec.prompt in self._prompts:
                kept.append(item)
        items[:] = kept

    def pytest_regauge_planned(self, evals: EvalSession) -> None:
        """Remember the plan."""
        self._evals = evals
        if not self._draw:
            evals.plan = Plan(cases=evals.plan.cases, ahead=False)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do what the command is about; no test runs."""
        del session
        if not self.faults and not self.unknown and self._evals is not None:
            try:
                with redirect_stdout(self._printed):
                    self._act(self._evals)
            except RegaugeError as error:  # pytest would take it for a fault of its own
                self.error = error
            except OSError as error:
                self.error = MachineError.explaining(error)
        return True

    @property
    def unknown(self) -> list[str]:
        """Prompts that were named and have no eval."""
        return sorted(self._prompts - self.met)


def with_evals(
    project: Project,
    path: Path,
    act: Callable[[EvalSession], None],
    *,
    prompts: Sequence[str] = (),
    options: Sequence[str] = (),
    draw: bool = True,
    plugins: Sequence[object] = (),
    interrupted: Callable[[], str] = lambda: _THE_SAME_COMMAND,
) -> None:
    """Collect the evals of a project and do something with their plan.

    Args:
        project: Whose evals.
        path: Where the evals are.
        act: Receives the session once it is planned, while answers may be drawn.
        prompts: Only evals of these prompts; all when empty.
        options: Options of the plugin, as for pytest.
        plugins: Plugins of pytest for this run.
        draw: Whether answers that the plan lacks are drawn while `act` runs, ahead of it.
        interrupted: What is said after Ctrl-C: what is kept, and how to go on.

    Raises:
        UsageError: There are no evals, a prompt has none, or they could not be collected.
        RegaugeError: What `act` raised.
    """
    if not path.exists():
        raise UsageError(
            f"there is no file or directory {str(project.relative(path))!r}\n"
            "  fix: regauge init writes a first eval; --evals says where others are"
        )
    _ = project.settings  # an error in them is reported before plugins read the same file
    driver = _Driver(act, prompts, draw=draw)
    arguments = [
        _from_here(path),
        f"--rootdir={_from_here(project.root)}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:deepeval",  # it loads for seconds, and has no part in evals
        # Nothing is asserted, and what is imported already cannot be rewritten.
        "--assert=plain",
        # Plugins warn of settings that are nothing to this command, before reports are silenced.
        "-Wignore::pytest.PytestDeprecationWarning",
        *options,
    ]
    with redirect_stdout(driver.silenced):
        code = pytest.main(arguments, plugins=[driver, *plugins])
    if driver.error is not None:
        raise driver.error
    if driver.faults:
        raise NotCollectedError(driver.faults)
    if code == pytest.ExitCode.INTERRUPTED:
        end_interrupted(interrupted())
    if code == pytest.ExitCode.USAGE_ERROR and not driver.met:
        # pytest has printed why; its own code for this means undecided here.
        click.get_current_context().exit(UsageError.exit_code)
    if driver.unknown:
        raise _no_eval(project, driver.unknown[0], driver.met)
    if not driver.met:
        raise NoEvalsError(
            f"there are no evals in {project.relative(path)}\n"
            "  fix: regauge new eval NAME writes one; --evals says where others are"
        )
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        if code == pytest.ExitCode.INTERNAL_ERROR:
            click.echo(driver.silenced.getvalue(), err=True)
        click.get_current_context().exit(int(code))


def option_words(given: Mapping[str, object]) -> list[str]:
    """Options of the plugin as `with_evals` takes them, of those that were given.

    >>> option_words({"budget_usd": 2.5, "model": None})
    ['--budget-usd=2.5']
    """
    return [
        f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None
    ]


def end_interrupted(words: str = _THE_SAME_COMMAND) -> NoReturn:
    """End a command that Ctrl-C or another signal stopped while it called models."""
    clear_line()
    click.echo(f"interrupted: {words}", err=True)
    click.get_current_context().exit(INTERRUPTED)


def _no_eval(project: Project, prompt: str, met: set[str]) -> UsageError:
    known = ", ".join(sorted(met)) or "none"
    try:
        find_prompt(prompt, root=project.root)
        fix = f"regauge new eval {prompt}"
    except PromptError:
        fix = did_you_mean(prompt, met) or "name one of these, or write one: regauge new --help"
    return UsageError(f"no eval of prompt {prompt!r}; there are evals of: {known}\n  fix: {fix}")


def _own_frames(traceback: str) -> str:
    """A traceback without frames of pytest and of Python's import, which say nothing here."""
    kept: list[str] = []
    foreign = False
    for line in traceback.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            foreign = "site-packages" in frame[1] or frame[1].startswith("<frozen ")
        elif line.startswith("E "):
            foreign = False
        if not foreign:
            kept.append(line)
    return "\n".join(kept)
