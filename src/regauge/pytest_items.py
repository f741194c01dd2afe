"""The items of pytest that are evals: test functions and rows of prompt files, with their cases."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, cast

import pytest

from regauge.errors import UnmeasuredError
from regauge.regular_file import read_regular
from regauge.reports import FailedCase
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from regauge.runner import CaseFailed, EvalResult, TrialOutcome

_KEYS = (re.compile(r"^messages:", re.MULTILINE), re.compile(r"^testData:", re.MULTILINE))

# A value with more characters is no label.
_LABEL_MAX = 30
_REASON_MAX = 200


class CaseRun(Protocol):
    """The run that the cases of a prompt file belong to."""

    def cases_of_prompt_file(self, path: Path) -> list[tuple[str, PlannedCase]]:
        """The rows of the file's `testData`, with the names of their items."""
        ...

    def judged(self, item: pytest.Item, planned: PlannedCase) -> EvalResult:
        """The judged trials of one of them."""
        ...


def is_prompt_file(path: Path) -> bool:
    """Return whether a YAML file is a prompt: by its name, or by its first keys."""
    if re.search(r"[._-]prompt\.ya?ml$", path.name):
        return True
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return False
    return all(key.search(text) for key in _KEYS)


class PromptFile(pytest.File):
    """A prompt file named on the command line."""

    run: CaseRun

    @classmethod
    def from_path(cls, parent: pytest.Collector, path: Path, *, run: CaseRun) -> PromptFile:
        """Make the collector of one file."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        file: PromptFile = make(parent, path=path)
        file.run = run
        return file

    def collect(self) -> Iterator[PromptCase]:
        """One item per row of `testData`."""
        for name, planned in self.run.cases_of_prompt_file(self.path):
            yield PromptCase.from_plan(self, name, planned)


class PromptCase(pytest.Item):
    """One row of `testData`."""

    planned: PlannedCase
    run: CaseRun

    @classmethod
    def from_plan(cls, parent: PromptFile, name: str, planned: PlannedCase) -> PromptCase:
        """Make the item of one row."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        item: PromptCase = make(parent, name=name)
        item.planned, item.run = planned, parent.run
        return item

    def runtest(self) -> None:
        """Get the answer and apply the judges."""
        self.run.judged(self, self.planned).check()

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the file is; rows have no line of their own."""
        return self.path, 0, self.name


FIXTURE = "result"
# Set where a command of regauge has pytest collect, and runs no item.
commanded_key: pytest.StashKey[bool] = pytest.StashKey()
# Set where such a command takes whole evals.
whole_key: pytest.StashKey[bool] = pytest.StashKey()


@dataclass(slots=True, eq=False)
class FinishedItems:
    """The planned items that ran, and those of them that have a result.

    Attributes:
        planned: The node ids of the items that are evals; one that is collected twice counts once.
        left_out: Why an item counts as unmeasured, by its node id, where no row says so.
    """

    planned: dict[str, None] = field(default_factory=dict[str, None])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    # Of an item that has its turn: whether it has a result or a failure.
    _settled: dict[str, bool] = field(default_factory=dict[str, bool])
    _latest: tuple[pytest.Item, EvalResult, TrialOutcome, str] | None = None

    def judge(self, item: pytest.Item, result: EvalResult) -> None:
        """Note the result of an item, with its outcome as it is now."""
        self._latest = (item, result, result.outcome, result.not_blocking)

    def report(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Note that an item has its turn, and whether it was judged and its body ran, or failed."""
        done = report.failed or (report.when == "call" and self.result(item) is not None)
        self._settled[item.nodeid] = done or self._settled.get(item.nodeid, False)

    def settle(self, item: pytest.Item) -> None:
        """Note that an item has nothing to report."""
        self._settled[item.nodeid] = True

    def result(self, item: pytest.Item) -> EvalResult | None:
        """The verdicts of an item that ran; a body cannot change its outcome."""
        if self._latest is None or self._latest[0] is not item:
            return None
        _, result, outcome, not_blocking = self._latest
        result.outcome, result.not_blocking = outcome, not_blocking
        return result

    @property
    def count(self) -> int:
        """The number of planned items that ran."""
        return len(self._settled.keys() & self.planned.keys())

    @property
    def without_result(self) -> list[str]:
        """The node ids of items that had their turn and neither a result nor a failure."""
        return [node for node in self.planned if not self._settled.get(node, True)]


def planned_case(item: pytest.Item) -> PlannedCase | None:
    """The case an item is about; None when it is no eval."""
    if isinstance(item, PromptCase):
        return item.planned
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    planned = callspec.params.get(FIXTURE)
    return planned if isinstance(planned, PlannedCase) else None


def joins_cases(config: pytest.Config) -> bool:
    """Return whether one item stands for all cases of an eval, as none of them runs.

    An item for each case takes most of the memory of a command. Settings of pytest and code of
    the project may select among such items, and could not select among others.
    """
    option, plugins = config.option, config.pluginmanager
    if whole_key not in config.stash or option.keyword or option.deselect:
        return False
    installed = [plugin for plugin, _ in plugins.list_plugin_distinfo()]
    return all(
        implementation.plugin in installed
        or _module_of(implementation.plugin).startswith(("_pytest.", "regauge."))
        for name in ("pytest_collection_modifyitems", "pytest_itemcollected")
        for implementation in getattr(config.hook, name).get_hookimpls()
    )


def _module_of(plugin: object) -> str:
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__


def planned_cases(item: pytest.Item) -> Sequence[PlannedCase]:
    """The cases of an item: one, or those of an eval where a command collects; none of others."""
    if (planned := planned_case(item)) is not None:
        return [planned]
    cases = item.callspec.params.get(FIXTURE) if _is_eval(item) else None
    return cast("list[PlannedCase]", cases) if isinstance(cases, list) else ()


# Stands for the name of each case in the id of an item that has all cases of an eval.
ALL_CASES: Final = "<cases>"


def nodes_of(item: pytest.Item, cases: Sequence[PlannedCase]) -> Iterator[tuple[PlannedCase, str]]:
    """The cases of an item, each with the id of the item that it has, or would have, alone."""
    if planned_case(item) is not None:
        yield cases[0], item.nodeid
        return
    start, _, end = item.nodeid.partition(ALL_CASES)
    several = any(case.suite is not cases[0].suite for case in cases)
    for case in cases:
        yield case, f"{start}{name_of(case, several=several)}{end}"


def name_of(planned: PlannedCase, *, several: bool) -> str:
    """The name of a case in the id of its item; it names one of several models."""
    return f"{planned.case.id}-{planned.suite.model}" if several else planned.case.id


def is_empty_eval(item: pytest.Item) -> bool:
    """Return whether an item stands for an eval without cases: pytest makes one and skips it."""
    return _is_eval(item) and not isinstance(item.callspec.params.get(FIXTURE), PlannedCase | list)


def _is_eval(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return hasattr(item, "callspec") and hasattr(
        getattr(item, "function", None), "__regauge_eval__"
    )


def locate(items: Iterable[pytest.Item]) -> None:
    """Work out where evals stand once for all cases of a function.

    pytest looks it up in the file system for each of them, which takes a tenth of a replayed run.
    """
    places: dict[tuple[int, str], tuple[str, int | None, str]] = {}
    for item in items:
        if type(item) is not pytest.Function:
            continue  # it may have a place of its own
        function = (id(item.parent), item.originalname)
        if function in places:
            path, line, start = places[function]
            item.location = (path, line, f"{start}{item.name}")
        elif item.location[2].endswith(item.name):
            path, line, name = item.location
            places[function] = (path, line, name.removesuffix(item.name))


def failed_case(planned: PlannedCase, error: CaseFailed) -> FailedCase:
    """A failed case, with how its first failing judge failed it."""
    judged = next(failure for trial in error.result.trials for failure in trial.failures)
    verdict = judged.verdict
    labels = [label for label in (verdict.expected, verdict.actual) if _is_label(label)]
    prompt = planned.suite.prompt
    return FailedCase(
        prompt=prompt.name,
        version=str(prompt.version or "-"),
        judge=judged.judge,
        mode=" -> ".join(labels) if len(labels) > 1 else verdict.code or "failed",
        reason=" ".join(verdict.reason.split())[:_REASON_MAX],
        case=planned.case.id,
    )


def _is_label(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(re.fullmatch(rf"\S{{1,{_LABEL_MAX}}}", value))


def words_of(excinfo: pytest.ExceptionInfo[BaseException], short: str) -> Any:
    """A report of an exception that shows its message alone, with a short form for lists."""
    words = excinfo.getrepr(style="value")
    if words.reprcrash is not None:
        words.reprcrash.message = short
    return words


def was_skipped(report: pytest.TestReport, error: BaseException) -> bool:
    """Return whether an item was skipped; an `xfail` mark that lets it run is no skip."""
    if report.when == "teardown" or report.outcome != "skipped":
        return False
    return not hasattr(report, "wasxfail") or isinstance(error, pytest.xfail.Exception)


def skip_error(
    item: pytest.Item, planned: PlannedCase, report: pytest.TestReport
) -> UnmeasuredError:
    """The error of an item that was skipped: a case that is planned is not left out silently."""
    reason = str(getattr(report, "wasxfail", "")).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):
        path, line, text = report.longrepr
        place = os.path.relpath(path, item.config.rootpath)
        reason = f"{text.removeprefix('Skipped: ')} ({place}:{line})"
    case = planned.case
    return UnmeasuredError(
        f"skipped, so not measured: {reason or item.nodeid}\n"
        "  fix: take the skip out; `tier: tracked` runs a case and never blocks; to leave it out,"
        f" use the command line: -k 'not {case.id}'"
    )


def raised(error: Exception) -> pytest.ExceptionInfo[BaseException]:
    """The report of pytest on an error that is raised here."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught
