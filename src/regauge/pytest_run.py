"""A pytest run with evals, behind the hooks of the plugin."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import Shard
from regauge.errors import Diagnostic, InvalidFileError, RegaugeError, UnmeasuredError
from regauge.project import Project
from regauge.prompts import LOCK_NAME
from regauge.pytest_items import (
    ALL_CASES,
    FIXTURE,
    FinishedItems,
    case_of,
    cases_of,
    commanded_key,
    failed_case,
    is_skipped,
    joins_cases,
    locate,
    name_of,
    nodes_of,
    raise_and_catch,
    skip_error,
    words_of,
)
from regauge.pytest_omissions import (
    CollectedEvals,
    CommandLine,
    eval_directories,
    evals_with_own_code,
    find_omissions,
    place_of,
    project_of,
)
from regauge.pytest_output import (
    loggers_may_appear,
    redact_property,
    redact_report,
    redact_terminal,
    share_properties,
)
from regauge.recordings import describe_process
from regauge.reports import RunWriter, junit_properties, parts_of
from regauge.runner import (
    CaseFailed,
    EvalResult,
    EvalSession,
    PlannedCase,
    resolve_options,
    spec_of,
)
from regauge.stop_signals import ignore_signals, stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from regauge.gate import ReplayEvidence
    from regauge.pytest_end import PytestEnd
    from regauge.pytest_gate import PytestGate
    from regauge.pytest_suggest import RefinementSearch
    from regauge.reports import ShardEval
    from regauge.runner import Eval, IndependentTrials, RunProgress

# Options of pytest that are options of the session.
_OPTIONS = (
    *("record", "trials", "concurrency", "judge_model", "cluster"),
    *("budget_usd", "budget_tokens", "budget_calls"),
)
# A failure that does not fail the run, in pytest's terms: its category, letter and word.
_NOT_BLOCKING = ("not blocking", "~", ("NOT BLOCKING", {"yellow": True}))


class PytestRun:
    """One run of pytest in one process, from collection to summary.

    Args:
        config: The configuration of pytest.
        run_id: The id of the run, which xdist workers share.

    Attributes:
        finished_items: The planned items that ran.
        end: The end of the run, with its summary; None before it and if tests are only collected.

    Raises:
        RegaugeError: A setting or an option is invalid.
    """

    def __init__(self, config: pytest.Config, *, run_id: str) -> None:
        self._config = config
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._worker_id: str | None = worker["workerid"] if worker else None
        self._project = project_of(config)
        shard: str | None = config.getoption("--shard")
        gates = config.getoption("--gate") is not None and not config.option.collectonly
        # `models` of the settings are for plain runs of pytest.
        plain = (
            commanded_key not in config.stash
            and not config.getoption("--suggest")
            and config.getoption("--gate") is None
        )
        options = resolve_options(
            self._project.settings,
            os.environ,
            models=config.getoption("--model") or (self._project.settings.models if plain else ()),
            rejudge=bool(config.getoption("--rejudge")),
            fail_fast=bool(config.getoption("maxfail")),
            shard=Shard.parse(shard, assigned_by=config.getoption("--shard-by") or "id")
            if shard
            else None,
            **{name: config.getoption(name) for name in _OPTIONS},
        )
        if options.record == "all" and gates:
            # Completed trials of a gate stay its evidence: new ones would be a second chance.
            options = replace(options, record="missing")
        # The run id begins with the start of the run.
        self._started_at = datetime.strptime(run_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        self._session = EvalSession(
            self._project,
            options,
            environ=os.environ,
            workers=int(worker["workercount"]) if worker else 1,
            # The parent of xdist workers owns the run.
            run_owner=describe_process(os.getppid()) if worker else None,
            run_started=self._started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            independent=_gate_trials() if gates else None,
            part_dir=self._project.state_dir / "runs" / run_id,
        )
        redact_terminal(config, self._session.completions.redact)
        self._writer = RunWriter(
            self._project.state_dir / "runs" / run_id,
            redact=self._session.completions.redact,
            worker=self._worker_id,
        )
        if not config.option.collectonly:
            self._project.prepare_state_dir("runs")
            # Directories with the names of optional files.
            recordings = sorted(self._project.recordings_dir.glob("*.jsonl"))
            diagnostics = [
                Diagnostic.unreadable(path, IsADirectoryError())
                for path in (self._project.prompts_dir / LOCK_NAME, *recordings)
                if path.is_dir()
            ]
            if diagnostics:
                raise InvalidFileError(diagnostics)
        self._command_line = CommandLine.read(config)
        self._collected_evals = CollectedEvals()
        self._omissions: list[Diagnostic] = []
        self.finished_items = FinishedItems()
        self._plan_of: dict[PlannedCase, PlannedCase] = {}
        self._nodes: dict[int, str] = {}
        self._keywords: Mapping[str, Any] = {}
        self._properties: list[tuple[str, object]] = []
        self._case_properties: list[tuple[str, object]] = []
        self._parts: list[ShardEval] = []
        self._gate = self._new_gate() if gates else None
        self._binders: dict[int, Callable[[EvalSession], Eval]] = {}
        suggests = config.getoption("--suggest") and not config.option.collectonly
        self._search = self._new_search() if suggests else None
        self.end: PytestEnd | None = None
        self._check_stopped: Callable[[], None] = lambda: None
        self._replay: ReplayEvidence | None = None

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Create one item per golden case of an eval.

        Raises:
            pytest.Collector.CollectError: The prompt, dataset or judges cannot be loaded.
        """
        spec, function = spec_of(metafunc.function), metafunc.function
        assert spec is not None
        path, line = place_of(function)
        home = Project.find(path.parent)
        is_own = home.root == self._project.root or path.is_relative_to(
            self._project.root / "evals"
        )
        is_project = home.pyproject.is_file() or not self._project.exists
        if not is_own and home.exists and is_project:
            # This project may have a prompt of the same name.
            message = f"{self._project.relative(path)} is an eval of the project in {home.root}"
            fix = f"cd {quote(str(home.root))} && pytest {quote(str(home.relative(path)))}"
            raise pytest.Collector.CollectError(f"{message}\n  fix: {fix}")
        try:
            evals = self._session.bind(spec, function)
        except RegaugeError as error:
            diagnostics = error.diagnostics if isinstance(error, InvalidFileError) else ()
            placed = diagnostics and not any(diagnostic.path.is_dir() for diagnostic in diagnostics)
            file = metafunc.definition.nodeid.partition("::")[0]
            has_location = placed or f"{file}:" in str(error)
            message = str(error) if has_location else f"{error}\n  eval: {file}:{line}"
            raise pytest.Collector.CollectError(message) from error
        if FIXTURE not in metafunc.fixturenames:
            raise pytest.Collector.CollectError(
                f"{metafunc.definition.nodeid}: an eval takes the argument `result`\n"
                f"  fix: def {function.__name__}(result): result.check()"
            )
        if any(map(self._config.pluginmanager.hasplugin, ("repeat", "pytest_repeat"))):
            _refuse_repeats(metafunc)
        # A search for suggestions has one model.
        self._binders[id(evals[0])] = lambda session: session.bind(spec, function)[0]
        items = self._collect(metafunc.definition.nodeid, function, evals)
        planned_cases = [case for _, case in items]
        # pytest escapes other names, so their ids need an item per case.
        names = [name for name, _ in items]
        if planned_cases and joins_cases(self._config) and all(map(str.isascii, names)):
            metafunc.parametrize(FIXTURE, [planned_cases], ids=[ALL_CASES], indirect=True)
        else:
            metafunc.parametrize(FIXTURE, planned_cases, ids=names, indirect=True)

    def cases_of_prompt_file(self, path: Path) -> list[tuple[str, PlannedCase]]:
        """The rows of a prompt file's own `testData`, with the names of their items.

        Raises:
            pytest.Collector.CollectError: The file is invalid.
        """
        try:
            evals = self._session.bind_prompt_file(path)
        except RegaugeError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        self._binders[id(evals[0])] = lambda session: session.bind_prompt_file(path)[0]
        node = Path(os.path.relpath(path, self._config.rootpath)).as_posix()
        return self._collect(node, None, evals)

    def _collect(
        self, node: str, function: Callable[..., Any] | None, evals: Sequence[Eval]
    ) -> list[tuple[str, PlannedCase]]:
        """Collect the cases of an eval; returns them with the names of their items."""
        # Case by case, so that models are called for the same case at the same time.
        planned_cases = [
            PlannedCase(eval_, case) for case in evals[0].dataset.cases for eval_ in evals
        ]
        self._collected_evals.evals[node] = evals
        self._collected_evals.cases.extend(planned_cases)
        if function is not None:
            self._collected_evals.places.add(place_of(function))
        several = len(evals) > 1
        return [(name_of(case, several=several), case) for case in planned_cases]

    def plan(self, session: pytest.Session, uncollected: Mapping[str, tuple[Path, str]]) -> None:
        """Plan the evals among the selected items, and call the hook of other plugins.

        Args:
            session: The session of pytest.
            uncollected: The path of each file that pytest cannot collect, with its error, by node
                id.
        """
        evals = [(item, cases) for item in session.items if (cases := cases_of(item))]
        selected = [case for _, cases in evals for case in cases]
        self.finished_items = FinishedItems(
            has_result=dict.fromkeys(item.nodeid for item, _ in evals),
            failed_tests={
                node: message
                for node, (path, message) in uncollected.items()
                if self._is_in_evals(path)
            },
        )
        if self._config.getoption("--model") and selected:
            _refuse_targets_alone(selected)
        if self._gate is not None or not session.testsfailed:  # errors of collection end a run
            self._omissions = find_omissions(
                self._project,
                self._command_line,
                collected_evals=self._collected_evals,
                selected=selected,
            )
        if self._session.options.shard is not None:
            self._parts = parts_of(self._collected_evals.evals, selected)
        locate([item for item, _ in evals])
        self._plan_of = dict(zip(selected, self._session.prepare(selected).cases, strict=True))
        if self._gate is not None:
            self._nodes = {
                id(self._plan_of[case]): node
                for item, cases in evals
                for case, node in nodes_of(item, cases)
            }
        self._config.hook.pytest_regauge_planned(config=self._config, evals=self._session)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run trials ahead while the block runs; a gate decides before the block."""
        if self._gate is not None:
            is_command = commanded_key in self._config.stash
            places = self._collected_evals.places if is_command else set[tuple[Path, int]]()
            with stop_on_signals(self._config.add_cleanup):
                self._gate.run(
                    self._nodes,
                    omissions=self._omissions,
                    is_partial=not self._command_line.covers_all_evals(
                        self._project.root / "evals"
                    ),
                    not_run=evals_with_own_code(self._project, places),
                    print_line=self._print_line,
                )
            yield
            return
        calls = self._session.options.record != "none" and bool(self._session.plan.model_trials)
        if calls and self._worker_id is not None:
            self._writer.directory.mkdir(parents=True, exist_ok=True)  # the controller looks for it
        # The modules of the end load while models are called.
        load_the_end = partial(import_module, "regauge.pytest_end")
        with (
            # Models are called by another thread.
            loggers_may_appear() if calls else nullcontext(),
            self._session.running(meanwhile=load_the_end),
            # Signals end the run while models are called, and all completions are kept.
            stop_on_signals(self._config.add_cleanup, calls=calls) as self._check_stopped,
        ):
            yield

    def judge_case(self, item: pytest.Item, planned_case: PlannedCase) -> EvalResult:
        """The judged trials of a case, written to the run record with any outcome."""
        self._check_stopped()
        planned_case = self._plan_of.get(planned_case, planned_case)
        result: EvalResult
        if self._gate is not None:
            gated = result = self._gate.result(planned_case, node_id=item.nodeid)
            if gated.status:
                item.user_properties.append(("regauge.status", gated.status))
        else:
            result = self._session.result(
                planned_case, node_id=item.nodeid, waiting=self._print_progress
            )
            if result.outcome == "failed":
                result = replace(result, not_blocking=self._not_blocking(result))
            if item.nodeid not in self.finished_items.judged_nodes:
                self._writer.add(result)
        self.finished_items.judge(item, result)
        if self._search is not None:
            self._search.note(result)
        self._case_properties = share_properties(junit_properties(result), self._case_properties)
        item.user_properties.extend(self._case_properties)
        self._config.hook.pytest_regauge_case_finished(config=self._config, result=result)
        return result

    def _not_blocking(self, result: EvalResult) -> str:
        if result.case.tier == "tracked":
            return "tracked case"
        if self._replay is None:
            from regauge.gate import ReplayEvidence

            self._replay = ReplayEvidence(self._session, environ=os.environ)
        return self._replay.reason(result)

    def rewrite_report(
        self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]
    ) -> pytest.TestReport:
        """The report of an eval with its message and without secrets; other reports as they are."""
        planned_case, excinfo = case_of(item), call.excinfo
        if planned_case is not None:
            if excinfo is not None and is_skipped(report, excinfo.value):
                excinfo = self._refuse_skip(item, planned_case, report)
            self.finished_items.report(item, report)
        if excinfo is not None:
            self._replace_traceback(report, excinfo, planned_case)
        elif self._gate is not None:
            self._gate.amend(item, report)
        if report.failed:
            self._note_failure(item, report, excinfo)
        elif report.when == "call":  # a plugin may run a failed test again
            self.finished_items.failed_tests.pop(item.nodeid, None)
        if planned_case is None:
            return report
        redact = self._session.completions.redact
        # pytest keeps three reports of every item until the end of a run.
        if report.keywords == self._keywords:
            report.keywords = self._keywords
        self._keywords = report.keywords
        if report.user_properties == self._properties:
            report.user_properties = self._properties
        else:
            pairs = report.user_properties
            pairs[:] = [redact_property(pair, redact) for pair in pairs]
        self._properties = report.user_properties
        return redact_report(report, redact, self._config)

    def _note_failure(
        self,
        item: pytest.Item,
        report: pytest.TestReport,
        excinfo: pytest.ExceptionInfo[BaseException] | None,
    ) -> None:
        """Note a failed item of an eval, or a failed plain test in a directory of evals."""
        error, message = None, str(report.longrepr)  # of a mark, such as a strict xfail
        if excinfo is not None:
            error, message = excinfo.value, excinfo.exconly(tryshort=True).partition("\n")[0]
        if case_of(item) is not None:
            is_explained = isinstance(error, RegaugeError | CaseFailed) or (
                error is not None and self._gate is not None and self._gate.failed(error)
            )
            self.finished_items.fail(item, "" if is_explained else message, error)
            return
        if self._is_in_evals(item.path):
            self.finished_items.failed_tests.setdefault(item.nodeid, message)

    def _is_in_evals(self, path: Path) -> bool:
        directories = eval_directories(self._project, self._collected_evals.places)
        return any(map(path.resolve().is_relative_to, directories))

    def _replace_traceback(
        self,
        report: pytest.TestReport,
        excinfo: pytest.ExceptionInfo[BaseException],
        planned_case: PlannedCase | None,
    ) -> None:
        """Replace the traceback of a failure by its message; tracked cases do not block."""
        error = excinfo.value
        # The decision of a gate annotates its cases.
        if planned_case is not None and self._gate is None:
            words = error.short if isinstance(error, CaseFailed) else str(error)
            vars(report).update(regauge_at=planned_case.case.location, regauge_short=words)
            if isinstance(error, CaseFailed):
                path, colons, rest = report.nodeid.partition("::")
                place = os.path.relpath(
                    self._config.rootpath / path, self._config.invocation_params.dir
                )
                error.show_node(f"{place}{colons}{rest}")
                vars(report)["regauge_failed"] = asdict(failed_case(planned_case, error))
        if isinstance(error, CaseFailed) and (reason := error.result.not_blocking):
            report.outcome = "skipped"
            report.wasxfail = f"{reason}: {error.short}"
            if error.result.case.tier != "tracked":
                vars(report)["regauge_status"] = _NOT_BLOCKING
        if isinstance(error, CaseFailed) or (self._gate is not None and self._gate.failed(error)):
            report.longrepr = words_of(excinfo, error.short)
        elif isinstance(error, RegaugeError):
            report.longrepr = words_of(excinfo, str(error).splitlines()[0])
            if isinstance(error, UnmeasuredError):
                vars(report)["regauge_unmeasured"] = True
                # A mark such as xfail allows failures, not unmeasured cases.
                report.outcome = "failed"
                vars(report).pop("wasxfail", None)

    def _refuse_skip(
        self, item: pytest.Item, planned_case: PlannedCase, report: pytest.TestReport
    ) -> pytest.ExceptionInfo[BaseException] | None:
        """Report a skipped item as unmeasured, or as failed if judges failed it already."""
        if self._gate is not None and self._gate.leaves_alone(
            self._plan_of.get(planned_case, planned_case)
        ):
            self.finished_items.settle(item)
            return None
        excinfo = raise_and_catch(self._error_of_skipped(item, planned_case, report))
        report.outcome = "failed"
        vars(report).pop("wasxfail", None)
        return excinfo

    def _error_of_skipped(
        self, item: pytest.Item, planned_case: PlannedCase, report: pytest.TestReport
    ) -> Exception:
        """The error of an item that a mark, a fixture, its function or a judge skipped."""
        result = self.finished_items.result(item)
        if result is not None and result.outcome == "failed":
            try:
                result.check()
            except AssertionError as failed:
                return failed
        error = skip_error(item, planned_case, report)
        if result is not None or self._gate is not None:
            self.finished_items.left_out[item.nodeid] = str(error)
        if result is not None:  # after its judges
            message = str(error).partition("\n")[0]
            self.finished_items.failed_tests.setdefault(item.nodeid, message)
        return error

    def finish(self, session: pytest.Session, *, workers: Sequence[str]) -> str | None:
        """Write recordings and close the run record.

        Args:
            session: The session of pytest.
            workers: The return values of this method in xdist workers, in their controller.

        Returns:
            The report of a worker for its controller; None in other processes.
        """
        if self._config.option.collectonly:
            return None
        from regauge.pytest_end import PytestEnd

        for result in self.finished_items.close(session.items):
            if self._gate is None:
                self._writer.add(result)
        self.end = PytestEnd(
            config=self._config,
            project=self._project,
            evals=self._session,
            writer=self._writer,
            gate=self._gate,
            search=self._search,
            started_at=self._started_at,
            collected_count=len(self._collected_evals.cases),
            omissions=self._omissions,
            selection=self._command_line.selection,
            finished_items=self.finished_items,
            parts=self._parts,
            worker=self._worker_id is not None,
            print_line=self._print_line,
        )
        # A search for suggestions takes long, and can be interrupted.
        with ignore_signals() if self._search is None else nullcontext():
            return self.end.finish(session, workers=workers)

    def _print_progress(self, progress: RunProgress) -> None:
        """Print a line of progress while a completion is awaited."""
        from regauge.reports import progress_line

        self._print_line(progress_line(progress, self._session.budget))

    def _print_line(self, line: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._worker_id is None:
            terminal.ensure_newline()
            writer = self._config.get_terminal_writer()
            if writer.width_of_current_line:
                # With -q, pytest does not track that its dots are on this line.
                writer.line()
            terminal.write_line(line)

    def _new_search(self) -> RefinementSearch:
        """The search for fixes."""
        from regauge.pytest_suggest import CYCLES, RefinementSearch

        return RefinementSearch(
            session=self._session,
            cycles=self._config.getoption("--max-cycles") or CYCLES,
            rebind=lambda session, eval_: self._binders[id(eval_)](session),
        )

    def _new_gate(self) -> PytestGate:
        """The gate, which compares with a base version."""
        from regauge.pytest_gate import PytestGate

        return PytestGate(self._config, self._session, writer=self._writer)


def _gate_trials() -> IndependentTrials:
    """The trials of a gate that committed recordings cannot replace."""
    from regauge.gate import GATE_TRIALS

    return GATE_TRIALS


def _refuse_repeats(metafunc: pytest.Metafunc) -> None:
    """Refuse repeats by pytest-repeat, which would count completions several times.

    Raises:
        pytest.Collector.CollectError: The eval is repeated.
    """
    mark = metafunc.definition.get_closest_marker("repeat")
    count: Any = mark.args[0] if mark is not None else metafunc.config.getoption("count")
    if count > 1:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: repeats judge the same completions again\n"
            "  fix: leave out --count and the mark `repeat`; --trials N runs N trials of each case"
        )


def _refuse_targets_alone(selected: Sequence[PlannedCase]) -> None:
    """Refuse `--model` if every selected eval tests a target.

    Raises:
        pytest.UsageError: No selected eval tests a prompt.
    """
    if all(case.eval.target is not None for case in selected):
        name = selected[0].eval.prompt.name
        raise pytest.UsageError(
            f"--model changes prompts, and every selected eval tests a target, such as {name}\n"
            "  fix: leave out --model, or select evals of prompts"
        )
