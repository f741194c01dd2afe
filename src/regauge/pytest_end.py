"""The end of a pytest run with evals: recordings, run record, summary."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regauge.errors import RegaugeError
from regauge.history import add_finished_run
from regauge.pytest_items import commanded_key
from regauge.pytest_output import terminal_stream
from regauge.reports import (
    RunEnd,
    ShardEval,
    ShardPart,
    cause_lines,
    eval_lines,
    failed_lines,
    failure_annotations,
    gate_annotations,
    git_state,
    job_state,
    judge_lines,
    missing_judgement_lines,
    missing_lines,
    not_blocking_lines,
    recorded_lines,
    shard_lines,
    stored_lines,
    write_job_summary,
)
from regauge.runner import count_lines
from regauge.wording import first_of, plural, printable
from regauge.workflow_commands import in_github_actions, print_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from regauge.datasets import Shard
    from regauge.errors import Diagnostic
    from regauge.project import Project
    from regauge.pytest_gate import PytestGate
    from regauge.pytest_items import FinishedItems
    from regauge.pytest_suggest import RefinementSearch
    from regauge.reports import FailedCase, RunRecord, RunWriter, StyledLine, Suggestion
    from regauge.runner import EvalSession

_NAMED_MAX = 5
_WITHOUT_FAILURE = frozenset({pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED})
_MARKUP: dict[str, dict[str, bool]] = {
    "plain": {},
    "quiet": {"light": True},
    "good": {"green": True},
    "bad": {"red": True},
}


@dataclass(slots=True, kw_only=True)
class PytestEnd:
    """The work after the last case is judged.

    Attributes:
        config: The configuration of pytest.
        evals: The session of the judged cases.
        gate: The gate; None without `--gate`.
        search: The search for fixes; None without `--suggest`.
        collected_count: The number of collected cases, selected or not.
        omissions: Evals and cases that the run omits without a selection of the user.
        selection: The user's selection, such as `-k disk` and node ids.
        finished_items: The planned items that ran.
        parts: The part of each eval in this shard.
        worker: Whether this process is a worker of xdist.
        print_line: Called with each line for the terminal.
    """

    config: pytest.Config
    evals: EvalSession
    writer: RunWriter
    gate: PytestGate | None
    search: RefinementSearch | None
    started_at: datetime
    collected_count: int
    omissions: Sequence[Diagnostic]
    selection: Sequence[str]
    finished_items: FinishedItems
    parts: Sequence[ShardEval]
    worker: bool
    print_line: Callable[[str], None]
    _record: RunRecord | None = field(default=None, init=False)
    _end: RunEnd = field(default_factory=RunEnd, init=False)
    _trouble: list[str] = field(default_factory=list[str], init=False)
    _unmeasured: list[str] = field(default_factory=list[str], init=False)
    _nothing_judged: bool = field(default=False, init=False)
    _interrupted: bool = field(init=False)

    def finish(self, session: pytest.Session, *, workers: Sequence[str]) -> str | None:
        """Write recordings and close the run record, see `PytestRun.finish`."""
        interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED or bool(session.shouldstop)
        self._interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED
        complete = not (interrupted or session.shouldfail)
        self._end = self._publish(workers, complete=complete)
        self.writer.close()
        if self.worker:
            # The controller tries to write these rows, and reports if it cannot.
            return replace(self._end, unwritten=self.writer.unwritten).to_text()
        if self.gate is not None:
            tests = self.gate.note_failed_tests(self._end.failed_tests)
            self._end = replace(self._end, failed_tests=tests)
        self._trouble += self._end.trouble
        self.writer.gather(self._end.unwritten)
        self._set_exit_status(session, interrupted=interrupted)
        has_decision = self.gate is not None and self.gate.document is not None
        # A shard without cases is recorded, too.
        has_shard = self.evals.options.shard is not None and not interrupted
        if self.writer.empty and not has_decision and not (has_shard and self._end.parts):
            self._discard_record(session, interrupted=interrupted)
            return None
        suggestions: list[Suggestion] = []
        if self.search is not None and complete:
            # `regauge gate` runs no items.
            for result in self.gate.results if self.gate is not None else ():
                self.search.note(result)
            suggestions = self.search.suggest(self.print_line)
        self._fail_with_trouble(session)  # a shard records its exit status
        options, shard = asdict(replace(self.evals.options, shard=None)), self.evals.options.shard
        del options["cluster"]  # results do not depend on the process that makes calls
        self._record = self.writer.finish(
            started_at=self.started_at,
            interrupted=interrupted,
            command=_command_typed(),
            options=options,
            git=git_state(self.evals.project.root, output_dir=self.evals.project.recordings_dir),
            decision=self.gate.document if self.gate is not None else None,
            suggestions=suggestions,
            failed_tests=self._end.failed_tests,
            shard=self._part(session, shard) if shard is not None else None,
        )
        self._trouble += filter(None, [self.writer.trouble])
        self._fail_with_trouble(session)
        self._pass_on(session, self._record)
        if commanded_key in self.config.stash:  # no summary is shown
            for text in self._trouble:
                sys.stderr.write(f"warning: {printable(text)}\n")
        return None

    def _set_exit_status(self, session: pytest.Session, *, interrupted: bool) -> None:
        """The exit status for unmeasured cases, of the gate, and of a shard without cases."""
        # A command that collects runs no item.
        if not interrupted and commanded_key not in self.config.stash:
            self._unmeasured = [
                *self._describe_unmeasured(all_had_turns=session.exitstatus in _WITHOUT_FAILURE)
            ]
            if self._unmeasured:
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        gate_status = self.gate.exit_status if self.gate is not None else 0
        if gate_status and session.exitstatus in _WITHOUT_FAILURE:
            session.exitstatus = gate_status
        is_empty = session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if self.evals.options.shard is not None and is_empty:
            session.exitstatus = pytest.ExitCode.OK

    def _discard_record(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Leave no record of a run that judged nothing."""
        # Interrupted workers report no plan. Errors of collection interrupt a run, too.
        has_plan = self._end.selected_cases > 0 or not (
            self._end.collected_cases or self._end.omissions
        )
        self._nothing_judged = (
            interrupted and has_plan and self.gate is None and not session.testsfailed
        )
        with suppress(OSError):
            self.writer.directory.rmdir()  # workers make it before their first row
        self._fail_with_trouble(session)

    def _pass_on(self, session: pytest.Session, record: RunRecord) -> None:
        """Give the record to a workflow's job, the run history, plugins and `--report`."""
        directory = self.writer.directory
        troubles = (
            write_job_summary(record, directory, os.environ),
            add_finished_run(self.evals.project, os.environ, directory),
        )
        self._trouble += filter(None, troubles)
        try:
            self.config.hook.pytest_regauge_recorded(
                config=self.config,
                record=record,
                directory=directory,
                line_counts=self._end.written_lines,
            )
        except Exception as error:  # noqa: BLE001 - the results are whole, whatever a plugin does
            self._trouble.append(_describe_hook_error(error, self.evals.project))
            self._fail_with_trouble(session)
        target = self.config.getoption("--report")
        if target:
            try:
                shutil.copytree(directory, target, dirs_exist_ok=True)
            except OSError as error:
                self._trouble.append(f"--report {target}: {error.strerror or error}")
                session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR

    def _part(self, session: pytest.Session, shard: Shard) -> ShardPart:
        """The part of a sharded run that this run is."""
        return ShardPart(
            number=shard.number,
            count=shard.count,
            shard_by=shard.assigned_by,
            base=self.gate.base_commit if self.gate is not None else "",
            record=self.evals.options.record,
            exit_status=int(session.exitstatus),
            job=job_state(os.environ),
            selection=[*self.selection],
            evals=self._end.parts,
            lines=count_lines(self.writer.directory),
            unmeasured=[text.partition("\n")[0] for text in self._unmeasured],
        )

    def _fail_with_trouble(self, session: pytest.Session) -> None:
        """Fail a run whose recordings or record could not be written."""
        if self._trouble:
            session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR

    def _publish(self, workers: Sequence[str], *, complete: bool) -> RunEnd:
        """Write this process's recordings, and join the reports of workers."""
        completions = self.evals.completions
        replays = self.evals.options.record == "none" and self.gate is None
        missing = self.evals.plan.missing if replays else ()
        end = RunEnd(
            collected_cases=self.collected_count,
            selected_cases=len(self.finished_items.has_result),
            session=completions.session,
            turns=self.finished_items.count,
            without_result=self.finished_items.without_result,
            left_out=self.finished_items.left_out,
            failed_tests=self.finished_items.failed_tests,
            # The omissions of a gate are part of its decision.
            omissions=[*map(str, self.omissions)]
            if self.gate is None or self.evals.options.shard is not None
            else [],
            parts=[*self.parts],
        )
        misses = self.evals.misses
        try:
            if missing or misses.judges:
                end = replace(
                    end,
                    missing=self.evals.missing_completions(missing),
                    missing_judgements=self.evals.missing_judgements(missing, misses=misses),
                )
        except RegaugeError as error:
            end = replace(end, trouble=[str(error)])
        for text in workers:
            end = end.merge(RunEnd.from_text(text))
        if workers and complete and end.session is not None:
            completions.end_session(end.session)
        try:
            published = self.evals.finish(complete=complete)
        except RegaugeError as error:
            return replace(end, trouble=[*end.trouble, str(error)])
        lines, counts = (
            {str(self.evals.project.relative(path)): count for path, count in files.items()}
            for files in (published.changed_lines, published.stored_counts)
        )
        return end.merge(RunEnd(written_lines=lines, uncommitted=counts if replays else {}))

    def _describe_unmeasured(self, *, all_had_turns: bool) -> Iterator[str]:
        """The cases that should be measured and are not, each with its fix."""
        end = self._end
        for diagnostic in end.omissions:
            yield f"unmeasured: {diagnostic}"
        causes: dict[str, list[str]] = {}
        for node, reason in end.left_out.items():
            causes.setdefault(reason.splitlines()[0], []).append(node)
        for cause, nodes in causes.items():
            fix = end.left_out[nodes[0]].removeprefix(cause)
            cases = f"{plural(len(nodes), 'case')} {cause}: {first_of(nodes, _NAMED_MAX)}"
            yield f"unmeasured: {cases}{fix}"
        if end.without_result:
            count = plural(len(end.without_result), "case")
            yield (
                f"unmeasured: {count} had no result: {first_of(end.without_result, _NAMED_MAX)}\n"
                "  fix: let their tests run and take `result`: options such as --setup-plan, hooks"
                " and fixtures called `result` keep cases from being judged"
            )
        no_turn = end.selected_cases - end.turns
        if all_had_turns and no_turn > 0:
            yield (
                f"unmeasured: {no_turn} of {plural(end.selected_cases, 'planned case')} had no turn"
                " before"
                " the run ended\n  fix: look for pytest.exit, or for a hook or an option that ends"
                " runs early; to run fewer cases, select them on the command line (-k)"
            )

    def summarise(
        self, terminal: pytest.TerminalReporter, failed: Sequence[FailedCase], *, items: int
    ) -> None:
        """Show failed cases in groups, the table, what is unmeasured and why, with fixes.

        Args:
            terminal: The terminal.
            failed: The cases to show in groups.
            items: The number of tests that workers of xdist collected.
        """
        shard = self.evals.options.shard
        recorded = recorded_lines(
            self.evals.project, self._end.written_lines, of_shard=shard is not None
        )
        if self._end.collected_cases and not self._end.selected_cases:
            terminal.section("regauge", sep="=")
            count = f"none of the {self._end.collected_cases} collected cases was selected"
            terminal.write_line(f"nothing was measured: {count}", red=True)
        if self.gate is not None and self.gate.cut_off:
            terminal.write_line(
                "gate: interrupted before it decided; completions so far are saved, and the same"
                " command continues from there",
                red=True,
            )
        if self._record is None:
            if self._unmeasured or self._trouble or self._nothing_judged:
                terminal.section("regauge", sep="=")
            if self._nothing_judged:
                terminal.write_line(
                    "nothing was measured: the run was interrupted before its first case was"
                    " judged; the same command continues with the completions that are kept",
                    red=True,
                )
                self._write_lines(terminal, recorded)
            self._write_unmeasured(terminal)
            self._write_trouble(terminal)
            return
        terminal.section("regauge", sep="=")
        tracebacks = self.config.option.tbstyle in {"long", "short", "native"}
        causes = cause_lines(self.writer.tally.causes(), tracebacks=tracebacks)
        directory_prefix = f"{self.config.invocation_params.dir}{os.sep}"
        decided = self.gate if shard is None else None
        lines = [
            *failed_lines(failed, self._record.evals),
            *shard_lines(self._record),
            *(
                decided.lines(self._record.failed_tests)
                if decided
                else eval_lines(self._record.evals)
            ),
            *judge_lines(self._record.evals),
            *not_blocking_lines(self.writer.tally.not_blocking()),
            *(replace(line, text=line.text.replace(directory_prefix, "")) for line in causes),
            *missing_lines(self._end.missing),
            *missing_judgement_lines(self._end.missing_judgements),
            *recorded,
            *stored_lines(self._end.uncommitted),
            *(_suggestion_lines(self._record) if self._record.suggestions else ()),
        ]
        self._write_lines(terminal, lines)
        self._write_unmeasured(terminal)
        if self._interrupted:
            self._write_left(terminal, self._record, items)
        self._write_trouble(terminal)
        if in_github_actions(os.environ):
            terminal.ensure_newline()
            for command in self._annotations(terminal):
                print_command(command, terminal_stream(self.config))
        if not self.writer.trouble:
            terminal.write_line(f"run {self._record.id} · regauge report {self._record.id}")

    @staticmethod
    def _write_lines(terminal: pytest.TerminalReporter, lines: Sequence[StyledLine]) -> None:
        for line in lines:
            terminal.write_line(line.text, **_MARKUP[line.tone])

    def _write_left(self, terminal: pytest.TerminalReporter, record: RunRecord, items: int) -> None:
        """Show the number of cases that an interrupted run leaves."""
        planned_count = self._end.selected_cases or items
        # A signal may come between the row of a case and the report of its item.
        recorded_count = sum(eval_.cases for eval_ in record.evals)
        finished_count = max(self._end.turns, recorded_count)
        if planned_count > finished_count:
            terminal.write_line(
                f"interrupted: {planned_count - finished_count} of"
                f" {plural(planned_count, 'case')} were not run; the same command continues with"
                " the completions that are kept",
                red=True,
            )

    def _write_trouble(self, terminal: pytest.TerminalReporter) -> None:
        decided = self.gate is not None and self.gate.document is not None
        for note in () if decided else self.evals.progress.notes:
            terminal.write_line(f"warning: {printable(note)}", yellow=True)
        for text in self._trouble:
            terminal.write_line(text, red=True)

    def _write_unmeasured(self, terminal: pytest.TerminalReporter) -> None:
        for text in self._unmeasured:
            first, *rest = printable(text).splitlines()
            terminal.write_line(first, red=True)
            for line in rest:
                terminal.write_line(line)

    def _annotations(self, terminal: pytest.TerminalReporter) -> list[str]:
        """Annotations on lines of prompts and cases, for reviewers of the pull request."""
        root = self.evals.project.root
        reports = [*terminal.stats.get("failed", ()), *terminal.stats.get("unmeasured", ())]
        failures = [
            (str(report.regauge_at), report.nodeid, str(report.regauge_short))
            for report in reports
            if hasattr(report, "regauge_at")
        ]
        marks = failure_annotations(failures, root, os.environ)
        if self.gate is not None and self.gate.document is not None:
            marks += gate_annotations(self.gate.document, root, os.environ)
        return marks


def _suggestion_lines(record: RunRecord) -> list[StyledLine]:
    from regauge.pytest_suggest import suggestion_lines

    return suggestion_lines(record.suggestions)


def _command_typed() -> list[str]:
    """The command line of this process, beginning with `regauge` or `pytest`."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.stem
    # Arguments may be bytes that are not UTF-8.
    words = [word.encode("utf-8", "backslashreplace").decode("utf-8") for word in sys.argv[1:]]
    return ["regauge" if name == "regauge" else "pytest", *words]


def _describe_hook_error(error: Exception, project: Project) -> str:
    """The place and the message of an exception in a plugin's hook."""
    frames = traceback.extract_tb(error.__traceback__)
    hooks = [frame for frame in frames if "pluggy" not in Path(frame.filename).parts][1:]
    place = f"{project.relative(Path(hooks[0].filename))}:{hooks[0].lineno}: " if hooks else ""
    return f"{place}pytest_regauge_recorded raised {type(error).__name__}: {error}"
