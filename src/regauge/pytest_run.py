"""What the pytest plugin's hooks hand over to: one pytest run that has evals in it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import RegaugeError, UnmeasuredError
from regauge.project import Project
from regauge.reports import (
    RunWriter,
    cause_lines,
    git_state,
    missing_lines,
    progress_line,
    suite_lines,
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
    from collections.abc import Generator, Iterator, Sequence

    from regauge.reports import RunRecord
    from regauge.runner import Progress, Published

__all__ = ["PytestRun"]

_FIXTURE = "result"


class PytestRun:
    """One run of pytest in one process, from collection to summary.

    Args:
        config: Of pytest.
        run_id: The name of the run, which xdist's workers share.
    """

    def __init__(self, config: pytest.Config, *, run_id: str) -> None:
        self._config = config
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._worker_id: str | None = worker["workerid"] if worker else None
        self._controls_workers = worker is None and getattr(config.option, "dist", "no") != "no"
        try:
            self._project = Project.find(config.rootpath)
            options = resolve_options(
                self._project.settings,
                os.environ,
                record=config.getoption("--record"),
                trials=config.getoption("--trials"),
                concurrency=config.getoption("--concurrency"),
                model=config.getoption("--model"),
                budget_usd=config.getoption("--budget-usd"),
                fail_fast=bool(config.getoption("maxfail")),
            )
            self._session = EvalSession(
                self._project,
                options,
                environ=os.environ,
                workers=int(worker["workercount"]) if worker else 1,
            )
        except RegaugeError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        self._writer = RunWriter(
            self._project.state_dir / "runs" / run_id,
            redact=self._session.answers.redact,
            worker=self._worker_id,
        )
        self._started_at = datetime.now(UTC).replace(microsecond=0)
        self._collected = 0
        self._record: RunRecord | None = None
        self._published: Published | None = None
        self._trouble: list[str] = []

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
        planned = [PlannedCase(suite, case) for case in suite.dataset.cases]
        self._collected += len(planned)
        ids = [case.id for case in suite.dataset.cases]
        metafunc.parametrize(_FIXTURE, planned, ids=ids, indirect=True)

    def plan(self, items: Sequence[pytest.Item]) -> None:
        """Plan the evals among the selected items, and tell other plugins."""
        cases = [planned for item in items if (planned := _planned_case(item)) is not None]
        try:
            self._session.prepare(cases)
        except RegaugeError as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        self._config.hook.pytest_regauge_planned(config=self._config, evals=self._session)

    @contextmanager
    def running(self) -> Generator[None]:
        """Draw answers ahead while the block runs."""
        with self._session.running():
            yield

    def result(self, request: pytest.FixtureRequest) -> EvalResult:
        """The judged trials of one item, written to the run record.

        Raises:
            UnmeasuredError: There is no answer or no verdict.
        """
        planned: PlannedCase = request.param
        node: pytest.Item = request.node
        result = self._session.result(planned, where=node.nodeid, waiting=self._say_progress)
        self._writer.add(result)
        node.user_properties.extend(_properties(result))
        self._config.hook.pytest_regauge_case_finished(config=self._config, result=result)
        if result.outcome == "unmeasured":
            raise result.error or UnmeasuredError("nothing was measured")
        return result

    def check(self, item: pytest.Item) -> None:
        """Apply the judges where the body of an eval did not."""
        result = getattr(item, "funcargs", {}).get(_FIXTURE)
        if isinstance(result, EvalResult) and not result.checked:
            result.check()

    def amend(self, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Replace the traceback of a judged failure by its words; tracked cases do not block."""
        if call.excinfo is None:
            return
        error = call.excinfo.value
        if isinstance(error, CaseFailed):
            if error.result.case.tier == "tracked":
                report.outcome = "skipped"
                report.wasxfail = f"tracked case: {error.short}"
            report.longrepr = _words(call.excinfo, error.short)
        elif isinstance(error, RegaugeError):
            report.longrepr = _words(call.excinfo, str(error).splitlines()[0])
            vars(report)["regauge_unmeasured"] = isinstance(error, UnmeasuredError)

    def finish(self, session: pytest.Session) -> None:
        """Publish recordings and close the run record; the controller joins its workers'."""
        interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED or bool(session.shouldstop)
        try:
            self._published = self._session.finish(complete=not (interrupted or session.shouldfail))
        except RegaugeError as error:
            self._trouble.append(str(error))
            session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR
        self._writer.close()
        if self._worker_id is not None:
            return
        self._writer.gather()
        if self._writer.empty:
            return
        self._record = self._writer.finish(
            started_at=self._started_at,
            interrupted=interrupted,
            command=["pytest", *sys.argv[1:]],
            options=asdict(self._session.options),
            git=git_state(self._project.root),
        )
        target = self._config.getoption("--report")
        if target:
            self._writer.export(Path(target))

    def summarise(self, terminal: pytest.TerminalReporter) -> None:
        """Show the table, what is unmeasured and why, and the command that fixes it."""
        tones = {"good": {"green": True}, "bad": {"red": True}, "quiet": {"bold": False}}
        if self._collected and not self._session.plan.cases and self._record is None:
            if not self._config.option.collectonly and not self._controls_workers:
                terminal.section("regauge", sep="=")
                terminal.write_line(
                    f"nothing was measured: none of the {self._collected} collected cases was"
                    " selected",
                    red=True,
                )
            return
        if self._record is None:
            return
        terminal.section("regauge", sep="=")
        lines = [*suite_lines(self._record.suites), *cause_lines(self._writer.tally.causes())]
        for line in lines:
            terminal.write_line(line.text, **tones.get(line.tone, {}))
        for text in (*self._next_steps(), *self._trouble):
            terminal.write_line(text)
        terminal.write_line(f"run {self._record.id} · regauge report {self._record.id}")

    def _next_steps(self) -> Iterator[str]:
        """What was written, and what needs recording with what it would cost."""
        if self._published is not None:
            for path, count in self._published.written.items():
                where = self._project.relative(path)
                yield f"recorded: {count} new answers in {where}; commit it with the prompt"
        if self._session.options.record == "none":
            missing = missing_answers(
                self._session.plan, self._session.answers, self._project.settings
            )
            yield from (line.text for line in missing_lines(missing))

    def _say_progress(self, progress: Progress) -> None:
        """A line on the terminal now and then, while an answer is awaited."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._worker_id is None:
            terminal.ensure_newline()
            terminal.write_line(progress_line(progress, self._session.budget))


def _planned_case(item: pytest.Item) -> PlannedCase | None:
    """The case an item is about; None when it is no eval."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    planned = callspec.params.get(_FIXTURE)
    return planned if isinstance(planned, PlannedCase) else None


def _properties(result: EvalResult) -> Iterator[tuple[str, object]]:
    """What JUnit files carry about a case."""
    yield "regauge.prompt", str(result.prompt.id)
    yield "regauge.case", result.case.id
    yield "regauge.tier", result.case.tier
    yield "regauge.model", str(result.suite.model)
    yield "regauge.trials", len(result.trials)
    yield "regauge.passed", result.passed
    for trial in result.trials:
        if trial.answer is not None:
            completion = trial.answer.completion
            at = f"[{trial.number}]" if len(result.trials) > 1 else ""
            yield f"regauge.latency_s{at}", completion.latency_s
            if completion.cost_usd is not None:
                yield f"regauge.cost_usd{at}", completion.cost_usd
            yield f"regauge.source{at}", trial.answer.source
            for judged in trial.verdicts:
                yield f"regauge.score{at}.{judged.judge}", judged.verdict.score


def _words(excinfo: pytest.ExceptionInfo[BaseException], short: str) -> Any:
    """A report of an exception that shows its message alone, with a short form for lists."""
    words = excinfo.getrepr(style="value")
    if words.reprcrash is not None:
        words.reprcrash.message = short
    return words
