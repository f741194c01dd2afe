"""The output of a pytest run: without secrets, with many failed cases in groups."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from regauge.recordings import map_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from regauge.reports import FailedCase
    from regauge.workflow_commands import GuardedOutput


class _Loggers(dict[str, "logging.Logger | logging.PlaceHolder"]):
    """Loggers by name; the dictionary may grow during iteration."""

    def values(self) -> list[logging.Logger | logging.PlaceHolder]:  # type: ignore[override] # a copy
        return list(super().values())


@contextmanager
def loggers_may_appear() -> Generator[None]:
    """Allow other threads to create loggers within the block.

    pytest iterates over all loggers at each phase of an item. The thread that calls models may
    import a library such as openai meanwhile, which creates loggers and would cause a RuntimeError.
    An import of openai before the calls would not suffice: providers, judges and their transports
    are of other packages, too, and load parts of these at their first call.
    """
    manager = logging.root.manager
    manager.loggerDict = _Loggers(manager.loggerDict)
    try:
        yield
    finally:
        manager.loggerDict = dict(manager.loggerDict)


# The parts of a report with untrusted text; the others are names, locations and times.
_WORDS = ("longrepr", "sections", "wasxfail", "regauge_short")


@dataclass(frozen=True, slots=True)
class GuardedLog:
    """A pytest plugin that breaks workflow commands in the log while it is registered."""

    output: GuardedOutput

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Generator[None]:
        """Allow plugins that annotate failures to write commands to standard error."""
        with self.output.errors_pass():
            yield


@dataclass(frozen=True, slots=True)
class PassedPhases:
    """A pytest plugin that drops the passed set-ups and tear-downs of evals from the terminal.

    pytest keeps them, two thirds of all reports, for `--durations` alone: 1 kB a case.

    Attributes:
        keyword: The keyword of an eval's items.
    """

    terminal: pytest.TerminalReporter
    keyword: str

    @pytest.hookimpl(trylast=True)  # after the terminal
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Drop a report that the terminal does not show."""
        hidden = self.terminal.stats.get("")
        if hidden and hidden[-1] is report and self.keyword in report.keywords:
            hidden.pop()


def redact_terminal(config: pytest.Config, redact: Callable[[str], str]) -> None:
    """Remove secrets from the output of pytest's terminal."""
    if not config.pluginmanager.has_plugin("terminalreporter"):
        return
    writer = config.get_terminal_writer()
    write = writer.write

    def write_redacted(msg: str, *, flush: bool = False, **markup: bool) -> None:
        write(redact(msg), flush=flush, **markup)

    vars(writer)["write"] = write_redacted


def share_properties(
    pairs: Iterable[tuple[str, object]], before: Sequence[tuple[str, object]]
) -> list[tuple[str, object]]:
    """Properties, with the objects of another item where they are equal: pytest keeps all."""
    shared = list(pairs)
    for place, (pair, other) in enumerate(zip(shared, before, strict=False)):
        if pair[0] == other[0]:
            is_equal = pair[1] == other[1] and type(pair[1]) is type(other[1])
            shared[place] = other if is_equal else (other[0], pair[1])
    return shared


def redact_property(pair: tuple[str, object], redact: Callable[[str], str]) -> tuple[str, object]:
    """Remove secrets from a property; one without a secret is returned as is."""
    name, value = pair
    redacted = redact(name)
    if type(value) in {int, float}:  # most values
        return pair if redacted == name else (redacted, value)
    clean = redact(value) if type(value) is str else map_texts(value, redact)
    return pair if clean == value and redacted == name else (redacted, clean)


def redact_report(
    report: pytest.TestReport, redact: Callable[[str], str], config: pytest.Config
) -> pytest.TestReport:
    """Remove secrets from the traceback, captured output and texts of a report.

    The terminal, JUnit files and other plugins show them.
    """
    words = vars(report)
    if not (report.longrepr or report.sections or "wasxfail" in words or "regauge_short" in words):
        return report
    document = config.hook.pytest_report_to_serializable(config=config, report=report)
    texts = {name: document[name] for name in _WORDS if document.get(name)}
    clean = map_texts(texts, redact)
    if clean is texts:
        return report
    data = document | clean
    redacted: pytest.TestReport = config.hook.pytest_report_from_serializable(
        config=config, data=data
    )
    return redacted


# The most failures that are shown one by one.
_SINGLE_MAX = 20


@contextmanager
def without_grouped(terminal: pytest.TerminalReporter) -> Generator[list[FailedCase]]:
    """Hide many failed cases from pytest's lists, to show them in groups.

    `-v`, and `--tb` other than `auto`, show each.
    """
    from regauge.reports import FailedCase

    reports = terminal.stats.get("failed", [])
    cases = [report for report in reports if hasattr(report, "regauge_failed")]
    option = terminal.config.option
    if len(cases) <= _SINGLE_MAX or option.verbose > 0 or option.tbstyle != "auto":
        yield []
        return
    # pytest counts and exits by the same lists.
    terminal.stats["failed"] = [report for report in reports if report not in cases]
    try:
        yield [FailedCase(**report.regauge_failed) for report in cases]
    finally:
        terminal.stats["failed"] = reports


def terminal_stream(config: pytest.Config) -> TextIO:
    """The stream of pytest's terminal, for workflow commands of regauge."""
    writer: Any = config.get_terminal_writer()
    return getattr(writer, "_file", sys.stdout)
