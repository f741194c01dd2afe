"""What the pytest plugin's hooks hand over to: one pytest run that has evals in it."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import Fault, FaultyFileError, RegaugeError, UnmeasuredError
from regauge.garbage import collecting_seldom, keep_for_good
from regauge.history import add_finished_run
from regauge.project import Project
from regauge.prompts import LOCK_NAME
from regauge.pytest_loggers import loggers_may_appear
from regauge.pytest_prompt_file import PromptCase
from regauge.recordings import describe_process
from regauge.reports import (
    RunEnd,
    RunWriter,
    cause_lines,
    failure_annotations,
    gate_annotations,
    git_state,
    in_github_actions,
    judge_lines,
    junit_properties,
    missing_judgement_lines,
    missing_lines,
    progress_line,
    read_rows,
    recorded_lines,
    suite_lines,
    write_job_summary,
)
from regauge.runner import (
    CaseFailed,
    EvalResult,
    EvalSession,
    PlannedCase,
    missing_answers,
    resolve_options,
    spec_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from regauge.pytest_gate import PytestGate
    from regauge.pytest_suggest import Suggesting
    from regauge.reports import Line, RunRecord, Suggestion
    from regauge.runner import Progress, Suite

__all__ = ["PytestRun"]

_FIXTURE = "result"
_MARKUP: dict[str, dict[str, bool]] = {
    "plain": {},
    "quiet": {"light": True},
    "good": {"green": True},
    "bad": {"red": True},
}


class PytestRun:
    """One run of pytest in one process, from collection to summary.

    Args:
        config: Of pytest.
        run_id: The name of the run, which xdist's workers share.

    Raises:
        RegaugeError: A setting or an option makes no sense.
    """

    def __init__(self, config: pytest.Config, *, run_id: str) -> None:
        self._config = config
        seldom = ExitStack()
        seldom.enter_context(collecting_seldom())
        config.add_cleanup(seldom.close)  # items are made, too, of many objects that stay
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._worker_id: str | None = worker["workerid"] if worker else None
        self._project = Project.find(config.rootpath)
        options = resolve_options(
            self._project.settings,
            os.environ,
            record=config.getoption("--record"),
            trials=config.getoption("--trials"),
            concurrency=config.getoption("--concurrency"),
            model=config.getoption("--model"),
            judge_model=config.getoption("--judge-model"),
            rejudge=bool(config.getoption("--rejudge")),
            budget_usd=config.getoption("--budget-usd"),
            budget_tokens=config.getoption("--budget-tokens"),
            budget_calls=config.getoption("--budget-calls"),
            fail_fast=bool(config.getoption("maxfail")),
        )
        # The run is named for its start, and workers and controller share the name.
        self._started_at = datetime.strptime(run_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        self._session = EvalSession(
            self._project,
            options,
            environ=os.environ,
            workers=int(worker["workercount"]) if worker else 1,
            # xdist starts its workers itself, so the run belongs to their parent.
            run_owner=describe_process(os.getppid()) if worker else None,
            run_started=self._started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        self._writer = RunWriter(
            self._project.state_dir / "runs" / run_id,
            redact=self._session.answers.redact,
            worker=self._worker_id,
        )
        if not config.option.collectonly:
            self._project.prepare_state_dir("runs")
            _refuse_directories(self._project)
        self._collected = 0
        self._record: RunRecord | None = None
        self._end = RunEnd()
        self._trouble: list[str] = []
        self._nodes: dict[int, str] = {}
        self._gate = self._asked_to_gate()
        self._declared: dict[int, Callable[[EvalSession], Suite]] = {}
        self._suggesting = self._asked_to_suggest()
        self._suggestions: list[Suggestion] = []

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Make one item per golden case of an eval.

        Raises:
            pytest.Collector.CollectError: What the eval names cannot be loaded.
        """
        spec = spec_of(metafunc.function)
        assert spec is not None
        try:
            suite = self._session.bind(spec, metafunc.function)
        except RegaugeError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        if _FIXTURE not in metafunc.fixturenames:
            raise pytest.Collector.CollectError(
                f"{metafunc.definition.nodeid}: an eval takes the argument `result`\n"
                f"  fix: def {metafunc.function.__name__}(result): result.check()"
            )
        function = metafunc.function
        self._declared[id(suite)] = lambda session: session.bind(spec, function)
        planned = [PlannedCase(suite, case) for case in suite.dataset.cases]
        self._collected += len(planned)
        ids = [case.id for case in suite.dataset.cases]
        metafunc.parametrize(_FIXTURE, planned, ids=ids, indirect=True)

    def cases_of_prompt_file(self, path: Path) -> list[PlannedCase]:
        """The rows of a prompt file's own `testData`.

        Raises:
            pytest.Collector.CollectError: The file cannot be used as it is.
        """
        try:
            suite = self._session.bind_prompt_file(path)
        except RegaugeError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        self._declared[id(suite)] = lambda session: session.bind_prompt_file(path)
        self._collected += len(suite.dataset)
        return [PlannedCase(suite, case) for case in suite.dataset]

    def plan(self, items: Sequence[pytest.Item]) -> None:
        """Plan the evals among the selected items, and tell other plugins."""
        evals = [(item, planned) for item in items if (planned := _planned_case(item)) is not None]
        if self._gate is not None:
            self._nodes = {id(planned): item.nodeid for item, planned in evals}
        _locate([item for item, _ in evals])
        self._session.prepare([planned for _, planned in evals])
        self._config.hook.pytest_regauge_planned(config=self._config, evals=self._session)

    @contextmanager
    def running(self) -> Generator[None]:
        """Draw answers ahead while the block runs; a gate decides before it."""
        if "PYTEST_CURRENT_TEST" not in os.environ:  # a run inside a test is garbage when it ends
            keep_for_good()
        if self._gate is not None:
            self._gate.run(self._nodes, say=self._say)
            yield
            return
        with loggers_may_appear(), self._session.running():
            yield

    def result(self, request: pytest.FixtureRequest) -> EvalResult:
        """The judged trials of one item, written to the run record.

        Raises:
            UnmeasuredError: There is no answer or no verdict.
        """
        result = self.judged(request.node, request.param)
        if result.outcome == "unmeasured":
            raise result.error or UnmeasuredError("nothing was measured")
        return result

    def judged(self, item: pytest.Item, planned: PlannedCase) -> EvalResult:
        """The judged trials of a case, written to the run record whatever they say."""
        result: EvalResult
        if self._gate is not None:
            gated = result = self._gate.result(planned, where=item.nodeid)
            item.user_properties.append(("regauge.verdict", gated.gated.verdict))
        else:
            result = self._session.result(planned, where=item.nodeid, waiting=self._say_progress)
            self._writer.add(result)
        if self._suggesting is not None:
            self._suggesting.note(result)
        item.user_properties.extend(junit_properties(result))
        self._config.hook.pytest_regauge_case_finished(config=self._config, result=result)
        return result

    def check(self, item: pytest.Item) -> None:
        """Apply the judges where the body of an eval did not."""
        result = getattr(item, "funcargs", {}).get(_FIXTURE)
        if isinstance(result, EvalResult) and not result.checked:
            result.check()

    def amend(
        self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]
    ) -> None:
        """Replace the traceback of a judged failure by its words; tracked cases do not block."""
        if call.excinfo is None:
            if self._gate is not None:
                self._gate.amend(item, report)
            return
        error = call.excinfo.value
        planned = _planned_case(item)
        # What the gate says of a case is said with its decision.
        if planned is not None and self._gate is None:
            words = error.short if isinstance(error, CaseFailed) else str(error)
            vars(report).update(regauge_at=planned.case.at, regauge_short=words)
        if self._gate is not None and self._gate.failed(error):
            report.longrepr = _words(call.excinfo, error.short)
        elif isinstance(error, CaseFailed):
            if error.result.case.tier == "tracked":
                report.outcome = "skipped"
                report.wasxfail = f"tracked case: {error.short}"
            report.longrepr = _words(call.excinfo, error.short)
        elif isinstance(error, RegaugeError):
            report.longrepr = _words(call.excinfo, str(error).splitlines()[0])
            if isinstance(error, UnmeasuredError):
                vars(report)["regauge_unmeasured"] = True
                # A mark such as xfail forgives failures; what was not measured did not fail.
                report.outcome = "failed"
                vars(report).pop("wasxfail", None)

    def finish(self, session: pytest.Session, *, workers: Sequence[str]) -> str | None:
        """Publish recordings and close the run record.

        Args:
            session: Of pytest.
            workers: What this method returned in xdist's workers, where this process controls
                them.

        Returns:
            In a worker, what its controller needs to know; None elsewhere.
        """
        interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED or bool(session.shouldstop)
        complete = not (interrupted or session.shouldfail)
        try:
            self._end = self._ended(workers, complete=complete)
        except RegaugeError as error:
            self._trouble.append(str(error))
            session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR
        self._writer.close()
        if self._worker_id is not None:
            return self._end.to_text()
        self._writer.gather()
        decision = self._gate.document if self._gate is not None else None
        if self._gate is not None and not self._gate.accepts:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if self._writer.empty and decision is None:
            return None
        if self._suggesting is not None and complete:
            # `regauge gate` shows no item its result.
            for result in self._gate.results if self._gate is not None else ():
                self._suggesting.note(result)
            self._suggestions = self._suggesting.made(self._say)
        self._record = self._writer.finish(
            started_at=self._started_at,
            interrupted=interrupted,
            command=_typed(),
            options=asdict(self._session.options),
            git=git_state(self._project.root, written=self._project.recordings_dir),
            decision=decision,
            suggestions=self._suggestions,
        )
        self._tell(self._record)
        target = self._config.getoption("--report")
        if target:
            try:
                self._writer.export(Path(target))
            except OSError as error:
                self._trouble.append(f"--report {target}: {error.strerror or error}")
                session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR
        return None

    def _tell(self, record: RunRecord) -> None:
        """Let others know of the record: a workflow's job, the team's history, and plugins."""
        directory = self._writer.directory
        for trouble in (
            write_job_summary(record, read_rows(directory), os.environ),
            add_finished_run(self._project, os.environ, directory),
        ):
            if trouble:
                self._trouble.append(trouble)
        self._config.hook.pytest_regauge_recorded(
            config=self._config, record=record, directory=directory
        )

    def _ended(self, workers: Sequence[str], *, complete: bool) -> RunEnd:
        """Publish this process's recordings, and join what workers said of theirs."""
        answers = self._session.answers
        missing = (
            missing_answers(
                self._session.plan,
                answers,
                self._project.settings,
                options=self._session.options,
            )
            if self._session.options.record == "none" and self._gate is None
            else []
        )
        end = RunEnd(
            collected=self._collected,
            planned=len(self._session.plan.cases),
            missing=missing,
            missing_judgements=self._session.misses.summary(
                answers, self._project.settings, options=self._session.options
            ),
            session=answers.session,
        )
        for text in workers:
            end = end.joined(RunEnd.from_text(text))
        if workers and complete and end.session is not None:
            answers.end_session(end.session)
        published = self._session.finish(
            complete=complete,
            trials_below=self._gate.trials_below if self._gate is not None else None,
        )
        return end.with_written(
            {str(self._project.relative(path)): n for path, n in published.written.items()}
        )

    def summarise(self, terminal: pytest.TerminalReporter) -> None:
        """Show the table, what is unmeasured and why, and the command that fixes it."""
        if self._config.option.collectonly:
            return
        if self._end.collected and not self._end.planned:
            terminal.section("regauge", sep="=")
            terminal.write_line(
                f"nothing was measured: none of the {self._end.collected} collected cases was"
                " selected",
                red=True,
            )
        if self._gate is not None and self._gate.cut_off:
            terminal.write_line(
                "gate: interrupted before it decided; what was answered is kept, and the same"
                " command goes on from there",
                red=True,
            )
        if self._record is None:
            return
        terminal.section("regauge", sep="=")
        lines = [
            *(self._gate.lines() if self._gate is not None else suite_lines(self._record.suites)),
            *judge_lines(self._record.suites),
            *cause_lines(self._writer.tally.causes()),
            *missing_lines(self._end.missing),
            *missing_judgement_lines(self._end.missing_judgements),
            *recorded_lines(self._end.written),
            *self._suggestion_lines(),
        ]
        for line in lines:
            terminal.write_line(line.text, **_MARKUP[line.tone])
        for text in self._trouble:
            terminal.write_line(text, red=True)
        if in_github_actions(os.environ):
            for command in self._annotations(terminal):
                terminal.write_line(command)
        terminal.write_line(f"run {self._record.id} · regauge report {self._record.id}")

    def _annotations(self, terminal: pytest.TerminalReporter) -> list[str]:
        """Marks on lines of prompts and cases, for whoever reads the pull request."""
        root = self._project.root
        reports = [*terminal.stats.get("failed", ()), *terminal.stats.get("unmeasured", ())]
        failures = [
            (str(report.regauge_at), report.nodeid, str(report.regauge_short))
            for report in reports
            if hasattr(report, "regauge_at")
        ]
        marks = failure_annotations(failures, root, os.environ)
        if self._gate is not None and self._gate.document is not None:
            marks += gate_annotations(self._gate.document, root, os.environ)
        return marks

    def _say_progress(self, progress: Progress) -> None:
        """A line on the terminal now and then, while an answer is awaited."""
        self._say(progress_line(progress, self._session.budget))

    def _say(self, line: str) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._worker_id is None:
            terminal.ensure_newline()
            writer = self._config.get_terminal_writer()
            if writer.width_of_current_line:
                # Under -q pytest forgets that its dots stand on this line.
                writer.line()
            terminal.write_line(line)

    def _asked_to_suggest(self) -> Suggesting | None:
        """What looks for repairs, where the run is to suggest some."""
        if not self._config.getoption("--suggest") or self._config.option.collectonly:
            return None
        from regauge.pytest_suggest import Suggesting

        return Suggesting(
            self._session,
            cycles=self._config.getoption("--max-cycles"),
            again=lambda session, suite: self._declared[id(suite)](session),
        )

    def _suggestion_lines(self) -> list[Line]:
        if not self._suggestions:
            return []
        from regauge.pytest_suggest import suggestion_lines

        return suggestion_lines(self._suggestions)

    def _asked_to_gate(self) -> PytestGate | None:
        """The gate, where the run is to compare with a base version."""
        if self._config.getoption("--gate") is None or self._config.option.collectonly:
            return None
        from regauge.pytest_gate import PytestGate

        return PytestGate(self._config, self._session, writer=self._writer)


def _refuse_directories(project: Project) -> None:
    """Refuse directories that stand in place of files which a run may do without.

    Raises:
        FaultyFileError: There are some.
    """
    found = [project.prompts_dir / LOCK_NAME, *sorted(project.recordings_dir.glob("*.jsonl"))]
    faults = [Fault.unreadable(path, IsADirectoryError()) for path in found if path.is_dir()]
    if faults:
        raise FaultyFileError(faults)


def _typed() -> list[str]:
    """The command line that this process was started with, by the name of its program."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.stem
    return ["regauge" if name == "regauge" else "pytest", *sys.argv[1:]]


def _planned_case(item: pytest.Item) -> PlannedCase | None:
    """The case an item is about; None when it is no eval."""
    if isinstance(item, PromptCase):
        return item.planned
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    planned = callspec.params.get(_FIXTURE)
    return planned if isinstance(planned, PlannedCase) else None


def _locate(items: Iterable[pytest.Item]) -> None:
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


def _words(excinfo: pytest.ExceptionInfo[BaseException], short: str) -> Any:
    """A report of an exception that shows its message alone, with a short form for lists."""
    words = excinfo.getrepr(style="value")
    if words.reprcrash is not None:
        words.reprcrash.message = short
    return words
