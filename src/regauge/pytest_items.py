"""The pytest items of evals: test functions and rows of prompt files, with their cases."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, cast

import pytest

from regauge.errors import RegaugeError, UnmeasuredError
from regauge.files import read_regular
from regauge.reports import FailedCase
from regauge.runner import EvalResult, PlannedCase, PlannedTrial, unmeasured_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from regauge.runner import CaseFailed

_KEYS = (re.compile(r"^messages:", re.MULTILINE), re.compile(r"^testData:", re.MULTILINE))

# A value with more characters is not a label.
_LABEL_MAX = 30
_REASON_MAX = 200


class CaseRun(Protocol):
    """The run that the cases of a prompt file belong to."""

    def cases_of_prompt_file(self, path: Path) -> list[tuple[str, PlannedCase]]:
        """The rows of the file's `testData`, with the names of their items."""
        ...

    def judge_case(self, item: pytest.Item, planned_case: PlannedCase) -> EvalResult:
        """The judged trials of one case."""
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
        """Create the collector of one file."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        file: PromptFile = make(parent, path=path)
        file.run = run
        return file

    def collect(self) -> Iterator[PromptCase]:
        """One item per row of `testData`."""
        for name, planned_case in self.run.cases_of_prompt_file(self.path):
            yield PromptCase.from_plan(self, name, planned_case)


class PromptCase(pytest.Item):
    """One row of `testData`."""

    planned_case: PlannedCase
    run: CaseRun

    @classmethod
    def from_plan(cls, parent: PromptFile, name: str, planned_case: PlannedCase) -> PromptCase:
        """Create the item of one row."""
        make = cast("Callable[..., Any]", getattr(cls, "from_parent"))  # noqa: B009 - untyped
        item: PromptCase = make(parent, name=name)
        item.planned_case, item.run = planned_case, parent.run
        return item

    def runtest(self) -> None:
        """Get the completions and apply the judges."""
        self.run.judge_case(self, self.planned_case).check()

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file; rows have no line of their own."""
        return self.path, 0, self.name


FIXTURE = "result"
# Set if a command of regauge has pytest collect, and runs no item.
commanded_key: pytest.StashKey[bool] = pytest.StashKey()
# Set if such a command needs complete evals.
whole_key: pytest.StashKey[bool] = pytest.StashKey()


@dataclass(slots=True, eq=False)
class FinishedItems:
    """The planned items that ran, and whether they have a result.

    Attributes:
        has_result: Whether a planned item has a result or a failure, by node id; None before it
            runs.
        left_out: The reasons of unmeasured items without a row in the run record, by node id.
        failed_tests: The messages of tests that failed apart from their judges, by node id.
        errors: The errors of items that failed without a result, by node id.
        count: The number of planned items that ran, once they are closed.
        without_result: The node ids of those that ran without a result or a failure.
        judged_nodes: The node ids of items with a result; a plugin may run a failed test again.
    """

    has_result: dict[str, bool | None] = field(default_factory=dict[str, "bool | None"])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    failed_tests: dict[str, str] = field(default_factory=dict[str, str])
    errors: dict[str, RegaugeError] = field(default_factory=dict[str, RegaugeError])
    count: int = 0
    without_result: list[str] = field(default_factory=list[str])
    judged_nodes: set[str] = field(default_factory=set[str])
    _latest: tuple[pytest.Item, EvalResult] | None = None

    def judge(self, item: pytest.Item, result: EvalResult) -> None:
        """Add the result of an item."""
        self._latest = (item, result)
        self.judged_nodes.add(item.nodeid)

    def report(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Note that an item ran, and whether it has a result or a failure."""
        done = report.failed or (report.when == "call" and self.result(item) is not None)
        if item.nodeid in self.has_result:
            self.has_result[item.nodeid] = done or self.has_result[item.nodeid] or False

    def settle(self, item: pytest.Item) -> None:
        """Note that an item has nothing to report."""
        self.has_result[item.nodeid] = True

    def fail(self, item: pytest.Item, message: str, error: BaseException | None) -> None:
        """Note that an item failed, apart from its judges unless the message is empty."""
        self.settle(item)
        if message:
            self.failed_tests.setdefault(item.nodeid, message)
        if not isinstance(error, RegaugeError):
            error = UnmeasuredError(f"the test failed before its case was judged: {message}")
        self.errors.setdefault(item.nodeid, error)

    def result(self, item: pytest.Item) -> EvalResult | None:
        """The result of an item that ran."""
        if self._latest is None or self._latest[0] is not item:
            return None
        return self._latest[1]

    def close(self, items: Iterable[pytest.Item]) -> Iterator[EvalResult]:
        """Count the items; the unmeasured results of those that ran without a result."""
        for item in items:
            planned_case, node = case_of(item), item.nodeid
            has_result = self.has_result.get(node)
            if planned_case is None or has_result is None:
                continue
            self.count += 1
            if not has_result:
                self.without_result.append(node)
            if node in self.judged_nodes:
                continue
            error = self.errors.get(node) or UnmeasuredError("the test ended without a result")
            trial = unmeasured_trial(PlannedTrial(planned_case, 0), error)
            eval_, case = planned_case.eval, planned_case.case
            yield EvalResult(eval=eval_, case=case, trials=(trial,), node_id=node)


def case_of(item: pytest.Item) -> PlannedCase | None:
    """The case of an item; None if the item is not an eval."""
    if isinstance(item, PromptCase):
        return item.planned_case
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    case = callspec.params.get(FIXTURE)
    return case if isinstance(case, PlannedCase) else None


def joins_cases(config: pytest.Config) -> bool:
    """Return whether to create one item for all cases of an eval, as a command runs none.

    An item per case takes most of the memory. It is needed if settings of pytest or code of the
    project select items.
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


def cases_of(item: pytest.Item) -> Sequence[PlannedCase]:
    """The cases of an item: one, all of an eval in a command, none if it is not an eval."""
    if (case := case_of(item)) is not None:
        return [case]
    cases = item.callspec.params.get(FIXTURE) if _is_eval(item) else None
    return cast("list[PlannedCase]", cases) if isinstance(cases, list) else ()


# The placeholder for a case's name in the id of an item with all cases of an eval.
ALL_CASES: Final = "<cases>"


def nodes_of(item: pytest.Item, cases: Sequence[PlannedCase]) -> Iterator[tuple[PlannedCase, str]]:
    """The cases of an item, each with the id of its own item."""
    if case_of(item) is not None:
        yield cases[0], item.nodeid
        return
    start, _, end = item.nodeid.partition(ALL_CASES)
    several = any(case.eval is not cases[0].eval for case in cases)
    for case in cases:
        yield case, f"{start}{name_of(case, several=several)}{end}"


def name_of(planned_case: PlannedCase, *, several: bool) -> str:
    """The name of a case in the id of its item, with the model if there are several."""
    return f"{planned_case.case.id}-{planned_case.eval.model}" if several else planned_case.case.id


def is_empty_eval(item: pytest.Item) -> bool:
    """Return whether an item is pytest's placeholder for an eval without cases."""
    return _is_eval(item) and not isinstance(item.callspec.params.get(FIXTURE), PlannedCase | list)


def _is_eval(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return hasattr(item, "callspec") and hasattr(
        getattr(item, "function", None), "__regauge_eval__"
    )


def locate(items: Iterable[pytest.Item]) -> None:
    """Compute the location of an eval once for all its items.

    pytest looks it up in the file system for each item, which takes a tenth of a replayed run.
    """
    places: dict[tuple[int, str], tuple[str, int | None, str]] = {}
    for item in items:
        if type(item) is not pytest.Function:
            continue  # it may have another location
        function = (id(item.parent), item.originalname)
        if function in places:
            path, line, start = places[function]
            item.location = (path, line, start + item.name)
        elif item.location[2].endswith(item.name):
            path, line, name = item.location
            places[function] = (path, line, name.removesuffix(item.name))


def failed_case(planned_case: PlannedCase, error: CaseFailed) -> FailedCase:
    """A failed case, with the verdict of its first failing judge."""
    judged_verdict = next(failure for trial in error.result.trials for failure in trial.failures)
    verdict = judged_verdict.verdict
    labels = [label for label in (verdict.expected, verdict.actual) if _is_label(label)]
    prompt = planned_case.eval.prompt
    return FailedCase(
        prompt=prompt.name,
        version=str(prompt.version or "-"),
        judge=judged_verdict.judge,
        mode=" -> ".join(labels) if len(labels) > 1 else verdict.code or "failed",
        reason=" ".join(verdict.reason.split())[:_REASON_MAX],
        case=planned_case.case.id,
    )


def _is_label(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(re.fullmatch(rf"\S{{1,{_LABEL_MAX}}}", value))


def words_of(excinfo: pytest.ExceptionInfo[BaseException], short: str) -> Any:
    """A representation of an exception by its message, with a short form for lists."""
    words = excinfo.getrepr(style="value")
    if words.reprcrash is not None:
        words.reprcrash.message = short
    return words


def is_skipped(report: pytest.TestReport, error: BaseException) -> bool:
    """Return whether an item was skipped; an `xfail` mark counts only if it stops the item."""
    if report.when == "teardown" or report.outcome != "skipped":
        return False
    return not hasattr(report, "wasxfail") or isinstance(error, pytest.xfail.Exception)


def skip_error(
    item: pytest.Item, planned_case: PlannedCase, report: pytest.TestReport
) -> UnmeasuredError:
    """The error of a skipped item: a planned case counts as unmeasured."""
    reason = str(getattr(report, "wasxfail", "")).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):
        path, line, text = report.longrepr
        place = os.path.relpath(path, item.config.rootpath)
        reason = f"{text.removeprefix('Skipped: ')} ({place}:{line})"
    case = planned_case.case
    return UnmeasuredError(
        f"skipped, so not measured: {reason or item.nodeid}\n"
        "  fix: take the skip out; `tier: tracked` runs a case and never blocks; to leave it out,"
        f" use the command line: -k 'not {case.id}'"
    )


def raise_and_catch(error: Exception) -> pytest.ExceptionInfo[BaseException]:
    """Raise an error and return pytest's information about it."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught
